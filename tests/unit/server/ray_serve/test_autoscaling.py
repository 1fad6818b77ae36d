"""Replicas in proportion to the waiting tokens."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from server.ray_serve.options import WAITING_TOKENS, WaitingTokens


def context(*tokens: float, running: int, target: int = 1) -> SimpleNamespace:
    reports = {WAITING_TOKENS: {f"replica-{i}": value for i, value in enumerate(tokens)}} if tokens else {}
    return SimpleNamespace(aggregated_metrics=reports, current_num_replicas=running, target_num_replicas=target)


@pytest.mark.parametrize(
    ("tokens", "running", "replicas"),
    [((0, 0), 2, 0), ((1000, 3000), 2, 1), ((4000,), 1, 1), ((8000, 8000), 2, 4), ((6000, 2000), 4, 4)],
)
def test_replicas_follow_the_waiting_tokens(tokens: tuple[float, ...], running: int, replicas: float) -> None:
    assert WaitingTokens(4000)(context(*tokens, running=running)) == (replicas, {})
    assert WaitingTokens(4000)(context(running=3, target=3)) == (3, {})  # without a report the number stays
