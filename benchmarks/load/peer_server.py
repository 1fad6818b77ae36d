"""A peer for load comparisons: CTranslate2 behind FastAPI, with the weights and tokenizer of a model folder.

    python -m benchmarks.load.peer_server --model weights/NAME --port 5000 --threads 2

All requests that wait are one batch of CTranslate2, as servers with dynamic batching do: while a batch is translated, further
requests wait for the next one. (`benchmarks.load.beside_libretranslate` measures LibreTranslate itself.)
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from model.convert.vocabulary import folder_pieces
from model.model_folder import FolderError, ModelFolder, read_folder

_BATCH = 32
"""Sentences that one worker of CTranslate2 translates together."""


class Request(BaseModel):
    """Body of POST /translate. Other fields are ignored."""

    q: str
    source: str
    target: str
    beam_size: int = 1


class Peer:
    """A CTranslate2 translator with the tokenizer of a model folder."""

    def __init__(self, folder: ModelFolder, exported: Path, *, precision: str, threads: int) -> None:
        # One worker with one thread per core: two threads on one sentence were six times slower on the test machine.
        self._translator = ctranslate2.Translator(
            str(exported), device="cpu", inter_threads=threads, intra_threads=1, compute_type=precision
        )
        self._longest = min(256, folder.model.max_length)  # 256 is CTranslate2's default
        self._tokenizer = folder.load_tokenizer()
        self._source, target = folder_pieces(folder)
        self._ids = {piece: i for i, piece in enumerate(target)}

    def translate(self, requests: Sequence[Request]) -> list[str]:
        """Translates the texts of requests with one beam width as one batch."""
        rows = [self._tokenizer.encode(str(request.q), request.target).ids[:-1] for request in requests]
        results = self._translator.translate_batch(
            [[self._source[i] for i in row] for row in rows],
            beam_size=requests[0].beam_size,
            max_batch_size=_BATCH,
            max_decoding_length=self._longest,
        )
        return [self._tokenizer.decode([self._ids[piece] for piece in result.hypotheses[0]]) for result in results]


def create_app(peer: Peer) -> FastAPI:
    """Returns an application with POST /translate for single sentences."""
    waiting: list[tuple[Request, asyncio.Future[str]]] = []
    arrived = asyncio.Event()

    async def batches() -> None:
        while True:
            await arrived.wait()
            arrived.clear()
            while waiting:
                beam = waiting[0][0].beam_size
                batch = [item for item in waiting if item[0].beam_size == beam][: _BATCH * 4]
                waiting[:] = [item for item in waiting if item not in batch]
                texts = await asyncio.to_thread(peer.translate, [request for request, _ in batch])
                for (_, answer), text in zip(batch, texts, strict=True):
                    answer.set_result(text)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(batches())
        yield
        task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/translate")
    async def translate(request: Request) -> dict[str, str]:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        waiting.append((request, answer))
        arrived.set()
        return {"translatedText": await answer}

    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.peer_server", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", type=Path, required=True, help="a model folder")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--port", type=int, default=5000)
    parser.add_argument("--threads", type=int, default=1, help="workers of CTranslate2, one thread each")
    options = parser.parse_args(arguments)
    try:
        folder = read_folder(options.model)
        with tempfile.TemporaryDirectory() as scratch:
            exported = Path(scratch) / "exported"
            export(folder, exported, options.precision)
            peer = Peer(folder, exported, precision=options.precision, threads=options.threads)
    except (FolderError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    uvicorn.run(create_app(peer), host="127.0.0.1", port=options.port, log_level="warning")
    return 0


def export(folder: ModelFolder, exported: Path, precision: str) -> None:
    """Exports the weights of the folder as a CTranslate2 model."""
    from model.convert.ctranslate2.export import export_ctranslate2

    export_ctranslate2(folder, exported, quantization=None if precision == "float32" else precision)


if __name__ == "__main__":
    sys.exit(main())
