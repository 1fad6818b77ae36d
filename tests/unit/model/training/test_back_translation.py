"""Back-translated pairs: written by a model, used in one direction, and marked by a symbol."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import sentencepiece

from model.symbols import BACK_TRANSLATED, SYMBOLS
from model.training.back_translation import main
from model.training.data.augment import Augmenter
from model.training.data.batches import Batches
from model.training.data.sampling import sampling_rates
from model.training.data.shards import Shard
from model.training.data.vocabulary import SpecialIds
from model.training.recipe import DataRecipe, Recipe, TrainRecipe, VocabularyRecipe

_IDS = SpecialIds(0, 2, 3, {"en": 4, "de": 5})


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> sentencepiece.SentencePieceProcessor:
    prefix = tmp_path_factory.mktemp("vocabulary") / "tokenizer"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c d e f"] * 9), model_prefix=str(prefix), vocab_size=300, hard_vocab_limit=False,
        byte_fallback=True, pad_id=0, unk_id=1, bos_id=2, eos_id=3, control_symbols=[">>en<<", ">>de<<"],
        user_defined_symbols=list(SYMBOLS), minloglevel=2,
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_file=str(Path(f"{prefix}.model")))


def _recipe(**data: object) -> Recipe:
    return Recipe(
        name="made", languages=("en", "de"), preset="small", model={}, data=DataRecipe(max_tokens=38, **data),  # type: ignore[arg-type]
        vocabulary=VocabularyRecipe(), train=TrainRecipe(batch_tokens=840, align=1),
    )  # fmt: skip


def _shard() -> Shard:
    """Returns 40 real pairs and 40 written ones. Ids below 100 are English."""
    pick = np.random.default_rng(1)
    sides = [pick.integers(low, low + 50, 80 * 6).astype(np.uint16) for low in (40, 100)]
    starts = np.arange(81) * 6
    group = np.array([0] * 40 + [1] * 40, dtype=np.uint8)
    return Shard(sides[0], sides[1], starts, starts, group, ("talk:de", "bt-news:de"))


def test_written_text_is_only_a_source_and_begins_with_the_symbol(
    processor: sentencepiece.SentencePieceProcessor,
) -> None:
    recipe = _recipe(back_translated={"bt-news": "en-de"})
    shard = _shard()
    assert sampling_rates(shard, recipe).tolist() == [[1.0, 1.0], [1.0, 0.0]]
    mark = processor.piece_to_id(BACK_TRANSLATED)
    written = {tuple(shard.english[6 * i : 6 * i + 6].tolist()) for i in range(40, 80)}
    marked = 0
    batches = Batches(shard, recipe, _IDS, Augmenter(processor, {}), 840)
    for _, _, batch in islice(batches.stream(), 2):
        for row in batch.source.tolist():
            ids = tuple(row[1 : row.index(_IDS.end)])
            assert (ids[0] == mark) == (ids[1:] in written)
            marked += ids[0] == mark
    assert marked > 0


def test_marking_real_pairs_is_refused(processor: sentencepiece.SentencePieceProcessor) -> None:
    with pytest.raises(ValueError, match="unknown kinds: back_translated"):
        Augmenter(processor, {"back_translated": 0.5})


@pytest.mark.slow
def test_the_command_writes_pairs_and_resumes(tmp_path: Path) -> None:
    model = next(path.parent for path in sorted(Path("weights").glob("*/config.json")))
    text, output = tmp_path / "text.txt", tmp_path / "bt-made.en-de.tsv"
    text.write_text("Guten Morgen.\n\nIch habe\teinen Hund.\nDas Wetter ist heute schön.\n", encoding="utf-8")
    assert main([str(model), str(text), str(output), "--keep", "1.0", "--limit", "2"]) == 0
    assert main([str(model), str(text), str(output), "--keep", "1.0", "--skip", "2"]) == 0
    lines = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert {line[0] for line in lines} == {"bt-made"}
    assert {line[2] for line in lines} <= {"Guten Morgen.", "Ich habe einen Hund.", "Das Wetter ist heute schön."}
    assert len(lines) >= 2


def test_an_output_without_a_language_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path), str(tmp_path / "text.txt"), str(tmp_path / "pairs.tsv")]) == 2
    assert "en-XX" in capsys.readouterr().err
