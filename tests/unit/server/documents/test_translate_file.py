"""POST /translate_file with the fake engine: upload, translation, download, limits."""

from __future__ import annotations

import threading
import time

import pytest

from server.documents import reader_process
from server.documents import service as documents
from server.errors import Overloaded
from tests.support.texts.document_files import pdf

FIELDS = {"source": "en", "target": "de"}
DEEPL = {"source_lang": "EN", "target_lang": "DE"}


def send(client, name="a.txt", content=b"Hello world.\nSecond\n", **fields):
    return client.post("/translate_file", files={"file": (name, content)}, data=FIELDS | fields)


def fetch(client, answer):
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"])


def test_a_text_file_is_translated(client):
    response = fetch(client, send(client, "../my file.txt"))
    assert response.content == b".dlrow olleH\ndnoceS\n"
    assert response.headers["content-type"] == "text/plain"
    assert response.headers["content-disposition"].startswith("attachment")
    assert "my%20file.de.txt" in response.headers["content-disposition"]


def test_a_translated_page_is_only_offered_as_a_download(client):
    response = fetch(client, send(client, "a.html", b"<p>Hi<script>alert(1)</script>"))
    assert response.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(("output", "written"), [(None, "pdf"), ("html", "html"), ("PDF", "pdf")])
def test_a_pdf_is_written_as_asked(client, output, written):
    response = fetch(
        client,
        send(client, "a.pdf", pdf("Hello world."), **{"output_format": output} if output else {}),
    )
    assert f"a.de.{written}" in response.headers["content-disposition"]
    assert response.content.startswith(b"%PDF" if written == "pdf" else b"<!DOCTYPE html>")


def test_a_format_that_a_file_cannot_have_is_refused(client):
    answer = send(client, "a.pdf", pdf("Hello world."), output_format="odt")
    assert (answer.status_code, "pdf or html" in answer.json()["error"]) == (400, True)


def test_the_language_is_detected_once_for_the_whole_file(client, engine):
    content = "Wo ist der Bahnhof?\nDer Hund schläft.\n42\n".encode()
    assert (
        fetch(client, send(client, content=content, source="auto", target="en")).status_code == 200
    )
    assert len(engine.submitted) == 2


def test_files_have_the_priority_of_documents(client, engine):
    content = "".join(f"Line {i}.\n" for i in range(40)).encode()
    fetch(client, send(client, content=content))
    assert {priority for _, _, _, priority, _ in engine.submitted} == {1}


def test_a_long_file_is_translated_in_batches(client, engine, monkeypatch):
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 5_000)
    content = "".join(
        f"This is line {'x' * (i % 30 + 1)} {'y' * (i // 30)} of a long file.\n"
        for i in range(1000)
    ).encode()
    made = fetch(client, send(client, content=content)).content.decode().splitlines()
    assert made == [
        f"This is line {'x' * (i % 30 + 1)} {'y' * (i // 30)} of a long file."[::-1]
        for i in range(1000)
    ]


@pytest.fixture
def sizes(monkeypatch) -> list[int]:
    """The characters of each request to the translator."""
    found: list[int] = []
    translate = documents.Translator.translate
    monkeypatch.setattr(
        documents.Translator,
        "translate",
        lambda self, request: (
            found.append(sum(map(len, request.texts))) or translate(self, request)
        ),
    )
    return found


def test_a_long_line_is_translated_in_pieces(client, sizes, monkeypatch):
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 100)
    monkeypatch.setattr(reader_process, "PIECE_CHARACTERS", 100)
    monkeypatch.setattr("server.documents.document.UNIT_CHARACTERS", 100)
    sentences = [f"Sentence {'number ' * i}ends." for i in range(1, 9)]
    made = fetch(client, send(client, content=" ".join(sentences).encode())).content.decode()
    assert made == " ".join(sentence[::-1] for sentence in sentences)
    assert max(sizes) <= 100


@pytest.mark.parametrize("content", [b"", b"42\n", b"ABBA\n"])
def test_a_file_in_which_nothing_was_translated_says_so(client, content):
    answer = send(client, content=content)
    assert answer.headers["X-Warning"] == answer.json()["warning"] == documents.UNCHANGED
    assert fetch(client, answer).content == content
    assert "X-Warning" not in send(client).headers and "warning" not in send(client).json()
    sent = client.post("/v2/document", files={"file": ("a.txt", content)}, data=DEEPL).json()
    key = {"document_key": sent["document_key"]}
    while (state := client.post(f"/v2/document/{sent['document_id']}", json=key).json())[
        "status"
    ] == "translating":
        time.sleep(0.02)
    assert (state["status"], state["warning"]) == ("done", documents.UNCHANGED)
    result = client.post(f"/v2/document/{sent['document_id']}/result", json=key)
    assert (result.headers["X-Warning"], result.content) == (documents.UNCHANGED, content)


