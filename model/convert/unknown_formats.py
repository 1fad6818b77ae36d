"""Recognises files of formats that cannot be imported, to say what they are and what to do instead."""

from __future__ import annotations

import contextlib
from pathlib import Path

_POINTER = b"version https://git-lfs.github.com/spec/"
_LONGEST_POINTER = 1_000
_OTHER_WAY = "import the model from its original format"
_KNOWN = (
    ("*.intgemm*.bin.*", "a compressed model of Firefox (Bergamot): unpack its files with gunzip or unzstd"),
    ("lex.*.bin*", "a model of Firefox (Bergamot) without model.*.intgemm*.bin"),
    ("*.argosmodel", "a folder of Argos packages: import one .argosmodel file"),
    ("*.zip", "a zip archive: unpack it and import the folder"),
    ("*.tar*", "an archive: unpack it and import the folder"),
    ("*.onnx", f"a model of ONNX: {_OTHER_WAY}"),
    ("*.gguf", f"a model in GGUF: {_OTHER_WAY}"),
    ("*.h5", f"a model of TensorFlow: {_OTHER_WAY}"),
    ("*.msgpack", f"a model of Flax: {_OTHER_WAY}"),
    ("*.pb", f"a model of TensorFlow: {_OTHER_WAY}"),
    ("checkpoint", f"a checkpoint of TensorFlow: {_OTHER_WAY}"),
    ("adapter_config.json", "an adapter of PEFT: merge it into its model and import that"),
    ("dict.*.txt", "a model of fairseq: convert it to Hugging Face's layout first"),
    ("*.pt", "a checkpoint of PyTorch: convert it to Hugging Face's layout first"),
    ("*.decoder.yml", "Marian weights and their configuration: rename it to decoder.yml"),
    ("*.npz", "Marian weights without decoder.yml, which names the weights and the two vocabularies"),
    ("*.safetensors", "weights without config.json: import the whole folder of the model"),
    ("pytorch_model*.bin", "weights without config.json: import the whole folder of the model"),
    ("*.spm", "SentencePiece models without weights"),
)


def lfs_pointer(path: Path) -> str | None:
    """Returns what is wrong with a folder whose files were not downloaded by Git LFS, None for others."""
    with contextlib.suppress(OSError):  # the importer reports files that cannot be read
        for file in sorted(path.glob("*")):
            if file.is_file() and file.stat().st_size <= _LONGEST_POINTER and file.read_bytes().startswith(_POINTER):
                return f"{file.name} is a pointer of Git LFS and not the file: run `git lfs pull` in the folder"
    return None


def unknown_format(path: Path) -> str:
    """Returns what is wrong with a path that no importer reads."""
    if not path.exists():
        return "it does not exist"
    if path.is_file():
        names = [path] if path.suffix not in (".bin", ".npz", ".safetensors", ".json", ".yml") else []
        for pattern, reason in _KNOWN:
            if any(name.match(pattern) for name in names):
                return f"it is {reason}"
        return "it is a file: give the folder that holds the whole model"
    for pattern, reason in _KNOWN:
        if next(path.glob(pattern), None) is not None:
            return f"it is {reason}"
    return "it holds neither config.json (Hugging Face), decoder.yml (Marian) nor model.bin (CTranslate2)"
