"""Arrays of CTranslate2's model.bin: aliases and scales, which converters of different versions name differently."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from model.convert.ctranslate2.model_binary import SPECIFICATION, read_model_binary
from model.convert.source_files import ImportRefused

WEIGHT = np.array([[10, -20], [30, 40]], dtype=np.int8)
SCALE = np.array([10.0, 20.0], dtype=np.float32)


def binary(path: Path, arrays: dict[str, np.ndarray], aliases: dict[str, str]) -> Path:
    def string(text: str) -> bytes:
        return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"

    parts = [struct.pack("<I", 6), string(SPECIFICATION), struct.pack("<II", 1, len(arrays))]
    for name, array in arrays.items():
        kind = {"float32": 0, "int8": 1}[array.dtype.name]
        parts += [string(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", kind, array.nbytes), array.tobytes()]
    parts += [struct.pack("<I", len(aliases)), *[string(name) for pair in aliases.items() for name in pair]]
    file = path / "model.bin"
    file.write_bytes(b"".join(parts))
    return file


@pytest.mark.parametrize(
    ("scales", "aliases"),
    [
        ({"a_scale": SCALE}, {"b": "a"}),
        ({"a_scale": SCALE}, {"b": "a", "b_scale": "a_scale"}),
        ({"b_scale": SCALE}, {"b": "a"}),
        ({"other_scale": SCALE}, {"a_scale": "other_scale", "b": "a"}),
        ({"other_scale": SCALE}, {"b_scale": "other_scale", "b": "a"}),
    ],
)
def test_the_scale_of_an_array_may_have_the_name_of_its_alias_or_be_one(scales, aliases, tmp_path):
    arrays = read_model_binary(binary(tmp_path, {"a": WEIGHT, **scales}, aliases))
    for name in ("a", "b"):
        np.testing.assert_allclose(arrays[name], [[1.0, -2.0], [1.5, 2.0]])


def test_an_array_without_a_scale_is_refused(tmp_path):
    with pytest.raises(ImportRefused, match="a has no valid scale"):
        read_model_binary(binary(tmp_path, {"a": WEIGHT, "other_scale": SCALE}, {"b": "a"}))
