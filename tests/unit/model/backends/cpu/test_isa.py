"""Tests that all instruction sets give equal results bit for bit.

A setting of PyTorch or oneDNN does not change the CPU backend; the test uses the instruction sets
that the processor has. AMX is emulated as well. On x86-64 the instruction sets of ARM64 are
cross-compiled and run by QEMU: `pytest -m programs` with this file, with Debian's
g++-aarch64-linux-gnu and qemu-user-static.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from model.backends.cpu.backend import Precision
from model.backends.cpu.build import SOURCES, build, library_name
from model.backends.cpu.isa import INSTRUCTION_SETS, CpuBackendUnavailable, Isa, available
from model.config import Activation
from tests.support.models import cpu_models
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    check_targets_do_not_depend_on_the_batch,
    cpu_backend,
    decode,
    sentences,
    tiny,
    torch_backend,
)
from tests.support.processors.amx_emulation import CACHE, EMULATED, emulated_library
from tests.support.processors.arm_emulation import PROCESSORS, emulated_processors, emulated_program

pytestmark = [pytest.mark.slow, pytest.mark.numeric]

ARM = platform.machine() == "aarch64"
LEAST: Isa = "neon-dotprod" if ARM else "avx2"
OWN = tuple(each for each in INSTRUCTION_SETS if (each.machine == "aarch64") == ARM)
EMULATED_ARM = () if ARM else tuple(PROCESSORS)
ARM_CASES = tuple(pytest.param(name, marks=pytest.mark.programs) for name in EMULATED_ARM)
OTHERS = (
    EMULATED,
    *(each.name for each in OWN if each.name != LEAST),
    *ARM_CASES,
)


@pytest.fixture(scope="module", autouse=True)
def emulator() -> Iterator[None]:
    """Lets QEMU run libraries for ARM64."""
    with emulated_processors():
        yield


def use(monkeypatch: pytest.MonkeyPatch, isa: str) -> None:
    """Selects `isa` for the CPU backends of a test. Skips the test if the processor or the compiler
    lacks it."""
    library: Path
    try:
        if isa in EMULATED_ARM:
            library = emulated_program(isa)
        else:
            library = emulated_library() if isa == EMULATED else compiled(cast(Isa, isa))
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))
    monkeypatch.setattr(cpu_models, "LIBRARY", library)


def compiled(isa: Isa) -> Path:
    """Returns the library of the checkout, or one that is compiled into CACHE."""
    made = SOURCES / library_name(available(isa)[0])
    return made if made.is_file() else build(isa, CACHE)


@pytest.mark.parametrize("isa", OTHERS)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_instruction_sets_agree_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch, isa: str, variant: str, precision: Precision
) -> None:
    transformer = tiny(**VARIANTS[variant])
    config = transformer.config
    lengths, slots = (3, 17, 40, 1, 64, 33, 16), [5, 0, 3, 7, 1, 2, 6]
    sources, targets = (
        sentences(config, lengths),
        sentences(config.replace(source_vocab_size=None), (20,) * len(lengths)),
    )
    outputs = []
    for each in (LEAST, isa):
        use(monkeypatch, each)
        backend = cpu_backend(transformer, precision)
        assert backend.isa == each
        outputs.append(decode(backend, sources, slots, targets))
    for ours, theirs in zip(*outputs, strict=True):
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.scores, theirs.scores)


@pytest.mark.parametrize("isa", OTHERS)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_maps_are_equal_on_every_instruction_set(
    monkeypatch: pytest.MonkeyPatch, isa: str, precision: Precision
) -> None:
    source, target = sentences(tiny().config, (37, 20))
    results = []
    for each in (LEAST, isa):
        use(monkeypatch, each)
        results.append(
            cpu_backend(tiny(), precision).attention_maps(source, target, (("cross", 1, 0),))
        )
    for part in (
        "encoder",
        "decoder",
        "cross",
        "token_scores",
        "candidate_ids",
        "candidate_scores",
    ):
        ours, theirs = (getattr(maps, part) for maps in results)
        assert np.array_equal(ours, theirs)


def test_integer_sums_do_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    transformer = tiny(d_ff=512)
    for layer in (*transformer.encoder, *transformer.decoder):
        # quantized weights of 127 times activations up to 127
        layer.feed_forward.outer.weight.data.fill_(1.0)
        layer.feed_forward.inner.weight.data.mul_(1e-3)
        layer.feed_forward.inner.bias.data.fill_(1.0)
    use(monkeypatch, LEAST)
    source, target = sentences(transformer.config, (9, 6))
    ours = decode(cpu_backend(transformer, "int8"), [source], [0], [target])
    theirs = decode(torch_backend(transformer, "int8"), [source], [0], [target])
    for our, their in zip(ours, theirs, strict=True):
        assert np.abs(our.scores - their.scores).max() < 0.2


@pytest.mark.parametrize("isa", (EMULATED, *ARM_CASES))
@pytest.mark.parametrize("activation", ["relu", "swish"])
def test_the_largest_products_are_exact(
    monkeypatch: pytest.MonkeyPatch, activation: Activation, isa: str
) -> None:
    # AVX2 multiplies activations after ReLU without signs
    transformer = tiny(d_ff=512, activation=activation)
    for layer in (*transformer.encoder, *transformer.decoder):
        signs = torch.where(torch.arange(64) % 2 == 0, 1.0, -1.0)
        # quantized to 127 and -127
        layer.feed_forward.outer.weight.data.copy_(signs[:, None].expand(64, 512))
        layer.feed_forward.inner.weight.data.mul_(1e-3)
        layer.feed_forward.inner.bias.data.fill_(1.0)  # all activations are quantized to 127
    source, target = sentences(transformer.config, (9, 6))
    outputs = []
    for each in (LEAST, isa):
        use(monkeypatch, each)
        outputs.append(decode(cpu_backend(transformer, "int8"), [source], [0], [target]))
    for ours, theirs in zip(*outputs, strict=True):
        assert np.array_equal(ours.ids, theirs.ids)
        assert np.array_equal(ours.scores, theirs.scores)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("isa", (EMULATED, *(each.name for each in OWN), *ARM_CASES))
def test_targets_do_not_depend_on_the_batch(
    monkeypatch: pytest.MonkeyPatch, isa: str, precision: Precision
) -> None:
    use(monkeypatch, isa)
    check_targets_do_not_depend_on_the_batch(precision)
