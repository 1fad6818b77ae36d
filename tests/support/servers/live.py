"""A live server for tests: a tiny generated model folder, and the command line in a separate
process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.servers.ports import free_port

ROOT = Path(__file__).parents[3]
START_SECONDS = 120
"""Time limit for the start on a slow machine; a server is usually ready in a few seconds."""
WORDS = (
    "the a house station where is dog cat walks sleeps in on under green small old train bread "
    "water friend"
).split()


@cache
def _tokenizer() -> bytes:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(
            " ".join(WORDS[(i * step) % len(WORDS)] for i in range(6)) for step in range(1, 60)
        ),
        model_writer=model,
        vocab_size=340,
        hard_vocab_limit=False,
        byte_fallback=True,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        user_defined_symbols=[">>de<<", ">>fr<<"],
        minloglevel=2,
    )
    return model.getvalue()


def tiny_model(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Writes a model folder with random weights, English to German and French. Its translations are
    random words. `changes` are other values of its configuration."""
    import sentencepiece
    import torch

    from model.checkpoint import save_model
    from model.config import small
    from model.transformer import Transformer
    from tests.support.models.folders import new_folder

    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    (folder / "tokenizer.model").write_bytes(_tokenizer())
    size = sentencepiece.SentencePieceProcessor(
        model_file=str(folder / "tokenizer.model")
    ).get_piece_size()
    config = small(
        size, d_model=64, heads=4, d_ff=64, encoder_layers=2, decoder_layers=2, **changes
    )
    pairs, tags = (("en", "de"), ("en", "fr")), {"de": ">>de<<", "fr": ">>fr<<"}
    description = new_folder(folder, config, name=folder.name, pairs=pairs, tags=tags)
    save_model(description, Transformer(config))
    return folder


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class LiveServer:
    """A running server. `url` has no trailing slash; `log` is its standard error."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str) -> Answer:
        return self.ask(urllib.request.Request(self.url + path))

    def post(self, path: str, body: Any) -> Answer:
        headers = {"Content-Type": "application/json"}
        return self.ask(urllib.request.Request(self.url + path, json.dumps(body).encode(), headers))

    def ask(self, request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read())


@contextmanager
def live_server(weights: Path, log: Path, arguments: Sequence[str] = ()) -> Iterator[LiveServer]:
    """Runs `attentive serve` on a free port and waits until it is ready. It is stopped with
    SIGTERM. It has one thread, because those of several servers would wait for each other."""
    port = free_port()
    command = [sys.executable, "-m", "server", "serve", "--port", str(port), "--threads", "1"]
    command += ["--weights", str(weights), *arguments]
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith("ATTENTIVE_")
    }
    with log.open("wb") as stream:
        process = subprocess.Popen(command, cwd=ROOT, stderr=stream, env=environment)
    server = LiveServer(f"http://127.0.0.1:{port}", process, log)
    try:
        wait_until_ready(server)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def wait_until_ready(server: LiveServer) -> None:
    """Waits until /ready is 200. Raises AssertionError with the log if the server exits or the time
    limit passes."""
    deadline = time.monotonic() + START_SECONDS
    last = b""
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            answer = server.get("/ready")
            if answer.status == 200:
                return
            last = answer.body
        except OSError:
            pass  # not listening yet
        time.sleep(0.1)
    lines = server.log.read_text(encoding="utf-8").splitlines()
    said = "\n".join(line for line in lines if '"route": "/ready"' not in line)
    raise AssertionError(f"The server did not become ready: {last.decode()}\n{said[-4000:]}")
