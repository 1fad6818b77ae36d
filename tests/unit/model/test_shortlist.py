"""Tests of lexical shortlists: which tokens a source allows, and that backends write no others."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from model.backends.cpu.bindings import CpuBackendError
from model.model_folder import ModelFolder
from model.search.backend_interface import Backend, Restriction
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.shortlist import SHORTLIST, Shortlist, read_shortlist
from model.transformer import Transformer
from tests.support.models.cpu_models import (
    VARIANTS,
    cpu_backend,
    needs_cpu_backend,
    sentences,
    tiny,
)
from tests.support.models.firefox_models import random_lists
from tests.support.models.folders import new_folder

END = 0


def shortlist(
    lists: list[list[int]],
    first: int,
    vocabulary: int,
    *,
    shared: bool = False,
    tags: tuple[int, ...] = (),
) -> Shortlist:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    targets = np.array([target for targets in lists for target in targets], dtype=np.int32)
    return Shortlist(offsets, targets, first, shared, vocabulary, tags)


def tagged(vocabulary: int, best: int, tags: tuple[int, ...]) -> Shortlist:
    """Returns random lists of `best` targets for each source token and tag; those of a tag are
    twice as long."""
    tables = [random_lists(vocabulary, vocabulary, best, seed) for seed in range(len(tags))]
    for table, tag in zip(tables, tags, strict=True):
        table[tag] = random_lists(1, vocabulary, 2 * best, tag)[0]
    return shortlist(
        [one for table in tables for one in table], 0, vocabulary, shared=True, tags=tags
    )


def backend(transformer: Transformer, listed: Shortlist | None, slots: int = 16) -> Backend:
    return cpu_backend(transformer, "float32", slots=slots, shortlist=listed)


def allowed_tokens(listed: Shortlist, source: Sequence[int], end: int = END) -> list[int] | None:
    """Returns both parts of a list, which have no common tokens, in order; None for all tokens."""
    split = listed.split(source, end)
    if split is None:
        return None
    common, own = listed.common()[split[0]].tolist(), split[1].tolist()
    assert common == sorted(common) and own == sorted(own) and not set(common) & set(own)
    return sorted([*common, *own])


def test_a_source_allows_the_first_tokens_and_those_of_its_own() -> None:
    lists = [[], [30, 31], [31, 40], [50]]
    allowed = allowed_tokens(shortlist(lists, 4, 100), [2, 1, 2, 0])
    assert allowed == [0, 1, 2, 3, 4, 30, 31, 40]  # 4 fills the list to a multiple of 8
    assert allowed_tokens(shortlist(lists, 4, 100, shared=True), [3, 0]) == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        50,
    ]


def test_the_end_of_sentence_is_always_allowed() -> None:
    allowed = allowed_tokens(shortlist([[1, 2, 3, 4, 5, 6, 7, 8]], 0, 100), [0], 60)
    assert allowed == [1, 2, 3, 4, 5, 6, 7, 8, 60]


def test_the_tag_of_a_source_chooses_its_table() -> None:
    english, german = [[], [60, 61], [62], [30]], [[40, 41], [], [62], [31]]
    both = shortlist([*english, *german], 0, 100, shared=True, tags=(1, 0))
    for source, expected in (
        ([1, 3, 2], [1, 2, 3, 30, 60, 61, 62]),
        ([0, 3, 2], [0, 2, 3, 31, 40, 41, 62]),
    ):
        assert allowed_tokens(both, source, 2) == expected
    assert [common.tolist() for common in both.common()] == [[60, 61], [40, 41]]
    assert both.split([3, 2], 2) is None  # no tag: all tokens


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_of_a_list_are_ascending_and_have_no_common_tokens(seed: int) -> None:
    draw = random.Random(seed)
    tags = tuple(draw.sample(range(300), draw.randint(0, 4)))
    listed = (
        tagged(300, 3, tags)
        if tags
        else shortlist(random_lists(300, 300, 3), draw.randrange(40), 300, shared=True)
    )
    source = [draw.choice(tags)] if tags else []
    source += draw.choices(range(300), k=draw.randint(1, 20))
    allowed = allowed_tokens(listed, source)
    assert allowed is not None and {END, *source} <= set(allowed)


def test_more_than_half_of_the_vocabulary_is_all_of_it() -> None:
    assert shortlist([[]], 51, 100).split([0], END) is None


def test_unknown_source_tokens_are_refused() -> None:
    with pytest.raises(ValueError, match="not in the shortlist of 1 tokens"):
        shortlist([[1]], 4, 100).split([7], END)


@pytest.mark.parametrize("changes", [
    {"offsets": np.array([0, 3, 2])}, {"offsets": np.array([1, 2])}, {"offsets": np.array([0, 1])},
    {"targets": np.array([1, 100], dtype=np.int32)}, {"targets": np.array([-1, 1], dtype=np.int32)}, {"first": 101},
    {"tags": (1,)}, {"tags": (-1,)}, {"tags": (0, 1)}, {"tags": (0, 0)},
])  # fmt: skip
def test_invalid_numbers_are_refused(changes: dict[str, Any]) -> None:
    valid = shortlist([[1, 2]], 4, 100)
    with pytest.raises(ValueError, match=r"its|it begins"):
        replace(valid, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> ModelFolder:
    return new_folder(tmp_path, tiny().config)


def test_a_folder_keeps_its_shortlist_unless_it_cannot_be_read(
    folder: ModelFolder, tmp_path: Path, caplog
) -> None:
    assert read_shortlist(folder) is None
    written = shortlist(random_lists(200, 200, 5), 8, 200, shared=True)
    written.write(tmp_path)
    found = read_shortlist(folder)
    assert found is not None
    assert (found.first, found.shared) == (8, True)
    assert np.array_equal(found.offsets, written.offsets)
    assert np.array_equal(found.targets, written.targets)
    shortlist([[1]], 4, 200).write(tmp_path)
    assert read_shortlist(folder) is None
    assert "not those of the source vocabulary" in caplog.text
    replace(shortlist([[1]] * 400, 4, 200, tags=(9, 3)), by_default=True).write(tmp_path)
    found = read_shortlist(folder)
    assert found is not None and found.tags == (9, 3) and found.by_default
    for tags in ("[9, 300]", "[9]", '["9", "3"]', "9", "[9"):
        save_file({"offsets": found.offsets, "targets": found.targets}, tmp_path / SHORTLIST, metadata={
            "first": "4", "shared": "1", "tags": tags,
        })  # fmt: skip
        assert read_shortlist(folder) is None
    (tmp_path / SHORTLIST).write_bytes(b"{}")
    assert read_shortlist(folder) is None
    assert caplog.text.count("is not a shortlist") == 7


@needs_cpu_backend
def test_the_engine_refuses_lists_that_overlap() -> None:
    engine = cpu_backend(tiny(), "float32", slots=2)
    engine.prefill([[5, 3]], [0])
    common = engine.add_common(np.array([4, 8], dtype=np.int32))
    for own, number in (([8], common), ([9], common + 1), ([], -1), ([9, 9], -1), ([200], -1)):
        with pytest.raises((CpuBackendError, ValueError)):
            engine.restrict(0, np.array(own, dtype=np.int32), number)
    with pytest.raises(CpuBackendError, match="at least one"):
        engine.add_common(np.array([], dtype=np.int32))
    engine.restrict(0, np.array([], dtype=np.int32), common)
    found = engine.step([0], [1], 3, [-1])
    # the first of them fills
    assert sorted(found.ids[0].tolist()) == [4, 4, 8] and np.isinf(found.scores[0][2])


@needs_cpu_backend
@pytest.mark.numeric
@pytest.mark.parametrize("variant", ["the paper's", "two vocabularies", "recurrence", "tags"])
def test_scores_are_those_of_the_allowed_tokens_alone(variant: str) -> None:
    transformer = tiny(**VARIANTS.get(variant, {}))
    config = transformer.config
    if variant == "tags":
        listed = tagged(config.vocab_size, 3, (5, 6))
    else:
        lists = random_lists(config.source_vocab_size or config.vocab_size, config.vocab_size, 3)
        listed = shortlist(lists, 8, config.vocab_size)
    sources = [
        (tag, *source)
        for tag, source in zip((5, 7, 6, 5), sentences(config, [3, 4, 1, 6]), strict=True)
    ]
    slots, forced = [4, 2, 0, 1], [-1, -1, -1, 199]
    limited, free = backend(transformer, listed), backend(transformer, None)
    given = [
        Restriction(forced=tuple(token for token in [token] if token >= 0)) for token in forced
    ]
    for each in (limited, free):
        each.prefill(sources, slots, (), given)
    found = limited.step(slots, [1] * 4, 60, forced)
    every = free.step(slots, [1] * 4, config.vocab_size, [-1] * 4)
    for row, source in enumerate(sources):
        allowed = allowed_tokens(listed, source, config.eos_id)
        assert (allowed is None) == (variant == "tags" and source[0] == 7)  # 7 is no tag
        scores = every.scores[row]
        if allowed is not None:  # a forced token is scored in the same set
            allowed = [*allowed, *given[row].forced]
        if allowed is None:
            keep = np.full(config.vocab_size, True)
        else:
            keep = np.isin(every.ids[row], allowed)
            scores = scores[keep] - np.log(np.exp(scores[keep]).sum())
        ids, own = found.ids[row], found.scores[row]
        if forced[row] >= 0:  # before the candidates
            assert ids[0] == forced[row] and own[0] in own[1:][ids[1:] == forced[row]]
            ids, own = ids[1:], own[1:]
        finite = np.isfinite(own)
        assert finite.sum() == min(len(ids), keep.sum())
        assert ids[finite].tolist() == every.ids[row][keep][: finite.sum()].tolist()
        np.testing.assert_allclose(own[finite], scores[: finite.sum()], atol=1e-4)


@needs_cpu_backend
@pytest.mark.numeric
@pytest.mark.parametrize("beam", [1, 4])
def test_targets_have_allowed_tokens_and_do_not_depend_on_the_batch(beam: int) -> None:
    transformer = tiny(**VARIANTS["recurrence"])
    config = transformer.config
    listed = shortlist(random_lists(200, 200, 3), 8, 200)
    sources = sentences(config, [3, 9, 1, 6, 2, 5, 4, 60])  # the last one allows all tokens
    options = DecodingOptions(beam_size=beam, max_length=12)
    together = translate(backend(transformer, listed), sources, options, config)
    alone = backend(transformer, listed, slots=beam)
    for source, found in zip(sources, together, strict=True):
        [single] = translate(alone, [source], options, config)
        assert single[0].tokens == found[0].tokens
        assert single[0].score == pytest.approx(found[0].score, abs=1e-5)
        allowed = allowed_tokens(listed, source, config.eos_id)
        assert allowed is None or set(found[0].tokens) <= set(allowed)
    assert listed.split(sources[-1], config.eos_id) is None
