"""Settings of generation in Hugging Face's layout: generation_config.json, else those of config.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from model.convert.source_files import ImportRefused, read_object
from model.model_folder import MAX_BEAM, MAX_FORBIDDEN, Generation

log = logging.getLogger(__name__)
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "num_beam_groups"), (1,)),
    **dict.fromkeys(("min_length", "min_new_tokens", "encoder_no_repeat_ngram_size", "diversity_penalty"), (0,)),
    **dict.fromkeys(("do_sample", "penalty_alpha", "begin_suppress_tokens", "sequence_bias", "force_words_ids"), ()),
    **dict.fromkeys(("exponential_decay_length_penalty", "constraints"), ()),
    "early_stopping": (True,),
}
"""Settings that are not applied, with the values besides null and false that change nothing."""


def generation_settings(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings as transformers reads them: those of config.json (`fields`) count only without the other file."""
    file = path / "generation_config.json"
    return read_object(file) if file.is_file() else fields


def read_generation(path: Path, settings: dict[str, Any], end: Any) -> tuple[Generation, list[int]]:
    """Returns how the model is decoded, and the tokens to suppress by a bias. `end` is the id of the end of sentence.
    Settings that are not applied are named in a warning.

    transformers normalizes the scores of a beam before it forbids tokens, and again after it only with
    `renormalize_logits`. A bias leaves them out of the distribution, which is the second case.
    """
    forbidden = _forbidden(path, settings)
    beams, forced_end = settings.get("num_beams") or 0, settings.get("forced_eos_token_id")
    reasons = []
    if type(beams) is not int or not 0 <= beams <= MAX_BEAM:
        reasons.append(f"num_beams is {beams!r}, not an integer up to {MAX_BEAM}")
    if forced_end is not None and forced_end != end:
        reasons.append(f"forced_eos_token_id is {forced_end!r}, which is not the end of sentence")
    renormalized = bool(settings.get("renormalize_logits"))
    if not renormalized and len(forbidden) > MAX_FORBIDDEN:
        reasons.append(f"more than {MAX_FORBIDDEN} tokens are forbidden without renormalize_logits")
    if reasons:
        raise ImportRefused(path, reasons)
    _warn(path, settings, end)
    try:
        generation = Generation(
            beam_size=beams,
            length_penalty=settings.get("length_penalty"),
            normalization="gnmt" if settings.get("length_penalty") is None else "average",
            forbidden=() if renormalized else tuple(forbidden),
            forced_end=forced_end is not None,
            early_stopping=settings.get("early_stopping") is True,
            no_repeat_ngram_size=settings.get("no_repeat_ngram_size") or 0,
        )
    except ValueError as error:
        raise ImportRefused(path, [str(error).rstrip(".")]) from None
    return generation, forbidden if renormalized else []


def _warn(path: Path, settings: dict[str, Any], end: Any) -> None:
    ignored = [
        f"{name} {settings[name]!r:.40}"
        for name, values in _WITHOUT_EFFECT.items()
        if settings.get(name) not in (None, False, *values)
    ]
    if settings.get("eos_token_id", end) not in (end, [end], None):
        ignored.append("further ends of sentence (eos_token_id)")
    if ignored:
        log.warning("%s is imported without these settings of its generation: %s.", path.name, ", ".join(ignored))


def _forbidden(path: Path, settings: dict[str, Any]) -> list[int]:
    """Returns the single tokens that the settings forbid."""
    words, tokens = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    if not isinstance(words, list) or not all(
        isinstance(word, list) and all(type(i) is int for i in word) for word in words
    ):
        raise ImportRefused(path, ["bad_words_ids is not a list of lists of ids"])
    if any(len(word) != 1 for word in words):
        raise ImportRefused(path, ["bad_words_ids forbids a sequence of several tokens"])
    if not isinstance(tokens, list) or not all(type(i) is int for i in tokens):
        raise ImportRefused(path, ["suppress_tokens is not a list of ids"])
    return list(dict.fromkeys([*(word[0] for word in words), *tokens]))
