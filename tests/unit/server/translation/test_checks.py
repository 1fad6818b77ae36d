"""Flags, confidence and what happens to a flagged sentence, on the fake engine, which reverses
every sentence."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from model.analysis.confidence import Confidence, DirectionLimits, Quality
from model.model_folder import find_folders, read_folder
from model.search.options import DecodingOptions, Hypothesis
from server.engine.client.status import WorkerFailure
from server.engine.ipc.messages import JobResult
from server.translation.catalog import ModelCatalog
from server.translation.sentence import rows
from server.translation.types import NO_TIMINGS, Translation, TranslationRequest
from tests.support.engine.fake_engine import FIRST, FakeEngine, fake_catalog, fake_model
from tests.support.engine.translating import measured

LIMITS = DirectionLimits((2.0, 3.0, 0.0, 0.0), 0.1, -0.5, 0.8, Quality(50, 0.7, 0.6, 0.05, 0.8))
TEXT = "The committee decided to wait until the summer."


class WritingEngine(FakeEngine):
    """Writes given texts instead of the reverse: `written` for a narrow beam, `retried` for a wide
    one."""

    def __init__(self, written: str, retried: str = "", finish: str = "stop") -> None:
        super().__init__()
        self.written, self.retried, self.finish = written, retried or written, finish

    async def _translate(self, ids, options, on_progress) -> JobResult:
        text = self.retried if options.beam_size > 1 else self.written
        tokens = tuple(FIRST + ord(character) for character in text)
        scores = (-0.1,) * (len(tokens) + 1)
        return JobResult(
            0, (Hypothesis(tokens, scores, -0.1, self.finish),), NO_TIMINGS, len(scores)
        )


def catalog(limits: DirectionLimits | None = LIMITS) -> ModelCatalog:
    if limits is None:
        return fake_catalog()
    confidence = Confidence("hash", dict.fromkeys(("en-de", "de-en", "en-fr", "fr-en"), limits))
    return ModelCatalog([dataclasses.replace(fake_model(), confidence=confidence)])


def translate(
    engine: FakeEngine, text: str = TEXT, limits: DirectionLimits | None = LIMITS, **fields
) -> tuple[Translation, str]:
    """Returns the translation and the metrics after it."""

    asked = {"source": "en", "target": "de"} | fields
    return measured(engine, text, catalog=catalog(limits), **asked)


def flags_of(engine: FakeEngine, text: str = TEXT, **fields) -> frozenset[str]:
    """Returns the flags of the first sentence."""
    return translate(engine, text, **fields)[0].legs[0].sentences[0].flags


FOLDERS = find_folders(Path(__file__).resolve().parents[4] / "weights")
GERMAN = "Das Komitee hat entschieden, bis zum Sommer zu warten."


@pytest.mark.parametrize(
    ("written", "flags"),
    [
        (GERMAN, set()),
        (
            "Das Komitee hat, das Komitee hat, das Komitee hat entschieden zu warten.",
            {"repetition"},
        ),
        (TEXT, {"copied"}),
        (
            "Le comité a décidé hier que ces règles seront appliquées dans tous les pays.",
            {"wrong_language"},
        ),
        ("Das Komitee hat", {"truncated"}),
    ],
)
def test_each_flag_by_text(written, flags):
    translation, metrics = translate(WritingEngine(written))
    [sentence] = translation.legs[0].sentences
    assert sentence.flags - {"omission"} == flags
    for flag in flags:
        assert f'attentive_sentences_flagged_total{{reason="{flag}"}} 1.0' in metrics


def test_a_lost_number_has_a_flag():
    translation, metrics = translate(
        WritingEngine("Das Haus hat 12 Zimmer."), "The house has 120 rooms."
    )
    assert translation.legs[0].sentences[0].flags >= {"number"}
    assert 'attentive_sentences_flagged_total{reason="number"} 1.0' in metrics
    assert "number" not in flags_of(WritingEngine("Klicke hier"), "Click <0>here</0> {1}st")


@pytest.mark.parametrize(("source", "written", "flag"), [
    ("La riunione di domani è stata spostata al pomeriggio.", "Das Treffen wurde verschoben.", "source_language"),
    ("My sister forgot her three umbrellas.", "Meine Schwester vergaß ihre drei Regenschirme.", None),
])  # fmt: skip
def test_the_language_of_the_source_is_checked(source, written, flag):
    engine, flags = WritingEngine(written), {flag} if flag else set()
    assert flags_of(engine, source, thorough=True) - {"omission"} == flags
    assert flags_of(engine, source) == flags


def test_a_low_confidence_is_a_flag_and_no_reason_to_translate_again():
    unsure = dataclasses.replace(LIMITS, coefficients=(-2.0, 3.0, 0.0, 0.0))
    engine = WritingEngine(GERMAN)
    translation, metrics = translate(engine, limits=unsure, on_flag="retry")
    assert (
        translation.legs[0].sentences[0].flags == {"low_confidence"} and len(engine.submitted) == 1
    )
    assert 'attentive_sentences_flagged_total{reason="low_confidence"} 1.0' in metrics


def test_a_target_that_reaches_the_length_limit_is_truncated():
    assert flags_of(WritingEngine(GERMAN, finish="length"), limits=None) == {"truncated"}


def test_an_empty_translation_is_a_copy():
    translation, _ = translate(WritingEngine(" "))
    assert translation.text == TEXT and translation.legs[0].sentences[0].flags == {"copied"}


@pytest.mark.parametrize("text", ["42", "Berlin", "https://example.org/1", "{name}", "OK!", "Tom"])
def test_what_a_translation_repeats_has_no_flag(text):
    translation, _ = translate(WritingEngine(text), text, thorough=True)
    assert not any(sentence.flags for sentence in translation.legs[0].sentences)


def test_the_attention_is_read_only_if_the_request_asks():
    engine = WritingEngine(GERMAN)
    translate(engine)
    assert engine.attended == []
    translate(engine, thorough=True)
    assert len(engine.attended) == 1
    translate(engine, thorough=True, limits=None)
    assert len(engine.attended) == 1
    engine = WritingEngine("Das Komitee wartet.")
    assert flags_of(engine) == set()
    assert "omission" in flags_of(engine, thorough=True)
    assert len(engine.attended) == 1


def test_the_attention_of_a_very_long_sentence_is_not_read():
    engine = WritingEngine("und " * 100)
    translate(engine, "and so " * 30, thorough=True)
    assert engine.attended == []


def test_a_translation_without_attention_has_no_omission(monkeypatch):
    engine = WritingEngine("Das Komitee wartet.")

    async def fail(*_):
        raise WorkerFailure("out_of_memory", "No room.")

    monkeypatch.setattr(engine, "_attend", fail)
    assert flags_of(engine, thorough=True) == set()


def test_confidence_is_that_of_the_model_folder():
    [sentence] = translate(WritingEngine(GERMAN), thorough=True)[0].legs[0].sentences
    assert sentence.confidence == pytest.approx(LIMITS.confidence([-0.1], 54, False))
    [sentence] = translate(WritingEngine(TEXT), thorough=True)[0].legs[0].sentences
    assert sentence.confidence == 0.1
    uncalibrated = translate(WritingEngine(GERMAN), limits=None, thorough=True)[0].legs[0]
    assert uncalibrated.sentences[0].confidence is None


def test_mark_keeps_the_translation():
    assert translate(WritingEngine(TEXT, GERMAN))[0].text == TEXT


def test_retry_decodes_again_with_a_wider_beam_and_blocked_ngrams():
    engine = WritingEngine(TEXT, GERMAN)
    translation, metrics = translate(engine, on_flag="retry")
    assert translation.text == GERMAN and not translation.legs[0].sentences[0].flags
    assert [
        (options.beam_size, options.no_repeat_ngram_size)
        for _, _, options, _, _ in engine.submitted
    ] == [(1, 0), (4, 3)]
    assert 'attentive_sentences_flagged_total{reason="copied"} 1.0' in metrics
    assert 'attentive_sentences_retried_total{kept="retry"} 1.0' in metrics


def test_retry_leaves_sentences_without_a_flag_alone():
    engine = WritingEngine(GERMAN)
    translate(engine, on_flag="retry")
    assert len(engine.submitted) == 1


def test_a_retry_that_is_not_better_is_not_used():
    translation, metrics = translate(WritingEngine(TEXT), on_flag="retry")
    assert translation.text == TEXT
    assert 'attentive_sentences_retried_total{kept="first"} 1.0' in metrics


def test_a_retry_that_the_server_refuses_keeps_the_first_translation(monkeypatch):
    engine = WritingEngine(TEXT)
    written = engine._translate

    async def narrow(ids, options, on_progress):
        if options.beam_size > 1:
            raise WorkerFailure("invalid", "The beam is wider than the slots.")
        return await written(ids, options, on_progress)

    monkeypatch.setattr(engine, "_translate", narrow)
    assert translate(engine, on_flag="retry")[0].text == TEXT


def test_source_gives_the_source_back():
    repeated = "Das Komitee hat, das Komitee hat, das Komitee hat entschieden."
    translation, _ = translate(
        WritingEngine(repeated), f"  {TEXT}\n12", on_flag="source", localize_numbers=True
    )
    assert translation.text == f"  {TEXT}\n12"
    [sentence, _] = translation.legs[0].sentences
    assert sentence.copied and "repetition" in sentence.flags
    assert translate(WritingEngine(GERMAN), on_flag="source")[0].text == GERMAN


def test_source_keeps_markup():
    page = "<p>The <b>committee</b> decided &amp; waited <i>until the summer</i>.</p>"
    repeated = "Das Komitee hat, das Komitee hat, das Komitee hat entschieden."
    assert translate(WritingEngine(repeated), page, format="html", on_flag="source")[0].text == page


def test_source_through_a_pivot_is_the_whole_source():
    text = "Der Ausschuss hat entschieden, bis zum Sommer zu warten."
    repeated = "the cat the dog, the cat the dog, the cat the dog"
    translation, _ = translate(
        WritingEngine(repeated), text, source="de", target="fr", on_flag="source"
    )
    assert translation.text == text and len(translation.legs) == 2


@pytest.mark.parametrize(("beam", "hypotheses", "rerank", "on_flag", "expected"), [
    (1, 1, False, "mark", 1), (1, 1, False, "retry", 5), (1, 1, False, "source", 1), (8, 1, False, "retry", 24),
    (8, 1, True, "mark", 12), (8, 6, True, "mark", 14), (8, 1, True, "retry", 32),
    (1, 1, True, "mark", 1),
])  # fmt: skip
def test_admission_counts_what_a_retry_and_reranking_may_cost(
    beam, hypotheses, rerank, on_flag, expected
):
    options = DecodingOptions(beam_size=beam, hypotheses=hypotheses, rerank=rerank)
    request = TranslationRequest(texts=(), source="", target="", options=options, on_flag=on_flag)
    assert (
        rows(request, options)
        == expected
        == rows(dataclasses.replace(request, thorough=True), options) - 1
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_confidence_of_shipped_models_was_fitted_for_their_weights(folder):
    confidence = Confidence.load(folder)
    assert confidence is not None, "run the command in docs/models.md#calibration"
    assert set(confidence.directions) == {
        f"{source}-{target}" for source, target in read_folder(folder).pairs
    }
    qualities = [limits.quality for limits in confidence.directions.values()]
    assert all(quality.wrong > 0.7 and quality.calibration_error < 0.05 for quality in qualities)
    assert sum(quality.wrong for quality in qualities) / len(qualities) > 0.75
