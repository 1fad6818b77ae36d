"""Training data: batches, sampling rates, prepared files and shards."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from itertools import islice, takewhile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.support.models.tiny_training import (
    made_recipe,
    random_shard,
    run_folder,
    small_vocabulary,
    tiny_recipe,
)
from training import commands
from training.data import shards
from training.data.augment import Augmenter
from training.data.batches import (
    PADDING,
    Batch,
    Batches,
    BatchProcesses,
    sampling_rates,
    target_tokens,
)
from training.data.corpus import SpecialIds
from training.data.shards import Shard, shard_file, tokenise
from training.recipe import RecipeError

_IDS = SpecialIds(2, 3, {"en": 4, "de": 5, "fr": 6})
_TOKENS = 840


@pytest.fixture
def shard() -> Shard:
    return random_shard({"talk:de": 30, "news:fr": 300})


def _epoch(batches: Batches, epoch: int = 0) -> list[Batch]:
    return [
        batch for _, _, batch in takewhile(lambda item: item[0] == epoch, batches.stream(epoch))
    ]


def _rows(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns source and target of each pair without padding."""
    sides = (
        [tuple(row[row != PADDING].tolist()) for row in side]
        for side in (batch.source, batch.target)
    )
    return list(zip(*sides, strict=True))


@pytest.mark.parametrize("multiple", [1, 4])
def test_every_row_of_an_epoch_is_a_pair_of_the_shard(shard: Shard, multiple: int) -> None:
    pairs = Counter[object]()
    for i, group in enumerate(shard.group):
        english, other = (tuple(side.tolist()) for side in shard.pair(i))
        pairs[((5, 6)[group], *english, 3), (2, *other, 3)] += 1
        pairs[(4, *other, 3), (2, *english, 3)] += 1
    batches = _epoch(Batches(shard, made_recipe(align=8), _IDS, None, _TOKENS, multiple=multiple))
    assert sum(len(batch.source) % multiple > 0 for batch in batches) <= 1
    for batch in batches:
        assert batch.source.shape[1] % 8 == 0
        assert max(batch.source.numel(), batch.target[:, 1:].numel()) <= _TOKENS
        assert batch.tokens == int((batch.target[:, 1:] != PADDING).sum())
    rows = Counter[object](row for batch in batches for row in _rows(batch))
    assert rows <= pairs
    assert rows.total() > 0.9 * pairs.total()


def test_an_epoch_has_the_tokens_of_the_rates(shard: Shard) -> None:
    recipe = made_recipe(weights={"news": 0.5}, temperature=3.0)
    planned = float((sampling_rates(shard, recipe) * target_tokens(shard)).sum())
    batches = Batches(shard, recipe, _IDS, None, _TOKENS)
    drawn = [sum(batch.tokens for batch in _epoch(batches, epoch)) for epoch in range(20)]
    assert np.mean(drawn) == pytest.approx(planned, rel=0.02)


def test_only_pairs_of_one_language_are_drawn(shard: Shard) -> None:
    batches = _epoch(Batches(shard, made_recipe(), _IDS, None, _TOKENS, language="de"))
    assert {source[0] for batch in batches for source, _ in _rows(batch)} == {4, 5}
    assert sum(len(batch.source) for batch in batches) <= 60


