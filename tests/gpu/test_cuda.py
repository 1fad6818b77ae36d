"""Tests of CUDA graphs, kernels, asynchronous prefill, the worker and training on a GPU; skipped
without a CUDA device."""

from __future__ import annotations

import asyncio
import random
import runpy
from pathlib import Path

import pytest
import torch

from model.backends.cuda.fused_step import KERNELS as TORCH
from model.backends.cuda.fused_step import SlotKernels
from model.backends.cuda.graphs import GraphedBackend
from model.backends.cuda.self_check import disagreement
from model.backends.torch.backend import TorchBackend
from model.checkpoint import save_model
from model.config import ModelConfig
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import Job
from server.engine.ipc.options import WorkerOptions
from training.data.batches import Batch
from training.loop.hardware import autocast, compile_layers, training_device, without_compilation
from training.loop.loss import batch_loss
from training.loop.optimizers import Muon, build_optimizers
from training.recipe import TrainRecipe

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from model.backends.cuda.kernels import KERNELS
from tests.support.engine.loading import load
from tests.support.models.folders import new_folder

CONFIG = ModelConfig(
    vocab_size=500,
    d_model=128,
    heads=4,
    d_ff=256,
    encoder_layers=2,
    decoder_layers=2,
    max_length=200,
    dropout=0.0,
)


