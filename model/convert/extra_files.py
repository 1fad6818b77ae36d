"""Files of a model folder that no other program reads, such as alignment.json: an export to Hugging Face carries them."""

from __future__ import annotations

from pathlib import Path

from model.convert.source_files import read_bytes
from model.model_folder import SHORTLIST, ModelFolder
from model.weight_files import INDEX

CARD = "README.md"
CARRIED = (CARD, "alignment.json", "confidence.json", "training.json", "recipe.toml", "curve.svg")
_MAX_BYTES = 16_000_000


def left_out(folder: ModelFolder) -> list[str]:
    """Returns the names of the files, apart from those of CARRIED, that no export contains."""
    files = folder.tokenizer
    names = {files.source, files.target, files.vocabulary, files.target_vocabulary, "config.json", "roles.json", INDEX}
    paths = [path for path in folder.path.iterdir() if path.name not in names and not path.name.startswith(".")]
    weights = {path for path in paths if path.suffix == ".safetensors" and path.name != SHORTLIST}
    return sorted(path.name for path in paths if path.name not in CARRIED and path not in weights)


def carried(folder: ModelFolder) -> list[str]:
    """Returns the names of the files of CARRIED in a folder."""
    return [name for name in CARRIED if (folder.path / name).is_file()]


def read_carried(path: Path) -> dict[str, bytes]:
    """Reads the files of CARRIED. Raises ImportRefused."""
    return {name: read_bytes(path / name, _MAX_BYTES) for name in CARRIED if (path / name).is_file()}
