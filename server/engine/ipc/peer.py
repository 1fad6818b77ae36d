"""One end of the socket between an API process and the process that owns the workers. Both ends are
this code, in a folder that only their user can enter."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from itertools import count
from typing import Any, cast

from server.engine.ipc.transport import Unpacker, pack
from server.errors import StateUnreachable

_log = logging.getLogger("attentive.worker")
Handlers = Mapping[str, Callable[..., Any]]
GONE = "The process that owns the workers has ended, and is started again; try again later."


class Peer(asyncio.Protocol):
    """Calls functions of the other end, and the own `handlers`, by name, for it; a coroutine is
    awaited. `on_lost` is called once when the connection has ended."""

    def __init__(self, handlers: Handlers, on_lost: Callable[[Peer], None]) -> None:
        self._handlers, self._on_lost = handlers, on_lost
        self._transport: asyncio.Transport | None = None
        self._unpacker = Unpacker()
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._ids = count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    def note(self, name: str, *arguments: object) -> None:
        """Calls a handler of the other end without an answer."""
        self._send((0, name, arguments))

    async def call(self, name: str, *arguments: object) -> Any:
        """Returns what a handler of the other end returns, or raises its AttentiveError or
        SettingsError. Raises StateUnreachable where the connection ends before."""
        if self._transport is None or self._transport.is_closing():
            raise StateUnreachable(GONE)
        id = next(self._ids)
        self._calls[id] = asyncio.get_running_loop().create_future()
        self._send((id, name, arguments))
        try:
            return await self._calls[id]
        finally:
            del self._calls[id]

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _send(self, message: tuple[object, ...]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(pack([message]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for id, name, arguments in self._unpacker.feed(data):
            if not isinstance(name, str):  # the answer to a call, or its error
                future = self._calls.get(id)
                if future is not None and not future.done():
                    future.set_exception(arguments) if name else future.set_result(arguments)
                continue
            task = asyncio.ensure_future(self._handle(id, self._handlers[name], arguments))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _handle(
        self, id: int, handler: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        failed = False
        try:
            result = handler(*arguments)
            if isinstance(result, Coroutine):
                result = await result
        except Exception as error:  # noqa: BLE001  the caller gets it
            failed, result = True, error
        if id:
            self._send((id, failed, result))
        elif failed:
            _log.error("a note of another process failed", exc_info=result)

    def connection_lost(self, exc: Exception | None) -> None:
        for future in self._calls.values():
            if not future.done():
                future.set_exception(StateUnreachable(GONE))
        self._on_lost(self)
