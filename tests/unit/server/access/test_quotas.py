"""Characters of a key per day and month: what is refused, and when it is accepted again."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from server.__main__ import main
from server.store.keys import Key, quotas_of
from tests.support.servers.in_process import wait_for

HELLO = {"source": "en", "target": "de"}
NEXT_DAY = "2026-12-01T00:00:00Z"


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """The time of all servers, 30 seconds before NEXT_DAY."""
    now = [datetime.fromisoformat(NEXT_DAY).timestamp() - 30]
    monkeypatch.setattr("time.time", lambda: now[0])
    return now


def send(client, secret: str, characters: int):
    return client.post("/translate", json=HELLO | {"q": "x" * characters, "api_key": secret})


@pytest.mark.parametrize(
    ("now", "day", "month"),
    [
        ("2026-11-26T12:00", "2026-11-27", "2026-12-01"),
        ("2026-12-31T23:59", "2027-01-01", "2027-01-01"),
        ("2028-02-28T00:00", "2028-02-29", "2028-03-01"),
        ("2027-01-31T00:00", "2027-02-01", "2027-02-01"),
    ],
)
def test_a_period_ends_with_the_day_or_the_month_in_utc(clock, now, day, month):
    clock[0] = datetime.fromisoformat(now).replace(tzinfo=UTC).timestamp()
    quotas = quotas_of(
        Key("ab", "Ann", "digest", 0.0, characters_per_day=1, characters_per_month=2)
    )
    assert [(quota.period, quota.limit, quota.reset[:10]) for quota in quotas] == [
        ("day", 1, day),
        ("month", 2, month),
    ]
    ends = [datetime.fromisoformat(quota.reset).timestamp() for quota in quotas]
    assert [quota.seconds for quota in quotas] == [end - clock[0] for end in ends]


def test_a_quota_is_refused_until_its_period_ends(serve, keys, clock):
    secret, _ = keys.create("Ann", characters_per_day=10, characters_per_month=15)
    client = serve(data=keys.folder)
    assert [send(client, secret, count).status_code for count in (7, 4, 3)] == [
        200,
        429,
        200,
    ]  # a refused text counts not
    answer = send(client, secret, 1)
    assert answer.json()["error"].endswith(
        f"10 characters per day of this key are used until {NEXT_DAY}."
    )
    assert answer.headers["Retry-After"] == "30"
    clock[0] += 30
    # the month has ended too
    assert [send(client, secret, count).status_code for count in (10, 1)] == [200, 429]
    clock[0] += 86_400
    assert [send(client, secret, count).status_code for count in (6, 5)] == [429, 200]
    answer = send(client, secret, 1)
    assert (
        "15 characters per month of this key are used until 2027-01-01T00:00:00Z."
        in answer.json()["error"]
    )
    assert int(answer.headers["Retry-After"]) == 30 * 86_400
    assert 'attentive_requests_rejected_total{reason="quota"} 5.0' in client.get("/metrics").text


def test_every_interface_says_so_in_its_form(serve, keys, clock):
    secret, _ = keys.create("Ann", characters_per_month=5)
    client = serve(data=keys.folder, key_required=True)
    client.headers["Authorization"] = f"Bearer {secret}"
    shown = {"character_count": 0, "character_limit": 5, "end_time": NEXT_DAY}
    assert client.get("/v2/usage").json() == shown
    assert send(client, secret, 5).status_code == 200
    assert client.get("/v2/usage").json() == shown | {"character_count": 5}
    text, file = {"text": ["x"], "target_lang": "DE"}, {"file": ("a.txt", b"x")}
    for path, body, status, fields in (
        ("/v2/translate", {"json": text}, 456, {"message"}),
        ("/v2/document", {"data": {"target_lang": "DE"}, "files": file}, 456, {"message"}),
        ("/translate_file", {"data": HELLO, "files": file}, 429, {"error"}),
        ("/language/translate/v2", {"json": {"q": "x", "target": "de"}}, 429, {"error"}),
        ("/deeplx/translate", {"json": text | {"text": "x"}}, 429, {"code", "message"}),
    ):
        answer = client.post(path, **body)
        assert (answer.status_code, set(answer.json()), answer.headers["Retry-After"]) == (
            status,
            fields,
            "30",
        ), path
    assert client.get("/v2/languages").status_code == 200  # has no characters


def test_counts_are_kept_over_restarts_and_limits_change_while_a_server_runs(
    serve, keys, clock, capsys
):
    def command(*arguments: str) -> str:
        assert main(["keys", *arguments, "--data", str(keys.folder)]) == 0
        return capsys.readouterr().out.strip()

    secret = command("create", "Ann", "--per-day", "10", "--per-month", "1000")
    assert send(serve(data=keys.folder), secret, 7).status_code == 200
    client = serve(data=keys.folder)
    assert send(client, secret, 7).status_code == 429
    [ann] = keys.all()
    command("change", ann.id, "--per-day", "20")
    wait_for(lambda: send(client, secret, 7).status_code == 200)
    [listed] = json.loads(command("list", "--json"))
    assert listed["quotas"] == [
        {"period": period, "used": 14, "limit": limit, "reset": NEXT_DAY}
        for period, limit in (("day", 20), ("month", 1000))
    ]
    assert "  14/20  14/1,000  " in command("list")
    command("change", ann.id, "--per-day", "0", "--weight", "3")
    for wrong in (["none", "--per-day", "1"], [ann.id, "--weight", "1000"]):
        assert main(["keys", "change", *wrong, "--data", str(keys.folder)]) == 2
    [changed] = keys.all()
    assert (changed.characters_per_day, changed.characters_per_month, changed.weight) == (
        0,
        1000,
        3.0,
    )
