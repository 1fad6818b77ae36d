"""While there is no room, a request is rejected before its body is parsed, as it would be rejected
afterwards."""

from __future__ import annotations

import pytest

from server.api.early_refusal import EarlyRefusal

ASK = {"q": "Hello", "source": "en", "target": "de"}
DEEPL = {"source_lang": "EN", "target_lang": "DE"}
FILE = {"file": ("a.txt", b"Hello")}
GUARDED = [
    ("POST", "/translate", {"json": ASK}),
    ("POST", "/translate", {"data": ASK}),
    ("POST", "/translate", {"params": ASK}),
    ("POST", "/translate", {"data": ASK, "files": {"a": b""}}),
    ("POST", "/translate", {"json": ASK | {"q": "Hello. " * 2_000}}),
    ("POST", "/translate", {"data": ASK | {"q": "\u4e16" * 3_000}}),
    ("POST", "/v2/translate", {"json": DEEPL | {"text": ["Hello"]}}),
    ("GET", "/v2/translate", {"params": DEEPL | {"text": "Hello"}}),
    ("POST", "/language/translate/v2", {"json": ASK}),
    ("GET", "/language/translate/v2", {"params": ASK}),
    ("POST", "/imme", {"json": {"text_list": ["Hello"], "target_lang": "de"}}),
    ("POST", "/translate_file", {"data": ASK, "files": FILE}),
    ("POST", "/v2/document", {"data": DEEPL, "files": FILE}),
    ("POST", "/score", {"json": ASK | {"translation": "Hallo"}}),
    ("POST", "/align", {"json": ASK | {"pairs": [["Hello", "Hallo"]]}}),
    ("POST", "/live", {"json": ASK}),
    ("POST", "/trace", {"json": ASK}),
    ("GET", "/attention", {"params": ASK}),
    ("GET", "/attention/tensors", {"params": ASK}),
    ("GET", "/encoder", {"params": ASK}),
]


def set_clock(admission, now: list[float]) -> None:
    """Replaces the clock, and renews the lease by it."""
    admission.clock, admission._due = lambda: now[0], 0.0


def fill(client) -> None:
    """Leaves no room in any queue, for about ten seconds at their measured speeds."""
    services = client.app.services
    for admission in (services.translator.admission, services.documents.admission):
        now = [1_000.0]
        set_clock(admission, now)
        admission._seconds = 1e9
        for kind in admission.queues:
            with admission.admit(admission.lease.translations, kind=kind):
                now[0] += 10.0
        backlog = admission._backlog
        backlog.looks = backlog.units / 4  # as much as short requests have beside documents
        now[0] += 1.0
        for kind in admission.queues:
            admission.admit(2 * admission.lease.translations, kind=kind)


@pytest.mark.parametrize(("method", "path", "content"), GUARDED)
def test_an_early_rejection_is_that_of_the_route(serve, monkeypatch, method, path, content):
    def rejection():
        client = serve()
        fill(client)
        answer = client.request(method, path, headers={"Origin": "http://x"}, **content)
        counted = [
            line
            for line in client.get("/metrics").text.splitlines()
            if '"429"' in line or "rejected" in line
        ]
        return (
            answer.status_code,
            answer.json(),
            answer.headers["Retry-After"],
            counted,
            answer.headers.keys(),
        )

    early = rejection()
    monkeypatch.setattr(EarlyRefusal, "__call__", lambda *_: None)
    assert early[0] == 429 and int(early[2]) > 5
    assert early == rejection()


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b""])
def test_nothing_of_a_rejected_request_is_parsed(client, content):
    fill(client)
    for method, path in {(method, path) for method, path, _ in GUARDED}:
        answer = client.request(
            method, path, content=content, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 429, path


def test_a_rejected_form_is_known_when_it_returns_with_another_boundary(client):
    fill(client)
    for _ in range(3):
        assert client.post("/translate_file", data=ASK, files=FILE).status_code == 429
    assert len(client.app.services.documents.admission.queues["short"].invitations) == 1


def test_pages_are_free(client):
    fill(client)
    assert client.get("/attention", params=ASK, headers={"Accept": "text/html"}).status_code == 200


@pytest.fixture
def full(serve):
    """A client of a server whose queue is full, after it answered ASK."""
    client = serve(queue_tokens=100)
    assert client.post("/translate", json=ASK).status_code == 200
    with client.app.services.translator.admission.admit(10_000):
        yield client


@pytest.mark.parametrize(("method", "path", "content"), GUARDED[:11])
def test_what_the_cache_may_answer_is_not_rejected(client, method, path, content):
    assert client.request(method, path, **content).status_code == 200
    fill(client)
    assert client.request(method, path, **content).status_code == 200


def test_routes_without_a_queue_are_not_rejected(full):
    assert full.post("/detect", json={"q": "Hello"}).status_code == 200
    assert full.get("/languages").status_code == 200
    assert full.get("/translate").status_code == 405


def test_requests_that_differ_in_the_query_string_are_different(full):
    assert full.post("/translate?" + "q=Hello&source=en&target=de").status_code == 429
    for _ in range(3):
        assert full.post("/translate", params=ASK | {"q": "Other"}).status_code == 429
    assert len(full.app.services.translator.admission.queues["short"].invitations) == 2


def test_a_rejected_request_that_returns_in_time_is_accepted(serve):
    client = serve()
    admission = client.app.services.translator.admission
    now = [1_000.0]
    set_clock(admission, now)
    with admission.admit(1_000):
        now[0] += 1.0
    fill = [admission.admit(1) for _ in range(10)]
    fill.append(admission.admit(admission._room("short", 1) - 11))
    rejected = [
        client.post("/translate", json=ASK | {"q": f"Hello {number}" * 4}) for number in range(20)
    ]
    assert {answer.status_code for answer in rejected} <= {429, 200}
    number = next(number for number, answer in enumerate(rejected) if answer.status_code == 429)
    now[0] += int(rejected[number].headers["Retry-After"])
    fill.pop().release()
    again = client.post("/translate", json=ASK | {"q": f"Hello {number}" * 4})
    assert again.status_code == 200
    for permit in fill:
        permit.release()


def test_a_large_request_has_a_room_of_its_own(full):
    admission = full.app.services.translator.admission
    admission._backlog.units = 100_000
    admission._due = 0.0  # renews its lease
    assert full.post("/translate", json=ASK | {"q": "Hello. " * 1_000}).status_code == 200
