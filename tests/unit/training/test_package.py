"""Packages of trained models, lexicons and back-translation."""

from __future__ import annotations

import dataclasses
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch
from safetensors.torch import save_file

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.model_folder import Generation, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.shortlist import read_shortlist
from model.symbols import BACK_TRANSLATED, SYMBOLS
from tests.support.models.folders import new_folder
from tests.support.models.tiny_training import (
    ENGLISH,
    GERMAN,
    made_recipe,
    random_shard,
    run_folder,
    small_vocabulary,
    tiny_recipe,
)
from training import commands, shortlist
from training.back_translation import main
from training.commands import average, build_trainer, mix, package, rounded
from training.data.augment import Augmenter
from training.data.batches import Batches, sampling_rates
from training.data.corpus import SpecialIds
from training.recipe import RecipeError
from training.shortlist import Ids, Lexicon, learn_lexicon


@pytest.mark.slow
def test_packaged_folder_translates(prepared: Path, tmp_path: Path) -> None:
    folder = run_folder(prepared, tmp_path / "run")
    recipe = dataclasses.replace(
        tiny_recipe(prepared, steps=3), generation=Generation(beam_size=3, length_penalty=1.4)
    )
    build_trainer(recipe, folder).run()
    package(recipe, prepared / "adam-wsd-3.toml", folder, tmp_path / "weights", last=1)
    served = read_folder(tmp_path / "weights")
    assert served.generation == recipe.generation
    assert served.pairs == (("en", "de"), ("de", "en"))
    tokenizer = served.load_tokenizer()
    source = tokenizer.encode("the cat sees one dog.", "de").ids
    shape = served.model
    hypotheses = translate(
        TorchBackend(load_model(served), 2), [source], DecodingOptions(max_length=8), shape
    )
    assert len(hypotheses[0][0].tokens) <= 8


@pytest.mark.parametrize("last", [0, -1])
def test_a_package_averages_at_least_one_checkpoint(
    prepared: Path, tmp_path: Path, last: int
) -> None:
    with pytest.raises(RecipeError, match="--last must be at least 1"):
        package(
            tiny_recipe(prepared),
            prepared / "adam-wsd-3.toml",
            tmp_path,
            tmp_path / "weights",
            last=last,
        )


@pytest.mark.slow
def test_a_package_may_be_a_mixture_with_a_finished_model(prepared: Path, tmp_path: Path) -> None:
    folder, file = run_folder(prepared, tmp_path / "run"), prepared / "adam-wsd-3.toml"
    recipe = tiny_recipe(prepared, steps=3)
    build_trainer(recipe, folder).run()
    package(recipe, file, folder, tmp_path / "old", last=1)
    build_trainer(tiny_recipe(prepared, steps=6), folder).run()
    package(recipe, file, folder, tmp_path / "new", last=1)
    package(recipe, file, folder, tmp_path / "mixed", last=1, mixture=(tmp_path / "old", 0.25))
    old, new, mixed = (
        load_model(read_folder(tmp_path / name)).state_dict() for name in ("old", "new", "mixed")
    )
    for name, weights in mixed.items():
        torch.testing.assert_close(
            weights, 0.75 * new[name] + 0.25 * old[name], rtol=0.1, atol=1e-2
        )
    assert any(not torch.equal(old[name], new[name]) for name in new)
    facts = json.loads((tmp_path / "mixed" / "training.json").read_text(encoding="utf-8"))
    assert facts["mixture"] == {"model": "old", "share": 0.25}


