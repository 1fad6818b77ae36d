"""Training of a finished model on further pairs, and folders with a mixture of its weights before
and after."""

from __future__ import annotations

import dataclasses
import math
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from model.analysis.attention_alignment import FILE as ALIGNMENT
from model.checkpoint import load_model, save_model
from model.model_folder import ModelFolder
from model.shortlist import Shortlist
from model.transformer import Transformer
from model.weight_files import weight_bytes
from training.adaptation.examples import Example, ExampleBatches
from training.loop.hardware import keep_freed_memory
from training.loop.trainer import Trainer
from training.recipe import TrainRecipe

_EPOCHS = 10
"""At most so often every pair is trained on: more makes a small memory known by heart."""
_RATE = 5e-3
"""Adam's peak rate times the square root of d_model."""
_BATCH_TOKENS, _MOST_LOGITS = 2048, 1 << 28
"""Target tokens of a batch; and the most logits, which are the largest tensor where the vocabulary
is large."""


def train(
    folder: ModelFolder, examples: Sequence[Example], work: Path, minutes: float
) -> Transformer | None:
    """Returns the model of `folder` after at most `minutes` of training. `work` gets checkpoints,
    from which the same call goes on. Ctrl-C and SIGTERM end the training with a checkpoint; then
    the result is None."""
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
