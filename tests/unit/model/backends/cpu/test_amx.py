"""Tests of the AMX products, with emulated tile instructions: exact sums and checked
configurations."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from model.backends.cpu.build import COMPILERS, FLAGS, SOURCES
from model.backends.cpu.isa import INSTRUCTION_SETS, CpuBackendUnavailable
from tests.support.processors.amx_emulation import emulated_library

pytestmark = [pytest.mark.slow, pytest.mark.numeric]

SHAPES = [
    (16, 64, 64), (17, 64, 64), (31, 70, 96), (32, 128, 512), (33, 67, 16), (47, 64, 48), (48, 192, 80), (64, 130, 192),
    (65, 64, 144), (100, 1, 320), (15, 64, 64), (1, 70, 96),
]  # fmt: skip
"""Rows, outputs and k: odd rows and outputs, k that is not a multiple of 64, and too few rows for a
tile."""


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    """Returns the emulation. Skips without AVX2 or a compiler."""
    try:
        return ctypes.CDLL(str(emulated_library()))
    except CpuBackendUnavailable as unavailable:
        pytest.skip(str(unavailable))


def product(
    library: ctypes.CDLL,
    activations: NDArray[Any],
    weights: NDArray[Any],
    scales: NDArray[Any],
    bias: NDArray[Any],
    together: int,
) -> NDArray[Any]:
    """Returns the product (rows, outputs)."""
    (rows, k), outputs = activations.shape, len(weights)
    out = np.full((rows, (outputs + 63) // 64 * 64), np.nan, np.float32)
    counts = np.zeros(3, np.int64)  # of instructions
    arrays = (activations, scales, weights, bias, out, counts)
    library.emulated_product(
        rows, outputs, k, together, *(ctypes.c_void_p(array.ctypes.data) for array in arrays)
    )
    return out[:, :outputs]


def operands(rows: int, outputs: int, k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns random activations and integer weights with a largest magnitude of 127 in each row,
    that is with scale 1."""
    random = np.random.default_rng(rows + outputs + k)
    activations = random.integers(-127, 128, (rows, k)).astype(np.int8)
    weights = random.integers(-127, 128, (outputs, k)).astype(np.float32)
    weights[:, 0] = 127.0
    return activations, weights


@pytest.mark.parametrize(("rows", "outputs", "k"), SHAPES)
def test_sums_are_exact(library: ctypes.CDLL, rows: int, outputs: int, k: int) -> None:
    activations, weights = operands(rows, outputs, k)
    ones, zeros = np.ones(rows, np.float32), np.zeros(outputs, np.float32)
    found = product(library, activations, weights, ones, zeros, rows)
    assert np.array_equal(found, activations.astype(np.int64) @ weights.T.astype(np.int64))


def test_the_instructions_compile(tmp_path: Path) -> None:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        pytest.skip("The CPU backend needs a C++ compiler (g++).")
    amx = INSTRUCTION_SETS[0]
    assert amx.tiles
    command = [
        compiler,
        *FLAGS,
        *amx.compiler_flags,
        "-c",
        f"-I{SOURCES}",
        str(SOURCES / "kernels" / "gemm_amx.cpp"),
        "-o",
        str(tmp_path / "amx.o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:500]
    assert (
        bytes.fromhex("c4e2495ec4") in (tmp_path / "amx.o").read_bytes()
    )  # tdpbusd tmm0, tmm4 (unsigned), tmm6 (signed)
