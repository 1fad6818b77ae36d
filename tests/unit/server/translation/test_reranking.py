"""Reranking: which hypotheses are scored, by what, and in which order they come out."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from model.search.options import DecodingOptions, Hypothesis
from server.engine.client.status import WorkerFailure
from server.engine.ipc.messages import JobResult
from server.translation.candidates import MARGIN, MOST, WEIGHT
from server.translation.catalog import ModelCatalog
from server.translation.types import OnFlag, Translation
from tests.support.engine.fake_engine import FIRST, TAGS, FakeEngine, FakeTokenizer, fake_model
from tests.support.engine.translating import measured, translated


class TwoWays(FakeEngine):
    """Translates everything to the hypotheses `forward` (text -> score); `backward` has the score
    of the source as translation of each."""

    def __init__(self, forward: dict[str, float], backward: dict[str, float]) -> None:
        super().__init__()
        self.forward, self.backward = forward, backward

    async def _translate(self, ids, options, on_progress) -> JobResult:
        answer = await super()._translate(ids, options, on_progress)
        text = FakeTokenizer().decode([i for i in ids if i >= FIRST])
        if options.target is None:
            ranked = sorted(self.forward.items(), key=lambda item: -item[1])[: options.hypotheses]
            found = [
                Hypothesis(FakeTokenizer().encode_target(one), (score,), score, "stop")
                for one, score in ranked
            ]
        else:
            found = [dataclasses.replace(answer.hypotheses[0], score=self.backward[text])]
        return dataclasses.replace(answer, hypotheses=tuple(found))

    @property
    def scored(self) -> list[tuple[int, str, str]]:
        """The tag, the source and the target of each job that was only scored."""
        decode = FakeTokenizer().decode
        return [
            (ids[0], decode([i for i in ids if i >= FIRST]), decode(options.target))
            for _, ids, options, _, _ in self.submitted
            if options.target is not None
        ]


def translate(
    engine: FakeEngine,
    catalog: ModelCatalog | None = None,
    text: str = "das Haus",
    on_flag: OnFlag = "mark",
    **options: Any,
) -> Translation:
    chosen = DecodingOptions(**{"beam_size": 4, "rerank": True} | options)
    return translated(engine, text, "de", "en", catalog, options=chosen, on_flag=on_flag)


def hypotheses(translation: Translation) -> list[tuple[str, Any]]:
    [sentence] = translation.legs[0].sentences
    return list(zip(sentence.targets, [one.score for one in sentence.hypotheses], strict=True))


def test_the_hypothesis_that_both_directions_like_best_is_chosen():
    engine = TwoWays(
        {"home": -1.0, "house": -1.1, "hut": -1.2}, {"home": -4.0, "house": -2.0, "hut": -3.0}
    )
    translation = translate(engine)
    assert (
        translation.text == "house"
        and translation.legs[0].reranked
        and translation.legs[0].beam_size == 4
    )
    assert hypotheses(translation) == [("house", pytest.approx(-1.1 - WEIGHT * 2.0))]
    assert sorted(engine.scored) == [
        (TAGS["de"], one, "das Haus") for one in ("home", "house", "hut")
    ]


@pytest.mark.parametrize(("backward", "first"), [(-2.0, "other"), (-9.0, "search")])
def test_reranked_sentences_are_counted_by_what_came_first(backward, first):
    engine = TwoWays({"home": -1.0, "house": -1.1}, {"home": -4.0, "house": backward})
    options = DecodingOptions(beam_size=4, rerank=True)
    _, metrics = measured(engine, "das Haus", "de", "en", options=options)
    assert f'attentive_sentences_reranked_total{{first="{first}"}} 1.0' in metrics


def test_masked_heads_are_switched_off_in_both_directions():
    engine = TwoWays({"home": -1.0, "house": -1.1}, {"home": -4.0, "house": -2.0})
    heads = (("cross", 0, 1),)
    translate(engine, masked_heads=heads)
    assert len(engine.scored) == 2
    assert {options.masked_heads for _, _, options, _, _ in engine.submitted} == {heads}


def test_metrics_count_the_translation_and_not_the_scores():
    engine = TwoWays({"home": -1.0, "house": -1.1}, {"home": -4.0, "house": -2.0})
    _, metrics = measured(
        engine, "das Haus", "de", "en", options=DecodingOptions(beam_size=4, rerank=True)
    )
    assert len(engine.scored) == 2
    assert 'attentive_request_success_total{finish_reason="stop"} 1.0' in metrics


def test_the_timings_count_the_score():
    forward = {"home": -1.0, "house": -1.1}
    plain, reranked = [
        translate(TwoWays(forward, {"home": -4.0, "house": -2.0}), rerank=on).timings
        for on in (0, 1)
    ]
    assert reranked.queue + reranked.encode + reranked.decode == pytest.approx(
        2 * (plain.queue + plain.encode + plain.decode)
    )
    assert reranked.first_token == plain.first_token


def test_improbable_hypotheses_are_scored_only_as_alternatives_and_are_never_the_best():
    forward = {"home": -1.0, "house": -1.0 - MARGIN / 2, "hut": -1.1 - MARGIN}
    backward = {"home": -1.0, "house": -1.0, "hut": 9.0}
    engine = TwoWays(forward, backward)
    assert translate(engine).text == "home"
    assert len(engine.scored) == 2
    engine = TwoWays(forward, backward)
    assert [text for text, _ in hypotheses(translate(engine, hypotheses=3))] == [
        "home",
        "hut",
        "house",
    ]
    assert len(engine.scored) == 3


def test_a_copy_of_the_source_is_chosen_only_if_the_search_chose_it():
    backward = {"home": -1.0, "das haus": 0.0, "hut": -3.0}
    engine = TwoWays({"home": -1.0, "das haus": -1.1, "hut": -1.2}, backward)
    assert [text for text, _ in hypotheses(translate(engine, hypotheses=3))] == [
        "home",
        "hut",
        "das haus",
    ]
    engine = TwoWays({"das haus": -1.0, "home": -1.1, "hut": -1.2}, backward)
    assert [text for text, _ in hypotheses(translate(engine, hypotheses=3))] == [
        "das haus",
        "home",
        "hut",
    ]


@pytest.mark.parametrize(("wanted", "compared"), [(1, MOST), (2, MOST), (6, 6)])
def test_few_hypotheses_are_compared(wanted, compared):
    forward = {f"house {i}": -1.0 - i / 100 for i in range(8)}
    engine = TwoWays(forward, {text: 20 * score for text, score in forward.items()})
    assert len(hypotheses(translate(engine, beam_size=8, hypotheses=wanted))) == wanted
    assert sorted(source for _, source, _ in engine.scored) == [
        f"house {i}" for i in range(compared)
    ]


@pytest.mark.parametrize("options", [{"rerank": False}, {"beam_size": 1}])
def test_nothing_is_scored_without_reranking(options):
    engine = TwoWays({"home": -1.0, "house": -1.1}, {"home": -4.0, "house": -2.0})
    translation = translate(engine, **options)
    assert (translation.text, translation.legs[0].reranked, engine.scored) == ("home", False, [])


def test_hypotheses_that_the_model_cannot_read_keep_their_order():
    engine = TwoWays({"h" * 40: -1.0, "house": -1.1}, {"h" * 40: -4.0, "house": -2.0})
    catalog = ModelCatalog([dataclasses.replace(fake_model(), max_length=30)])
    assert translate(engine, catalog).text == "h" * 40 and not engine.scored


def test_a_failed_score_fails_the_sentence_and_leaves_no_job():
    engine = TwoWays({"home": -1.0, "house": -1.1}, {"home": -4.0, "house": -2.0})
    engine.failures["house"] = WorkerFailure("internal", "The model could not process this text.")
    with pytest.raises(Exception, match="could not"):
        translate(engine)


def test_a_retry_is_reranked_in_a_wider_beam():
    text = "Das Haus steht dort drüben"
    engine = TwoWays(
        {text: -1.0, "The house is over there": -1.1}, {text: -2.0, "The house is over there": -3.0}
    )
    assert hypotheses(translate(engine, text=text, on_flag="retry")) == [
        (text, pytest.approx(-1.0 - WEIGHT * 2.0))
    ]
    assert [
        options.beam_size for _, _, options, _, _ in engine.submitted if options.target is None
    ] == [4, 8]


def test_a_retry_with_one_hypothesis_is_compared_by_the_score_of_the_search():
    text = "Das Haus steht dort drüben"

    class Worse(TwoWays):
        """The retry finds one hypothesis, which is less probable."""

        async def _translate(self, ids, options, on_progress) -> JobResult:
            if options.no_repeat_ngram_size:
                self.forward = {text: -1.3}
            return await super()._translate(ids, options, on_progress)

    engine = Worse(
        {text: -1.0, "The house is over there": -1.1}, {text: -2.0, "The house is over there": -3.0}
    )
    assert hypotheses(translate(engine, text=text, on_flag="retry")) == [
        (text, pytest.approx(-1.0 - WEIGHT * 2.0))
    ]
    assert any(options.no_repeat_ngram_size for _, _, options, _, _ in engine.submitted)
