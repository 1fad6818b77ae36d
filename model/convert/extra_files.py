"""Files of a model folder that no other program reads, such as alignment.json: an export carries them along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model.convert.source_files import ImportRefused, plain_name, read_bytes
from model.model_folder import SHORTLIST, ModelFolder

CARD = "README.md"
_WRITTEN = frozenset(
    """
    config.json generation_config.json tokenizer_config.json special_tokens_map.json tokenizer.json vocab.json
    target_vocab.json source.spm target.spm README.md roles.json model.safetensors.index.json pytorch_model.bin
    """.split()
)
"""Names that an export or an import writes itself."""
_MAX_BYTES = 16_000_000
_MAX_FILES = 64


def extra_files(folder: ModelFolder) -> tuple[list[Path], list[str]]:
    """Returns the further files of a folder, and the names of those that are too large, too many or folders. The
    shortlist is among the latter: it is not exported."""
    own = {name for name in (folder.tokenizer.source, folder.tokenizer.target, folder.tokenizer.vocabulary) if name}
    carried: list[Path] = []
    dropped: list[str] = []
    for path in sorted(folder.path.iterdir()):
        if path.name != SHORTLIST and (path.name in own or not _is_extra(path.name)):
            continue
        fits = path.is_file() and path.stat().st_size <= _MAX_BYTES and len(carried) < _MAX_FILES
        if fits and path.name != SHORTLIST:
            carried.append(path)
        else:
            dropped.append(path.name)
    return carried, dropped


def read_extra_files(path: Path, names: Any) -> dict[str, bytes]:
    """Reads the files that an export names in config.json. Raises ImportRefused."""
    if not isinstance(names, list) or len(names) > _MAX_FILES:
        raise ImportRefused(path, ["`attentive` in config.json has no valid list of files"])
    if wrong := [name for name in names if not _is_extra(plain_name(path / "config.json", name))]:
        raise ImportRefused(path, [f"`attentive` in config.json lists {wrong[0]}, which the import writes itself"])
    return {name: read_bytes(path / name, _MAX_BYTES) for name in names}


def _is_extra(name: str) -> bool:
    return name not in _WRITTEN and not name.startswith(".") and not name.endswith((".safetensors", ".part"))
