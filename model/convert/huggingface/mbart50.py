"""mBART-50 in Hugging Face's layout: pre-norm models with normalised embeddings, and learned positions for each side."""

from __future__ import annotations

from pathlib import Path

from model.convert.huggingface.layout import family, read_layout
from model.convert.huggingface.multilingual import TOKENIZER, read_vocabulary
from model.convert.source_files import Imported, ImportRefused, read_optional

_FIRST_POSITION = 2
"""Two rows of fairseq's position tables are not used."""


def read(path: Path) -> Imported:
    """Reads a MBartForConditionalGeneration whose sources begin with their language. Raises ImportRefused with all reasons."""
    stated = [read_optional(path / name).get("tokenizer_class") for name in ("tokenizer_config.json", "config.json")]
    if not any(str(name).startswith("MBart50Tokenizer") for name in stated):
        reason = "it does not name MBart50Tokenizer: of mBART only mBART-50 is supported, such as "
        raise ImportRefused(path, [f"{reason}facebook/mbart-large-50-many-to-many-mmt"])
    layout = read_layout(path, _FIRST_POSITION, norm="pre", embedding_norm=True)
    vocabulary = read_vocabulary(path, layout.config)
    first = [piece for piece, i in vocabulary["vocabulary"].items() if i == layout.first_token]
    return Imported(
        **vocabulary,
        config=layout.config.replace(unk_id=vocabulary["vocabulary"]["<unk>"]),
        tensors=layout.tensors,
        generation=layout.generation,
        first_piece=next(iter(first), None),  # the only target of models that translate into one language
    )


SOURCE = family("mbart", "mBART-50", read, TOKENIZER)
