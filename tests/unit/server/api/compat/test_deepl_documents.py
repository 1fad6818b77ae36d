"""DeepL-compatible translation of files: upload, status, one download."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest

from server.documents.formats import FORMATS, format_of
from server.documents.jobs import FileJobs
from server.errors import NotFound
from server.store.sqlite import SQLiteStore
from tests.support.texts.document_files import open_document, pdf, word_body

FIELDS = {"source_lang": "EN", "target_lang": "DE"}


def send(client, content=b"Hello world", name="a.txt", **fields):
    return client.post("/v2/document", files={"file": (name, content)}, data=FIELDS | fields)


def finished(client, sent: dict) -> dict:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = client.post(
            f"/v2/document/{sent['document_id']}", json={"document_key": sent["document_key"]}
        ).json()
        if found["status"] != "translating":
            return found
        time.sleep(0.02)
    raise AssertionError("The file is never finished.")


def test_a_file_is_fetched_once(client):
    sent = send(client).json()
    assert finished(client, sent) == {
        "document_id": sent["document_id"],
        "status": "done",
        "billed_characters": 11,
    }
    path, key = f"/v2/document/{sent['document_id']}/result", {"document_key": sent["document_key"]}
    found = client.post(path, data=key)
    assert (found.status_code, found.content) == (200, b"dlrow olleH")
    assert "a.de.txt" in found.headers["content-disposition"]
    assert client.post(path, data=key).status_code == 404


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.html", b'<p class="x">Hello <b id="y">world</b><br/></p><!-- note -->'),
        ("a.md", b'# Hello [world](https://a.b "")\n'),
        (
            "a.docx",
            word_body(
                "<w:p><w:r><w:t>Hello "
                "</w:t></w:r><w:r><w:rPr><w:i/></w:rPr><w:t>world</w:t></w:r></w:p>"
            ),
        ),
        (
            "a.odt",
            open_document('<text:p>Hello <text:a x="y">world</text:a><text:line-break/></text:p>'),
        ),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\n<i>Hello</i> world\n"),
        ("a.vtt", b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Anna>Hello <c.red>world</c>\n"),
    ],
)
def test_markup_is_not_billed(client, name, content):
    assert finished(client, send(client, content, name).json())["billed_characters"] == len(
        "Hello world"
    )


def test_a_file_needs_its_key(client):
    sent = send(client).json()
    finished(client, sent)
    for path in (
        f"/v2/document/{sent['document_id']}",
        f"/v2/document/{sent['document_id']}/result",
        "/v2/document/X",
    ):
        answer = client.post(path, json={"document_key": "0" * 64})
        assert (answer.status_code, set(answer.json())) == (404, {"message"})


def test_not_ready_yet(client, engine):
    engine.delay = 30.0
    sent = send(client).json()
    key = {"document_key": sent["document_key"]}
    assert (
        client.post(f"/v2/document/{sent['document_id']}", json=key).json()["status"]
        == "translating"
    )
    answer = client.post(f"/v2/document/{sent['document_id']}/result", json=key)
    assert answer.status_code == 503 and answer.headers["Retry-After"]


def test_the_status_reports_a_failure(client, engine):
    from server.engine.client.status import WorkerFailure

    engine.failures["Hello world"] = WorkerFailure("internal", "The worker failed.")
    sent = send(client).json()
    assert finished(client, sent)["status"] == "error"
    assert "failed" in finished(client, sent)["error_message"]
    key = {"document_key": sent["document_key"]}
    assert client.post(f"/v2/document/{sent['document_id']}/result", json=key).status_code == 400


@pytest.mark.parametrize(
    "fields", [{"target_lang": "XX"}, {"source_lang": "XX"}, {"style_id": "x"}, {"target_lang": ""}]
)
def test_an_upload_that_cannot_be_translated_is_rejected(client, fields):
    answer = send(client, **fields)
    assert answer.status_code == 400
    assert isinstance(answer.json()["message"], str)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("a.invalid", {}, "Invalid file: its file extension"),
        ("a.docx", {}, "Invalid file: "),
        ("a.txt", {"output_format": "docx"}, "set 'output_format' to txt"),
        ("a.pdf", {"output_format": "pptx"}, "'output_format'"),
        ("a.txt", {"target_lang": "XX"}, "Value for 'target_lang' not supported"),
    ],
)
def test_an_upload_is_refused_in_the_words_of_deepl(client, name, fields, message):
    answer = client.post("/v2/document", files={"file": (name, b"Hello")}, data=FIELDS | fields)
    assert (answer.status_code, message in answer.json()["message"]) == (400, True), answer.json()


def test_a_file_is_written_in_the_format_of_the_original_or_as_asked():
    for kind in FORMATS:
        written = (kind.written_as or kind.suffix).removeprefix(".")
        assert format_of("a" + kind.suffix.upper(), written) is kind
        if not kind.written_as:
            assert format_of("a" + kind.suffix) is kind


@pytest.mark.parametrize(
    ("fields", "head"), [({}, b"%PDF"), ({"output_format": "HTML"}, b"<!DOCTYPE html>")]
)
def test_a_pdf_becomes_a_pdf_or_what_is_asked_for(client, fields, head):
    accepted = send(client, pdf("Hello world."), name="a.pdf", **fields).json()
    finished(client, accepted)
    key = {"document_key": accepted["document_key"]}
    answer = client.post(f"/v2/document/{accepted['document_id']}/result", data=key)
    assert (
        f"a.de.{fields.get('output_format', 'pdf').lower()}"
        in answer.headers["content-disposition"]
    )
    assert answer.content.startswith(head)


def test_a_document_in_the_target_language_is_an_error(client):
    for text, source in (("Das ist ein ganz gewöhnlicher Satz.", "DE"), ("das rote Haus", "")):
        status = finished(client, send(client, text.encode(), source_lang=source).json())
        assert (status["status"], status["error_message"]) == (
            "error",
            "Source and target language are equal.",
        )


class Documents:
    """Translates nothing, and says which documents were closed."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    async def translate(self, document, request, patient, copy) -> str:
        await asyncio.Event().wait()
        return ""

    def close(self, document) -> None:
        self.closed.append(document.name)


