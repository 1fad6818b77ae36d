"""Training lowers the loss, resumes exactly after an interruption, and packages a model folder that translates."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
import torch

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.model_folder import ModelFolder, TokenizerFiles, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.shortlist import read_shortlist
from model.training import commands
from model.training.data.batch import IGNORED
from model.training.data.batches import Batches
from model.training.data.buckets import width_ladder
from model.training.data.shards import Shard
from model.training.data.special_ids import SpecialIds
from model.training.loop.checkpoint import average, checkpoints
from model.training.loop.optimizers import noam, wsd
from model.training.loop.trainer import Trainer, model_config
from model.training.recipe import Recipe, RecipeError, load_recipe
from model.training.shortlist import ListSizes

_ENGLISH = "the cat dog bird house tree sees has likes big small red old one two".split()
_GERMAN = "die Katze Hund Vogel Haus Baum sieht hat mag groß klein rot alt eins zwei".split()

_RECIPE = """
name = "tiny"
languages = ["en", "de"]
preset = "small"

[model]
d_model = 32
heads = 2
d_ff = 64
encoder_layers = 1
decoder_layers = 1
max_length = 64

[data]
files = ["{train}"]
development = ["{dev}"]
max_tokens = 40
[data.weights]
rare = 0.0
[data.augment]
lower = 0.1
upper = 0.1
bare = 0.1
copy = 0.1

[vocabulary]
size = 400

[train]
optimizer = "{optimizer}"
schedule = "{schedule}"
steps = {steps}
warmup = 5
batch_tokens = 840
checkpoint_minutes = 1000
validate_minutes = 1000
validate_sentences = 8
"""


def _sentences(count: int, seed: int) -> list[tuple[str, str]]:
    pick = random.Random(seed)
    words = [[pick.randrange(len(_ENGLISH)) for _ in range(pick.randint(2, 7))] for _ in range(count)]
    return [(" ".join(_ENGLISH[i] for i in line) + ".", " ".join(_GERMAN[i] for i in line) + ".") for line in words]


_DATA = 'name="a"\nlanguages=["en", "de"]\n[data]\n'


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with data, vocabulary and shards, prepared once."""
    folder = tmp_path_factory.mktemp("training")
    train, dev = folder / "train.en-de.tsv", folder / "dev.en-de.tsv"
    lines = [f"made\t{a}\t{b}" for a, b in _sentences(800, 1)] + ["rare\tnever\tnie"]
    train.write_text("\n".join(lines) + "\n", encoding="utf-8")
    dev.write_text("".join(f"{a}\t{b}\n" for a, b in _sentences(30, 2)), encoding="utf-8")
    commands.prepare(_recipe(folder), folder / "run")
    return folder


def _recipe(folder: Path, *, optimizer: str = "adam", schedule: str = "wsd", steps: int = 6) -> Recipe:
    text = _RECIPE.format(
        train=folder / "train.en-de.tsv",
        dev=folder / "dev.en-de.tsv",
        optimizer=optimizer,
        schedule=schedule,
        steps=steps,
    )
    path = folder / f"{optimizer}-{schedule}-{steps}.toml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path)


def _run_folder(prepared: Path, target: Path) -> Path:
    target.mkdir()
    for file in (prepared / "run").iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    return target


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_loss_falls(prepared: Path, tmp_path: Path, optimizer: str) -> None:
    folder = _run_folder(prepared, tmp_path / "run")
    Trainer(_recipe(prepared, optimizer=optimizer, steps=40), folder).run()
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < losses[0]
    assert {"development_loss", "bleu", "chrf"} <= set(lines[-1])
    assert set(lines[-1]["heads"]) == {"encoder", "decoder", "cross"}


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_run(prepared: Path, tmp_path: Path) -> None:
    whole, broken = _run_folder(prepared, tmp_path / "whole"), _run_folder(prepared, tmp_path / "broken")
    recipe = _recipe(prepared, steps=6)
    no_dropout = dataclasses.replace(recipe, model={**recipe.model, "dropout": 0.0})
    Trainer(no_dropout, whole).run()
    first = Trainer(no_dropout, broken)
    stream = first._stream()
    for _ in range(3):
        first._step(stream)
    first.save()
    Trainer(no_dropout, broken).run()
    one, two = (torch.load(folder / "state.pt", weights_only=True) for folder in (whole, broken))
    assert one["progress"] | {"seconds": 0} == two["progress"] | {"seconds": 0}
    weights = [average(checkpoints(folder)[-1:]) for folder in (whole, broken)]
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name]), name


