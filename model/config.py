"""The shape of a Transformer: a frozen, validated object, stored as JSON beside the weights."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

Norm = Literal["post", "pre"]
Activation = Literal["relu", "swish", "gelu"]
Recurrence = Literal["none", "ssru"]
Positions = Literal["sinusoidal", "sinusoidal_half", "learned", "learned_per_side"]


_MAX_SIZES = {
    "vocab_size": 4_000_000,
    "source_vocab_size": 4_000_000,
    "d_model": 32_768,
    "heads": 1024,
    "d_ff": 262_144,
    "encoder_layers": 256,
    "decoder_layers": 256,
    "max_length": 65_536,
}
"""Largest accepted sizes; a config.json beyond them is broken or malicious."""

_IDS = ("pad_id", "unk_id", "bos_id", "eos_id", "decoder_start_id")

REMOVED_FIELD = ("window", None)
"""In the config.json of earlier versions."""


class ConfigError(ValueError):
    """The model shape is invalid. The message names the field to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Shape of an encoder-decoder Transformer ("Attention Is All You Need"). The defaults are the
    base model of table 3.

    Sizes are in features, layers, heads, tokens. `source_vocab_size` is None when source and target
    share one vocabulary. `tied_embeddings` ties source embedding, target embedding and output
    projection (section 3.4); when False each has its own matrix. Raises ConfigError for invalid or
    contradictory fields.
    """

    vocab_size: int
    source_vocab_size: int | None = None
    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    encoder_layers: int = 6
    decoder_layers: int = 6
    dropout: float = 0.1
    norm: Norm = "post"
    activation: Activation = "relu"
    positions: Positions = "sinusoidal"
    tied_embeddings: bool = True
    scale_embeddings: bool = True
    output_bias: bool = False
    max_length: int = 512
    norm_epsilon: float = 1e-5
    pad_id: int = 0
    unk_id: int = 1
    bos_id: int = 2
    eos_id: int = 3
    decoder_start_id: int = 2
    embedding_norm: bool = False
    """A LayerNorm of each side after embeddings and positions, before the first layer (mBART)."""
    zero_start_embedding: bool = False
    """The decoder's first input is a zero vector instead of the embedding of `decoder_start_id`
    (Marian)."""
    recurrence: Recurrence = "none"
    """`ssru`: decoder layers have a recurrent unit (`SSRU` of model/layers.py) in place of
    self-attention (Firefox, Bergamot)."""

    def __post_init__(self) -> None:
        self._check_types()
        if self.d_model % self.heads:
            raise ConfigError(f"d_model {self.d_model} must be divisible by heads {self.heads}.")
        kinds = {
            "norm": Norm,
            "activation": Activation,
            "positions": Positions,
            "recurrence": Recurrence,
        }
        for name, kind in kinds.items():
            if getattr(self, name) not in get_args(kind):
                raise ConfigError(
                    f"{name} must be one of {', '.join(get_args(kind))}, not "
                    f"{getattr(self, name)!r}."
                )
        if self.positions.startswith("sinusoidal") and self.d_model % 2:
            raise ConfigError(f"sinusoidal positions need an even d_model, not {self.d_model}.")
        if self.source_vocab_size is not None and self.tied_embeddings:
            raise ConfigError(
                "tied_embeddings needs one shared vocabulary: leave source_vocab_size null."
            )
        for name in _IDS:
            if not 0 <= getattr(self, name) < self.vocab_size:
                raise ConfigError(
                    f"{name} {getattr(self, name)!r} is outside the vocabulary of "
                    f"{self.vocab_size}."
                )

    def _check_types(self) -> None:
        """Checks each field by itself: values from a file may have any type."""
        for name, most in _MAX_SIZES.items():
            value = getattr(self, name)
            if value is None and name == "source_vocab_size":
                continue
            if type(value) is not int or not 1 <= value <= most:
                raise ConfigError(f"{name} must be an integer from 1 to {most}, not {value!r}.")
        for name in _IDS:
            if type(getattr(self, name)) is not int:
                raise ConfigError(f"{name} must be an integer, not {getattr(self, name)!r}.")
        for name in (
            "tied_embeddings",
            "scale_embeddings",
            "output_bias",
            "embedding_norm",
            "zero_start_embedding",
        ):
            if type(getattr(self, name)) is not bool:
                raise ConfigError(f"{name} must be true or false, not {getattr(self, name)!r}.")
        if type(self.dropout) not in (int, float) or not 0.0 <= self.dropout < 1.0:
            raise ConfigError(f"dropout must be in [0, 1), not {self.dropout!r}.")
        if type(self.norm_epsilon) not in (int, float) or not 0.0 < self.norm_epsilon < 1.0:
            raise ConfigError(f"norm_epsilon must be in (0, 1), not {self.norm_epsilon!r}.")

    @property
    def head_dim(self) -> int:
        """Width D of a head: d_model / heads."""
        return self.d_model // self.heads

    @property
    def decoder_heads(self) -> int:
        """Number of heads of the decoder's self-attention: 0 with a recurrence."""
        return self.heads if self.recurrence == "none" else 0

    def replace(self, **changes: Any) -> Self:
        """Returns a validated copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def from_dict(cls, fields: Any) -> Self:
        """Returns the config of a JSON object. Raises ConfigError, which names unknown, missing and
        invalid fields."""
        if not isinstance(fields, dict):
            raise ConfigError("config.json must hold an object.")
        names = {field.name for field in dataclasses.fields(cls)}
        fields = {name: value for name, value in fields.items() if (name, value) != REMOVED_FIELD}
        if unknown := sorted(set(fields) - names):
            raise ConfigError(f"config.json has unknown fields: {', '.join(map(str, unknown))}.")
        if "vocab_size" not in fields:
            raise ConfigError("config.json lacks vocab_size.")
        return cls(**fields)


def base(vocab_size: int, **changes: Any) -> ModelConfig:
    """Returns the paper's base model: N=6, d_model 512, h=8, d_ff 2048, dropout 0.1."""
    return ModelConfig(vocab_size=vocab_size, **changes)


def big(vocab_size: int, **changes: Any) -> ModelConfig:
    """Returns the paper's big model: d_model 1024, h=16, d_ff 4096, dropout 0.3."""
    return ModelConfig(
        **{"d_model": 1024, "heads": 16, "d_ff": 4096, "dropout": 0.3, **changes},
        vocab_size=vocab_size,
    )


def small(vocab_size: int, **changes: Any) -> ModelConfig:
    """Returns a model for training on a CPU: a deep encoder, and a shallow decoder for fast
    decoding."""
    shape = {
        "d_model": 256,
        "heads": 4,
        "d_ff": 1024,
        "encoder_layers": 6,
        "decoder_layers": 3,
        "dropout": 0.1,
    }
    return ModelConfig(**{**shape, **changes}, vocab_size=vocab_size)


PRESETS = {"base": base, "big": big, "small": small}
