"""While the queue is full, a short translation is rejected before its body is parsed; others are not."""

from __future__ import annotations

import pytest

ASK = {"q": "Hello", "source": "en", "target": "de"}


@pytest.fixture
def full(serve):
    """A client of a server whose queue is full, after it answered ASK."""
    client = serve(queue_tokens=100)
    assert client.post("/translate", json=ASK).status_code == 200
    with client.app.state.services.translator.admission.admit(10_000):
        yield client


@pytest.mark.parametrize("content", [b'{"q": "new", "source": "en", "target": "de"}', b"{", b"\xff\xfe", b""])
def test_a_short_request_is_rejected_whatever_its_body_is(full, content):
    before = full.get("/metrics").text
    answer = full.post("/translate", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 429 and int(answer.headers["Retry-After"]) >= 1
    assert "The server is busy" in answer.json()["error"] and "X-Request-Id" in answer.headers
    after = full.get("/metrics").text
    counted = 'attentive_http_requests_total{method="POST",route="/translate",status="429"} 1.0'
    assert counted not in before and counted in after
    assert 'attentive_requests_rejected_total{reason="queue"} 1.0' in after


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v2/translate", {"text": ["Hello"], "source_lang": "EN", "target_lang": "DE"}),
        ("/language/translate/v2", {"q": "Hello", "source": "en", "target": "de"}),
    ],
)
def test_the_routes_that_follow_others_reject_and_answer_from_the_cache(serve, path, asked):
    client = serve(queue_tokens=100)
    assert client.post(path, json=asked).status_code == 200
    with client.app.state.services.translator.admission.admit(10_000):
        assert client.post(path, json=asked).status_code == 200
        answer = client.post(path, content=b"{", headers={"Content-Type": "application/json"})
        assert answer.status_code == 429 and int(answer.headers["Retry-After"]) >= 1


def test_what_the_cache_may_answer_and_other_routes_are_not_rejected(full):
    assert full.post("/translate", json=ASK).status_code == 200
    assert full.post("/detect", json={"q": "Hello"}).status_code == 200
    assert full.get("/languages").status_code == 200
    assert full.get("/translate").status_code == 405


def test_requests_that_differ_in_the_query_string_are_different(full):
    assert full.post("/translate?" + "q=Hello&source=en&target=de").status_code == 429
    for _ in range(3):
        assert full.post("/translate", params=ASK | {"q": "Other"}).status_code == 429
    assert len(full.app.state.services.translator.admission._short.invitations) == 2


def test_a_rejected_request_that_returns_in_time_is_accepted(serve):
    client = serve()
    admission = client.app.state.services.translator.admission
    now = [1_000.0]
    admission.clock = lambda: now[0]
    with admission.admit(1_000):
        now[0] += 1.0
    fill = [admission.admit(1) for _ in range(10)]
    fill.append(admission.admit(round(admission._room(admission._short)) - 11))  # more than others may take
    rejected = [client.post("/translate", json=ASK | {"q": f"Hello {number}" * 4}) for number in range(20)]
    assert {answer.status_code for answer in rejected} <= {429, 200}
    number = next(number for number, answer in enumerate(rejected) if answer.status_code == 429)
    now[0] += int(rejected[number].headers["Retry-After"])
    fill.pop().release()
    again = client.post("/translate", json=ASK | {"q": f"Hello {number}" * 4})
    assert again.status_code == 200
    for permit in fill:
        permit.release()


def test_a_large_request_has_a_room_of_its_own(full):
    full.app.state.services.translator.admission.limit = 100_000
    assert full.post("/translate", json=ASK | {"q": "Hello. " * 1_000}).status_code == 200
