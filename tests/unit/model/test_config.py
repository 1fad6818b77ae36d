"""Tests of ModelConfig: validation, immutability and conversion to and from JSON."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from model.config import PRESETS, ConfigError, ModelConfig, base, big, small
from tests.support.models.random_models import VARIANTS, random_model


@pytest.mark.parametrize("variant", VARIANTS)
def test_json_round_trip(variant: str) -> None:
    config = random_model(variant).config
    assert ModelConfig.from_dict(json.loads(json.dumps(dataclasses.asdict(config)))) == config


def test_presets_have_the_sizes_of_the_paper() -> None:
    assert (base(100).d_model, base(100).heads, base(100).d_ff, base(100).dropout) == (512, 8, 2048, 0.1)
    assert (base(100).encoder_layers, base(100).decoder_layers) == (6, 6)
    assert (big(100).d_model, big(100).heads, big(100).d_ff, big(100).dropout) == (1024, 16, 4096, 0.3)
    assert small(100).d_model < base(100).d_model
    assert small(100, d_ff=77).d_ff == 77
    assert all(preset(100).vocab_size == 100 for preset in PRESETS.values())


def test_config_is_immutable_and_replace_validates() -> None:
    config = base(100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 4  # type: ignore[misc]
    assert config.replace(heads=4).heads == 4
    with pytest.raises(ConfigError):
        config.replace(heads=7)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"vocab_size": 0}, "vocab_size"),
        ({"vocab_size": True}, "vocab_size"),
        ({"vocab_size": 10**12}, "vocab_size"),
        ({"d_model": "512"}, "d_model"),
        ({"d_model": 30, "heads": 4}, "heads"),
        ({"encoder_layers": 10**9}, "encoder_layers"),
        ({"decoder_layers": 1.5}, "decoder_layers"),
        ({"max_length": 10**9}, "max_length"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": "no"}, "dropout"),
        ({"norm": "middle"}, "norm"),
        ({"activation": "tanh"}, "activation"),
        ({"positions": "none"}, "positions"),
        ({"positions": "rotary"}, "positions"),
        ({"positions": "sinusoidal", "d_model": 9, "heads": 1}, "sinusoidal"),
        ({"norm_epsilon": 0}, "norm_epsilon"),
        ({"source_vocab_size": 50}, "tied_embeddings"),
        ({"source_vocab_size": -5, "tied_embeddings": False}, "source_vocab_size"),
        ({"tied_embeddings": 1}, "tied_embeddings"),
        ({"eos_id": 100}, "eos_id"),
        ({"pad_id": -1}, "pad_id"),
        ({"decoder_start_id": None}, "decoder_start_id"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_errors_name_the_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        ModelConfig.from_dict({"vocab_size": 100, **fields})


@pytest.mark.parametrize("fields", [[], None, "text", {}, {"d_model": 64}])
def test_values_that_are_not_a_config_are_rejected(fields: Any) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        ModelConfig.from_dict(fields)
