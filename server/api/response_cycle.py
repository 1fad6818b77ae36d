"""Answers in one write: uvicorn sends the head of an answer before its body."""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

CONTROL = bytes(range(32)) + b"\x7f"
OTHER_LENGTH = frozenset({b"connection", b"transfer-encoding"})
"""Headers of an answer that say how it ends."""


class Cycle(RequestResponseCycle):
    """uvicorn's request and answer, which sends the head of an answer together with its body, unless it is a stream: a second
    write costs as much as the first."""

    _head = b""  # that is still to be sent

    async def send(self, message: Any) -> None:
        if self.disconnected:
            return
        if self.flow.write_paused:
            await self.flow.drain()
        if not self.response_started:
            self._head = self._begin(message)
            if self._head:
                return
        elif self._head:
            self._send_first(message)
            return
        await super().send(message)

    def _begin(self, message: Any) -> bytes:
        """Begins an answer of a stated length on a connection that stays open, and returns its head; else nothing."""
        headers = [*self.default_headers, *message.get("headers", ())]
        named = dict(headers)
        length = int(named.get(b"content-length", 0))
        if not (length and self.keep_alive) or self.scope["method"] == "HEAD" or not OTHER_LENGTH.isdisjoint(named):
            return b""
        self.response_started, self.waiting_for_100_continue = True, False
        self.chunked_encoding, self.expected_content_length = False, length
        lines = [STATUS_LINE[message["status"]], *[b"%b: %b\r\n" % header for header in headers], b"\r\n"]
        head = b"".join(lines)
        if len(head) - len(head.translate(None, CONTROL)) != 2 * len(lines):
            raise RuntimeError("A header has a control character.")
        return head

    def _send_first(self, message: Any) -> None:
        """Sends the head with the first part of the body, or with all of it."""
        head, self._head = self._head, b""
        self.expected_content_length -= len(message["body"])
        ended = not message.get("more_body", False)
        if self.expected_content_length < 0 or (ended and self.expected_content_length):
            raise RuntimeError("The body has not the length that the answer states.")
        self.transport.write(head + message["body"])
        if ended:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
