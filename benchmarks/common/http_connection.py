"""A minimal HTTP/1.1 connection for load generators, which share the machine with the server and must use little
CPU."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_MAX_HEAD_BYTES = 65_536
_UNVERIFIED = ssl._create_unverified_context()  # noqa: S323  see Address


@dataclass(frozen=True, slots=True)
class Address:
    """Address of an HTTP server. `prefix` is prepended to every path. The certificate of a server with TLS is not
    checked, because measured servers sign their own."""

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


class Connection:
    """One keep-alive connection, opened on first use and reopened after a failure. Unless `cached`, it asks the server
    to translate even what is in its result cache."""

    def __init__(self, address: Address, cached: bool = False) -> None:
        self._address = address
        self._headers = "" if cached else "Cache-Control: no-cache\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Sends JSON and returns the status and the body. Raises OSError, EOFError or ValueError if no answer can be
        read."""
        status, _, answer = await self.exchange("POST", path, body)
        return status, answer

    async def exchange(
        self, method: str, path: str, body: bytes = b"", media_type: str = "application/json"
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        """Sends a body and returns status, headers (lower-case names) and body. Raises the same errors as `post`."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                self._address.host,
                self._address.port,
                limit=_MAX_HEAD_BYTES,
                ssl=_UNVERIFIED if self._address.tls else None,
            )
        reader, writer = self._streams
        head = (
            f"{method} {self._address.prefix}{path} HTTP/1.1\r\nHost: {self._address.host}:{self._address.port}\r\n"
            f"Content-Type: {media_type}\r\nContent-Length: {len(body)}\r\n{self._headers}\r\n"
        )
        try:
            writer.write(head.encode("ascii") + body)
            await writer.drain()
            status, headers = _parse(await reader.readuntil(b"\r\n\r\n"))
            answer = await reader.readexactly(int(headers[b"content-length"]))
        except BaseException:
            self.close()
            raise
        if headers.get(b"connection", b"").lower() == b"close":
            self.close()
        return status, headers, answer

    def close(self) -> None:
        """Closes the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def free_port() -> int:
    """Returns a TCP port of this machine on which nothing listens at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _parse(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = head[:-4].split(b"\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    if b"content-length" not in headers:
        raise ValueError("The answer has no Content-Length.")
    return int(first.split(b" ", 2)[1]), headers
