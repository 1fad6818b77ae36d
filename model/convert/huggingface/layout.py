"""What all families in Hugging Face's layout share: config.json, weights, generation settings."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.config import ConfigError, ModelConfig
from model.convert.huggingface.tokenizer_files import ADDED_TOKENS
from model.convert.huggingface.weights import WEIGHTS, convert_weights, read_weights
from model.convert.source_files import Imported, Source, Tensors, read_object
from model.model_folder import Generation, ImportRefused

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
log = logging.getLogger(__name__)
_WITHOUT_EFFECT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("repetition_penalty", "encoder_repetition_penalty", "guidance_scale", "num_beam_groups"),
        (1,),
    ),
    **dict.fromkeys(
        ("min_length", "min_new_tokens", "encoder_no_repeat_ngram_size", "diversity_penalty"), (0,)
    ),
    **dict.fromkeys(
        ("do_sample", "penalty_alpha", "begin_suppress_tokens", "sequence_bias", "force_words_ids"),
        (),
    ),
    **dict.fromkeys(("exponential_decay_length_penalty", "constraints"), ()),
    "early_stopping": (True,),
}
"""Settings that are not applied, with the values besides null and false that change nothing."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A model without its vocabulary. `first_token` is the first token id of all targets, or
    None."""

    config: ModelConfig
    tensors: Tensors
    generation: Generation
    first_token: Any


def family(
    model_type: str, models: str, read: Callable[[Path], Imported], *tokenizer: tuple[str, ...]
) -> Source:
    """Returns a family of transformers. `tokenizer` lists the files of its tokenizer, as Source's
    `needs`."""

    def recognises(path: Path) -> bool:
        return (path / "config.json").is_file() and read_object(path / "config.json").get(
            "model_type"
        ) == model_type

    return Source(
        sign="config.json (Hugging Face)",
        recognises=recognises,
        read=read,
        needs=(("config.json",), *tokenizer, WEIGHTS),
        others=(
            "target_vocab.json",
            "special_tokens_map.json",
            "generation_config.json",
            "README.md",
            *ADDED_TOKENS,
        ),
        model_type=model_type,
        models=models,
    )


def read_layout(path: Path, first_position: int = 0, **shape: Any) -> Layout:
    """Reads a model except its vocabulary. `shape` are fields of ModelConfig that the family fixes;
    `first_position` is the row of its position tables for the first token. Raises ImportRefused.

    Single tokens of `bad_words_ids` get the output bias SUPPRESSED if the settings renormalize the
    distribution without them.
    """
    fields = read_object(path / "config.json")
    settings = generation_settings(path, fields)
    generation, suppressed = read_generation(path, settings, fields.get("eos_token_id"))
    if settings.get("decoder_start_token_id") is not None:
        fields["decoder_start_token_id"] = settings["decoder_start_token_id"]
    config = read_config(path, fields, shape)
    if any(not 0 <= token < config.vocab_size for token in (*suppressed, *generation.forbidden)):
        raise ImportRefused(
            path, ["bad_words_ids or suppress_tokens holds an id outside the vocabulary"]
        )
    config, tensors = convert_weights(
        path, config, fields, read_weights(path), suppressed, first_position
    )
    return Layout(config, tensors, generation, settings.get("forced_bos_token_id"))


def read_config(path: Path, fields: dict[str, Any], shape: dict[str, Any]) -> ModelConfig:
    """Converts a config of transformers. Raises ImportRefused with all reasons."""
    reasons = _unrepresentable(fields, shape)
    try:
        shared = fields.get("share_encoder_decoder_embeddings", True)
        vocab_size = fields["vocab_size"]
        target_size = vocab_size if shared else fields.get("decoder_vocab_size") or vocab_size
        pad, eos = fields["pad_token_id"], fields["eos_token_id"]
        start = fields.get("decoder_start_token_id", pad)
        if reasons:
            raise ImportRefused(path, reasons)
        return ModelConfig(
            vocab_size=target_size,
            source_vocab_size=None if shared or target_size == vocab_size else vocab_size,
            d_model=fields["d_model"],
            heads=fields["encoder_attention_heads"],
            d_ff=fields["encoder_ffn_dim"],
            encoder_layers=fields["encoder_layers"],
            decoder_layers=fields["decoder_layers"],
            dropout=fields.get("dropout", 0.1),
            activation=_ACTIVATIONS[fields["activation_function"]],  # type: ignore[arg-type]
            positions="sinusoidal_half",
            tied_embeddings=shared and fields.get("tie_word_embeddings", True),
            scale_embeddings=fields.get("scale_embedding", False),
            max_length=fields.get("max_position_embeddings", 512),
            pad_id=pad if pad < min(vocab_size, target_size) else eos,
            unk_id=eos,
            bos_id=start,
            eos_id=eos,
            decoder_start_id=start,
            **shape,
        )
    except KeyError as error:
        raise ImportRefused(path, [*reasons, f"config.json lacks {error.args[0]}"]) from None
    except (ConfigError, TypeError) as error:
        raise ImportRefused(
            path, [*reasons, f"config.json is invalid ({str(error).rstrip('.')})"]
        ) from None


def _unrepresentable(fields: dict[str, Any], shape: dict[str, Any]) -> list[str]:
    """Returns the settings that change the computation, but neither names nor shapes of tensors."""
    reasons = []
    activation = fields.get("activation_function")
    if activation not in _ACTIVATIONS:
        reasons.append(
            f"activation_function {activation!r} is not one of {', '.join(_ACTIVATIONS)}"
        )
    if fields.get("encoder_attention_heads") != fields.get("decoder_attention_heads"):
        reasons.append("encoder_attention_heads and decoder_attention_heads differ")
    if fields.get("normalize_before") and "norm" not in shape:
        reasons.append("normalize_before is not supported")
    return reasons


def generation_settings(path: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings as transformers reads them: config.json (`fields`) counts only without
    generation_config.json."""
    file = path / "generation_config.json"
    return read_object(file) if file.is_file() else fields


