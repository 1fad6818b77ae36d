"""Tests of the forced first target token, which no target, score or map shows."""

from __future__ import annotations

import numpy as np
import pytest

from model.backends.torch.attention_maps import attention_maps
from model.backends.torch.backend import TorchBackend
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from tests.support.models.random_models import random_model

SOURCES = [(5, 9, 20, 3), (7, 3), (12, 30, 8, 41, 3)]
FIRST = 17


def decoded(
    options: DecodingOptions, start: int, max_length: int = 64
) -> list[tuple[Hypothesis, ...]]:
    model = random_model()
    config = model.config.replace(decoder_start_id=start, max_length=max_length)
    return translate(TorchBackend(model, 12), SOURCES, options, config)


@pytest.mark.parametrize("beam", [1, 3])
def test_it_is_read_before_the_target_and_costs_nothing(beam: int) -> None:
    """Forcing the same token as a prefix gives the same greedy targets, with the token in them."""
    hidden = decoded(DecodingOptions(beam_size=beam, first_token=FIRST, loop_guard=True), start=2)
    for listed in hidden:
        assert len(listed[0].token_scores) - len(listed[0].tokens) in (0, 1)
    if beam == 1:
        hidden = decoded(DecodingOptions(first_token=FIRST, max_length=20), start=2)
        shown = decoded(DecodingOptions(prefix=(FIRST,), max_length=21), start=2)
        for one, other in zip(hidden, shown, strict=True):
            length = len(one[0].tokens)
            assert (FIRST, *one[0].tokens) == other[0].tokens
            assert one[0].token_scores[:length] == pytest.approx(
                other[0].token_scores[1 : length + 1], abs=1e-5
            )


def test_it_takes_one_of_the_models_positions_and_none_of_the_requests() -> None:
    for limit, options in (
        (6, DecodingOptions(first_token=FIRST)),
        (64, DecodingOptions(first_token=FIRST, max_length=5)),
    ):
        assert max(len(listed[0].token_scores) for listed in decoded(options, 2, limit)) == 5


def test_maps_do_not_show_it() -> None:
    model = random_model()
    target = (8, 9, 10)
    head = ("decoder", 0, 1)
    whole = attention_maps(model, SOURCES[0], (FIRST, *target), (), head)
    shown = whole.without_first_token(head)
    assert (
        shown.cross.shape[2] == shown.decoder.shape[2] == shown.decoder.shape[3] == len(target) + 1
    )
    np.testing.assert_allclose(shown.decoder.sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(shown.decoder[..., 1:], whole.decoder[..., 1:, 2:])
    np.testing.assert_array_equal(shown.token_scores, whole.token_scores[1:])
    assert (
        shown.vectors is not None
        and shown.vectors.query.shape[0] == shown.vectors.key.shape[0] == 4
    )
