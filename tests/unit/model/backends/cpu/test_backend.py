"""Tests of the CPU backend: masked heads, invalid arguments, memory and opening of model folders.

The CPU backend promises equal bits with and without open gates, and against itself after a restart.
"""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from model.backends.cpu.backend import Precision, open_backend
from model.backends.cpu.bindings import CpuBackendError
from model.backends.cpu.isa import CpuBackendUnavailable
from model.backends.cpu.weights import unsupported
from model.checkpoint import save_model
from model.config import ModelConfig
from model.model_folder import FolderError
from model.search.backend_interface import StepOutput
from model.weight_files import SafetensorFiles, weight_files
from tests.support.models.cpu_models import (
    LIBRARY,
    PRECISIONS,
    cpu_backend,
    decode,
    needs_cpu_backend,
    sentences,
    tiny,
    torch_backend,
)
from tests.support.models.folders import new_folder

pytestmark = pytest.mark.numeric


@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
def test_rows_with_masked_heads_agree_with_torch(precision: Precision) -> None:
    transformer = tiny()
    sources = sentences(transformer.config, (7, 12, 9))
    masks = ((), (("cross", 1, 0), ("encoder", 0, 1), ("decoder", 0, 1)), ())
    backend, reference = (
        cpu_backend(transformer, precision, threads=2),
        torch_backend(transformer, precision),
    )
    for each in (backend, reference):
        each.prefill(sources, [2, 0, 1], masks)
    for _ in range(3):
        ours, theirs = (
            each.step([0, 2, 1], [5, 6, 7], 4, [-1, -1, 9]) for each in (backend, reference)
        )
        if precision == "float32":
            assert np.array_equal(ours.ids, theirs.ids)
        assert np.abs(ours.scores - theirs.scores).max() < (1e-4 if precision == "float32" else 0.2)
        for each in (backend, reference):
            each.reorder([3, 4], [0, 2])
            each.reorder([0, 2], [3, 4])
    backend.prefill([sources[1]], [0])  # a new sentence in the slot has no masked heads
    backend.prefill([sources[1]], [5])
    again = backend.step([0, 5], [5, 5], 4, [-1, -1])
    assert np.array_equal(again.scores[0], again.scores[1])
    backend.free([0, 1, 2, 3, 4, 5])
    assert backend.pages_used == 0


@needs_cpu_backend
def test_invalid_arguments_are_refused() -> None:
    transformer = tiny()
    engine = cpu_backend(transformer, "int8", slots=2)
    good = [5, 6, 7]
    starts = (
        ([good], [2]),
        ([good], [-1]),
        ([[]], [0]),
        ([[5] * 65], [0]),
        ([good, good], [0]),
        ([good, good], [1, 1]),
    )
    for sources, slots in starts:
        with pytest.raises(ValueError, match=r"[Ss]lot|source"):
            engine.prefill(sources, slots)
    for token in (200, -1):
        with pytest.raises(CpuBackendError, match="vocabulary"):
            engine.prefill([[token]], [0])
    with pytest.raises(ValueError, match="32-bit"):
        engine.prefill([[2**40]], [0])
    with pytest.raises(CpuBackendError, match="no sentence"):
        engine.step([0], [2], 1, [-1])
    engine.prefill([good], [0])
    steps = (
        ([0], [2], 0, [-1]),
        ([0], [2, 3], 1, [-1]),
        ([0], [2], 1, [200]),
        ([3], [2], 1, [-1]),
    )
    for arguments in steps:
        with pytest.raises(ValueError, match=r"candidate|equally|vocabulary|Slots"):
            engine.step(*arguments)
    with pytest.raises(CpuBackendError, match="vocabulary"):
        engine.step([0], [200], 1, [-1])
    with pytest.raises(CpuBackendError, match="twice"):
        engine.step([0, 0], [2, 2], 1, [-1, -1])
    with pytest.raises(ValueError, match="distinct"):
        engine.reorder([1, 1], [0, 0])
    for _ in range(64):
        engine.step([0], [5], 1, [-1])
    with pytest.raises(CpuBackendError, match="full"):
        engine.step([0], [5], 1, [-1])
    engine.close()
    with pytest.raises(CpuBackendError, match="closed"):
        engine.free([0])


