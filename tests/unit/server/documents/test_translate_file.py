"""POST /translate_file against the fake worker: upload, translation, download, limits."""

from __future__ import annotations

import io
import time

import docx
import pytest

from server.documents import service as documents
from server.documents.store import FileStore
from server.errors import NotFound, Overloaded, Unavailable
from tests.support import document_files as make

FIELDS = {"source": "en", "target": "de"}


def send(client, name="a.txt", content=b"Hello world.\nSecond\n", **fields):
    return client.post("/translate_file", files={"file": (name, content)}, data=FIELDS | fields)


def fetch(client, answer):
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"])


def test_a_text_file(client):
    found = fetch(client, send(client, "../my file.txt"))
    assert found.content == b".dlrow olleH\ndnoceS\n"
    assert found.headers["content-type"] == "text/plain"
    assert found.headers["content-disposition"].startswith("attachment")
    assert "my%20file.de.txt" in found.headers["content-disposition"]


def test_a_page_is_never_shown_as_one_of_ours(client):
    found = fetch(client, send(client, "a.html", b"<p>Hi<script>alert(1)</script>"))
    assert found.headers["content-disposition"].startswith("attachment")
    assert "sandbox" in found.headers["content-security-policy"]
    assert found.headers["x-content-type-options"] == "nosniff"


def test_office_files_and_books(client):
    made = fetch(client, send(client, "a.docx", make.word_file())).content
    assert docx.Document(io.BytesIO(made)).paragraphs[0].text == "eltit ehT"
    made = fetch(client, send(client, "a.epub", make.book())).content
    assert "<dc:title>kooB yM</dc:title>" in make.part(made, "OEBPS/book.opf")
    made = fetch(client, send(client, "a.odt", make.open_document("<text:p>Hello</text:p>"))).content
    assert "<text:p>olleH</text:p>" in make.part(made, "content.xml")


def test_the_language_is_found_once_for_the_whole_file(client, engine):
    content = "Wo ist der Bahnhof?\nDer Hund schläft.\n42\n".encode()
    assert fetch(client, send(client, content=content, source="auto", target="en")).status_code == 200
    assert len(engine.submitted) == 2


def test_files_are_documents_to_the_queue(client, engine):
    content = "".join(f"Line {i}.\n" for i in range(40)).encode()
    fetch(client, send(client, content=content))
    assert {priority for _, _, _, priority, _ in engine.submitted} == {1}


def test_a_long_file_goes_in_batches(client, engine, monkeypatch):
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 5_000)
    content = "".join(f"This is line {'x' * (i % 30)} {'y' * (i // 30)} of a long file.\n" for i in range(1000)).encode()
    made = fetch(client, send(client, content=content)).content.decode().splitlines()
    assert made == [f"This is line {'x' * (i % 30)} {'y' * (i // 30)} of a long file."[::-1] for i in range(1000)]


def refused(full: bool) -> None:
    if full:
        raise Overloaded("The server is busy; try again later.")


def test_a_full_queue_in_the_middle_is_waited_for(serve, engine, monkeypatch):
    client = serve()
    admission = client.app.state.services.translator.admission
    asked = iter([False, False, True])
    monkeypatch.setattr(admission, "check", lambda *args, **options: refused(next(asked, False)))
    monkeypatch.setattr(documents, "BATCH_CHARACTERS", 10)
    content = ("a" * 1990 + ".\n" + "b" * 1990 + ".\n").encode()
    assert fetch(client, send(client, content=content)).status_code == 200


def test_a_full_queue_at_the_beginning_is_a_429(serve, engine, monkeypatch):
    client = serve()
    admission = client.app.state.services.translator.admission
    monkeypatch.setattr(admission, "check", lambda *args, **options: refused(True))
    answer = send(client)
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"data": FIELDS}, 415),
        ({"json": FIELDS}, 415),
        ({"files": {"file": ("a.exe", b"x")}, "data": FIELDS}, 415),
        ({"files": {"other": ("a.txt", b"x")}, "data": FIELDS}, 400),
        ({"files": {"file": (None, b"x")}, "data": FIELDS}, 400),
        ({"files": {"file": ("a.txt", b"x")}}, 400),
        ({"files": {"file": ("a.txt", b"x")}, "data": FIELDS | {"target": "xx"}}, 400),
        ({"files": {"file": ("a.txt", b"\xff\xfe\xff")}, "data": FIELDS}, 400),
        ({"files": {"file": ("a.docx", b"x")}, "data": FIELDS}, 400),
        ({"files": [("file", ("a.txt", b"x")), ("file", ("b.txt", b"x"))], "data": FIELDS}, 400),
        ({"content": b"--x\r\nrubbish", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 400),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 400),
    ],
)
def test_bad_uploads_get_one_sentence(client, parts, status):
    answer = client.post("/translate_file", **parts)
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


def test_sizes(serve):
    client = serve(file_characters=10, body_bytes=2048)
    assert send(client).status_code == 400
    assert send(client, content=b"x" * 4096).status_code == 413
    assert send(client, content=b"Hello").status_code == 200


def test_at_most_so_many_files_at_once(serve):
    client = serve(file_jobs=1)
    services = client.app.state.services
    with services.documents._admission.admit(1):
        assert send(client).status_code == 429
    assert send(client).status_code == 200


def test_a_file_expires(tmp_path):
    now = [0.0]
    store = FileStore(10.0, 1_000, clock=lambda: now[0])
    token = store.save(b"x", "a.txt", "text/plain")
    path = store.find(token).path
    assert path.read_bytes() == b"x"
    now[0] = 10.5
    with pytest.raises(NotFound):
        store.find(token)
    assert not path.exists()
    store.close()


def test_the_oldest_give_way_and_nothing_stays_behind():
    store = FileStore(1_000.0, 100)
    tokens = [store.save(b"x" * 60, "a", "b") for _ in range(3)]
    with pytest.raises(NotFound):
        store.find(tokens[0])
    path = store.find(tokens[2]).path
    store.close()
    assert not path.parent.exists()


def test_a_full_disk_is_said(monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    store = FileStore(1.0, 1)
    with pytest.raises(Unavailable, match="disk"):
        store.save(b"x", "a", "b")
    store.close()


@pytest.mark.parametrize(
    "path", ["/download_file/x/y.txt", "/download_file/../etc/passwd", "/download_file/%2e%2e%2fetc/passwd"]
)
def test_tokens_cannot_be_guessed_or_walked(client, path):
    assert client.get(path).status_code == 404


def test_a_deadline_ends_a_file(serve, engine):
    client = serve()
    engine.delay = 30.0
    began = time.monotonic()
    answer = client.post(
        "/translate_file", files={"file": ("a.txt", b"Hello")}, data=FIELDS, headers={"X-Request-Timeout": "0.2"}
    )
    assert answer.status_code == 504
    assert time.monotonic() - began < 20


def test_the_history_is_not_filled_by_files(client):
    history = client.app.state.services.history
    fetch(client, send(client))
    assert len(history) == 0


def test_a_file_is_one_request_to_the_limits(serve):
    client = serve(requests_per_minute=2, characters_per_minute=30)
    assert send(client, content=b"Hello world").status_code == 200
    assert send(client, content=b"Hello world").status_code == 200
    assert send(client, content=b"Hello world").status_code == 429
