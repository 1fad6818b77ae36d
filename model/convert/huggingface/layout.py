"""What the models of all families in Hugging Face's layout share: config.json, weights, settings of generation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.config import ConfigError, ModelConfig
from model.convert.huggingface.added_tokens import FILES as ADDED
from model.convert.huggingface.generation import generation_settings, read_generation
from model.convert.huggingface.weights import WEIGHTS, convert_weights, read_weights
from model.convert.source import Source
from model.convert.source_files import Imported, ImportRefused, Tensors, read_object
from model.model_folder import Generation

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}


@dataclass(frozen=True, slots=True)
class Layout:
    """A model without its vocabulary. `first_token` is the id of the first token of all targets, or None."""

    config: ModelConfig
    tensors: Tensors
    generation: Generation
    first_token: Any


def family(model_type: str, models: str, read: Callable[[Path], Imported], *tokenizer: tuple[str, ...]) -> Source:
    """Returns a family of transformers. `tokenizer` are the files of its tokenizer, as `needs` of Source."""

    def recognises(path: Path) -> bool:
        return (path / "config.json").is_file() and read_object(path / "config.json").get("model_type") == model_type

    return Source(
        sign="config.json (Hugging Face)",
        recognises=recognises,
        read=read,
        needs=(("config.json",), *tokenizer, WEIGHTS),
        others=("target_vocab.json", "special_tokens_map.json", "generation_config.json", "README.md", *ADDED),
        model_type=model_type,
        models=models,
    )


def read_layout(path: Path, first_position: int = 0, **shape: Any) -> Layout:
    """Reads a model except its vocabulary. `shape` are the fields of ModelConfig that all models of the family have;
    `first_position` is the row of its position tables that belongs to the first token. Raises ImportRefused.

    Weights come from model.safetensors, else from pytorch_model.bin, in which nothing is executed. Single tokens of
    `bad_words_ids` get the output bias SUPPRESSED if the settings renormalize the distribution without them.
    """
    fields = read_object(path / "config.json")
    settings = generation_settings(path, fields)
    generation, suppressed = read_generation(path, settings, fields.get("eos_token_id"))
    if settings.get("decoder_start_token_id") is not None:
        fields["decoder_start_token_id"] = settings["decoder_start_token_id"]
    config = read_config(path, fields, shape)
    if any(not 0 <= token < config.vocab_size for token in (*suppressed, *generation.forbidden)):
        raise ImportRefused(path, ["bad_words_ids or suppress_tokens holds an id outside the vocabulary"])
    config, tensors = convert_weights(path, config, fields, read_weights(path), suppressed, first_position)
    return Layout(config, tensors, generation, settings.get("forced_bos_token_id"))


def read_config(path: Path, fields: dict[str, Any], shape: dict[str, Any]) -> ModelConfig:
    """Converts a config of transformers to a ModelConfig. Raises ImportRefused with all reasons."""
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
        raise ImportRefused(path, [*reasons, f"config.json is invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(fields: dict[str, Any], shape: dict[str, Any]) -> list[str]:
    """Returns the settings that change the computation, but neither the names nor the shapes of the tensors."""
    reasons = []
    activation = fields.get("activation_function")
    if activation not in _ACTIVATIONS:
        reasons.append(f"activation_function {activation!r} is not one of {', '.join(_ACTIVATIONS)}")
    if fields.get("encoder_attention_heads") != fields.get("decoder_attention_heads"):
        reasons.append("encoder_attention_heads and decoder_attention_heads differ")
    if fields.get("normalize_before") and "norm" not in shape:
        reasons.append("normalize_before is not supported")
    return reasons
