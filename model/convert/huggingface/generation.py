"""Settings of generation in Hugging Face's layout: generation_config.json, else those of config.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from model.convert.source_files import ImportRefused, read_object
from model.model_folder import Generation

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
    forbidden, forced_end = _forbidden(path, settings), settings.get("forced_eos_token_id")
    if forced_end not in (None, end):
        raise ImportRefused(path, [f"forced_eos_token_id is {forced_end!r}, which is not the end of sentence"])
    unused = _WITHOUT_EFFECT | {"eos_token_id": (end, [end])}
    ignored = [name for name, values in unused.items() if settings.get(name) not in (None, False, *values)]
    shown = [f"{name} {settings[name]!r:.40}" for name in ignored]
    if sequences := [word for word in settings.get("bad_words_ids") or [] if len(word) > 1]:
        shown.append(f"bad_words_ids with {len(sequences)} sequences of several tokens")
    if shown:
        log.warning("%s is imported without these settings of its generation: %s.", path.name, ", ".join(shown))
    beam, alpha = settings.get("num_beams") or 0, settings.get("length_penalty")
    alpha = 1.0 if alpha is None and type(beam) is int and beam > 1 else alpha  # the default of transformers
    kept, suppressed = ([], forbidden) if settings.get("renormalize_logits") else (forbidden, [])
    try:
        generation = Generation(
            beam_size=beam,
            length_penalty=alpha,
            normalization="gnmt" if alpha is None else "average",
            forbidden=tuple(kept),
            forced_end=forced_end is not None,
            early_stopping=settings.get("early_stopping") is True,
            no_repeat_ngram_size=settings.get("no_repeat_ngram_size") or 0,
        )
    except ValueError as error:
        raise ImportRefused(path, [str(error).rstrip(".")]) from None
    return generation, suppressed


def _forbidden(path: Path, settings: dict[str, Any]) -> list[int]:
    """Returns the single tokens that the settings forbid; sequences of several tokens are not applied."""
    words, tokens = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    listed = [*words, tokens] if isinstance(words, list) else [None]
    if not all(isinstance(ids, list) and all(type(i) is int for i in ids) for ids in listed):
        raise ImportRefused(path, ["bad_words_ids is not a list of lists of ids, or suppress_tokens not a list of ids"])
    return list(dict.fromkeys([*(word[0] for word in words if len(word) == 1), *tokens]))