@pytest.mark.slow
def test_a_stopped_run_is_saved_and_resumes(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = _run_folder(prepared, tmp_path / "run")
    trainer = Trainer(_recipe(prepared, steps=5), folder)
    step = trainer._step

    def stop_after_two(stream: object) -> None:
        step(stream)
        if trainer.progress.step == 2:
            trainer.stop()

    monkeypatch.setattr(trainer, "_step", stop_after_two)
    trainer.run()
    assert [path.name for path in checkpoints(folder)] == ["step-0000002.safetensors"]
    assert not (folder / "log.jsonl").exists()  # a stopped training does not validate
    Trainer(_recipe(prepared, steps=5), folder).run()
    assert checkpoints(folder)[-1].name == "step-0000005.safetensors"


def test_the_error_names_missing_development_text_before_training(prepared: Path, tmp_path: Path) -> None:
    folder = _run_folder(prepared, tmp_path / "run")
    recipe = _recipe(prepared)
    elsewhere = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, development=("gone.en-de.tsv",)))
    with pytest.raises(FileNotFoundError, match="gone"):
        Trainer(elsewhere, folder)


def test_development_text_needs_no_source_with_one_direction(prepared: Path, tmp_path: Path) -> None:
    recipe = _recipe(prepared)
    one_way = dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, one_way={"made": "en-de"}))
    Trainer(one_way, _run_folder(prepared, tmp_path / "run"))


