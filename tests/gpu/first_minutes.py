"""Parts of first_minutes.sh. Without a GPU they run on the CPU with a small model, and nothing is
captured."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from model.backends.cuda import fused_step
from model.backends.cuda.fused_step import SlotKernels
from model.backends.cuda.graphs import GraphedBackend
from model.backends.torch.backend import TorchBackend
from model.checkpoint import save_model
from model.config import ModelConfig, base
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import Job
from server.engine.ipc.options import WorkerOptions
from server.engine.worker.device_config import DeviceConfig, failure_kind
from tests.support.engine.loading import load
from tests.support.models.folders import new_folder
from tests.support.servers.live import live_server, tiny_model

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
CONFIG = (
    base(32_000)
    if GPU
    else ModelConfig(vocab_size=500, d_model=32, heads=2, d_ff=64, max_length=200)
)
ROWS = (1, 32, 256) if GPU else (1, 3)
BANDWIDTH = 4.8e12
"""Bytes a second of an H200."""
try:
    from model.backends.cuda.kernels import KERNELS
except ImportError:
    KERNELS = fused_step.KERNELS


def say(*values: object) -> None:
    sys.stdout.write(" ".join(map(str, values)) + "\n")
    sys.stdout.flush()


def transformer(dtype: torch.dtype = torch.bfloat16) -> Transformer:
    torch.manual_seed(1)
    return Transformer(CONFIG).to(DEVICE, dtype).eval()


def graphed(
    model: Transformer, rows: int, kernels: SlotKernels = KERNELS, **options: Any
) -> GraphedBackend:
    backend = GraphedBackend(model, rows, kernels=kernels, **{"capture": GPU, **options})
    backend.prefill([[5 + row, 6, 7, 3] for row in range(rows)], list(range(rows)))
    return backend


def difference(backends: Sequence[Any], step: int, candidates: int, slots: Sequence[int]) -> float:
    tokens = [7 + step + slot for slot in slots]
    left, right = (one.step(slots, tokens, candidates, tokens).scores[:, 0] for one in backends)
    return float(np.abs(left - right).max())


def buckets() -> None:
    """Prints the differences of steps 1 to 6 from eager ones: 1 and 2 are computed, the third is
    captured. Then compares steps that are queued before the last are read with steps that are
    not."""
    for dtype in (torch.float32, torch.bfloat16, torch.float16) if GPU else (torch.float32,):
        model = transformer(dtype)
        for own in {KERNELS.name: KERNELS, "torch": fused_step.KERNELS}.values():
            for candidates in (1, 8, 16, 64):
                pair = graphed(model, 8, own), graphed(model, 8, own, capture=False)
                found = [difference(pair, step, candidates, range(8)) for step in range(6)]
                say(
                    dtype,
                    own.name,
                    candidates,
                    "replayed",
                    pair[0].captured,
                    [f"{value:.2g}" for value in found],
                )
                assert max(found) < 0.2 and (pair[0].captured or not GPU)
    inputs, targets = [[5 + row, 6 + row % 9, 3] for row in range(24)], []
    for queues in (True, False):
        backend = GraphedBackend(transformer(torch.float32), 8, kernels=KERNELS, capture=GPU)
        with patch("model.search.driver.supports_queueing", return_value=queues):
            found = translate(
                backend, inputs, DecodingOptions(max_length=40), CONFIG.replace(max_length=100)
            )
        targets.append([hypotheses[0].tokens for hypotheses in found])
    assert targets[0] == targets[1]


def memory() -> None:
    """Short memory leaves a cache as it was. Then a newcomer makes the cache move while the device
    still computes."""
    model, rows = transformer(torch.float32), 64 if GPU else 4
    own, plain = graphed(model, rows), TorchBackend(model, rows)
    plain.prefill([[5 + row, 6, 7, 3] for row in range(rows)], range(rows))
    room, long = own.cache.room, [9] * (CONFIG.max_length - 1)
    made_up = patch.object(own.cache, "_allocate", side_effect=torch.OutOfMemoryError("made up"))
    held = (
        [torch.empty(torch.cuda.mem_get_info()[0] - (1 << 26), dtype=torch.uint8, device=DEVICE)]
        if GPU
        else []
    )
    with nullcontext() if GPU else made_up:
        try:
            own.prefill([long], [3])
        except torch.OutOfMemoryError as error:
            say("short of memory:", error)
    held.clear()
    say("room", room, own.cache.room, "difference", difference((own, plain), 0, 1, range(4)))
    assert own.cache.room == room
    if GPU:
        torch.cuda._sleep(2_000_000_000)
    for backend in (own, plain):
        backend.free([3])
        backend.prefill([long], [3])
    found = [difference((own, plain), step, 1, range(4)) for step in range(4)]
    say("room", own.cache.room, "differences after the move", found)
    assert max(found) < 1e-2


def unloaded() -> None:
    """A model goes, and the memory that it had is filled with NaN: the graphs of another replay as
    before (PyTorch issue 193402), also when a third was captured meanwhile."""
    model, rows = transformer(torch.float32), ROWS[1]
    slots = range(rows)
    stays, goes, third, plain = (
        graphed(model, rows, capture=GPU and number < 3) for number in range(4)
    )

    def compare(when: str, first: int) -> None:
        found = [difference((stays, plain), step, 1, slots) for step in range(first, first + 6)]
        say(when, "replayed", stays.captured, [f"{value:.2g}" for value in found])
        assert max(found) < 1e-2 and (stays.captured or not GPU)

    compare("alone", 0)
    for leaving, name in ((goes, "one went"), (third, "and one more")):
        for _ in range(6):
            leaving.step(slots, [7] * rows, 1, [-1] * rows)
        leaving.close()
        leaving.cache = None  # type: ignore[assignment]
        blocks = [
            torch.full((1 << 24 if GPU else 64,), float("nan"), device=DEVICE) for _ in range(64)
        ]
        compare(name, 6 if leaving is goes else 12)
        del blocks


def worker() -> None:
    """Clients of the worker's loop, without HTTP. A text that overflows fails alone."""
    bad = CONFIG.vocab_size - 1
    config = replace(CONFIG, tied_embeddings=False, source_vocab_size=CONFIG.vocab_size)
    torch.manual_seed(1)
    model = Transformer(config)
    with torch.no_grad():
        model.source_embedding.weight[bad] = 3e38

    async def body(folder: Path) -> None:
        workers = WorkerPool(
            WorkerOptions(device=DEVICE.type, dtype="auto" if GPU else "float32"),
            lambda stats: None,
        )
        await workers.start()
        try:
            assert (await load(workers, "tiny", folder)).error is None
            say(workers.status().engine, workers.status().details)
            for beam, turns in ((1, 12), (4, 3)) if GPU else ((1, 2), (4, 1)):
                await clients(workers, bad, DecodingOptions(beam_size=beam, max_length=32), turns)
        finally:
            await workers.stop(5)

    with tempfile.TemporaryDirectory() as folder:
        described = new_folder(Path(folder) / "tiny", config)
        save_model(described, model)
        asyncio.run(body(described.path))


