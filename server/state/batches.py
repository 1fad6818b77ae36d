"""Sends the small commands of concurrent requests to Redis together: a batch costs little more than one command."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio import Redis

from server.errors import StateUnreachable

log = logging.getLogger(__name__)
BATCH = 500
"""Most commands of a batch."""
Command = tuple[Any, ...]
Waiting = tuple[Command, asyncio.Future[Any]]
Send = Callable[[Callable[[Redis], Awaitable[list[Any]]]], Awaitable[list[Any]]]
"""Runs an operation. Raises StateUnreachable."""


class Batches:
    """Sends one batch at a time with `send`. Commands that arrive meanwhile are the next batch."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[Waiting] = []
        self._sending: asyncio.Task[None] | None = None

    async def execute(self, command: Command) -> Any:
        """Returns the answer to a command, which may be an exception of Redis. Raises StateUnreachable."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((command, answer))
        if self._sending is None:
            self._sending = asyncio.create_task(self._send_all())
        return await answer

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
                try:
                    answers = await self._send(operation([command for command, _ in batch]))
                except StateUnreachable as error:
                    # Further batches would probably fail too, and their callers would wait once more.
                    batch, self._waiting = batch + self._waiting, []
                    fail(batch, error.message)
                    continue
                except Exception:  # such as a command that cannot be encoded; its callers must not wait for ever
                    log.exception("a batch of commands failed")
                    fail(batch, "The server's shared state failed; try again later.")
                    continue
                for (_, waiter), answer in zip(batch, answers, strict=True):
                    if not waiter.done():  # it is done where its caller was cancelled
                        waiter.set_result(answer)
        finally:
            self._sending = None


def fail(batch: Sequence[Waiting], message: str) -> None:
    """Raises StateUnreachable for every caller of a batch."""
    for _, waiter in batch:
        if not waiter.done():
            waiter.set_exception(StateUnreachable(message))


def operation(commands: Sequence[Command]) -> Callable[[Redis], Awaitable[list[Any]]]:
    """Returns the operation that sends the commands and returns their answers, which may be exceptions."""

    async def send(client: Redis) -> list[Any]:
        pipeline: Any = client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    return send
