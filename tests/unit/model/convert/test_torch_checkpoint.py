"""A tensor of an untrusted checkpoint has only numbers that its file has."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from model.convert.huggingface.torch_checkpoint import read_checkpoint
from model.convert.source_files import ImportRefused

NUMBERS = np.arange(6, dtype=np.float32)


class View:
    """Pickled as a tensor with any storage, offset, shape and strides."""

    def __init__(self, *view: Any) -> None:
        self.view = view

    def __reduce__(self) -> tuple[Any, ...]:
        return torch._utils._rebuild_tensor_v2, (*self.view, False, OrderedDict())


class Storage:
    def __init__(self, count: int = 6) -> None:
        self.count = count


class Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Any:
        return ("storage", torch.FloatStorage, "0", "cpu", value.count) if isinstance(value, Storage) else None


def checkpoint(file: Path, *view: Any) -> Path:
    pickled = io.BytesIO()
    Pickler(pickled, protocol=2).dump({"a": View(*view)})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x/data.pkl", pickled.getvalue())
        archive.writestr("x/data/0", NUMBERS.tobytes())
    return file


@pytest.mark.parametrize(
    ("offset", "shape", "strides"), [(0, (2, 3), (3, 1)), (1, (3, 1), (1, 1)), (5, (), ()), (0, (2, 3), (1, 2))]
)
def test_views_of_a_storage_are_those_of_torch(offset: int, shape: Any, strides: Any, tmp_path: Path) -> None:
    array = read_checkpoint(checkpoint(tmp_path / "file", Storage(), offset, shape, strides))["a"]
    assert np.array_equal(array, torch.from_numpy(NUMBERS).as_strided(shape, strides, offset))


@pytest.mark.parametrize(
    ("offset", "shape", "strides"),
    [
        *((0, (7,), (1,)), (1, (6,), (1,)), (0, (2,), (6,)), (-1, (2,), (1,)), (5, (2,), (-1,)), (10**30, (1,), (1,))),
        *(
            (0, (-1,), (1,)),
            (0, (2, 3), (1,)),
            (0, (4, 4), (0, 0)),
            (0.0, (2,), (1,)),
            (0, "ab", (1, 1)),
            (0, (1,), (10**30,)),
        ),
    ],
)
def test_a_view_beyond_its_storage_is_refused(offset: Any, shape: Any, strides: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused):
        read_checkpoint(checkpoint(tmp_path / "file", Storage(), offset, shape, strides))


@pytest.mark.parametrize("storage", [Storage(7), Storage(10**12), Storage(-1), "0", 5, View(Storage(), 0, (2,), (0,))])
def test_other_storages_are_refused(storage: Any, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused):
        read_checkpoint(checkpoint(tmp_path / "file", storage, 0, (6,), (1,)))
