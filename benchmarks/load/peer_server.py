"""A peer for load comparisons: CTranslate2 served as LibreTranslate does, with the weights and tokenizer of a model
folder.

    python -m benchmarks.load.peer_server --model weights/NAME --port 5000 --threads 2

It imitates LibreTranslate and needs no other environment (`benchmarks.load.beside_libretranslate` measures LibreTranslate
itself). A few server threads (waitress has 4) handle one request each. A request is split into sentences, which are
translated by one `translate_batch` call of CTranslate2 in int8. Requests are never batched together.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ctranslate2
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from model.convert.vocabulary import folder_pieces
from model.model_folder import FolderError, ModelFolder, read_folder
from server.text.segmentation import split_sentences

_BATCH = 32
"""LibreTranslate's max_batch_size."""


class Request(BaseModel):
    """Body of POST /translate. Other fields are ignored."""

    q: str | list[str]
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

    def translate(self, text: str, source: str, target: str, beam_size: int) -> str:
        """Translates all sentences of a text as one batch and keeps the separators."""
        spans = split_sentences(text, source)
        if not spans:
            return text
        rows = [self._tokenizer.encode(text[start:end], target).ids[:-1] for start, end in spans]
        results = self._translator.translate_batch(
            [[self._source[i] for i in row] for row in rows], beam_size=beam_size, max_batch_size=_BATCH,
            max_decoding_length=self._longest,
        )  # fmt: skip
        written: list[str] = []
        at = 0
        for (start, end), result in zip(spans, results, strict=True):
            written += [text[at:start], self._tokenizer.decode([self._ids[piece] for piece in result.hypotheses[0]])]
            at = end
        return "".join([*written, text[at:]])


def create_app(peer: Peer, workers: int) -> FastAPI:
    """Returns an application with POST /translate on `workers` threads, as with waitress."""

    app = FastAPI()
    threads = ThreadPoolExecutor(workers)

    @app.post("/translate")
    async def translate(request: Request) -> dict[str, Any]:
        one = isinstance(request.q, str)
        texts = [request.q] if isinstance(request.q, str) else request.q

        def work() -> list[str]:
            return [peer.translate(text, request.source, request.target, request.beam_size) for text in texts]

        found = await asyncio.get_running_loop().run_in_executor(threads, work)
        return {"translatedText": found[0] if one else found}

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
    parser.add_argument("--workers", type=int, default=4, help="threads that handle requests")
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
    uvicorn.run(create_app(peer, options.workers), host="127.0.0.1", port=options.port, log_level="warning")
    return 0


def export(folder: ModelFolder, exported: Path, precision: str) -> None:
    """Exports the weights of the folder as a CTranslate2 model."""
    from model.convert.ctranslate2.export import export_ctranslate2

    export_ctranslate2(folder, exported, quantization=None if precision == "float32" else precision)


if __name__ == "__main__":
    sys.exit(main())
