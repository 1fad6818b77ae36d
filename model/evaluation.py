"""Translations of texts by a backend, and their BLEU and chrF, for validation and benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from model.config import ModelConfig
from model.model_folder import Generation
from model.search.backend_interface import Backend
from model.search.driver import translate
from model.search.options import DEFAULT_GENERATION, DecodingOptions
from model.tokenizer import Tokenizer

SPACELESS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}
"""sacrebleu's tokenizers for languages written without spaces; others use 13a."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Corpus BLEU and chrF (0 to 100) of `sentences` sentences."""

    bleu: float
    chrf: float
    sentences: int


@dataclass(frozen=True, slots=True)
class Translations:
    """Translated texts in the order of the sources. `tokens` is the number of generated tokens,
    with ends of sentence; `cut` the number of sources that were cut at the model's maximum length;
    `unfinished` the number of translations that reached the length limit."""

    texts: tuple[str, ...]
    tokens: int
    cut: int
    unfinished: int


def bleu_of(target: str) -> BLEU:
    """Returns the BLEU of a target language."""
    return BLEU(tokenize=SPACELESS.get(target.split("-")[0], "13a"))


def score(hypotheses: Sequence[str], references: Sequence[str], target: str) -> Scores:
    """Returns the corpus scores of `hypotheses` in language `target` against one reference each.
    Raises ValueError for no hypotheses, or not as many as references."""
    if not hypotheses or len(hypotheses) != len(references):
        raise ValueError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} references."
        )
    bleu, chrf = bleu_of(target), CHRF()
    bleu_score, chrf_score = (
        bleu.corpus_score(hypotheses, [references]),
        chrf.corpus_score(hypotheses, [references]),
    )
    return Scores(
        bleu=float(bleu_score.score), chrf=float(chrf_score.score), sentences=len(hypotheses)
    )


def translate_texts(
    backend: Backend,
    tokenizer: Tokenizer,
    config: ModelConfig,
    texts: Sequence[str],
    target: str,
    options: DecodingOptions,
    generation: Generation = DEFAULT_GENERATION,
) -> Translations:
    """Translates each text, one sentence, into language `target`; `generation` has what `options`
    do not set. Longer sources are cut at the model's maximum length."""
    options = options.with_defaults(generation.beam_size or 1, generation)
    sources = [tokenizer.encode(text, target).ids for text in texts]
    limit = config.max_length
    fitting = [ids if len(ids) <= limit else (*ids[: limit - 1], config.eos_id) for ids in sources]
    ranked = translate(backend, fitting, options, config, generation)
    best = [hypotheses[0] for hypotheses in ranked]
    return Translations(
        texts=tuple(tokenizer.decode(hypothesis.tokens) for hypothesis in best),
        tokens=sum(len(hypothesis.token_scores) for hypothesis in best),
        cut=sum(len(ids) > limit for ids in sources),
        unfinished=sum(hypothesis.finish_reason == "length" for hypothesis in best),
    )
