"""A translation has the requested form of address if the search finds one that has it."""

from __future__ import annotations

import dataclasses

import pytest

from model.search.options import Hypothesis
from server.engine.ipc.messages import JobResult
from server.translation.catalog import ModelCatalog
from tests.support.engine.fake_engine import FakeEngine, FakeTokenizer, fake_model
from tests.support.engine.translating import translated

FORMAL, INFORMAL, NONE = "Wo wohnen Sie?", "Wo wohnst du?", "Wo wohnt man?"
BOTH = "Wo wohnen Sie mit deinem Hund?"


class Listed(FakeEngine):
    """Finds these translations of every text, best first, each 0.2 less likely than the one
    before."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.found = [
            Hypothesis(FakeTokenizer().encode_target(text), (-0.2 * i,), -0.2 * i, "stop")
            for i, text in enumerate(texts)
        ]

    async def _translate(self, ids, options, on_progress) -> JobResult:
        answer = await super()._translate(ids, options, on_progress)
        return dataclasses.replace(answer, hypotheses=tuple(self.found[: options.hypotheses]))


@pytest.mark.parametrize(
    ("formality", "found", "expected", "searches"),
    [
        ("<informal>", (FORMAL, NONE, INFORMAL), INFORMAL, 2),
        ("<formal>", (INFORMAL, FORMAL), FORMAL, 2),
        ("<formal>", (FORMAL, INFORMAL), FORMAL, 1),
        ("<informal>", (NONE, INFORMAL), NONE, 1),  # addresses nobody
        ("<informal>", (FORMAL, NONE), FORMAL, 2),
        ("<informal>", (FORMAL, NONE, NONE + "x", INFORMAL), FORMAL, 2),  # too unlikely
        ("<informal>", (BOTH, FORMAL, INFORMAL), INFORMAL, 2),
        ("<formal>", (BOTH, NONE, FORMAL), FORMAL, 2),
        ("<formal>", (BOTH, NONE), BOTH, 2),
        (None, (FORMAL, INFORMAL), FORMAL, 1),
        (None, (BOTH, FORMAL), BOTH, 1),
    ],
)
def test_the_likeliest_translation_with_the_requested_form_is_chosen(
    formality, found, expected, searches
):
    engine = Listed(*found)
    catalog = ModelCatalog([dataclasses.replace(fake_model(), formality=frozenset({"de"}))])
    assert (
        translated(engine, "Where do you live?", "en", "de", catalog, formality=formality).text
        == expected
    )
    assert len(engine.submitted) == searches