def test_the_shortlist_has_the_translations_of_each_word(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("_PAIRS", 500), ("_BEST", 3), ("_FREQUENT", 2)):
        monkeypatch.setattr(shortlist, name, value)
    recipe, run = tiny_recipe(prepared), prepared / "run"
    tokenizer = (run / "tokenizer.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(tokenizer)
    line = commands.write_shortlist(recipe, run, tmp_path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(run / "tokenizer.model"))
    config = recipe.model_config(processor)
    folder = new_folder(tmp_path, config)
    found = read_shortlist(folder)
    assert found is not None and found.by_default
    assert found.tags == tuple(processor.piece_to_id([">>en<<", ">>de<<"]))
    assert line.startswith(f"{len(found.targets)} targets; ")
    for tag, words, translations in (">>de<<", ENGLISH, GERMAN), (">>en<<", GERMAN, ENGLISH):
        common = found.common()[found.tags.index(processor.piece_to_id(tag))].tolist()
        assert config.eos_id in common and processor.piece_to_id(".") in common
        assert 3 <= len(common) <= 4  # two frequent pieces, the full stop, the end
        for word, translation in zip(words, translations, strict=True):
            source = [processor.piece_to_id(tag), *processor.encode(word), config.eos_id]
            split = found.split(source, config.eos_id)
            assert split is not None
            assert {*processor.encode(translation), *source} <= {*common, *split[1].tolist()}
    (tmp_path / "tokenizer.model").write_bytes(b"another")
    with pytest.raises(RecipeError, match="does not have the vocabulary"):
        commands.write_shortlist(recipe, run, tmp_path)


def test_an_average_needs_a_checkpoint() -> None:
    with pytest.raises(RecipeError, match="no checkpoint"):
        average([])


def test_rounded_matrices_have_few_bits_and_others_stay() -> None:
    weights = {"matrix": torch.randn(64, 64), "bias": torch.randn(64)}
    found = rounded(weights)
    assert torch.equal(found["bias"], weights["bias"])
    mantissa, _ = torch.frexp(found["matrix"])
    assert torch.equal(mantissa * 32, (mantissa * 32).round())
    assert ((found["matrix"] - weights["matrix"]).abs() <= weights["matrix"].abs() / 32).all()
    assert torch.equal(rounded({"zero": torch.zeros(2, 2)})["zero"], torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("other", "share", "error"),
    [
        ({"w": torch.ones(3)}, 0.25, "same shape and vocabulary"),
        ({"v": torch.ones(2)}, 0.25, "same shape and vocabulary"),
        ({"w": torch.ones(2)}, 1.0, "between 0 and 1, not 1"),
    ],
)
def test_a_mixture_that_cannot_be_made_is_refused(
    other: dict[str, torch.Tensor], share: float, error: str
) -> None:
    with pytest.raises(RecipeError, match=error):
        mix({"w": torch.zeros(2)}, other, share)


def test_average_is_the_mean(tmp_path: Path) -> None:
    for i in range(3):
        save_file({"w": torch.full((2,), float(i))}, tmp_path / f"step-{i}.safetensors")
    assert torch.equal(average(sorted(tmp_path.iterdir()))["w"], torch.full((2,), 1.0))


VOCABULARY = 20
TAG = 0


def pairs(*both: tuple[list[int], list[int]]) -> list[tuple[Ids, Ids]]:
    return [(np.array(source), np.array(target)) for source, target in both]


def probability(lexicon: Lexicon, source: int, target: int) -> float:
    sources, targets, probabilities = lexicon
    return float(probabilities[(sources == source) & (targets == target)].sum())


def test_tokens_become_those_that_explain_all_pairs() -> None:
    lexicon = learn_lexicon(
        pairs(([1, 2], [11, 12]), ([1, 3], [11, 13]), ([2, 3], [13, 12])), VOCABULARY, iterations=20
    )
    for source in (1, 2, 3):
        assert probability(lexicon, source, source + 10) > 0.9


def test_the_tag_takes_targets_without_an_origin() -> None:
    some = [([TAG, 1], [11, 19]), ([TAG, 2], [12, 19]), ([TAG, 3], [13, 19])]
    lexicon = learn_lexicon(pairs(*some), VOCABULARY, iterations=20)
    assert probability(lexicon, TAG, 19) > 0.9
    assert probability(lexicon, 1, 11) > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_the_probabilities_of_a_source_add_up(seed: int) -> None:
    draw = np.random.default_rng(seed)
    some = [
        tuple(draw.integers(0, VOCABULARY, draw.integers(1, 9)).tolist() for _ in range(2))
        for _ in range(30)
    ]
    sources, targets, probabilities = learn_lexicon(pairs(*some), VOCABULARY)  # type: ignore[arg-type]
    totals = np.bincount(sources, probabilities, VOCABULARY)
    np.testing.assert_allclose(totals[totals > 0], 1.0)
    together = {(source, target) for one, other in some for source in one for target in other}
    assert set(zip(sources.tolist(), targets.tolist(), strict=True)) == together


def test_unlikely_entries_are_left_out() -> None:
    some = pairs(([1, 2], [11, 12]), ([1, 3], [11, 13]))
    everything, likely = learn_lexicon(some, VOCABULARY), learn_lexicon(some, VOCABULARY, 0.5)
    assert 0 < len(likely[0]) < len(everything[0]) and likely[2].min() >= 0.5


def test_written_text_is_only_a_source_and_begins_with_the_symbol(tmp_path: Path) -> None:
    processor = small_vocabulary(
        tmp_path / "t.model", ["a b c d e f"] * 9, 320, user_defined_symbols=list(SYMBOLS)
    )
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
    text.write_text(
        "Guten Morgen.\n\nIch habe\teinen Hund.\nDas Wetter ist heute schön.\n", encoding="utf-8"
    )
    assert main([str(model), str(text), str(output), "--keep", "1.0", "--limit", "2"]) == 0
    assert main([str(model), str(text), str(output), "--keep", "1.0", "--skip", "2"]) == 0
    lines = [line.split("\t") for line in output.read_text(encoding="utf-8").splitlines()]
    assert {line[0] for line in lines} == {"bt-made"}
    assert {line[2] for line in lines} <= {
        "Guten Morgen.",
        "Ich habe einen Hund.",
        "Das Wetter ist heute schön.",
    }
    assert len(lines) >= 2


def test_an_output_without_a_language_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), str(tmp_path / "text.txt"), str(tmp_path / "pairs.tsv")]) == 2
    assert "en-XX" in capsys.readouterr().err