def transformer(dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(3)
    return Transformer(CONFIG).to("cuda", dtype).eval()


def sources(number: int) -> list[list[int]]:
    rng = random.Random(5)
    return [[rng.randrange(4, 500) for _ in range(rng.randint(1, 60))] + [3] for _ in range(number)]


@pytest.mark.parametrize("beam", [1, 4])
def test_replayed_steps_equal_eager_steps(beam: int) -> None:
    model = transformer()
    graphed = GraphedBackend(model, 16, capture=True)
    options = DecodingOptions(beam_size=beam, max_length=60)
    plain, replayed = (
        translate(backend, sources(60), options, CONFIG)
        for backend in (GraphedBackend(model, 16, capture=False), graphed)
    )
    assert graphed.captured
    assert [found[0].tokens for found in plain] == [found[0].tokens for found in replayed]


@pytest.mark.parametrize("kernels", [TORCH, KERNELS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_captured_graphs_agree_with_eager_steps(dtype: torch.dtype, kernels: SlotKernels) -> None:
    assert (
        disagreement(GraphedBackend(transformer(dtype), 64, capture=True, kernels=kernels)) is None
    )


def test_kernels_agree_with_torch() -> None:
    program = Path(__file__).parents[1] / "support" / "processors" / "interpret_kernels.py"
    runpy.run_path(str(program))["main"]("cuda")


@pytest.mark.parametrize("kernels", [TORCH, KERNELS])
def test_sentences_start_while_others_decode(kernels: SlotKernels) -> None:
    model, options = transformer(), DecodingOptions(max_length=40)
    plain_backend = TorchBackend(model, 24)
    # With few slots, most sentences start while others decode, and graphs are captured between the
    # steps.
    backend = GraphedBackend(model, 24, capture=True, kernels=kernels)
    inputs = sources(200)
    expected, found = (translate(one, inputs, options, CONFIG) for one in (plain_backend, backend))
    assert backend.captured
    assert [one[0].tokens for one in expected] == [one[0].tokens for one in found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_targets_do_not_depend_on_the_batch(dtype: torch.dtype) -> None:
    backend = GraphedBackend(transformer(dtype), 32, capture=True, kernels=KERNELS)
    options, inputs = DecodingOptions(max_length=30), sources(64)
    together = translate(backend, inputs, options, CONFIG)
    alone = [translate(backend, [source], options, CONFIG)[0] for source in inputs]
    different = sum(
        one[0].tokens != other[0].tokens for one, other in zip(together, alone, strict=True)
    )
    assert different <= (0 if dtype == torch.float32 else 2)


def _batch(rows: int, width: int) -> Batch:
    source, target = (torch.randint(4, 500, (rows, width)) for _ in range(2))
    return Batch(source, target, rows * (width - 1))


@pytest.mark.filterwarnings("ignore")  # torch warns about its code
def test_compiled_training_steps_learn(tmp_path: Path) -> None:
    device = training_device()
    torch.manual_seed(1)
    model = Transformer(CONFIG).to(device)
    plain_model = Transformer(CONFIG).to(device)
    plain_model.load_state_dict(model.state_dict())
    optimizers = build_optimizers(model, TrainRecipe(optimizer="muon", rate=2e-3, matrix_rate=0.02))
    torch._dynamo.utils.counters.clear()
    label_loss = compile_layers(model)
    batches = [_batch(16, 24).pinned(), _batch(40, 8).pinned(), _batch(9, 40).pinned()]
    with autocast(device):
        for batch in batches:
            torch.testing.assert_close(
                batch_loss(model, batch.to(device), 0.1, label_loss),
                batch_loss(plain_model, batch.to(device), 0.1),
                atol=2e-2,
                rtol=2e-2,
            )
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    losses = []
    for step in range(30):
        with autocast(device):
            loss = batch_loss(model, batches[step % 3].to(device), 0.1, label_loss)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        losses.append(loss.detach())
    assert sum(map(float, losses[-3:])) < sum(map(float, losses[:3]))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs <= 6, (
        "every shape compiles anew"
    )
    with without_compilation(), torch.no_grad():
        batch_loss(model.eval(), batches[0].to(device), 0.0)


def test_muon_on_a_gpu_equals_muon_of_torch() -> None:
    shapes = [(64, 64), (192, 64), (64, 64), (64, 192)]
    ours, theirs = (
        [torch.nn.Parameter(torch.ones(shape, device="cuda")) for shape in shapes] for _ in range(2)
    )
    left, right = (
        Muon(ours, 0.02),
        torch.optim.Muon(theirs, lr=0.02, momentum=0.95, weight_decay=0.0),
    )
    for mine, other in zip(ours, theirs, strict=True):
        mine.grad = torch.randn_like(mine)
        other.grad = mine.grad.clone()
    left.step()
    right.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-3, rtol=1e-2)


def test_queued_steps_equal_single_steps() -> None:
    model = transformer()
    one, many = (GraphedBackend(model, 8, capture=True) for _ in range(2))
    for backend in (one, many):
        backend.prefill(sources(3), [4, 0, 2])
    tokens = [2, 2, 2]
    for _ in range(6):
        for output in many.queue_steps([4, 0, 2], tokens, 4)():
            tokens = one.step([4, 0, 2], tokens, 1, [-1, -1, -1]).ids[:, 0].tolist()
            assert output.ids[:, 0].tolist() == tokens
    assert many.captured


def test_gpu_worker_translations_equal_torch(tmp_path: Path) -> None:
    folder = new_folder(tmp_path / "tiny", CONFIG)
    model = transformer()
    save_model(folder, model)
    inputs = sources(40)
    options = DecodingOptions(max_length=50)
    expected = translate(TorchBackend(model, 16), inputs, options, CONFIG)

    async def body() -> None:
        workers = WorkerPool(
            WorkerOptions(device="cuda", dtype="float32", slots=16), lambda stats: None
        )
        await workers.start()
        try:
            assert (await load(workers, "tiny", folder.path)).error is None
            assert workers.status().engine == "cuda-graphs", workers.status().details
            jobs = [Job(0, "tiny", tuple(source), options) for source in inputs]
            answers = await asyncio.gather(*map(workers.submit, jobs))
            assert [a.hypotheses[0].tokens for a in answers] == [
                found[0].tokens for found in expected
            ]
        finally:
            await workers.stop(5)

    asyncio.run(asyncio.wait_for(body(), 180))
