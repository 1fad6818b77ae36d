"""Tests that read_words agrees between torch and the CPU backend and does not change slots.

The CPU backend and PyTorch agree within 1e-4 in float32 (the order of sums) and 0.2 in int8 (the
keys and values of the CPU backend are int8).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.pair_alignment import WordedSentence
from model.analysis.types import MapChoice
from model.backends.cpu.bindings import CpuBackendError
from model.backends.torch.backend import pad_ids, read_words
from tests.support.models.cpu_models import (
    PRECISIONS,
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    rounded,
    tiny,
)

pytestmark = pytest.mark.numeric

SENTENCE = WordedSentence((9, 5, 6, 7, 8, 3), ((1, 2), (2, 5)), ())
WANTED = (11, 60, 11, 5)


@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_cpu_backend_agrees_with_torch(variant: str, precision: str) -> None:
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, precision, threads=2)
    same = transformer if precision == "float32" else rounded(transformer)
    expected, [found] = read_words(same, SENTENCE, WANTED), backend.read_words([SENTENCE], [WANTED])
    assert (
        found.states.shape
        == expected.states.shape
        == (len(SENTENCE.ids), transformer.config.d_model)
    )
    np.testing.assert_allclose(found.states, expected.states, atol=1e-4)
    np.testing.assert_allclose(
        found.beginnings, expected.beginnings, atol=1e-4 if precision == "float32" else 0.2
    )


@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_batch_of_sentences_reads_as_each_alone_to_the_bit(variant: str, precision: str) -> None:
    transformer = tiny(**VARIANTS[variant])
    backend = cpu_backend(transformer, precision, threads=2)
    words = [
        SENTENCE,
        WordedSentence((5, 3), (), ()),
        WordedSentence((7, 8, 9, 3), ((0, 1), (1, 3)), ()),
        SENTENCE,
    ]
    wanted: list[tuple[int, ...]] = [WANTED, WANTED, (), (4, 9)]
    together = backend.read_words(words, wanted)
    for sentence, tokens, found in zip(words, wanted, together, strict=True):
        [alone] = backend.read_words([sentence], [tokens])
        assert np.array_equal(found.states, alone.states) and np.array_equal(
            found.beginnings, alone.beginnings
        )
    pairs = [((5, 6, 3), (7, 8)), ((9, 3), ()), ((4,) * 20, (5,) * 33)]
    choice = MapChoice((), (), (0,), soft=0, products=False, scores=False)
    for (source, target), found in zip(
        pairs * 7, backend.soft_maps(pairs * 7, choice), strict=True
    ):
        alone = backend.attention_maps(source, target, choice=choice)
        assert np.array_equal(found.cross, alone.cross)
        assert np.array_equal(found.value_products, alone.value_products)
    assert backend.pages_used == 0


@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_sentences_that_were_translated_read_as_others_to_the_bit(
    variant: str, precision: str
) -> None:
    transformer = tiny(**VARIANTS[variant])
    fresh, used = (cpu_backend(transformer, precision, threads=2) for _ in range(2))
    masked = WordedSentence((8, 4, 6, 3), ((0, 2),), ())
    words = [
        WordedSentence((7, 8, 9, 3), ((0, 1), (1, 3)), ()),
        SENTENCE,
        masked,
        WordedSentence((5, 3), (), ()),
    ]
    wanted: list[tuple[int, ...]] = [(4, 9), WANTED, WANTED, ()]
    used.prefill([(4,) * 20, SENTENCE.ids, masked.ids], [0, 1, 2], [(), (), (("encoder", 0, 0),)])
    for part in (slice(0, 4), slice(1, 2), slice(1, 4)):
        expected, found = (
            backend.read_words(words[part], wanted[part]) for backend in (fresh, used)
        )
        for one, other in zip(expected, found, strict=True):
            assert np.array_equal(one.states, other.states) and np.array_equal(
                one.beginnings, other.beginnings
            )
    pages = used.pages_used
    for _ in range(300):  # more sentences than are kept
        used.prefill([(4,) * 20], [0])
    [expected_read], [read] = (
        backend.read_words(words[1:2], wanted[1:2]) for backend in (fresh, used)
    )
    assert np.array_equal(read.states, expected_read.states) and used.pages_used == pages


@needs_cpu_backend
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_maps_and_words_of_one_pass_are_those_of_two_to_the_bit(
    variant: str, precision: str
) -> None:
    backend = cpu_backend(tiny(**VARIANTS[variant]), precision, threads=2)
    choice = MapChoice((), (), (0,), soft=0, products=False, scores=False)
    other = WordedSentence((7, 8, 9, 3), ((0, 1), (1, 3)), ())
    for count in (2, 17):  # more than one call takes
        sentences = [SENTENCE, other] * count
        wanted: list[tuple[int, ...]] = [WANTED, (4, 9)] * count
        for sources in ([SENTENCE.ids] * count, [SENTENCE.ids] * (count - 1) + [(5, 6, 3)]):
            pairs = [(source, (7, 8) * (1 + number)) for number, source in enumerate(sources)]
            maps, readings = backend.linked_maps(pairs, choice, sentences, wanted)
            for found, expected in zip(maps, backend.soft_maps(pairs, choice), strict=True):
                assert np.array_equal(found.cross, expected.cross)
                assert np.array_equal(found.value_products, expected.value_products)
            for read, expected_read in zip(
                readings, backend.read_words(sentences, wanted), strict=True
            ):
                assert np.array_equal(read.states, expected_read.states)
                assert np.array_equal(read.beginnings, expected_read.beginnings)
            assert backend.pages_used == 0
    with pytest.raises(CpuBackendError, match="was not read"):
        backend._captured([(SENTENCE.ids, (7,))], choice, kept=True)


@needs_cpu_backend
def test_read_words_changes_no_slot_and_keeps_no_memory() -> None:
    transformer = tiny()
    read, undisturbed = cpu_backend(transformer, "int8"), cpu_backend(transformer, "int8")
    steps = []
    for backend in (read, undisturbed):
        backend.prefill([(5, 6, 3)], [0])
        if backend is read:
            backend.read_words([SENTENCE, WordedSentence((5, 3), (), ())], [WANTED, WANTED])
        steps.append(backend.step([0], [2], 4, [-1]))
    np.testing.assert_array_equal(steps[0].ids, steps[1].ids)
    np.testing.assert_array_equal(steps[0].scores, steps[1].scores)
    assert read.pages_used == undisturbed.pages_used


def test_a_word_of_all_tokens_equals_the_whole_sentence() -> None:
    transformer = tiny()
    whole = WordedSentence(SENTENCE.ids, ((0, len(SENTENCE.ids)),), ())
    found = read_words(transformer, whole, WANTED)
    ids, mask = pad_ids([SENTENCE.ids], transformer.config.pad_id, torch.device("cpu"))
    with torch.inference_mode():
        logits = transformer(ids, mask, torch.tensor([[transformer.config.decoder_start_id]]))
        np.testing.assert_allclose(
            found.beginnings[0], logits[0, 0].log_softmax(-1)[list(WANTED)], atol=1e-5
        )
        np.testing.assert_allclose(found.states, transformer.encode(ids, mask)[0], atol=1e-6)


@pytest.mark.parametrize(
    "words",
    [
        WordedSentence((), (), ()),
        WordedSentence((1, 2), ((1, 1),), ()),
        WordedSentence((1, 2), ((1, 3),), ()),
        WordedSentence((999,), (), ()),
    ],
)
def test_invalid_sentences_and_tokens_are_refused(words: WordedSentence) -> None:
    with pytest.raises(ValueError, match=r"sentence|vocabulary"):
        read_words(tiny(), words, (1,))
    with pytest.raises(ValueError, match="vocabulary"):
        read_words(tiny(), SENTENCE, (-1,))
