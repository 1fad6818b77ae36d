"""Server-sent events of a translation: finished sentences in order, tokens on request, the whole
answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from starlette.responses import Response, StreamingResponse

from server.api.errors import status_and_message
from server.errors import AttentiveError
from server.translation.translator import Translator
from server.translation.types import ProgressListener, Sentence, Translation, TranslationRequest

HEARTBEAT_SECONDS = 15.0
"""Time without an event until a comment is sent, because proxies close idle connections."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

Queue = asyncio.Queue[bytes | None]
Work = asyncio.Future[list[Translation]]


async def stream(
    translator: Translator,
    request: TranslationRequest,
    tokens: bool,
    finish: Callable[[list[Translation]], dict[str, Any]],
) -> Response:
    """Returns a response with the events `sentence`, `tokens` (with the target so far), and at the
    end `translation` (with the body that `finish` returns) or `error`. Errors before the first
    event are raised, so that the response has their status. A disconnect cancels the work."""
    queue: Queue = asyncio.Queue()
    progress = listener(queue, tokens)
    work: Work = asyncio.ensure_future(translator.translate(request, progress))
    work.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        first = await queue.get()
        if first is None:
            work.result()
    except BaseException:
        work.cancel()
        raise
    return StreamingResponse(
        events(first, queue, work, finish), media_type="text/event-stream", headers=HEADERS
    )


def listener(queue: Queue, tokens: bool) -> ProgressListener:

    def on_sentence(text: int, number: int, sentence: Sentence) -> None:
        data = {
            "text": text,
            "sentence": number,
            "source": sentence.source,
            "translatedText": sentence.targets[0],
        }
        if sentence.flags:
            data["flags"] = sorted(sentence.flags)
        queue.put_nowait(event("sentence", data))

    def on_tokens(text: int, number: int, target: str) -> None:
        queue.put_nowait(
            event("tokens", {"text": text, "sentence": number, "translatedText": target})
        )

    return ProgressListener(on_sentence, on_tokens if tokens else None)


async def events(
    first: bytes | None,
    queue: Queue,
    work: Work,
    finish: Callable[[list[Translation]], dict[str, Any]],
) -> AsyncIterator[bytes]:
    """Yields the events of the queue up to None, then the last event."""
    try:
        entry = first
        while entry is not None:
            yield entry
            entry = await next_entry(queue)
        try:
            yield event("translation", finish(await work))
        except (AttentiveError, TimeoutError) as error:
            # The status line is sent, so the error is an event.
            status, message, _ = status_and_message(error)
            yield event("error", {"error": message, "status": status})
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def next_entry(queue: Queue) -> bytes | None:
    """Returns the next entry, or a comment after HEARTBEAT_SECONDS without one."""
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await queue.get()
    except TimeoutError:
        return b": still at work\n\n"


def event(name: str, data: dict[str, Any]) -> bytes:
    """Returns one event. JSON contains no line breaks, so it needs one data line."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"
