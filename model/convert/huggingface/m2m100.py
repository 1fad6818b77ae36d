"""M2M100, NLLB-200 and SMaLL-100 in Hugging Face's layout: pre-norm models with the positions of fairseq."""

from __future__ import annotations

from pathlib import Path

from model.convert.huggingface.layout import family, read_layout
from model.convert.huggingface.multilingual import TOKENIZER, offset_sinusoids, read_vocabulary
from model.convert.source_files import Imported, read_optional


def read(path: Path) -> Imported:
    """Reads a M2M100ForConditionalGeneration. Raises ImportRefused with all reasons."""
    layout = read_layout(path, norm="pre")
    vocabulary, config = read_vocabulary(path, layout.config), layout.config
    table = offset_sinusoids(config.max_length, config.d_model, config.pad_id)
    names = read_optional(path / "tokenizer_config.json")
    label = f"{names.get('tokenizer_class', '')} {path.resolve().name}".lower().replace("-", "")
    return Imported(
        **vocabulary,
        config=config.replace(unk_id=vocabulary["vocabulary"]["<unk>"], positions="learned"),
        tensors=layout.tensors | {"positions.weight": table},
        generation=layout.generation,
        tagged_by_target="small100" in label,
    )


SOURCE = family("m2m_100", "M2M100, NLLB-200, SMaLL-100", read, TOKENIZER)
