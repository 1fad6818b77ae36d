"""Back-translation (Sennrich et al. 2016): text of one language becomes training pairs whose other
side a model wrote.

python -m training.back_translation weights/NAME mono/de.wikipedia.txt.xz
DATA/bt-wikipedia.en-de.tsv

The output's name states the other language and, up to the first point, the source of the pairs,
which the recipe lists in `[data] files`, `[data.weights]` and `[data.back_translated]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.backends.cpu.backend import open_backend
from model.backends.cpu.build import library
from model.model_folder import ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.tokenizer import Tokenizer
from training.data.corpus import language_of, open_text

_CHUNK = 2_000
"""Sentences that are translated and filtered together."""
_SLOTS = 64
_LONGEST_RATIO = 2.0
"""Pairs whose sides differ more in their number of tokens are dropped."""


class BackTranslator:
    """Translates text and keeps the pairs that `folder`'s model finds likely in both directions.

    A pair's score is the mean log-probability per token of the translation, plus that of the text
    forced from the translation. The best share `keep` of every chunk is kept.
    """

    def __init__(self, folder: ModelFolder, *, threads: int, keep: float, max_tokens: int) -> None:
        self._config, self._keep, self._max_tokens = folder.model, keep, max_tokens
        self._tokenizer: Tokenizer = folder.load_tokenizer()
        self._backend = open_backend(
            folder, library(), slots=_SLOTS, threads=threads, precision="int8"
        )

    def pairs(self, texts: Sequence[str], language: str, into: str) -> list[tuple[str, str]]:
        """Returns (text of `language`, its translation `into` the other language) of the kept
        texts."""
        sources = [self._tokenizer.encode(text, into).ids for text in texts]
        fitting = [i for i, ids in enumerate(sources) if len(ids) <= self._max_tokens]
        hypotheses = self._decode(
            [sources[i] for i in fitting], [DecodingOptions(loop_guard=True)] * len(fitting)
        )
        chosen = [
            (i, hypothesis)
            for i, hypothesis in zip(fitting, hypotheses, strict=True)
            if hypothesis.finish_reason != "length" and hypothesis.tokens
        ]
        translations = [self._tokenizer.decode(hypothesis.tokens) for _, hypothesis in chosen]
        inputs = [self._tokenizer.encode(text, language).ids for text in translations]
        # The given text without its tag and end: the target that is scored.
        targets = [DecodingOptions(target=tuple(sources[i][1:-1])) for i, _ in chosen]
        forced = self._decode(inputs, targets)
        scored = []
        for (i, hypothesis), text, back in zip(chosen, translations, forced, strict=True):
            shorter, longer = sorted((len(hypothesis.tokens), len(sources[i]) - 2))
            if longer <= _LONGEST_RATIO * max(1, shorter):
                score = float(np.mean(hypothesis.token_scores) + np.mean(back.token_scores))
                scored.append((score, texts[i], text))
        scored.sort(reverse=True)
        return [
            (text, translation) for _, text, translation in scored[: int(self._keep * len(texts))]
        ]

    def _decode(
        self, sources: Sequence[Sequence[int]], options: Sequence[DecodingOptions]
    ) -> list[Hypothesis]:
        config = self._config
        longest = [replace(item, max_length=2 * self._max_tokens) for item in options]
        results = translate(self._backend, sources, longest, config)
        return [hypotheses[0] for hypotheses in results]


def read_sentences(path: Path) -> Iterator[str]:
    """Yields the lines of a text file (also .xz), without tabs and surrounding spaces."""
    with open_text(path) as lines:
        for line in lines:
            if text := " ".join(line.split()):
                yield text


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line. Returns 0, or 2 for a model or a file that cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (OSError, ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _run(options: argparse.Namespace) -> None:
    other = language_of(options.pairs)
    language = options.language or other
    into = "en" if language == other else other
    name = options.pairs.name.split(".")[0]
    translator = BackTranslator(
        read_folder(options.model),
        threads=options.threads,
        keep=options.keep,
        max_tokens=options.max_tokens,
    )
    last = None if options.limit is None else options.skip + options.limit
    sentences = islice(read_sentences(options.sentences), options.skip, last)
    with (
        options.pairs.open("a", encoding="utf-8") as file,
        tqdm(unit=" sentences", initial=options.skip) as bar,
    ):
        while chunk := list(islice(sentences, _CHUNK)):
            for text, translation in translator.pairs(chunk, language, into):
                english, foreign = (translation, text) if into == "en" else (text, translation)
                file.write(f"{name}\t{english}\t{foreign}\n")
            file.flush()
            bar.update(len(chunk))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m training.back_translation",
        description="Translate monolingual text and append the pairs to PAIRS.",
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="model folder that translates")
    parser.add_argument(
        "sentences",
        type=Path,
        metavar="SENTENCES",
        help="text file, one sentence a line; may be .xz",
    )
    parser.add_argument("pairs", type=Path, metavar="PAIRS", help="output, named SOURCE.en-XX.tsv")
    parser.add_argument("--language", help="language of the sentences (default: XX)")
    parser.add_argument(
        "--skip", type=int, default=0, metavar="N", help="sentences to leave out, to resume"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="sentences to read (default: all)")
    parser.add_argument(
        "--keep", type=float, default=0.75, help="share of the pairs that is kept (default: 0.75)"
    )
    parser.add_argument(
        "--max-tokens", type=int, default=80, help="longest sentence in tokens (default: 80)"
    )
    parser.add_argument("--threads", type=int, default=1, help="number of CPU threads (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
