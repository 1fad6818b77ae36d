"""Connections to Redis whose look-ups of the host name may be abandoned at a time-out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

from redis.asyncio.connection import Connection, SSLConnection


class PlainConnection(Connection):
    """Connects to the first address of the host that accepts connections.

    uvloop looks a name up while it connects. If the caller's time-out passes first, it drops the look-up, and reports its
    failure as an exception that was never retrieved. Here the connection gets an address instead of the name.
    """

    _address = ""

    async def _connect(self) -> None:
        failure: OSError | None = None
        for address in await addresses(self.host, int(self.port)):
            self._address = address
            try:
                await super()._connect()  # type: ignore[no-untyped-call]
            except OSError as error:
                failure = failure or error
            else:
                return
        raise failure or OSError("The name has no address.")

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "host": self._address}


class TLSConnection(PlainConnection, SSLConnection):
    """The same with TLS; the certificate must be that of the host name."""

    def _connection_arguments(self) -> Mapping[str, Any]:
        return {**super()._connection_arguments(), "server_hostname": self.host}


async def addresses(host: str, port: int) -> list[str]:
    """Returns the addresses of a host. Raises OSError. Cancelling the call does not cancel the look-up."""
    lookup = asyncio.ensure_future(asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM))
    lookup.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is retrieved in any case
    await asyncio.wait([lookup])
    return [str(address[0]) for *_, address in lookup.result()]
