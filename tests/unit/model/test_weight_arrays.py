"""Matrices of int8 models are stored as integers and read as the same float32 numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from model.convert.importer import import_model
from model.model_folder import FolderError
from model.weight_arrays import SCALES, SafetensorFiles, save_arrays
from tests.support.models.firefox_models import random_firefox

RANDOM = np.random.default_rng(0)
INTEGERS = RANDOM.integers(-127, 128, (40, 30)).astype(np.float32)


@pytest.mark.parametrize(
    ("tensor", "width"),
    [
        (INTEGERS * (np.float32(1) / np.float32(531.7)), 1),
        (INTEGERS.T * np.float32(3e-5), 1),
        (INTEGERS[0] * np.float32(0.01), 4),  # no matrix
        (RANDOM.normal(size=(40, 30)).astype(np.float32), 4),
        ((INTEGERS * 2 + 1) * np.float32(0.01), 4),  # odd numbers to 255
        (INTEGERS.astype(np.float16), 2),
        (np.zeros((3, 3), np.float32), 4),
    ],
)
def test_a_tensor_is_stored_in_the_least_exact_width(tensor: np.ndarray, width: int, tmp_path: Path) -> None:
    save_arrays({"tensor": tensor}, tmp_path / "model.safetensors")
    read = SafetensorFiles([tmp_path / "model.safetensors"])
    assert read._files["tensor"][1].get_tensor("tensor").nbytes == width * tensor.size
    assert read.stored("tensor").tobytes() == np.ascontiguousarray(tensor).tobytes()


def test_an_imported_firefox_model_has_the_size_of_its_file(tmp_path: Path) -> None:
    random_firefox(tmp_path / "ende", d_model=128, d_ff=512)
    folder = import_model(tmp_path / "ende", tmp_path / "weights")
    file = tmp_path / "ende" / "model.ende.intgemm.alphas.bin"
    positions = SafetensorFiles([folder.path / "model.safetensors"])["positions.weight"].nbytes
    assert (folder.path / "model.safetensors").stat().st_size - positions < 1.05 * file.stat().st_size


@pytest.mark.parametrize(
    "scales", ["[]", "{", '{"tensor": "x"}', '{"tensor": null}', '{"other": 1}', '{"tensor": NaN}']
)
def test_damaged_scales_are_refused(scales: str, tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"tensor": np.ones((2, 2), np.int8)}, file, metadata={SCALES: scales})
    with pytest.raises(FolderError):
        SafetensorFiles([file])["tensor"]
