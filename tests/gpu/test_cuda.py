"""What can only be seen on a GPU: graph = eager, and a worker that uses graphs. Skipped where there is none."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from model.checkpoint import save_model
from model.config import ModelConfig
from model.folder import ModelFolder, TokenizerFiles
from model.inference import TorchBackend
from model.options import DecodingOptions
from model.search import translate
from model.transformer import Transformer
from server.worker.graphs import GraphedBackend, Kernel, disagreement
from server.worker.options import WorkerOptions
from server.worker.supervisor import Supervisor

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from server.worker.kernels import attend_slots

CONFIG = ModelConfig(
    vocab_size=500, d_model=128, heads=4, d_ff=256, encoder_layers=2, decoder_layers=2, max_length=200, dropout=0.0
)


def transformer(dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(3)
    return Transformer(CONFIG).to("cuda", dtype).eval()


def sources(number: int) -> list[list[int]]:
    rng = random.Random(5)
    return [[rng.randrange(4, 500) for _ in range(rng.randint(1, 60))] + [3] for _ in range(number)]


@pytest.mark.parametrize("beam", [1, 4])
def test_replayed_steps_give_the_translations_of_plain_ones(beam: int) -> None:
    model = transformer()
    graphed = GraphedBackend(model, 16, capture=True)
    options = DecodingOptions(beam_size=beam, max_length=60)
    plain, replayed = (
        translate(backend, sources(60), options, start=2, end=3, max_length=200)
        for backend in (GraphedBackend(model, 16, capture=False), graphed)
    )
    assert graphed.captured
    assert [found[0].tokens for found in plain] == [found[0].tokens for found in replayed]


@pytest.mark.parametrize("kernel", [None, attend_slots])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_capture_verifies_itself(dtype: torch.dtype, kernel: Kernel | None) -> None:
    assert disagreement(GraphedBackend(transformer(dtype), 64, capture=True, kernel=kernel)) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_attends_over_own_lengths(dtype: torch.dtype) -> None:
    keys, values = torch.randn(2, 9, 4, 150, 64, device="cuda", dtype=dtype)
    keys, values = keys[:7, :, :130], values[:7, :, :130]
    query, lengths = torch.randn(7, 4, 64, device="cuda", dtype=dtype), torch.arange(1, 8, device="cuda") * 18
    mask = (torch.arange(130, device="cuda") < lengths[:, None])[:, None, None]
    expected = functional.scaled_dot_product_attention(query.unsqueeze(2), keys, values, attn_mask=mask).squeeze(2)
    torch.testing.assert_close(attend_slots(query, keys, values, lengths), expected, atol=2e-2, rtol=2e-2)


def test_a_burst_is_as_many_single_steps() -> None:
    model = transformer()
    one, many = (GraphedBackend(model, 8, capture=True) for _ in range(2))
    for backend in (one, many):
        backend.prefill(sources(3), [4, 0, 2])
    tokens = [2, 2, 2]
    for _ in range(6):
        for output in many.burst([4, 0, 2], tokens, 4):
            tokens = one.step([4, 0, 2], tokens, 1, [-1, -1, -1]).ids[:, 0].tolist()
            assert output.ids[:, 0].tolist() == tokens
    assert many.captured


def test_a_gpu_worker_translates_as_plain_torch_does(tmp_path: Path) -> None:
    folder = ModelFolder(
        path=tmp_path / "tiny", name="tiny", model=CONFIG, pairs=(("en", "de"),), tags={}, license="CC0-1.0",
        origin="random weights", tokenizer=TokenizerFiles(),
    )  # fmt: skip
    model = transformer()
    save_model(folder, model)
    asked = sources(40)
    options = DecodingOptions(max_length=50)
    expected = translate(TorchBackend(model, 16), asked, options, start=2, end=3, max_length=200)

    async def body() -> None:
        supervisor = Supervisor(WorkerOptions(device="cuda", devices=1, dtype="float32", slots=16), lambda stats: None)
        await supervisor.start()
        try:
            assert (await supervisor.load("tiny", folder.path)).error is None
            assert supervisor.status().engine == "cuda-graphs", supervisor.status().details
            answers = await asyncio.gather(*(supervisor.submit("tiny", source, options) for source in asked))
            assert [a.hypotheses[0].tokens for a in answers] == [found[0].tokens for found in expected]
        finally:
            await supervisor.stop(5)

    asyncio.run(asyncio.wait_for(body(), 180))
