"""A translation as server-sent events: sentences in order as they finish, tokens if asked, then the whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse

from server.api.errors import status_and_message
from server.errors import AttentiveError
from server.translation.translator import ProgressListener, Translator
from server.translation.types import Sentence, Translation, TranslationRequest

HEARTBEAT_SECONDS = 15.0
"""A comment is sent after so much silence, for proxies that close what is silent."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Queue = asyncio.Queue[bytes | None]
Work = asyncio.Future[list[Translation]]


async def stream(
    translator: Translator,
    request: TranslationRequest,
    tokens: bool,
    finish: Callable[[list[Translation]], dict[str, Any]],
) -> Response:
    """Events `sentence`, `tokens` (with the target so far), and at the end `translation` (the body that `finish` makes)
    or `error`.

    What fails before the first event is raised, so that it gets its status. A client that goes away cancels the work.
    """
    queue: Queue = asyncio.Queue()
    work: Work = asyncio.ensure_future(translator.translate(request, listener(queue, tokens)))
    work.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        first = await queue.get()
        if first is None:
            work.result()
    except BaseException:
        work.cancel()
        raise
    return StreamingResponse(events(first, queue, work, finish), media_type="text/event-stream", headers=HEADERS)


def listener(queue: Queue, tokens: bool) -> ProgressListener:
    """Writes what it is told into the queue."""

    def on_sentence(text: int, number: int, sentence: Sentence) -> None:
        data = {"text": text, "sentence": number, "source": sentence.source, "translatedText": sentence.targets[0]}
        queue.put_nowait(event("sentence", data))

    def on_tokens(text: int, number: int, target: str) -> None:
        queue.put_nowait(event("tokens", {"text": text, "sentence": number, "translatedText": target}))

    return ProgressListener(on_sentence, on_tokens if tokens else None)


async def events(
    first: bytes | None, queue: Queue, work: Work, finish: Callable[[list[Translation]], dict[str, Any]]
) -> AsyncIterator[bytes]:
    """What is in the queue until None comes, then the end of the work."""
    try:
        entry = first
        while entry is not None:
            yield entry
            entry = await following(queue)
        try:
            yield event("translation", finish(await work))
        except AttentiveError as error:  # the status line is out: the error goes the way of the answer
            status, message, _ = status_and_message(error)
            yield event("error", {"error": message, "status": status})
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def following(queue: Queue) -> bytes | None:
    """The next entry, or a comment where none comes for a while."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await queue.get()
    except TimeoutError:
        return b": still at work\n\n"


def event(name: str, data: dict[str, Any]) -> bytes:
    """One event; JSON holds no line breaks, so that one data line is enough."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