def test_a_long_paragraph_is_translated_in_pieces(client, sizes):
    made = fetch(client, send(client, "a.md", b"One *a **b " * 5_000)).content
    assert max(sizes) <= documents.BATCH_CHARACTERS and len(made) > 50_000
    made = fetch(
        client, send(client, "a.html", b"<p>" + b"Cats &amp; dogs sleep. " * 3_000)
    ).content
    # with the escapes
    assert max(sizes) <= 1.5 * documents.BATCH_CHARACTERS and made.count(b"&amp;") == 3_000
    refused = send(client, "a.html", b"<p>Some <b>cats</b> " + b"and dogs sleep. " * 5_000)
    assert refused.status_code == 413 and "50,000" in refused.json()["error"]


def reject_if(full: bool) -> None:
    if full:
        raise Overloaded("The server is busy; try again later.")


@pytest.mark.slow
def test_an_overload_in_the_middle_of_a_file_is_waited_for(serve, engine, monkeypatch):
    client = serve()
    admission = client.app.services.translator.admission
    overloads, admit = iter([False, True]), admission.admit
    monkeypatch.setattr(
        admission,
        "admit",
        lambda *args, **options: reject_if(next(overloads, False)) or admit(*args, **options),
    )
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 10)
    content = ("a" * 1990 + ".\n" + "b" * 1990 + ".\n").encode()
    assert fetch(client, send(client, content=content)).status_code == 200


def test_an_overload_at_the_beginning_of_a_file_is_a_429(serve, engine, monkeypatch):
    client = serve()
    admission = client.app.services.translator.admission
    monkeypatch.setattr(admission, "admit", lambda *args, **options: reject_if(True))
    answer = send(client)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"data": FIELDS}, 415),
        ({"json": FIELDS}, 415),
        ({"files": {"file": ("a.exe", b"x")}, "data": FIELDS}, 400),
        ({"files": {"other": ("a.txt", b"x")}, "data": FIELDS}, 400),
        ({"files": {"file": (None, b"x")}, "data": FIELDS}, 400),
        ({"files": {"file": ("a.txt", b"x")}}, 400),
        ({"files": {"file": ("a.txt", b"x")}, "data": FIELDS | {"target": "xx"}}, 400),
        ({"files": {"file": ("a.txt", b"\xff\xfe\xff")}, "data": FIELDS}, 400),
        ({"files": {"file": ("a.docx", b"x")}, "data": FIELDS}, 400),
        ({"files": [("file", ("a.txt", b"x")), ("file", ("b.txt", b"x"))], "data": FIELDS}, 400),
        (
            {
                "content": b"--x\r\nrubbish",
                "headers": {"content-type": "multipart/form-data; boundary=x"},
            },
            400,
        ),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 400),
    ],
)
def test_invalid_uploads_are_rejected_with_one_sentence(client, parts, status):
    answer = client.post("/translate_file", **parts)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


def test_the_limits_on_characters_and_bytes_apply(serve):
    client = serve(file_characters=10, body_bytes=2048)
    assert send(client).status_code == 400
    assert send(client, content=b"x" * 4096).status_code == 413
    assert send(client, content=b"Hello").status_code == 200


def test_a_caller_without_a_place_is_told_when_to_return(serve, engine):
    client = serve(file_jobs=1)
    engine.gate = threading.Event()
    sent = [
        client.post("/v2/document", files={"file": ("a.txt", f"file {i}".encode())}, data=DEEPL)
        for i in range(10)
    ]
    assert [answer.status_code for answer in sent] == [200] * 8 + [429] * 2  # half of the 16 places
    assert all(1 <= int(answer.headers["Retry-After"]) <= 120 for answer in sent[8:])
    assert send(client).status_code == 429
    engine.gate.set()
    while client.app.services.documents.admission.requests:
        client.get("/health")
    assert send(client).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/download_file/x/y.txt",
        "/download_file/../etc/passwd",
        "/download_file/%2e%2e%2fetc/passwd",
    ],
)
def test_unknown_tokens_and_paths_are_not_found(client, path):
    assert client.get(path).status_code == 404


def test_the_deadline_applies_to_a_file(serve, engine):
    client = serve()
    engine.delay = 30.0
    began = time.monotonic()
    answer = client.post(
        "/translate_file",
        files={"file": ("a.txt", b"Hello")},
        data=FIELDS,
        headers={"X-Request-Timeout": "0.2"},
    )
    assert answer.status_code == 504
    assert time.monotonic() - began < engine.delay


def test_files_are_not_added_to_the_history(client, monkeypatch):
    monkeypatch.setattr(client.app.services.history, "add", lambda record: pytest.fail("added"))
    assert fetch(client, send(client)).status_code == 200


def test_a_file_counts_as_one_request_for_rate_limits(serve):
    client = serve(requests_per_minute=2, characters_per_minute=30)
    assert send(client, content=b"Hello world").status_code == 200
    assert send(client, content=b"Hello world").status_code == 200
    assert send(client, content=b"Hello world").status_code == 429
