"""Our cycle writes the same bytes as uvicorn's."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from server.api.http_cycle import ResponseCycle

LENGTH = (b"content-length", b"5")
TYPE = (b"content-type", b"text/plain; charset=utf-8")
CLOSE = (b"connection", b"Close")
WHOLE = ({"body": b"hello"},)
PARTS = ({"body": b"he", "more_body": True}, {"body": b"", "more_body": True}, {"body": b"llo", "more_body": False})
ENDED = ({"body": b"hello", "more_body": True}, {})


class Connection(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.writes = 0
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data
        self.writes += 1

    def close(self) -> None:
        self.closed = True


def respond(
    kind: type[RequestResponseCycle],
    status: int,
    headers: list[tuple[bytes, bytes]],
    parts: tuple[dict[str, Any], ...],
    method: str = "GET",
    keep_alive: bool = True,
    connection: Connection | None = None,
) -> tuple[bytes, bool, bool, bool]:
    """Sends a response through a cycle and returns the bytes, and whether the response is complete, the connection is
    kept and the transport closed."""
    connection = connection or Connection()

    async def send() -> RequestResponseCycle:
        cycle = kind(
            scope={"type": "http", "method": method},  # type: ignore[typeddict-item]
            transport=connection,
            flow=FlowControl(connection),
            logger=logging.getLogger(),
            access_logger=logging.getLogger(),
            access_log=False,
            default_headers=[(b"date", b"Sun, 22 Nov 2026 12:00:00 GMT")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=lambda: None,
        )
        cycle.more_body = False  # the request has arrived whole
        await cycle.send({"type": "http.response.start", "status": status, "headers": headers})
        for part in parts:
            await cycle.send({"type": "http.response.body", **part})  # type: ignore[misc]
        return cycle

    cycle = asyncio.run(send())
    return connection.written, cycle.response_complete, cycle.keep_alive, connection.closed


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("status", "headers", "parts"),
    [
        (200, [LENGTH, TYPE], WHOLE),
        (200, [TYPE, LENGTH, CLOSE], PARTS),
        (404, [TYPE], WHOLE),
        (200, [TYPE], PARTS),
        (200, [TYPE, CLOSE], ENDED),
        (204, [], ({},)),
        (304, [TYPE], ({"body": b""},)),
        (599, [LENGTH], ENDED[:1]),
    ],
)
def test_responses_equal_those_of_uvicorn(status, headers, parts, method, keep_alive):
    ours = respond(ResponseCycle, status, headers, parts, method, keep_alive)
    assert ours == respond(RequestResponseCycle, status, headers, parts, method, keep_alive)


@pytest.mark.parametrize(
    ("headers", "parts"),
    [
        ([LENGTH, (b"x-id", b"1\r\nset-cookie: a=b")], WHOLE),
        ([LENGTH, (b"x-id\r\n", b"1")], WHOLE),
        ([LENGTH, (b"x-id", b"\0")], WHOLE),
        ([LENGTH], ({"body": b"hello!"},)),
        ([LENGTH], ({"body": b"hell"},)),
        ([LENGTH], WHOLE + WHOLE),
    ],
    ids=["value with a line end", "name with a line end", "NUL", "longer", "shorter", "twice"],
)
@pytest.mark.parametrize("kind", [ResponseCycle, RequestResponseCycle])
def test_broken_responses_are_refused(kind, headers, parts):
    with pytest.raises(RuntimeError):
        respond(kind, 200, headers, parts)


def test_a_response_of_known_length_is_one_write() -> None:
    """A server that is killed between two writes would leave half an answer, which a proxy cannot repeat."""
    for headers, writes in (([LENGTH], 1), ([TYPE], 2)):
        connection = Connection()
        respond(ResponseCycle, 200, headers, WHOLE, connection=connection)
        assert connection.writes == writes
