"""Import from Hugging Face's layout: config.json, weights, source.spm, target.spm, vocab.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from model.config import ConfigError, ModelConfig
from model.convert.huggingface.added_tokens import matched, read_added
from model.convert.huggingface.generation import generation_settings, read_generation
from model.convert.huggingface.multilingual import offset_sinusoids, read_vocabulary
from model.convert.huggingface.weights import convert_weights, read_weights
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Imported,
    ImportRefused,
    check_vocabulary,
    read_object,
    read_optional,
    read_sentencepiece,
)

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


def read_huggingface(path: Path) -> Imported:
    """Reads a MarianMTModel or M2M100ForConditionalGeneration (NLLB, SMaLL-100) in Hugging Face's layout. Raises
    ImportRefused with all reasons.

    Weights come from model.safetensors, else from pytorch_model.bin, in which nothing is executed. Single tokens of
    `bad_words_ids` get the output bias SUPPRESSED if the settings renormalize the distribution without them.
    """
    fields = read_object(path / "config.json")
    check_kind(path, fields.get("model_type"))
    settings = generation_settings(path, fields)
    generation, suppressed = read_generation(path, settings, fields.get("eos_token_id"))
    if settings.get("decoder_start_token_id") is not None:
        fields["decoder_start_token_id"] = settings["decoder_start_token_id"]
    config = read_config(path, fields)
    if any(not 0 <= token < config.vocab_size for token in (*suppressed, *generation.forbidden)):
        raise ImportRefused(path, ["bad_words_ids or suppress_tokens holds an id outside the vocabulary"])
    stored = read_weights(path)
    if fields.get("model_type") == "m2m_100":
        vocabulary = read_vocabulary(path, config)
        config, tensors = convert_weights(path, config, fields, stored, suppressed)
        config = config.replace(unk_id=vocabulary["vocabulary"]["<unk>"], positions="learned")
        tensors["positions.weight"] = offset_sinusoids(config.max_length, config.d_model, config.pad_id)
        return Imported(**vocabulary, config=config, tensors=tensors, generation=generation)
    added = read_added(path)
    unknown_id, source_vocabulary, target_vocabulary = _vocabularies(path, config, added)
    config, tensors = convert_weights(path, config, fields, stored, suppressed)
    config = config.replace(unk_id=unknown_id)
    names = read_optional(path / "tokenizer_config.json")
    source, target = (
        names.get(key) if isinstance(names.get(key), str) else None for key in ("source_lang", "target_lang")
    )
    return Imported(
        config=config,
        tensors=tensors,
        source_pieces=read_sentencepiece(path / "source.spm"),
        target_pieces=read_sentencepiece(path / "target.spm"),
        vocabulary=source_vocabulary,
        target_vocabulary=target_vocabulary,
        languages=(source, target),
        generation=generation,
        added=matched(added),
        first_piece=_first_piece(path, settings.get("forced_bos_token_id"), target_vocabulary or source_vocabulary),
    )


def check_kind(path: Path, kind: Any) -> None:
    """Raises ImportRefused for models of other architectures than those of the model_types that are supported."""
    if kind in ("marian", "m2m_100"):
        return
    stated = "a model without a model_type" if kind is None else f"a model of the model_type {str(kind)[:40]!r}"
    supported = "marian (OPUS-MT) and m2m_100 (M2M100, NLLB-200, SMaLL-100)"
    instead = "for many languages use facebook/m2m100_418M or facebook/nllb-200-distilled-600M in its place"
    raise ImportRefused(
        path, [f"it is {stated} in Hugging Face's layout, of which {supported} are supported; {instead}"]
    )


def read_config(path: Path, fields: dict[str, Any]) -> ModelConfig:
    """Converts a MarianConfig or M2M100Config to a ModelConfig. Raises ImportRefused with all reasons."""
    reasons = _unrepresentable(fields)
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
            norm="pre" if fields["model_type"] == "m2m_100" else "post",
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
        )
    except KeyError as error:
        raise ImportRefused(path, [*reasons, f"config.json lacks {error.args[0]}"]) from None
    except (ConfigError, TypeError) as error:
        raise ImportRefused(path, [*reasons, f"config.json is invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(fields: dict[str, Any]) -> list[str]:
    """Returns the settings that change the computation, but neither the names nor the shapes of the tensors."""
    reasons = []
    activation = fields.get("activation_function")
    if activation not in _ACTIVATIONS:
        reasons.append(f"activation_function {activation!r} is not one of {', '.join(_ACTIVATIONS)}")
    if fields.get("encoder_attention_heads") != fields.get("decoder_attention_heads"):
        reasons.append("encoder_attention_heads and decoder_attention_heads differ")
    if fields.get("normalize_before") and fields.get("model_type") != "m2m_100":
        reasons.append("normalize_before is not supported")
    return reasons


def _first_piece(path: Path, token: Any, vocabulary: dict[str, int]) -> str | None:
    """Returns the piece of the forced first token of all targets, None for none."""
    piece = next((piece for piece, i in vocabulary.items() if i == token), None)
    if token is not None and piece is None:
        raise ImportRefused(path, [f"forced_bos_token_id is {token!r}, which is not in the vocabulary"])
    return piece


def _vocabularies(
    path: Path, config: ModelConfig, added: dict[str, dict[str, Any]]
) -> tuple[int, dict[str, int], dict[str, int] | None]:
    """Returns the id of <unk> on the target side, vocab.json with the `added` tokens, and target_vocab.json or None."""
    source_size = config.source_vocab_size or config.vocab_size
    file, target_file = path / "vocab.json", path / "target_vocab.json"
    more = {token: entry["id"] for token, entry in added.items()}
    source = check_vocabulary(file, more | read_object(file, most=MAX_VOCABULARY_BYTES), source_size)
    target = None
    if target_file.is_file():
        target = check_vocabulary(target_file, read_object(target_file, most=MAX_VOCABULARY_BYTES), config.vocab_size)
    elif config.source_vocab_size is not None:
        raise ImportRefused(path, ["its vocabularies have different sizes, but there is no target_vocab.json"])
    written = target or source
    if written["</s>"] != config.eos_id:
        raise ImportRefused(path, [f"</s> is {written['</s>']} in the vocabulary and {config.eos_id} in config.json"])
    return written["<unk>"], source, target
