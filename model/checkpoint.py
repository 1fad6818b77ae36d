"""Weights of a model folder: safetensors, each tensor checked against the model's shape."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from model.atomic_write import atomic_write
from model.model_folder import FolderError, ModelFolder, let_others_read
from model.transformer import Transformer
from model.weight_files import SINGLE, weight_files


def save_model(
    folder: ModelFolder, transformer: Transformer, *, dtype: torch.dtype | None = None, file_bytes: int | None = None
) -> None:
    """Writes config.json and the weights (cast to `dtype` if given) to `folder.path`: one file, or shards of at most
    `file_bytes` with an index. Weights that are there are replaced."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder.path / "config.json") as part:
        part.write_text(folder.to_json(), encoding="utf-8")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in transformer.state_dict().items()}
    if dtype is not None:
        tensors = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    if file_bytes is None:
        for old in folder.path.glob("model*.safetensors*"):
            old.unlink()
        save_file(tensors, folder.path / SINGLE, metadata={"format": "pt"})
    else:
        from huggingface_hub import save_torch_state_dict  # only trainings have it

        save_torch_state_dict(tensors, folder.path, max_shard_size=file_bytes)
    for file in weight_files(folder.path):
        let_others_read(file)


def load_model(
    folder: ModelFolder, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Transformer:
    """Builds the Transformer of a folder and loads its weights. Raises FolderError for wrong, missing or extra
    tensors."""
    with torch.device("meta"):
        transformer = Transformer(folder.model)
    expected = {name: tuple(tensor.shape) for name, tensor in transformer.state_dict().items()}
    tensors = read_tensors(weight_files(folder.path), expected)
    transformer.load_state_dict(tensors, assign=True)
    return transformer.to(device=device, dtype=dtype).eval()


def read_tensors(files: Iterable[Path], expected: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Reads floating-point tensors. Raises FolderError unless names and shapes are exactly those `expected` and all
    numbers are finite."""
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            with safe_open(str(file), framework="pt") as shard:
                for name in shard.keys():  # noqa: SIM118 - not a mapping
                    shape = tuple(shard.get_slice(name).get_shape())
                    if name not in expected:
                        raise FolderError(f"{file.name} has an extra tensor {name} of shape {shape}.")
                    if shape != expected[name]:
                        raise FolderError(
                            f"{name} in {file.name} has shape {shape}; the config asks for {expected[name]}."
                        )
                    tensors[name] = shard.get_tensor(name)
                    if not tensors[name].is_floating_point():
                        raise FolderError(f"{name} in {file.name} is {tensors[name].dtype}, not floating point.")
                    if not _is_finite(tensors[name]):
                        raise FolderError(f"{file.name}: {name} has numbers that are not finite.")
        except (SafetensorError, OSError) as error:
            raise FolderError(f"{file} is not a readable safetensors file: {error}.") from None
    if missing := sorted(set(expected) - set(tensors)):
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise FolderError(f"The weights lack {shown}.")
    return tensors


def _is_finite(tensor: Tensor) -> bool:
    """Returns whether all numbers are finite. The sum is finite for nearly all such tensors, and fast."""
    return bool(torch.isfinite(tensor.sum(dtype=torch.float32))) or bool(torch.isfinite(tensor).all())
