"""A disconnect cancels the work for the client, and nothing else does."""

from __future__ import annotations

import asyncio

from server.api.middleware.body import RequestBody

SCOPE = {"type": "http", "path": "/", "headers": []}


class Client:
    """One request in two pieces; `gone` ends the connection."""

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
    middleware = RequestBody(app, 1000)
    work = asyncio.ensure_future(middleware(dict(SCOPE), client.receive, client.send))
    await asyncio.sleep(0.01)
    return client, work


def test_a_disconnect_cancels_the_work_but_not_the_task_of_the_connection():
    received = []

    async def app(scope, receive, send):
        received.append((await receive())["body"])
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            received.append(await receive())
            raise

    async def scenario():
        client, work = await started(app)
        client.gone.set()
        await work
        assert not work.cancelled() and work.cancelling() == 0

    asyncio.run(scenario())
    assert received == [b"abc", {"type": "http.disconnect"}]


def test_no_task_remains_after_a_response():
    async def app(scope, receive, send):
        await asyncio.sleep(0)

    async def scenario():
        client, work = await started(app)
        await work
        client.gone.set()
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())