@pytest.mark.slow
def test_two_processes_under_torchrun(prepared: Path, tmp_path: Path) -> None:
    """Two processes with half of the tokens each write one set of weights, and a second run adds no step."""
    _recipe(prepared, steps=3)
    command = [
        # gloo may abort one rank while the other exits; torchrun then restarts the ranks, and they resume.
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "2", "--nproc-per-node", "2",
        "-m", "model.training", "--threads", "1", "train", str(prepared / "adam-wsd-3.toml"), str(tmp_path / "run"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-0000003.safetensors"]
    again = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert again.returncode == 0, again.stderr[-2000:]
    assert [path.name for path in checkpoints(tmp_path / "run")] == ["step-0000003.safetensors"]


@pytest.mark.slow
def test_packaged_folder_translates(prepared: Path, tmp_path: Path) -> None:
    folder = _run_folder(prepared, tmp_path / "run")
    recipe = _recipe(prepared, steps=3)
    Trainer(recipe, folder).run()
    commands.package(recipe, prepared / "adam-wsd-3.toml", folder, tmp_path / "weights", last=1)
    served = read_folder(tmp_path / "weights")
    assert served.pairs == (("en", "de"), ("de", "en"))
    tokenizer = served.load_tokenizer()
    source = tokenizer.encode("the cat sees one dog.", "de").ids
    shape = served.model
    hypotheses = translate(
        TorchBackend(load_model(served), 2),
        [source],
        DecodingOptions(max_length=8),
        start=shape.decoder_start_id,
        end=shape.eos_id,
        max_length=shape.max_length,
    )
    assert len(hypotheses[0][0].tokens) <= 8
    assert (tmp_path / "weights" / "curve.svg").stat().st_size > 0


@pytest.mark.slow
def test_a_package_may_be_a_mixture_with_a_finished_model(prepared: Path, tmp_path: Path) -> None:
    folder, file = _run_folder(prepared, tmp_path / "run"), prepared / "adam-wsd-3.toml"
    recipe = _recipe(prepared, steps=3)
    Trainer(recipe, folder).run()
    commands.package(recipe, file, folder, tmp_path / "old", last=1)
    Trainer(_recipe(prepared, steps=6), folder).run()
    commands.package(recipe, file, folder, tmp_path / "new", last=1)
    mixture = commands.Mixture(tmp_path / "old", 0.25)
    commands.package(recipe, file, folder, tmp_path / "mixed", last=1, mixture=mixture)
    old, new, mixed = (load_model(read_folder(tmp_path / name)).state_dict() for name in ("old", "new", "mixed"))
    for name, weights in mixed.items():
        torch.testing.assert_close(weights, 0.75 * new[name] + 0.25 * old[name], rtol=0, atol=1e-3)
    assert any(not torch.equal(old[name], new[name]) for name in new)
    facts = json.loads((tmp_path / "mixed" / "training.json").read_text(encoding="utf-8"))
    assert facts["mixture"] == {"model": "old", "share": 0.25}


def test_batches_fill_their_shape_and_cover_every_pair(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    recipe = _recipe(prepared)
    batches = Batches(shard, recipe, SpecialIds(0, 2, 3, {"en": 4, "de": 5}), None, 840)
    seen: list[int] = []
    for plan in batches._plan_epoch(0):
        seen.extend(plan.examples.tolist())
    assert len(seen) == len(set(seen))
    assert len(seen) > 0.9 * 2 * len(shard.group)
    for _, _, batch in itertools.islice(batches.stream(), 5):
        assert batch.source.shape[0] * batch.source.shape[1] == 840
        assert batch.target.shape == batch.source.shape
        assert batch.tokens == int((batch.labels != IGNORED).sum())
        assert batch.source_tokens == int((batch.source != 0).sum())


def test_a_stream_resumes_in_the_middle_of_an_epoch(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    batches = Batches(shard, _recipe(prepared), SpecialIds(0, 2, 3, {"en": 4, "de": 5}), None, 840)
    whole = list(itertools.islice(batches.stream(), 8))
    later = list(itertools.islice(batches.stream(0, 5), 3))
    for (_, index, batch), (_, again, same) in zip(whole[5:], later, strict=True):
        assert index == again
        assert torch.equal(batch.source, same.source)


def test_ranks_share_the_batches(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    specials = SpecialIds(0, 2, 3, {"en": 4, "de": 5})
    parts = [Batches(shard, _recipe(prepared), specials, None, 840, rank=r, ranks=2) for r in range(2)]
    indices = [[index for _, index, _ in itertools.islice(part.stream(), 3)] for part in parts]
    assert indices == [[0, 2, 4], [1, 3, 5]]


def test_prepare_writes_a_missing_shard_and_keeps_the_vocabulary(prepared: Path, tmp_path: Path) -> None:
    folder = _run_folder(prepared, tmp_path / "run")
    vocabulary, expected = (folder / "tokenizer.model").read_bytes(), Shard.load(folder, "pairs")
    (folder / "pairs.npz").unlink()
    (folder / "pairs.json").write_text("{}", encoding="utf-8")  # manifest of earlier versions
    commands.prepare(_recipe(prepared), folder)
    assert (folder / "tokenizer.model").read_bytes() == vocabulary
    assert np.array_equal(Shard.load(folder, "pairs").english, expected.english)


def test_zero_weight_sources_are_left_out(prepared: Path) -> None:
    shard = Shard.load(prepared / "run", "pairs")
    assert shard.groups == ("made:de",)


def test_average_is_the_mean(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    for i in range(3):
        save_file({"w": torch.full((2,), float(i))}, tmp_path / f"step-{i}.safetensors")
    assert torch.equal(average(checkpoints(tmp_path))["w"], torch.full((2,), 1.0))


def test_schedules() -> None:
    rates = [noam(step, 512, 4000) for step in range(1, 8000)]
    assert int(np.argmax(rates)) + 1 == 4000
    assert wsd(1000, 0.5, 10, 0.2) == 1.0
    assert wsd(1000, 1.0, 10, 0.2) == pytest.approx(0.0)
    assert wsd(5, 0.0, 10, 0.2) == 0.5


def test_width_ladder_rejects_numbers_with_few_divisors() -> None:
    assert width_ladder(840, 30)[-1] == 30
    with pytest.raises(ValueError, match="divisors"):
        width_ladder(8009, 40)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = ", "not TOML"),
        ('name = "a"', "languages"),
        ('name="a"\nlanguages=["en"]\nfoo=1', "foo"),
        ('name="a"\nlanguages=["en"]\n[train]\nspeed=1', "speed"),
        ('name="a"\nlanguages=["en"]\npreset="tiny"', "preset must be one of base, big, small, not 'tiny'"),
        ('name="a"\nlanguages=["en"]\n[model]\nwidth=8', r"\[model\] has unknown keys: width"),
        ('name="a"\nlanguages=["en"]\n[model]\nheads=7', r"\[model\]: d_model 512 must be divisible"),
        (
            f'{_DATA}one_way={{dict="de-fr"}}',
            r"\[data.one_way\] has 'de-fr', which is none of the directions en-de, de-en",
        ),
        (f'{_DATA}back_translated={{bt="en-it"}}', r"\[data.back_translated\] has 'en-it'"),
        (f"{_DATA}directions={{en-it=2.0}}", r"\[data.directions\] has 'en-it'"),
        (f'{_DATA}one_way={{bt="en-de"}}\nback_translated={{bt="en-de"}}', "bt is in .* leave one out"),
        ('name="a"\nlanguages=["en"]\nsegment_length=600', "segment_length must be an integer from 0 to 512"),
        ('name="a"\nlanguages=["en"]\nsegment_length="60"', "segment_length must be an integer from 0 to 512"),
        ('name="a"\nlanguages=["en"]\nsegment_length=60\n[model]\nmax_length=50', "from 0 to 50, not 60"),
    ],
)
def test_recipe_errors_name_the_key(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match=words):
        load_recipe(tmp_path / "r.toml")


def test_the_shortlist_has_the_translations_of_each_word(prepared: Path, tmp_path: Path) -> None:
    recipe, run = _recipe(prepared), prepared / "run"
    tokenizer = (run / "tokenizer.model").read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(tokenizer)
    sizes = ListSizes(pairs=500, best=3, frequent=2)
    line = commands.write_shortlist(recipe, run, tmp_path, sizes)
    config = model_config(
        recipe, processor := sentencepiece.SentencePieceProcessor(model_file=str(run / "tokenizer.model"))
    )
    folder = ModelFolder(
        path=tmp_path, name="x", model=config, pairs=(), tags={}, license="", origin="", tokenizer=TokenizerFiles()
    )
    found = read_shortlist(folder, "auto")
    assert found is not None
    assert found.tags == tuple(processor.piece_to_id([">>en<<", ">>de<<"]))
    assert line.startswith(f"{len(found.targets)} targets; ")
    for tag, words, translations in (">>de<<", _ENGLISH, _GERMAN), (">>en<<", _GERMAN, _ENGLISH):
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
        commands.write_shortlist(recipe, run, tmp_path, sizes)
