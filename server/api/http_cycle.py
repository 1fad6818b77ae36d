"""Writes the response to one request: uvicorn's cycle with a shorter way from the ASGI messages to the connection."""

from __future__ import annotations

from uvicorn._types import ASGISendEvent, HTTPResponseBodyEvent, HTTPResponseStartEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

CONTROL = bytes({*range(32), 127} - {9})
"""Bytes that would end a header or that no header contains."""


class ResponseCycle(RequestResponseCycle):
    """One request and its response. Names of headers are in small letters, as ASGI demands. All headers are checked at
    once, where uvicorn checks each name and each value: this took a tenth of the time of a short request. A head with a
    Content-Length is written together with the body: a server that is killed has answered whole or not at all, and a proxy
    repeats the request. A connection whose request has not arrived whole is left to the protocol to close."""

    head = b""
    """The head that waits for the first part of its body."""

    async def send(self, message: ASGISendEvent) -> None:
        """Writes a message of the application. Raises RuntimeError for a message out of turn, for a header that contains
        a control character, and for a body that has not the length of its header."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start" and not self.response_started:
            self._start(message)
        elif message["type"] == "http.response.body" and self.response_started and not self.response_complete:
            self._continue(message)
        else:
            raise RuntimeError(f"The ASGI message {message['type']} is out of turn.")

    def _start(self, message: HTTPResponseStartEvent) -> None:
        """Writes the status and the headers."""
        headers = [*self.default_headers, *message.get("headers", ())]
        lines = list(map(b": ".join, headers))
        written = b"".join(lines)
        if len(written.translate(None, CONTROL)) < len(written):
            raise RuntimeError("A header contains a control character.")
        status, known = message["status"], dict(headers)
        self.response_started = True
        self.waiting_for_100_continue = False
        if b"close" in known.get(b"connection", b"").lower():
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close")
        length = known.get(b"content-length")
        self.chunked_encoding = length is None and self.scope["method"] != "HEAD" and status not in (204, 304)
        self.expected_content_length = int(length or 0)
        if self.chunked_encoding:
            lines.append(b"transfer-encoding: chunked")
        self.head = STATUS_LINE[status] + b"\r\n".join([*lines, b"", b""])
        if self.chunked_encoding:  # the first part of a stream may take long
            self.transport.write(self.head)
            self.head = b""

    def _continue(self, message: HTTPResponseBodyEvent) -> None:
        """Writes a part of the body, and ends the response after the last one."""
        body, more = message.get("body", b""), message.get("more_body", False)
        head, self.head = self.head, b""
        if self.scope["method"] == "HEAD":
            self.transport.write(head)
            self.expected_content_length = 0
        elif self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(chunk if more else chunk + b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            if self.expected_content_length < 0:
                raise RuntimeError("The body is longer than its Content-Length.")
            self.transport.write(head + body)
        if not more:
            if self.expected_content_length:
                raise RuntimeError("The body is shorter than its Content-Length.")
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive and not self.more_body:
                self.transport.close()
            self.on_response()
