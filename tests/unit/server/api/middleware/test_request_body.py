"""A client that goes away takes its work with it, and nothing else does."""

from __future__ import annotations

import asyncio

from server.api.errors import ErrorWriter
from server.api.middleware.request_body import BODY, Exchange

SCOPE = {"type": "http", "path": "/", "headers": []}


class Client:
    """One request in two pieces; `leave` ends the connection."""

    def __init__(self) -> None:
        self.pieces = [
            {"type": "http.request", "body": b"ab", "more_body": True},
            {"type": "http.request", "body": b"c", "more_body": False},
        ]
        self.gone = asyncio.Event()

    async def receive(self):
        if self.pieces:
            return self.pieces.pop(0)
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message) -> None:
        raise AssertionError(message)


async def started(app) -> tuple[Client, asyncio.Task]:
    client = Client()
    exchange = Exchange(app, 1000, ErrorWriter())
    work = asyncio.ensure_future(exchange(dict(SCOPE), client.receive, client.send))
    await asyncio.sleep(0.01)
    return client, work


def test_the_body_is_whole_and_the_task_ends_in_peace_when_the_client_goes():
    heard = []

    async def app(scope, receive, send):
        heard.append((scope[BODY], (await receive())["body"]))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append(await receive())
            raise

    async def scenario():
        client, work = await started(app)
        client.gone.set()
        await work
        assert not work.cancelled() and work.cancelling() == 0

    asyncio.run(scenario())
    assert heard == [(b"abc", b"abc"), {"type": "http.disconnect"}]


def test_whoever_waits_for_the_client_is_told_and_may_still_clean_up():
    heard = []

    async def app(scope, receive, send):
        await receive()
        try:
            heard.append(await receive())
        finally:
            heard.append("clean")

    async def scenario():
        client, work = await started(app)
        client.gone.set()
        await work

    asyncio.run(scenario())
    assert heard[-1] == "clean"


def test_a_client_that_stays_disturbs_nobody():
    async def app(scope, receive, send):
        await asyncio.sleep(0)

    async def scenario():
        client, work = await started(app)
        await work
        client.gone.set()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
