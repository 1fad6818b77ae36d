"""Whether the state of two servers is the same through either: attention by id, keys, limits, usage and document jobs."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from uuid import uuid4

from benchmarks.common.http_connection import Address
from benchmarks.endurance.fleet import Fleet

_LIMIT = 20
"""Requests per minute of the key that is limited; all servers together may accept 5% more."""
_WAIT_SECONDS = 30.0
_TEXT = "The house is small."


def shared_state(fleet: Fleet) -> dict[str, str]:
    """Returns "right", or what differs, for each kind of state."""
    checks: dict[str, Callable[[Fleet], str]] = {
        "attention": _attention, "keys": _keys, "limits": _limits, "usage": _usage, "jobs": _jobs,
    }  # fmt: skip
    return {name: check(fleet) or "right" for name, check in checks.items()}


def _attention(fleet: Fleet) -> str:
    for here, there in _directions(fleet):
        status, answer = _ask(here, "/translate", {"q": _TEXT, "source": "en", "target": "de"})
        if status != 200:
            return f"translation {status}"
        deadline = time.monotonic() + _WAIT_SECONDS
        while (status := _ask(there, f"/attention?id={json.loads(answer)['id']}")[0]) != 200:
            if time.monotonic() > deadline:  # a translation is in Redis a moment after its answer
                return f"attention of the other server's translation {status}"
            time.sleep(0.1)
    return ""


def _keys(fleet: Fleet) -> str:
    _new_key(fleet)  # servers that have no key accept any
    secret, id = _new_key(fleet)
    if statuses := {_ask(server, "/v2/usage", key=secret)[0] for server in fleet.servers} - {200}:
        return f"a new key {statuses}"
    fleet.attentive("keys", "revoke", id)
    deadline = time.monotonic() + _WAIT_SECONDS
    while {_ask(server, "/v2/usage", key=secret)[0] for server in fleet.servers} != {403}:
        if time.monotonic() > deadline:
            return "a revoked key is still valid"
        time.sleep(0.05)
    return ""


def _limits(fleet: Fleet) -> str:
    secret, _ = _new_key(fleet, "--requests-per-minute", str(_LIMIT))
    minute = int(time.time() // 60)
    body = {"q": "the house", "source": "en", "target": "de"}
    statuses = [_ask(fleet.servers[turn % 2], "/translate", body, secret)[0] for turn in range(2 * _LIMIT)]
    accepted = statuses.count(200)
    if int(time.time() // 60) != minute:
        return ""  # two minutes were counted; the next run shows it
    return "" if _LIMIT <= accepted <= _LIMIT * 1.05 else f"{accepted} requests of {_LIMIT} accepted"


def _usage(fleet: Fleet) -> str:
    secret, _ = _new_key(fleet)
    for server in fleet.servers:
        _ask(server, "/translate", {"q": _TEXT, "source": "en", "target": "de"}, secret)
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:  # the servers report to Redis now and then
        counts = [
            json.loads(_ask(server, "/v2/usage", key=secret)[1]).get("character_count") for server in fleet.servers
        ]
        if counts == [2 * len(_TEXT)] * 2:
            return ""
        if time.monotonic() > deadline:
            return f"character counts {counts}, not {2 * len(_TEXT)}"
        time.sleep(0.1)


def _jobs(fleet: Fleet) -> str:
    for here, there in _directions(fleet):
        status, answer = _upload(here)
        if status != 200:
            return f"upload {status}"
        job = json.loads(answer)
        asked = {"document_key": job["document_key"]}
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            status, answer = _ask(there, f"/v2/document/{job['document_id']}", asked)
            if status != 200:
                return f"status through the other server {status}"
            if json.loads(answer)["status"] == "done":
                break
            if time.monotonic() > deadline:
                return "a document was not translated"
            time.sleep(0.1)
        if (status := _ask(there, f"/v2/document/{job['document_id']}/result", asked)[0]) != 200:
            return f"download through the other server {status}"
    return ""


def _directions(fleet: Fleet) -> tuple[tuple[Address, Address], tuple[Address, Address]]:
    one, two = fleet.servers
    return (one, two), (two, one)


def _new_key(fleet: Fleet, *options: str) -> tuple[str, str]:
    """Creates an API key. Returns its secret and its id."""
    name = uuid4().hex
    secret = fleet.attentive("keys", "create", name, *options).split()[0]
    [id] = [key["id"] for key in json.loads(fleet.attentive("keys", "list", "--json")) if key["name"] == name]
    return secret, str(id)


def _upload(server: Address) -> tuple[int, bytes]:
    fields = {"source_lang": "EN", "target_lang": "DE"}
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    parts.append(f'--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n{_TEXT}\r\n--x--\r\n')
    return _send(server, "/v2/document", "".join(parts).encode(), "multipart/form-data; boundary=x", "")


def _ask(server: Address, path: str, body: dict[str, str] | None = None, key: str = "") -> tuple[int, bytes]:
    return _send(server, path, None if body is None else json.dumps(body).encode(), "application/json", key)


def _send(server: Address, path: str, body: bytes | None, media_type: str, key: str) -> tuple[int, bytes]:
    headers = {"Content-Type": media_type} | ({"Authorization": f"DeepL-Auth-Key {key}"} if key else {})
    request = urllib.request.Request(f"http://{server.host}:{server.port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()
