"""Small trained models of Firefox in both formats, with texts, for comparisons with other
engines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.convert.importer import import_model
from model.model_folder import ModelFolder
from model.search.backend_interface import Backend
from model.search.options import Hypothesis
from tests.support.models.firefox_models import trained_firefox
from tests.support.models.folders import hypotheses
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
    """Trains a model of one of SHAPES for some seconds, because targets of random weights hardly
    depend on their sources."""
    trained_firefox(path / "ende", precision="float32", steps=200, **SHAPES[shape])
    folder = import_model(path / "ende", path / "weights")
    # Bergamot splits texts at sentence ends; these have none.
    return Sample(
        path / "ende",
        folder,
        [re.sub(r"\W+", " ", text).strip() for text in made_up_text(4, 1100)[1000:]],
    )


def targets(sample: Sample, backend: Backend, **options: Any) -> list[Hypothesis]:
    """Returns our targets. Bergamot's longest target has twice the tokens of the longest source in
    a batch."""
    tokenizer = sample.folder.load_tokenizer()
    sources = [tokenizer.encode_ids(text) for text in sample.texts]
    longest = 2 * max(map(len, sources))
    return [
        best
        for best, *_ in hypotheses(sample.folder, sources, backend, max_length=longest, **options)
    ]
