"""Models of every shape can be trained further, interrupted at any step, and mixed with what they were."""

from __future__ import annotations

import os
import signal
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest
import torch

from model.checkpoint import load_model, save_model
from model.convert.importer import import_model
from model.head_roles import open_exact
from model.model_folder import ModelFolder, read_folder
from model.pairs import Pair
from model.search.driver import check_trial_sentence
from model.shortlist import Shortlist
from model.symbols import SYMBOLS
from tests.support.models.firefox_models import random_firefox
from tests.support.models.folders import new_folder
from tests.support.models.marian_models import made_up_text, random_huggingface
from tests.support.models.multilingual_models import random_multilingual
from tests.support.models.random_models import random_model
from tests.support.models.tiny_training import small_vocabulary
from training.adaptation import training
from training.adaptation.examples import Example, ExampleBatches, encode
from training.adaptation.training import train, write_mixture
from training.data.batches import PADDING
from training.loop.loss import perplexity_loss
from training.loop.trainer import Trainer
from training.shortlist import extended

DIRECTION = ("en", "de")
PAIRS = [Pair(text, f"{text} {text.split()[0]}") for text in made_up_text(3, 120)]


def base(shape: str, path: Path) -> ModelFolder:
    """Returns a random model of a shape: the embedded model's, or one that is imported."""
    if shape == "embedded":
        path.mkdir()
        symbols = [">>de<<", *SYMBOLS]
        pieces = small_vocabulary(path / "tokenizer.model", made_up_text(3), 500, user_defined_symbols=symbols)
        model = random_model(vocab_size=pieces.get_piece_size(), tied_embeddings=True, dropout=0.0, max_length=96)
        folder = new_folder(path, model.config, tags={"de": ">>de<<"}, license="MIT")
        save_model(folder, model)
        return folder
    made = path / "made"
    if shape == "firefox":
        random_firefox(made, precision="float32", vocabularies=2, dropout=0.0)
    elif shape == "marian":
        random_huggingface(made)
    else:
        random_multilingual(made, shape)
    return import_model(made, path / "weights")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["embedded", "firefox", "marian", "m2m100", "nllb"])
def test_a_model_of_any_shape_learns_the_pairs_and_is_served(shape: str, tmp_path: Path) -> None:
    folder = base(shape, tmp_path / "base")
    examples = encode(PAIRS, folder, DIRECTION)
    assert len(examples) > 100
    batches = [batch for _, _, batch in takewhile(lambda item: item[0] == 0, ExampleBatches(examples, 999).stream())]
    (tmp_path / "work").mkdir()
    after = train(folder, examples, tmp_path / "work", 1)
    before = load_model(folder)
    assert after is not None
    assert perplexity_loss(after, batches) < perplexity_loss(before, batches) - 0.1
    for share, expected in ((0.0, before), (1.0, after)):
        write_mixture(folder, after, share, tmp_path / "mine", DIRECTION, None)
        written = read_folder(tmp_path / "mine")
        assert (written.name, written.pairs, written.license) == ("mine", (DIRECTION,), folder.license)
        for name, tensor in load_model(written).state_dict().items():
            assert torch.equal(tensor, expected.state_dict()[name]), name
        check_trial_sentence(open_exact(written), written.model)
        assert encode(PAIRS[:9], written, DIRECTION) == encode(PAIRS[:9], folder, DIRECTION)


@pytest.mark.slow
def test_a_resumed_training_equals_an_uninterrupted_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = base("embedded", tmp_path / "base")
    examples = encode(PAIRS, folder, DIRECTION)
    monkeypatch.setattr(training, "_BATCH_TOKENS", 256)
    works = [tmp_path / "whole", tmp_path / "broken"]
    for work in works:
        work.mkdir()
    whole = train(folder, examples, works[0], 9)
    step, stop_at = Trainer._step, {3: signal.SIGINT, 5: signal.SIGTERM}

    def interrupted(trainer: Trainer, stream: object) -> None:
        step(trainer, stream)
        if number := stop_at.pop(trainer.progress.step, None):
            os.kill(os.getpid(), number)

    monkeypatch.setattr(Trainer, "_step", interrupted)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert [train(folder, examples, works[1], 9) for _ in range(2)] == [None, None]
    resumed = train(folder, examples, works[1], 9)
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def test_an_epoch_has_every_example_once_and_goes_on_anywhere() -> None:
    examples: list[Example] = [(tuple(range(4, 6 + i % 7)), (0, *range(9, 10 + i % 5), 0)) for i in range(61)]
    stream = ExampleBatches(examples, 40).stream()
    epoch = list(takewhile(lambda item: item[0] == 0, stream))
    rows = [
        tuple(tuple(side[side != PADDING].tolist()) for side in pair)
        for _, _, batch in epoch
        for pair in zip(batch.source, batch.target, strict=True)
    ]
    assert len(rows) >= len(examples) - 1 and not set(rows) - set(examples)  # one that is left over has no batch
    assert sum(batch.tokens for _, _, batch in epoch) == sum(len(target) - 1 for _, target in rows)
    again = next(ExampleBatches(examples, 40).stream(0, 3))
    assert again[:2] == (0, 3) and torch.equal(again[2].source, epoch[3][2].source)


@pytest.mark.parametrize("tags", [(), (2, 3)])
def test_a_shortlist_allows_what_the_examples_write(tags: tuple[int, ...]) -> None:
    rows = 50 * max(1, len(tags))
    narrow = Shortlist(np.arange(rows + 1), np.arange(rows, dtype=np.int32) % 20, 0, False, 50, tags)
    wide = extended(narrow, [(np.array([3, 7, 8]), np.array([31, 32]))] * 3)

    def allowed(listed: Shortlist, source: tuple[int, ...]) -> set[int]:
        table, own = listed.split(source, 0)
        return {*listed.common()[table].tolist(), *own.tolist()}

    assert {31, 32} <= allowed(wide, (3, 7, 8)) and not {31, 32} & allowed(narrow, (3, 7, 8))
    if tags:
        assert allowed(wide, (2, 7, 8)) == allowed(narrow, (2, 7, 8))
