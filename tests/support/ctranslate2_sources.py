"""Sources for models that were exported to CTranslate2."""

from __future__ import annotations

from collections.abc import Sequence

from model.convert.vocabulary import folder_pieces
from model.model_folder import ModelFolder


def ctranslate2_pieces(folder: ModelFolder, ids: Sequence[int]) -> list[str]:
    """Converts source ids of our tokenizer to the pieces that the exported model reads: CTranslate2 adds start and
    end."""
    source, _ = folder_pieces(folder)
    files = folder.tokenizer
    return [source[i] for i in ids[int(files.source_start) : len(ids) - int(files.source_end)]]