async def test_jobs_expire_and_release_what_they_hold(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    documents = Documents()
    jobs = FileJobs(documents, SQLiteStore(None), 10.0)
    id, key = await jobs.start(
        SimpleNamespace(name="first", characters=1), SimpleNamespace(storage="use")
    )
    work = jobs._working[id][1]
    now[0] = 11.0
    with pytest.raises(NotFound):
        await jobs.find(id, key)
    work.cancel()
    await asyncio.wait([work])
    # cancelled before its first step
    await jobs.start(SimpleNamespace(name="second", characters=1), SimpleNamespace(storage="use"))
    works = [task for _, task in jobs._working.values()]
    await jobs.close()
    await asyncio.wait(works)
    assert documents.closed == ["first", "second"]


async def test_jobs_outlive_their_server_in_the_data_folder(monkeypatch, tmp_path):
    now = [0.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    first, second = [FileJobs(Documents(), SQLiteStore(tmp_path), 100.0) for _ in range(2)]
    id, key = await first.start(
        SimpleNamespace(name="first", characters=1), SimpleNamespace(storage="use")
    )
    assert (await second.find(id, key))["state"] == "translating"
    now[0] = 16.0  # the first one is killed, and says no longer that it is running
    stopped = await second.find(id, key)
    assert stopped["state"] == "error" and "send it again" in stopped["problem"]
    await first.close()


def test_unfetched_files_leave_their_places(serve):
    """Sixteen places for each job; all of them were held for half an hour by files that nobody
    fetched."""
    client = serve(file_jobs=1)
    for i in range(40):
        answer = send(client, content=f"file {i}".encode())
        assert answer.status_code == 200
        assert finished(client, answer.json())["status"] == "done"


def test_a_file_that_is_no_longer_kept_is_gone(serve):
    client = serve(file_keep_bytes=1_000)
    sent = []
    for letter in (b"A", b"B"):
        sent.append(send(client, content=letter * 600).json())
        assert finished(client, sent[-1])["status"] == "done"
    answer = client.post(
        f"/v2/document/{sent[0]['document_id']}/result",
        json={"document_key": sent[0]["document_key"]},
    )
    assert answer.status_code == 410
    assert "no longer kept" in answer.json()["message"]


def test_a_failed_upload_leaves_nothing(client):
    documents = client.app.services.documents
    for name, content in (("a.docx", b"x"), ("a.txt", b"\xff\xfe\xff"), ("a.exe", b"x")):
        assert (
            client.post("/v2/document", files={"file": (name, content)}, data=FIELDS).status_code
            >= 400
        )
    assert send(client, source_lang="XX").status_code == 400
    assert documents.admission.requests == 0
    assert not list(documents.store._folder.iterdir())
