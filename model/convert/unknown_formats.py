"""Recognises files of formats that cannot be imported, to say what they are and what to do instead."""

from __future__ import annotations

from pathlib import Path

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
    ("dict.*.txt", "a model of fairseq: convert it to Hugging Face's layout first"),
    ("*.pt", "a checkpoint of PyTorch: convert it to Hugging Face's layout first"),
    ("*.npz", "Marian weights without decoder.yml, which names the weights and the two vocabularies"),
    ("*.spm", "SentencePiece models without weights"),
)


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
