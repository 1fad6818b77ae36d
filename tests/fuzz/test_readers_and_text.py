"""The invariants of tests.fuzz.targets hold for the seeds and for random mutations.
`FUZZ_EXAMPLES=100000` runs longer."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.config import Settings
from server.services import Services
from server.translation.types import TranslationRequest
from tests.fuzz.mutations import mutant
from tests.fuzz.targets import TARGETS
from tests.support.engine.fake_engine import FakeEngine, fake_catalog

MAKEFILE = Path(__file__).parents[2] / "Makefile"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"""Mutants per target; 0 means 1,000 texts and 60 files of each format."""

LEAST_ACCEPTED = {"archive": 0, "json": 1, "yaml": 1}
"""Mutants that must still be readable, so that the check is not empty. Most mutants of strict
formats are not."""


def test_every_target_can_be_fuzzed_for_long() -> None:
    assert f"for target in {' '.join(TARGETS)};" in MAKEFILE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_mutants_keep_the_invariants(name: str) -> None:
    target = TARGETS[name]
    for seed in target.seeds:
        target.check(seed)
    chance = random.Random(name)
    count = EXAMPLES or (1_000 if name == "texts" else 100)
    accepted = sum(target.check(mutant(target.seeds, chance)) for _ in range(count))
    assert accepted >= LEAST_ACCEPTED.get(name, 6)


def test_a_loss_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.targets.split_sentences", lambda text, language, split: [])
    with pytest.raises(AssertionError, match="segmentation"):
        TARGETS["texts"].check(b"\x00\x00Hello world.")


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=200),
    format=st.sampled_from(["text", "html"]),
)
def test_text_that_is_not_translated_is_returned_byte_for_byte(text, format):
    services = Services(Settings(), FakeEngine(), fake_catalog())
    request = TranslationRequest(texts=(text,), source="en", target="en", format=format)
    [done] = asyncio.run(services.translator.translate(request))
    assert done.text.encode() == text.encode()