def test_a_stream_resumes_in_the_middle_of_an_epoch(shard: Shard) -> None:
    batches = Batches(shard, made_recipe(), _IDS, None, _TOKENS)
    whole, resumed = islice(batches.stream(), 5, 8), islice(batches.stream(0, 5), 3)
    for (_, index, batch), (_, same_index, same) in zip(whole, resumed, strict=True):
        assert index == same_index
        assert torch.equal(batch.source, same.source)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_share_the_batches_and_begin_an_epoch_at_the_same_step(
    shard: Shard, ranks: int
) -> None:
    whole = len(_epoch(Batches(shard, made_recipe(), _IDS, None, _TOKENS)))
    parts = [
        Batches(shard, made_recipe(), _IDS, None, _TOKENS, rank=rank, ranks=ranks)
        for rank in range(ranks)
    ]
    steps = -(-whole // ranks)
    for rank, part in enumerate(parts):
        places = [(epoch, index) for epoch, index, _ in islice(part.stream(), steps + 1)]
        assert places == [*((0, ranks * step + rank) for step in range(steps)), (1, rank)]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize(("pairs", "weight"), [(9, 0.0), (0, 1.0)])
def test_an_epoch_without_pairs_is_refused(ranks: int, pairs: int, weight: float) -> None:
    shard = random_shard({"talk:de": pairs})
    batches = Batches(shard, made_recipe(default_weight=weight), _IDS, None, _TOKENS, ranks=ranks)
    with pytest.raises(RecipeError, match="Epoch 0 has no pairs"):
        next(batches.stream())


class _Sevens:
    """A test double of Augmenter that replaces both sides of every third example by `length`
    sevens."""

    def __init__(self, length: int) -> None:
        self._length = length

    def choose_kinds(self, count: int, random: np.random.Generator) -> np.ndarray:
        return (np.arange(count) % 3 == 0).astype(np.int64)

    def reserved_lengths(
        self, kinds: np.ndarray, sources: np.ndarray, targets: np.ndarray, longest: int
    ) -> tuple[np.ndarray, ...]:
        return tuple(
            np.where(kinds > 0, np.maximum(lengths, 20), lengths) for lengths in (sources, targets)
        )

    def rewrite(
        self,
        number: int,
        source: np.ndarray,
        target: np.ndarray,
        random: np.random.Generator,
        language: str,
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.full(self._length, 7), np.full(self._length, 7)


@pytest.mark.parametrize(("length", "changed"), [(17, True), (99, False)])
def test_rewritten_rows_are_complete_or_unchanged(shard: Shard, length: int, changed: bool) -> None:
    batches = Batches(shard, made_recipe(), _IDS, _Sevens(length), _TOKENS)  # type: ignore[arg-type]
    rewritten = [row for batch in _epoch(batches) for row in _rows(batch) if 7 in row[0]]
    assert all(row == ((row[0][0], *[7] * length, 3), (2, *[7] * length, 3)) for row in rewritten)
    assert bool(rewritten) == changed


def test_copied_pairs_with_a_longer_target_fit_their_row(shard: Shard, tmp_path: Path) -> None:
    augmenter = Augmenter(
        small_vocabulary(tmp_path / "t.model", ["a b c d e f"] * 9, 300), {"copy": 1.0}
    )
    for batch in _epoch(Batches(shard, made_recipe(), _IDS, augmenter, _TOKENS)):
        assert batch.source.numel() <= _TOKENS
        assert all(source[1:] == target[1:] for source, target in _rows(batch))


class _Reordered(_Sevens):
    """A test double of Augmenter that reorders both sides of every third example at random."""

    def rewrite(
        self,
        number: int,
        source: np.ndarray,
        target: np.ndarray,
        random: np.random.Generator,
        language: str,
    ) -> tuple[np.ndarray, np.ndarray]:
        return random.permutation(source), random.permutation(target)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more processes than cores
def test_processes_make_the_same_batches_in_the_same_order(shard: Shard) -> None:
    """From the middle of an epoch over the ends of several, as the second of two ranks, with pairs
    that are rewritten at random."""
    batches = Batches(shard, made_recipe(), _IDS, _Reordered(0), _TOKENS, rank=1, ranks=2)  # type: ignore[arg-type]
    expected = list(islice(batches.stream(1, 4), 40))
    assert expected[-1][0] > 2
    with closing(BatchProcesses(batches, 3).stream(1, 4)) as made:
        for (*place, batch), (*same_place, same) in zip(expected, made, strict=False):
            assert place == same_place and batch.tokens == same.tokens
            assert torch.equal(batch.source, same.source) and torch.equal(batch.target, same.target)


def test_temperature_increases_the_share_of_small_directions(shard: Shard) -> None:
    shares = []
    for temperature in (1.0, 2.0, 1e9):
        tokens = sampling_rates(shard, made_recipe(temperature=temperature)) * target_tokens(shard)
        shares.append(float(tokens[0].sum() / tokens.sum()))
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] == pytest.approx(0.5, abs=0.01)
    # the largest direction is not changed
    assert sampling_rates(shard, made_recipe(temperature=5.0)).min() == 1.0


def test_sources_may_be_used_in_one_direction_only(shard: Shard) -> None:
    assert sampling_rates(shard, made_recipe(one_way={"talk": "de-en"})).tolist() == [
        [0.0, 1.0],
        [1.0, 1.0],
    ]


@pytest.mark.parametrize("table", ["one_way", "back_translated"])
def test_a_source_without_pairs_has_no_direction(shard: Shard, table: str) -> None:
    with pytest.raises(RecipeError, match=rf"\[data.{table}\] names tlak, and no pair"):
        sampling_rates(shard, made_recipe(**{table: {"talk": "de-en", "tlak": "de-en"}}))


def test_prepare_writes_a_missing_shard_and_keeps_the_vocabulary(
    prepared: Path, tmp_path: Path
) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    vocabulary, expected = (folder / "tokenizer.model").read_bytes(), Shard.load(folder, "pairs")
    (folder / "pairs.npz").unlink()
    (folder / "pairs.json").write_text("{}", encoding="utf-8")  # manifest of earlier versions
    commands.prepare(tiny_recipe(prepared), folder)
    assert (folder / "tokenizer.model").read_bytes() == vocabulary
    assert np.array_equal(Shard.load(folder, "pairs").english, expected.english)


def test_zero_weight_sources_are_left_out(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    assert shard.groups == ("made:de",)


def test_a_loaded_shard_equals_the_saved_one(tmp_path: Path) -> None:
    saved = random_shard({"talk:de": 20, "news:fr": 30})
    saved.save(tmp_path, "pairs")
    assert [path.name for path in tmp_path.iterdir()] == ["pairs.npz"]
    loaded = Shard.load(tmp_path, "pairs")
    for name in ("english", "other", "english_offsets", "other_offsets", "group"):
        assert np.array_equal(getattr(loaded, name), getattr(saved, name)), name
        assert getattr(loaded, name).dtype == getattr(saved, name).dtype, name
    assert loaded.groups == saved.groups


def test_a_vocabulary_with_ids_of_more_than_16_bits_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = SimpleNamespace(get_piece_size=lambda: 70_000)
    monkeypatch.setattr(
        shards.sentencepiece, "SentencePieceProcessor", lambda model_file: processor
    )
    with pytest.raises(RecipeError, match="70000 pieces"):
        tokenise(tiny_recipe(tmp_path), tmp_path / "tokenizer.model")


def test_missing_and_damaged_files_raise_errors_with_their_names(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"no pairs\.npz"):
        Shard.load(tmp_path, "pairs")
    random_shard({"talk:de": 20, "news:fr": 30}).save(tmp_path, "pairs")
    path = shard_file(tmp_path, "pairs")
    data = path.read_bytes()
    middle = len(data) // 4
    for damaged in (
        data[:-9],
        b"",
        data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :],
    ):
        path.write_bytes(damaged)
        with pytest.raises(RecipeError, match=r"pairs\.npz is damaged"):
            Shard.load(tmp_path, "pairs")
