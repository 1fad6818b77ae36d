"""Export of one language pair of a model folder as an .argosmodel package."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.vocabulary import folder_vocabularies
from model.model_folder import FolderError, ModelFolder

METADATA = "metadata.json"
SENTENCEPIECE = "sentencepiece.model"
_CODES = {"zh-Hant": "zt", "pt-BR": "pb"}
"""Our codes, and Argos's own."""


def export_argos(
    folder: ModelFolder,
    output: Path,
    source: str = "",
    target: str = "",
    *,
    quantization: str | None = None,
    language_name: Callable[[str], str] = str,
) -> None:
    """Writes the package `output` for one pair; `source` and `target` may be empty if there is only one.

    Argos puts nothing before a sentence. The tag of the target language becomes the token that CTranslate2 itself puts
    there (`add_source_bos`). `language_name` names a code for readers. Raises FolderError.
    """
    source, target = _pair(folder, source, target)
    tag = folder.tags.get(target)
    if tag is not None and not all(tag in pieces for pieces in folder_vocabularies(folder)):
        raise FolderError(f"The tag {tag} is not in both vocabularies, so an Argos package cannot state it.")
    if folder.first_tokens:
        raise FolderError("Argos packages cannot represent this model: its targets begin with a language token.")
    if output.exists():
        raise FolderError(f"{output} exists already.")
    name = f"translate-{source}_{target}"
    with tempfile.TemporaryDirectory(prefix="attentive-") as scratch:
        model = Path(scratch) / "model"
        export_ctranslate2(folder, model, quantization=quantization, source_start=tag)
        files = [path for path in sorted(model.iterdir()) if path.suffix in (".bin", ".json")]
        with zipfile.ZipFile(Path(scratch) / "package", "x", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"{name}/{METADATA}", _metadata(folder, source, target, language_name))
            archive.write(folder.path / folder.tokenizer.source, f"{name}/{SENTENCEPIECE}")
            if (folder.path / "README.md").is_file():
                archive.write(folder.path / "README.md", f"{name}/README.md")
            for file in files:
                archive.write(file, f"{name}/model/{file.name}")
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(Path(scratch) / "package", output)


def _pair(folder: ModelFolder, source: str, target: str) -> tuple[str, str]:
    fitting = [pair for pair in folder.pairs if source in ("", pair[0]) and target in ("", pair[1])]
    if len(fitting) != 1:
        raise FolderError(
            f"An Argos package has one language pair, and {len(fitting)} pairs of {folder.name} fit: choose with --source "
            "and --target."
        )
    return fitting[0]


def _metadata(folder: ModelFolder, source: str, target: str, language_name: Callable[[str], str]) -> str:
    return json.dumps(
        {
            "package_version": "1.0",
            "argos_version": "1.9",
            "type": "translate",
            "from_code": _CODES.get(source, source),
            "from_name": language_name(source),
            "to_code": _CODES.get(target, target),
            "to_name": language_name(target),
            "attentive": {"name": folder.name, "license": folder.license, "origin": folder.origin},
        },
        indent=2,
        ensure_ascii=False,
    )
