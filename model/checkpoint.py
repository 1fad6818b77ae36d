"""Weights of a model folder and the Transformer: safetensors, each tensor checked against the
shape."""

from __future__ import annotations

import torch
from safetensors.torch import save_file

from model.atomic_write import atomic_write
from model.model_folder import ModelFolder, let_others_read
from model.transformer import Transformer
from model.weight_files import SINGLE, SafetensorFiles, weight_files


def save_model(
    folder: ModelFolder,
    transformer: Transformer,
    *,
    dtype: torch.dtype | None = None,
    file_bytes: int | None = None,
) -> None:
    """Writes config.json and the weights (cast to `dtype` if given) to `folder.path`, replacing
    those there: one file, or shards of at most `file_bytes` with an index."""
    folder.path.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder.path / "config.json") as part:
        part.write_text(folder.to_json(), encoding="utf-8")
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in transformer.state_dict().items()
    }
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
    """Builds the Transformer of a folder with its weights. Raises FolderError for wrong, missing or
    extra tensors."""
    with torch.device("meta"):
        transformer = Transformer(folder.model)
    stored = SafetensorFiles(weight_files(folder.path))
    stored.check({name: tuple(tensor.shape) for name, tensor in transformer.state_dict().items()})
    transformer.load_state_dict(
        {name: torch.from_numpy(stored.stored(name)) for name in stored}, assign=True
    )
    return transformer.to(device=device, dtype=dtype).eval()