def read_generation(path: Path, settings: dict[str, Any], end: Any) -> tuple[Generation, list[int]]:
    """Returns how the model is decoded, and the tokens to suppress by a bias. `end` is the id of
    the end of sentence. Warns about settings that are not applied.

    transformers normalizes a beam's scores before it forbids tokens, and again after it only with
    `renormalize_logits`, for which a bias leaves them out of the distribution.
    """
    forbidden, forced_end = _forbidden(path, settings), settings.get("forced_eos_token_id")
    if forced_end not in (None, end):
        raise ImportRefused(
            path, [f"forced_eos_token_id is {forced_end!r}, which is not the end of sentence"]
        )
    unused = _WITHOUT_EFFECT | {"eos_token_id": (end, [end])}
    ignored = [
        name for name, values in unused.items() if settings.get(name) not in (None, False, *values)
    ]
    shown = [f"{name} {settings[name]!r:.40}" for name in ignored]
    if sequences := [word for word in settings.get("bad_words_ids") or [] if len(word) > 1]:
        shown.append(f"bad_words_ids with {len(sequences)} sequences of several tokens")
    if shown:
        log.warning(
            "%s is imported without these settings of its generation: %s.",
            path.name,
            ", ".join(shown),
        )
    beam, alpha = settings.get("num_beams") or 0, settings.get("length_penalty")
    # the default of transformers
    alpha = 1.0 if alpha is None and type(beam) is int and beam > 1 else alpha
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
    """Returns the single tokens that the settings forbid; longer sequences are not applied."""
    words, tokens = settings.get("bad_words_ids") or [], settings.get("suppress_tokens") or []
    listed = [*words, tokens] if isinstance(words, list) else [None]
    if not all(isinstance(ids, list) and all(type(i) is int for i in ids) for ids in listed):
        raise ImportRefused(
            path,
            ["bad_words_ids is not a list of lists of ids, or suppress_tokens not a list of ids"],
        )
    return list(dict.fromkeys([*(word[0] for word in words if len(word) == 1), *tokens]))
