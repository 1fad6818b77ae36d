"""Training of a finished model on further pairs, and folders with a mixture of its weights before and
after."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.analysis.attention_alignment import FILE as ALIGNMENT
from model.backends.torch.inputs import pad_ids
from model.checkpoint import load_model, save_model
from model.model_folder import FolderError, ModelFolder
from model.pairs import Pair
from model.shortlist import Shortlist
from model.symbols import PLACEHOLDERS
from model.transformer import Transformer
from model.weight_files import weight_bytes
from training.data.batches import PADDING, Batch, aligned
from training.data.placeholders import mask_shared_spans
from training.loop.hardware import keep_freed_memory, row_multiple
from training.loop.trainer import Trainer
from training.recipe import TrainRecipe

_EPOCHS = 10
"""Most epochs: with more, the model learns a small memory by heart."""
_RATE = 5e-3
"""Adam's peak rate times the square root of d_model."""
_BATCH_TOKENS, _MOST_LOGITS = 2048, 1 << 28
"""Target tokens of a batch; and the most logits, the largest tensor if the vocabulary is large."""
_LONGEST = 128
"""Tokens of the longest side of a pair."""
_MASKED_SHARE = 0.5
"""Share of the pairs whose common spans are masked, as a server masks what is not translated."""
Example = tuple[tuple[int, ...], tuple[int, ...]]
"""Model input and output: the source with tags and end, the target with start and end."""


def train(
    folder: ModelFolder, examples: Sequence[Example], work: Path, minutes: float
) -> Transformer | None:
    """Returns the model of `folder` after at most `minutes` of training. `work` receives
    checkpoints, from which the same call resumes. Ctrl-C and SIGTERM end the training with a
    checkpoint and return None."""
    keep_freed_memory()
    torch.manual_seed(1)
    model = load_model(folder).train()
    for name, parameter in model.named_parameters():
        if name.endswith("positions.weight"):
            parameter.requires_grad = False  # pairs do not have all positions
    batch_tokens = min(_BATCH_TOKENS, _MOST_LOGITS // folder.model.vocab_size)
    tokens = sum(len(target) for _, target in examples)
    recipe = TrainRecipe(
        schedule="wsd",
        rate=_RATE / math.sqrt(folder.model.d_model),
        warmup=20,
        decay=0.5,
        steps=math.ceil(_EPOCHS * tokens / batch_tokens),
        minutes=minutes,
        keep=1,
        validate_minutes=math.inf,
    )
    trainer = Trainer(
        recipe, work, model, ExampleBatches(examples, batch_tokens), lambda device: {}
    )
    earlier = [
        (number, signal.signal(number, lambda *_: trainer.stop()))
        for number in (signal.SIGINT, signal.SIGTERM)
    ]
    try:
        return trainer.model.cpu().eval() if trainer.run() else None
    finally:
        for number, handler in earlier:
            signal.signal(number, handler)


def write_mixture(
    base: ModelFolder,
    after: Transformer,
    share: float,
    path: Path,
    direction: tuple[str, str],
    shortlist: Shortlist | None,
) -> ModelFolder:
    """Writes the model folder `path` for one direction, with (1 - share) of the weights of `base`
    and `share` of those after (WiSE-FT, Wortsman et al. 2022, "Robust fine-tuning of zero-shot
    models"). A share of 0 is `base`, bit for bit.

    The numbers have the format of `base`, or float16 for int8. Requests that choose no model are
    not translated by it.
    """
    shutil.rmtree(path, ignore_errors=True)
    changes: dict[str, Any] = {"path": path, "name": path.name, "pairs": (direction,), "scores": {}}
    changes |= {"origin": f"adapted from {base.name}", "preference": base.preference - 1}
    folder, mixture, trained = (
        dataclasses.replace(base, **changes),
        load_model(base),
        after.state_dict(),
    )
    mixture.load_state_dict(
        {name: torch.lerp(old, trained[name], share) for name, old in mixture.state_dict().items()}
    )
    whole = weight_bytes(base.path) >= 4 * sum(
        parameter.numel() for parameter in mixture.parameters()
    )
    save_model(folder, mixture, dtype=torch.float32 if whole else torch.float16)
    files = base.tokenizer
    for name in {
        files.source,
        files.target,
        files.vocabulary,
        files.target_vocabulary,
        ALIGNMENT,
    } - {None}:
        if (base.path / str(name)).is_file():
            shutil.copyfile(base.path / str(name), path / str(name))
    if shortlist is not None:
        shortlist.write(path)
    return folder


def encode(pairs: Sequence[Pair], folder: ModelFolder, direction: tuple[str, str]) -> list[Example]:
    """Returns the pairs that are not too long for the model. Raises FolderError for a damaged
    tokenizer, and if all pairs are too long."""
    tokenizer, config = folder.load_tokenizer(), folder.model
    first = tokenizer.first_token(direction[1])
    start = (config.decoder_start_id,) if first is None else (config.decoder_start_id, first)
    masks, random = tokenizer.has(PLACEHOLDERS[0]), np.random.default_rng(0)
    examples = []
    for pair in pairs:
        source, target = pair.source, pair.target
        if masks and random.random() < _MASKED_SHARE:
            source, target = mask_shared_spans(source, target, random)
        ids = tokenizer.encode_ids(source, direction[1], direction[0])
        examples.append((ids, (*start, *tokenizer.encode_target(target), config.eos_id)))
    longest = min(_LONGEST, config.max_length)
    fitting = [example for example in examples if max(map(len, example)) <= longest]
    if not fitting:
        raise FolderError(
            f"{folder.name} is adapted to pairs of at most {longest} tokens; all of these are "
            "longer."
        )
    return fitting


class ExampleBatches:
    """An endless stream of batches of all examples, determined by the epoch and the index in it,
    with at most `batch_tokens` padded tokens on each side."""

    def __init__(self, examples: Sequence[Example], batch_tokens: int) -> None:
        self._examples, self._batch_tokens = examples, batch_tokens
        self._lengths = np.array([(len(source), len(target)) for source, target in examples])

    def stream(self, epoch: int = 0, skip: int = 0) -> Iterator[tuple[int, int, Batch]]:
        """Yields (epoch, index in the epoch, batch) without end, from batch `skip` of `epoch`
        on."""
        while True:
            random = np.random.default_rng(epoch)
            order = random.permutation(len(self._examples))
            sources, targets = self._lengths[order].T
            buckets = aligned(sources, targets, self._batch_tokens, 2, row_multiple())
            for index, place in enumerate(random.permutation(len(buckets))):
                if index >= skip:
                    yield epoch, index, self._build(order[buckets[place].members].tolist())
            epoch, skip = epoch + 1, 0

    def _build(self, chosen: Sequence[int]) -> Batch:
        rows = zip(*(self._examples[i] for i in chosen), strict=True)
        source, target = (pad_ids(side, PADDING, torch.device("cpu"))[0] for side in rows)
        return Batch(source, target, int((target[:, 1:] != PADDING).sum()))
