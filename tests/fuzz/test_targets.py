"""What is fuzzed holds for the seeds and for a few mutations of them; `python -m tests.fuzz` goes on from there."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.targets import TARGETS, WORDS


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_holds_for_its_seeds_and_small_changes(name: str) -> None:
    chance = random.Random(name)
    target = TARGETS[name]
    for seed in target.seeds:
        target.check(seed)
        for _ in range(20):
            start = chance.randint(0, len(seed))
            end = min(len(seed), start + chance.randint(0, 8))
            target.check(seed[:start] + chance.choice(WORDS) + seed[chance.choice((start, end)) :])


def test_a_loss_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.endurance.fuzz.sentences", lambda text, language, split: [])
    with pytest.raises(AssertionError, match="segmentation"):
        TARGETS["texts"].check(b"\x00\x00Hello world.")