async def clients(workers: WorkerPool, bad: int, options: DecodingOptions, turns: int) -> None:
    """Sends `turns` jobs after each other from each of 256 clients, and one that fails."""

    async def ask(number: int) -> list[tuple[int, ...]]:
        found = []
        for turn in range(turns):
            source = (10 + number % 400, 11 + turn, *range(20, 40), 3)
            found.append(
                (await workers.submit(Job(0, "tiny", source, options))).hypotheses[0].tokens
            )
        return found

    async def fails() -> str:
        try:
            await workers.submit(Job(0, "tiny", (bad, 30, 3), options))
        except Exception as error:  # noqa: BLE001
            return str(error)
        return ""

    began = time.perf_counter()
    error, *answers = await asyncio.gather(fails(), *map(ask, range(256 if GPU else 8)))
    seconds = time.perf_counter() - began
    tokens = sum(len(target) for found in answers for target in found)
    say(
        f"beam {options.beam_size}: {tokens / seconds:.0f} tokens/s of {len(answers)} clients;",
        error,
    )
    assert "overflow" in error


def served() -> None:
    """A request, and reloads while eight clients send."""
    out = Path(os.environ.get("OUT", tempfile.mkdtemp()))
    with tempfile.TemporaryDirectory() as folder:
        tiny_model(Path(folder) / "weights" / "tiny")
        arguments = (
            "--device",
            "cuda" if GPU else "cpu",
            "--data",
            f"{folder}/data",
            "--cache-bytes",
            "0",
        )
        with live_server(Path(folder) / "weights", out / "server.log", arguments) as server:
            say(server.get("/ready").body.decode())
            body = {"q": "the house is in the small train", "source": "en", "target": "de"}
            say(server.post("/translate", body).body.decode())
            end = time.monotonic() + (6 if GPU else 2)

            def client(number: int) -> list[int]:
                found = []
                while time.monotonic() < end:
                    found.append(
                        server.post(
                            "/translate", {**body, "q": f"{body['q']} {number} {len(found)}"}
                        ).status
                    )
                return found

            with ThreadPoolExecutor(8) as pool:
                answers = [pool.submit(client, number) for number in range(8)]
                for seed in (1, 2):
                    tiny_model(Path(folder) / f"new-{seed}", seed)
                    shutil.rmtree(Path(folder) / "weights" / "tiny")
                    shutil.move(Path(folder) / f"new-{seed}", Path(folder) / "weights" / "tiny")
                    server.process.send_signal(signal.SIGHUP)
                    time.sleep(0.7)
            found = [status for answer in answers for status in answer.result()]
            say(len(found), "answers, statuses", sorted(set(found)))
            say(
                [
                    line
                    for line in server.get("/metrics").body.decode().splitlines()
                    if "engine_info{" in line
                ]
            )
            say(server.get("/ready").body.decode())
            assert set(found) == {200}


