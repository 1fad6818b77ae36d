"""Back-translated pairs: written by a model, used in one direction, and marked by a symbol."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from model.symbols import BACK_TRANSLATED, SYMBOLS
from tests.support.models.tiny_training import made_recipe, random_shard, small_vocabulary
from training.back_translation import main
from training.data.augment import Augmenter
from training.data.batches import Batches
from training.data.sampling import sampling_rates
from training.data.vocabulary import SpecialIds


def test_written_text_is_only_a_source_and_begins_with_the_symbol(tmp_path: Path) -> None:
    processor = small_vocabulary(tmp_path / "t.model", ["a b c d e f"] * 9, 320, user_defined_symbols=list(SYMBOLS))
    recipe = made_recipe(back_translated={"bt-news": "en-de"})
    shard = random_shard({"talk:de": 40, "bt-news:de": 40})
    assert sampling_rates(shard, recipe).tolist() == [[1.0, 1.0], [1.0, 0.0]]
    mark = processor.piece_to_id(BACK_TRANSLATED)
    written = {tuple(shard.pair(i)[0].tolist()) for i in range(40, 80)}
    marked = 0
    ids = SpecialIds(2, 3, {"en": 4, "de": 5, "fr": 6})
    batches = Batches(shard, recipe, ids, Augmenter(processor, {}), 840)
    for _, _, batch in islice(batches.stream(), 2):
        for row in batch.source.tolist():
            source = tuple(row[1 : row.index(ids.end)])
            assert (source[0] == mark) == (source[1:] in written)
            marked += source[0] == mark
    assert marked > 0
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
