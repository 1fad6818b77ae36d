"""Tests that saved weights are loaded unchanged and that invalid weight files are refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from model.checkpoint import load_model, save_model
from model.model_folder import FolderError, ModelFolder
from model.transformer import Transformer
from model.weight_files import SafetensorFiles, weight_files
from tests.support.models.folders import new_folder
from tests.support.models.random_models import VARIANTS, random_model


def saved(path: Path, transformer: Transformer, **options: Any) -> ModelFolder:
    folder = new_folder(path, transformer.config)
    save_model(folder, transformer, **options)
    return folder


@pytest.mark.parametrize("variant", VARIANTS)
def test_round_trip(variant: str, tmp_path: Path) -> None:
    transformer = random_model(variant)
    loaded = load_model(saved(tmp_path, transformer))
    assert not loaded.training
    assert loaded.state_dict().keys() == transformer.state_dict().keys()
    for name, tensor in transformer.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_shards_are_loaded_as_one_model(tmp_path: Path) -> None:
    transformer = random_model()
    saved(tmp_path, transformer)
    folder = saved(tmp_path, transformer, file_bytes=40_000)  # replaces the single file
    files = weight_files(tmp_path)
    assert len(files) > 2 and max(file.stat().st_size for file in files) < 45_000
    # other users can read them
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o644"}
    loaded = load_model(folder)
    assert all(
        torch.equal(loaded.state_dict()[name], tensor)
        for name, tensor in transformer.state_dict().items()
    )


def test_imports_need_no_library_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = random_model()
    saved(tmp_path, transformer, file_bytes=40_000)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # only the extra for training has it
    saved(tmp_path, transformer)
    assert [file.name for file in tmp_path.glob("*.safetensors*")] == ["model.safetensors"]


def test_half_precision_files_are_loaded_as_float32(tmp_path: Path) -> None:
    folder = saved(tmp_path, random_model(), dtype=torch.float16)
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {
        torch.float16
    }
    assert next(load_model(folder).parameters()).dtype == torch.float32
    assert next(load_model(folder, dtype=torch.bfloat16).parameters()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda tensors: tensors.pop("embedding.weight"), "lack embedding.weight"),
        (lambda tensors: tensors.update(stranger=torch.zeros(2)), "extra tensor stranger"),
        (
            lambda tensors: tensors.update({"embedding.weight": torch.zeros(3, 3)}),
            "embedding.weight .*shape",
        ),
        (
            lambda tensors: tensors.update({"embedding.weight": tensors["embedding.weight"].int()}),
            "embedding.weight .*I32",
        ),
        (lambda tensors: tensors.clear(), "and .* more"),
    ],
)
def test_errors_name_the_tensor(
    edit: Callable[[dict[str, torch.Tensor]], Any], reason: str, tmp_path: Path
) -> None:
    folder = saved(tmp_path, random_model())
    tensors = load_file(tmp_path / "model.safetensors")
    edit(tensors)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(FolderError, match=reason):
        load_model(folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_are_refused(
    number: float, dtype: torch.dtype, tmp_path: Path
) -> None:
    """In both readers of weights."""
    folder = saved(tmp_path, random_model(), dtype=dtype)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["embedding.weight"][3, 5] = number
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(FolderError, match=r"embedding\.weight has numbers that are not finite"):
        load_model(folder)
    with pytest.raises(FolderError, match=r"embedding\.weight has numbers that are not finite"):
        SafetensorFiles([tmp_path / "model.safetensors"])["embedding.weight"]


def test_finite_numbers_with_an_infinite_sum_are_accepted(tmp_path: Path) -> None:
    folder = saved(tmp_path, random_model())
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["embedding.weight"][:] = 3e38
    save_file(tensors, tmp_path / "model.safetensors")
    assert load_model(folder)
    assert SafetensorFiles([tmp_path / "model.safetensors"])["embedding.weight"][
        0, 0
    ] == np.float32(3e38)


def test_missing_or_broken_files_are_refused(tmp_path: Path) -> None:
    folder = saved(tmp_path, random_model())
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(FolderError, match=r"not a readable safetensors file: .*again\.$"):
            load_model(folder)
    file.write_bytes((10**10).to_bytes(8, "little") + whole[8:])
    with pytest.raises(FolderError, match="not a readable safetensors file"):
        load_model(folder)
    file.unlink()
    with pytest.raises(FolderError, match=r"holds no model\.safetensors"):
        load_model(folder)