@needs_cpu_backend
def test_key_and_value_memory_is_allocated_on_demand_and_reused() -> None:
    transformer = tiny()
    backend = cpu_backend(transformer, "int8")
    assert backend.cache_bytes == 0
    source, target = sentences(transformer.config, (40, 20))
    decode(backend, [source], [0], [target])
    held = backend.cache_bytes
    for slot in range(16):
        decode(backend, [source], [slot], [target])
        backend.prefill([source], [slot])
        backend.prefill([source], [slot])  # a second prefill of a slot frees the pages of the first
        backend.free([slot])
    assert (backend.cache_bytes, backend.pages_used) == (held, 0)


@needs_cpu_backend
def test_weights_of_several_blocks_are_right_and_freed_with_their_engine() -> None:
    transformer = tiny(vocab_size=70_000, source_vocab_size=70_000, tied_embeddings=False)
    source, target = sentences(transformer.config, (9, 6))

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def outputs() -> list[StepOutput]:
        backend = cpu_backend(transformer, "float32")
        steps = decode(backend, [source], [0], [target])
        backend.close()
        return steps

    first, before = outputs(), resident()
    for _ in range(3):
        for again, once in zip(outputs(), first, strict=True):
            assert (again.ids.tolist(), again.scores.tolist()) == (
                once.ids.tolist(),
                once.scores.tolist(),
            )
    assert resident() - before < 50e6
    for ours, theirs in zip(
        first, decode(torch_backend(transformer, "float32"), [source], [0], [target]), strict=True
    ):
        assert np.abs(ours.scores - theirs.scores).max() < 1e-4


def test_unsupported_shapes_are_named() -> None:
    config = ModelConfig(vocab_size=50, d_model=64, heads=2, d_ff=64)
    assert unsupported(config) is None
    for changes, word in (
        ({"heads": 8}, "width"),
        ({"d_ff": 100}, "d_ff"),
    ):
        reason = unsupported(config.replace(**changes))
        assert reason is not None
        assert word in reason


@needs_cpu_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_folder_opened_without_torch_gives_the_same_scores(
    tmp_path: Path, dtype: torch.dtype
) -> None:
    assert LIBRARY is not None
    transformer = tiny(norm="pre").to(dtype).float()
    folder = new_folder(tmp_path, transformer.config)
    save_model(folder, transformer, dtype=dtype)
    opened = open_backend(folder, LIBRARY, slots=16, threads=1, precision="float32")
    sources, targets = sentences(transformer.config, (9, 4)), sentences(transformer.config, (5, 5))
    ours = decode(opened, sources, [0, 1], targets)
    theirs = decode(cpu_backend(transformer, "float32"), sources, [0, 1], targets)
    assert all(
        np.array_equal(our.scores, their.scores) for our, their in zip(ours, theirs, strict=True)
    )
    opened.close()


@needs_cpu_backend
def test_broken_folders_are_refused(tmp_path: Path) -> None:
    assert LIBRARY is not None
    transformer = tiny()
    folder = new_folder(tmp_path, transformer.config)
    with pytest.raises(FolderError, match="holds no"):
        open_backend(folder, LIBRARY, slots=1, threads=1, precision="int8")
    save_file({"embedding.weight": torch.zeros(200, 64)}, tmp_path / "model.safetensors")
    with pytest.raises(FolderError, match="lack the tensor"):
        open_backend(folder, LIBRARY, slots=1, threads=1, precision="int8")
    with pytest.raises(CpuBackendUnavailable, match="width"):
        narrow = new_folder(tmp_path, transformer.config.replace(heads=8))
        open_backend(narrow, LIBRARY, slots=1, threads=1, precision="int8")
    state = {name: tensor.clone() for name, tensor in transformer.state_dict().items()}
    state["encoder.0.feed_forward.inner.weight"] = torch.zeros(96, 32)
    save_file(state, tmp_path / "model.safetensors")
    with pytest.raises(FolderError, match="shape"):
        open_backend(folder, LIBRARY, slots=1, threads=1, precision="int8")
    for content in (b"", b"\xff" * 64, (20).to_bytes(8, "little") + b'{"a": {"dtype": 1}}'):
        (tmp_path / "model.safetensors").write_bytes(content)
        with pytest.raises(FolderError, match="safetensors"):
            SafetensorFiles(weight_files(tmp_path))
