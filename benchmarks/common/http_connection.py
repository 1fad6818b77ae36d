"""A minimal HTTP/1.1 connection for load generators, which share the machine with the server and
must use little CPU."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_UNVERIFIED = ssl._create_unverified_context()  # noqa: S323  see Address


@dataclass(frozen=True, slots=True)
class Address:
    """Address of an HTTP server. `prefix` is prepended to every path. The certificate of a server
    with TLS is not checked, because measured servers sign their own."""

    host: str
    port: int
    prefix: str
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parses `http[s]://HOST[:PORT][/PREFIX]`. Raises ValueError for anything else."""
        parts = urlsplit(url)
        tls = parts.scheme == "https"
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an http:// or https:// address.")
        return cls(parts.hostname, parts.port or (443 if tls else 80), parts.path.rstrip("/"), tls)


class Connection(asyncio.Protocol):
    """One keep-alive connection, opened on first use and reopened after a failure. Unless `cached`,
    it asks the server to translate even what is in its result cache."""

    def __init__(self, address: Address, cached: bool = False) -> None:
        self._address = address
        self._headers = "" if cached else "Cache-Control: no-cache\r\n"
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""
        self._answer: asyncio.Future[tuple[int, dict[bytes, bytes], bytes]] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Sends JSON and returns the status and the body. Raises OSError, EOFError or ValueError if
        no answer can be read."""
        status, _, answer = await self.exchange("POST", path, body)
        return status, answer

    async def exchange(
        self, method: str, path: str, body: bytes = b"", media_type: str = "application/json"
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """Sends a body and returns status, headers (lower-case names) and body. Raises the same
        errors as `post`."""
        address, loop = self._address, asyncio.get_running_loop()
        if self._transport is None:
            ssl_context = _UNVERIFIED if address.tls else None
            self._transport, _ = await loop.create_connection(
                lambda: self, address.host, address.port, ssl=ssl_context
            )
        head = (
            f"{method} {address.prefix}{path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
            f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{self._headers}\r\n"
        )
        self._answer, self._received = loop.create_future(), b""
        try:
            self._transport.write(head.encode("ascii") + body)
            status, headers, answer = await self._answer
        except BaseException:
            self.close()
            raise
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()
        return status, headers, answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if separator and self._answer and not self._answer.done():
            try:
                status, headers = _parse(head)
                chunked = headers.get(b"transfer-encoding") == b"chunked"
                if (
                    body.endswith(b"\r\n0\r\n\r\n")
                    if chunked
                    else len(body) >= int(headers[b"content-length"])
                ):
                    self._answer.set_result((status, headers, body))
            except ValueError as error:
                self._answer.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._answer and not self._answer.done():
            self._answer.set_exception(exc or asyncio.IncompleteReadError(self._received, None))

    def close(self) -> None:
        """Closes the connection."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None


def free_port() -> int:
    """Returns a TCP port of this machine on which nothing listens at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parse(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = head.split(b"\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in lines)
    }
    if not {b"content-length", b"transfer-encoding"} & headers.keys():
        raise ValueError("The answer has no Content-Length.")
    return int(first.split(b" ", 2)[1]), headers