def poisoned() -> None:
    """An error that breaks the device is recognised; with it the process would end."""
    device = DeviceConfig("cuda:0", "cuda:0", (), "bfloat16", 1, 4)
    broken = patch("model.backends.cuda.device.check_device", side_effect=RuntimeError("made up"))
    try:
        if GPU:
            say("harmless:", failure_kind(RuntimeError("CUDA error: made up"), device))
            say(torch.zeros(1, device=DEVICE)[torch.tensor([5], device=DEVICE)])
        raise RuntimeError("made up")
    except Exception as error:  # noqa: BLE001
        with nullcontext() if GPU else broken:
            kind = failure_kind(error, device)
        say(type(error).__name__, str(error)[:200], "->", kind)
        assert kind is None


def timed(action: Callable[[], object]) -> float:
    """Returns seconds, those of the device on a GPU."""
    if GPU:
        torch.cuda.synchronize()
    began = time.perf_counter()
    action()
    if GPU:
        torch.cuda.synchronize()
    return time.perf_counter() - began


def decode_limit() -> None:
    model = transformer()
    weights = sum(p.nbytes for p in [*model.decoder.parameters(), model.embedding.weight])
    for rows in ROWS:
        backend = graphed(model, rows)
        slots, tokens = range(rows), [5] * rows

        def chunks(number: int) -> None:
            read = backend.queue_steps(slots, tokens, 4)  # noqa: B023
            for _ in range(number - 1):
                following = backend.queue_steps(slots, [-1] * len(slots), 4)  # noqa: B023
                read()
                read = following
            read()

        chunks(3)
        number = 20 if GPU else 2
        greedy = timed(lambda: chunks(number)) / number / 4  # noqa: B023
        kept = weights + rows * 60 * 2 * CONFIG.decoder_layers * CONFIG.d_model * 2
        beam = 0.0
        if rows % 4 == 0:
            order = [row // 4 * 4 for row in slots]

            def beams(number: int) -> None:
                for _ in range(number):
                    backend.step(slots, tokens, 8, [-1] * rows)  # noqa: B023
                    backend.reorder(slots, order)  # noqa: B023

            beams(4)
            beam = timed(lambda: beams(10)) / 10
        say(f"{rows} rows: {greedy * 1e6:.0f} us a greedy step, {beam * 1e6:.0f} a beam step;")
        say(
            f"  memory limit at 4.8 TB/s {kept / BANDWIDTH * 1e6:.1f} us; {backend.captured} steps "
            "replayed"
        )


def profile() -> None:
    """Where the time of greedy steps goes, and that of a step of beams, on the device and on the
    host."""
    rows = ROWS[-1]
    slots, tokens = range(rows), [5] * rows

    def greedy(backend: GraphedBackend) -> None:
        backend.queue_steps(slots, tokens, 4)()

    def beams(backend: GraphedBackend) -> None:
        backend.step(slots, tokens, 8, [-1] * rows)
        backend.reorder(slots, [row // 4 * 4 for row in slots])

    for action in (greedy, beams):
        backend = graphed(transformer(), rows)
        for _ in range(4):
            action(backend)
        with torch.profiler.profile() as found:
            for _ in range(4):
                action(backend)
        for order in (
            ("self_cuda_time_total", "self_cpu_time_total") if GPU else ("self_cpu_time_total",)
        ):
            say(action.__name__, found.key_averages().table(sort_by=order, row_limit=25))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
