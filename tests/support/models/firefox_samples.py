"""Small trained models of Firefox in both formats, with texts, for comparisons with other engines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.convert.importer import import_model
from model.model_folder import ModelFolder
from model.search.base import Backend
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from tests.support.models.firefox_models import trained_firefox
from tests.support.models.marian_models import made_up_text

SHAPES: dict[str, dict[str, Any]] = {
    "one vocabulary, 2 decoder layers": {},
    "two vocabularies, 4 decoder layers": {"vocabularies": 2, "decoder_layers": 4},
}


@dataclass(frozen=True, slots=True)
class Sample:
    """A model in both formats, and the texts to translate."""

    path: Path
    folder: ModelFolder
    texts: list[str]

    @property
    def model(self) -> Path:
        """The model file of Marian, in float32."""
        return next(self.path.glob("model.*.bin"))

    @property
    def vocabularies(self) -> list[Path]:
        """One or two SentencePiece models."""
        return sorted(self.path.glob("*.spm"))


def trained_sample(path: Path, shape: str) -> Sample:
    """Trains a model of one of SHAPES for some seconds, because targets of random weights hardly depend on their sources."""
    trained_firefox(path / "ende", precision="float32", steps=200, **SHAPES[shape])
    folder = import_model(path / "ende", path / "weights")
    # Bergamot splits texts at sentence ends; these have none.
    return Sample(path / "ende", folder, [re.sub(r"\W+", " ", text).strip() for text in made_up_text(4, 1100)[1000:]])


def targets(
    sample: Sample, backend: Backend, longest: int, *, one_limit: bool = False, **options: Any
) -> list[tuple[Hypothesis, ...]]:
    """Returns our hypotheses of the texts; a target has at most `longest` times the tokens of its source, or with
    `one_limit` of the longest source."""
    config, tokenizer = sample.folder.model, sample.folder.load_tokenizer()
    sources = [tokenizer.encode_ids(text) for text in sample.texts]
    lengths = [len(source) for source in sources]
    limits = [max(lengths)] * len(lengths) if one_limit else lengths
    each = [DecodingOptions(max_length=longest * limit, **options) for limit in limits]
    return translate(
        backend, sources, each, start=config.decoder_start_id, end=config.eos_id, max_length=config.max_length,
        generation=sample.folder.generation,
    )  # fmt: skip
