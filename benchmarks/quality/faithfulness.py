"""Faithfulness of measures of cross-attention (DeYoung et al. 2020): by how many points the
probability of a translated word falls when the source words are hidden that a measure ranks first,
and when only they are shown.

    python -m benchmarks.quality.faithfulness --model weights/NAME --data DATA/tatoeba-dev.en-de.tsv
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.common import report
from benchmarks.common.command_line import new_parser
from model.analysis import attention_alignment
from model.analysis.attention_alignment import AlignmentLayer, Weights, Word, between_words, words
from model.analysis.types import AttentionMaps
from model.backends.interface import InspectableBackend
from model.head_roles import open_exact
from model.model_folder import read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions

RANKED, WORDS = (1, 2, 3, 5), 3
"""Numbers of source words that are hidden or shown, and target words of a sentence."""
LEFT = 3
"""Least number of source words that stay when the most are hidden."""


@dataclass(frozen=True, slots=True)
class _Pair:
    """A source, a translation, and the words of both."""

    backend: InspectableBackend
    source: Sequence[int]
    target: Sequence[int]
    first: int | None
    words: Sequence[Sequence[Word]]
    scored: dict[frozenset[int], Weights] = field(default_factory=dict)

    def maps(self, ids: Sequence[int]) -> AttentionMaps:
        """Returns the maps of the translation for a source."""
        if self.first is None:
            return self.backend.attention_maps(ids, self.target)
        return self.backend.attention_maps(ids, (self.first, *self.target)).without_first_token(
            None
        )

    def score(self, shown: Iterable[int]) -> Weights:
        """Returns the log-probability of each target word if only the source words `shown` are
        read."""
        visible = frozenset(shown)
        if visible not in self.scored:
            hidden = {
                i
                for number, word in enumerate(self.words[0])
                if number not in visible
                for i in word.pieces
            }
            scores = self.maps(
                [token for i, token in enumerate(self.source) if i not in hidden]
            ).token_scores
            self.scored[visible] = np.array(
                [scores[list(word.pieces)].sum() for word in self.words[1]]
            )
        return self.scored[visible]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.faithfulness", __doc__, "--model")
    parser.add_argument("--data", type=Path, required=True, help="SET.SOURCE-TARGET.tsv")
    parser.add_argument("--limit", type=int, default=300, help="sentences with enough words")
    options = parser.parse_args(arguments)
    folder = read_folder(options.model)
    backend, tokenizer, config = open_exact(folder), folder.load_tokenizer(), folder.model
    layer = AlignmentLayer.load(folder.path, config.decoder_layers)
    source, target = options.data.name.split(".")[-2].split("-")
    chance, found = np.random.default_rng(0), dict[str, list[NDArray[Any]]]()
    sentences, progress = 0, tqdm(total=options.limit, disable=None)
    for line in options.data.read_text(encoding="utf-8").splitlines():
        text = line.split("\t")[0]
        encoding = tokenizer.encode(text, target, source)
        first = tokenizer.first_token(target)
        search = DecodingOptions(first_token=first)
        [[best, *_]] = translate(backend, [encoding.ids], search, config, folder.generation)  # fmt: skip
        decoding = tokenizer.decode_pieces(best.tokens)
        sides = [
            words(t, side.pieces, side.offsets)
            for t, side in ((text, encoding), (decoding.text, decoding))
        ]
        real = [[word for word in side if not word.special] for side in sides]
        if len(real[0]) < max(RANKED) + LEFT or not real[1]:
            continue

        pair = _Pair(backend, encoding.ids, best.tokens, first, real)
        every = range(len(real[0]))
        maps = pair.maps(encoding.ids)
        whole = pair.score(every)
        measures: dict[str, NDArray[Any]] = {
            "chance": chance.random((len(real[0]), len(real[1]))),
            "weights, mean of all heads": between_words(maps.cross.mean(axis=(0, 1)), *sides),
            "weights, mean of the last layer": between_words(maps.cross[-1].mean(axis=0), *sides),
            "contributions, layer that aligns": between_words(
                attention_alignment.alignment_map(maps, layer), *sides
            ),
            "effect": np.stack(
                [whole - pair.score([n for n in every if n != hidden]) for hidden in every]
            ),
        }
        for number in chance.choice(len(real[1]), min(WORDS, len(real[1])), replace=False):
            for name, weights in measures.items():
                order = np.argsort(-weights[:, number], kind="stable").tolist()
                read = [order[count:] for count in RANKED] + [order[:count] for count in RANKED]
                left = np.exp([pair.score(shown)[number] for shown in read])
                found.setdefault(name, []).append(np.exp(whole[number]) - left)
        progress.update()
        sentences += 1
        if sentences == options.limit:
            break
    columns = [f"{name} {count}" for name in ("hidden", "shown") for count in RANKED]
    rows = [
        [name, *(float(100 * fall) for fall in np.mean(falls, axis=0))]
        for name, falls in found.items()
    ]
    print(report.table(("measure", *columns), rows))
    print(f"{sentences} sentences, {len(found['chance'])} words; points of probability")
    return 0


if __name__ == "__main__":
    sys.exit(main())
