"""A worker with a tiny Transformer returns the same as model.search, sentence by sentence.

The eager backend promises equal tokens up to ties, and scores within TOLERANCE.
"""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from model.analysis.types import MapChoice
from model.backends.torch.attention_maps import attention_maps
from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model, save_model
from model.config import ModelConfig
from model.model_folder import ModelFolder
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.transformer import Transformer
from server.engine.client.status import WorkerFailure
from server.engine.client.worker_pool import WorkerPool
from server.engine.ipc.messages import Job, Look
from server.engine.ipc.options import WorkerOptions
from tests.support.engine.loading import load
from tests.support.models.folders import assert_same_up_to_ties, new_folder

pytestmark = pytest.mark.numeric

CONFIG = ModelConfig(
    vocab_size=64,
    d_model=32,
    heads=2,
    d_ff=64,
    encoder_layers=2,
    decoder_layers=2,
    max_length=48,
    dropout=0.0,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    torch.manual_seed(1)
    made = new_folder(tmp_path_factory.mktemp("weights") / "tiny", CONFIG)
    save_model(made, Transformer(CONFIG))
    return made


def sources(number: int) -> list[tuple[int, ...]]:
    rng = random.Random(7)
    return [
        (*(rng.randrange(4, 64) for _ in range(rng.randint(1, 20))), CONFIG.eos_id)
        for _ in range(number)
    ]


def alone(
    backend: TorchBackend, source: tuple[int, ...], options: DecodingOptions
) -> tuple[Hypothesis, ...]:
    found = translate(backend, [source], options, CONFIG)
    return found[0]


TOLERANCE = 1e-4
"""Tolerance of a token's log-probability. The last digit of PyTorch's float32 sums depends on the
batch size. The CPU backend computes equal bits."""


@pytest.mark.slow
async def test_the_worker_translates_as_search_does_alone(tmp_path: Path) -> None:
    config = CONFIG.replace(d_ff=60)  # a shape that PyTorch decodes
    folder = new_folder(tmp_path / "tiny", config)
    save_model(folder, Transformer(config))
    backend = TorchBackend(load_model(folder), 8)
    beam = DecodingOptions(beam_size=4, hypotheses=2)
    scored = DecodingOptions(target=(5, 6, 7))
    masked = DecodingOptions(masked_heads=(("cross", 0, 1),), max_length=9)
    guarded = [DecodingOptions(beam_size=width, loop_guard=True) for width in (1, 2)]
    choices = [DecodingOptions(), beam, scored, masked, DecodingOptions(prefix=(9, 8)), *guarded]
    texts = sources(16)

    options = WorkerOptions(device="cpu", dtype="float32", threads=1, slots=8)
    workers = WorkerPool(options, lambda stats: None)
    await workers.start()
    try:
        loaded = await load(workers, "tiny", folder.path)
        assert loaded.error is None
        asked = [(text, choices[i % len(choices)]) for i, text in enumerate(texts)]
        futures = [workers.submit(Job(0, "tiny", text, chosen)) for text, chosen in asked]
        for (text, chosen), answer in zip(asked, await asyncio.gather(*futures), strict=True):
            assert_same_up_to_ties(answer.hypotheses, alone(backend, text, chosen), TOLERANCE)
        head = ("decoder", 1, 0)
        looked = await workers.submit(
            Job(
                0,
                "tiny",
                texts[0],
                DecodingOptions(target=(5, 6), masked_heads=(head,)),
                look=Look(),
            )
        )
        maps = attention_maps(backend.transformer, texts[0], (5, 6), (head,))
        assert looked.maps.cross.shape == maps.cross.shape
        np.testing.assert_allclose(looked.maps.cross, maps.cross, atol=1e-5, rtol=0)
        np.testing.assert_allclose(looked.maps.token_scores, maps.token_scores, atol=1e-4, rtol=0)
        chosen = DecodingOptions(target=(5, 6), masked_heads=(head,))
        few = Look(MapChoice((), (), (1,), heads=(0,)))
        sent = (await workers.submit(Job(0, "tiny", texts[0], chosen, look=few))).maps
        assert np.array_equal(sent.cross[1, 0], looked.maps.cross[1, 0])
        assert not sent.cross[0].any() and not sent.encoder.any()  # what is not chosen is not sent
        assert sent.encoder.shape == looked.maps.encoder.shape
        await refusals(workers)
        assert (workers.status().engine, workers.status().dtype) == ("eager", "float32")
        assert workers.status().details["reason"]
    finally:
        await workers.stop(5)


async def refusals(workers: WorkerPool) -> None:
    """Jobs that would break a device are refused with a sentence."""
    end = CONFIG.eos_id
    head = (("cross", 9, 0),)
    bad = [
        workers.submit(Job(0, "tiny", (), DecodingOptions())),
        workers.submit(Job(0, "tiny", (5,) * 48 + (end,), DecodingOptions())),
        workers.submit(Job(0, "tiny", (64, end), DecodingOptions())),
        workers.submit(Job(0, "tiny", (-1, end), DecodingOptions())),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(prefix=(64,)))),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(target=(5,) * 48))),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(beam_size=9))),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(masked_heads=head))),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(target=(64,)), look=Look())),
        workers.submit(Job(0, "tiny", (5, end), DecodingOptions(target=(5,) * 48), look=Look())),
        workers.submit(
            Job(0, "tiny", (5, end), DecodingOptions(target=(5,), masked_heads=head), look=Look())
        ),
    ]
    for outcome in await asyncio.gather(*bad, return_exceptions=True):
        assert isinstance(outcome, WorkerFailure) and outcome.kind == "invalid", outcome


async def test_a_broken_folder_is_refused_with_a_sentence(
    folder: ModelFolder, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text((folder.path / "config.json").read_text())
    (tmp_path / "model.safetensors").write_bytes(
        (folder.path / "model.safetensors").read_bytes()[:5000]
    )

    workers = WorkerPool(WorkerOptions(device="cpu", threads=1, slots=4), lambda stats: None)
    await workers.start()
    try:
        for path in (tmp_path, tmp_path / "absent"):
            answer = await load(workers, "broken", path)
            assert answer.error is not None and "Traceback" not in answer.error
        assert not workers.status().models
    finally:
        await workers.stop(5)
