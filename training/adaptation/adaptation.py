"""Adaptation of a model to pairs of texts: judges, trains, mixes the weights with those of before,
and judges again."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.analysis.attention_alignment import FILE as ALIGNMENT
from model.analysis.confidence import weights_hash
from model.backends.torch.inputs import pad_ids
from model.checkpoint import load_model, save_model
from model.model_folder import FolderError, ModelFolder
from model.pairs import Pair
from model.shortlist import Shortlist, read_shortlist
from model.symbols import PLACEHOLDERS
from model.transformer import Transformer
from model.weight_files import weight_bytes
from training.adaptation.judgement import MOST_LOST, Judgement, Sentence, judge
from training.data.augment import mask_shared_spans
from training.data.batches import PADDING, Batch, aligned
from training.loop.hardware import keep_freed_memory, row_multiple
from training.loop.trainer import Trainer
from training.recipe import TrainRecipe
from training.shortlist import extended

SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the new weights that are tried."""
_CHOOSING = 300
"""Sentences that choose the share."""
_JUDGED, _LEAST_TRAINING, _MARGIN = 0.1, 0.3, 1.2
"""Parts of the minutes: at most _JUDGED for one judgement, at least _LEAST_TRAINING for the
training; and the reserve for later judgements."""

Translate = Callable[[Path, Sequence[str], float], list[str]]
"""Translates texts with a model folder as a server does: in order, those for which the seconds
suffice."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptation:
    """A task: the `base` model and its new `name`, the pairs to train on and the sentences that
    judge. `work` is a folder for checkpoints and candidates; `say` receives lines for the user."""

    base: ModelFolder
    name: str
    direction: tuple[str, str]
    training: Sequence[Pair]
    sentences: Sequence[Sentence]
    work: Path
    minutes: float
    translate: Translate
    say: Callable[[str], None]
    began: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds until the minutes are used up."""
        return self.began + 60 * self.minutes - time.monotonic()


@dataclass(frozen=True, slots=True)
class Adapted:
    """A folder in the work folder, the share of the new weights in it, its judgement, and the
    judged sentences with their translations before and after."""

    folder: ModelFolder
    share: float
    judgement: Judgement
    translations: list[tuple[Sentence, str, str]]


def adapt(task: Adaptation) -> Adapted | None:
    """Adapts a model within the minutes. Returns None if the training was interrupted; the same
    task resumes it."""
    examples = encode(task.training, task.base, task.direction)
    sentences = _in_order(task.sentences)
    started = task.left
    task.say("Judging the model before.")
    before = task.translate(
        task.base.path, [sentence.source for sentence in sentences], _JUDGED * 60 * task.minutes
    )
    judgements = 1 + len(SHARES) * min(1.0, _CHOOSING / len(before))
    seconds = task.left - _MARGIN * judgements * (started - task.left)
    task.say(f"Training on {len(examples)} pairs.")
    key = hashlib.sha256(
        repr((task.direction, examples, weights_hash(task.base.path))).encode()
    ).hexdigest()
    checkpoints = task.work / key[:16]
    checkpoints.mkdir(parents=True, exist_ok=True)
    after = train(
        task.base, examples, checkpoints, max(_LEAST_TRAINING * task.minutes, seconds / 60)
    )
    return None if after is None else _best_mixture(task, examples, sentences, before, after)


def _best_mixture(
    task: Adaptation,
    examples: Sequence[Example],
    sentences: Sequence[Sentence],
    before: Sequence[str],
    after: Transformer,
) -> Adapted:
    """Returns the mixture with the best kept sentences among those whose general sentences are
    hardly worse."""
    shortlist = read_shortlist(task.base)
    if shortlist is not None:
        shortlist = extended(
            shortlist, [(np.array(source), np.array(target[1:-1])) for source, target in examples]
        )
    terms = {pair.source: pair.target for pair in task.training if pair.term}
    path, judged = task.work / task.name, dict[float, Judgement]()

    def translated(
        share: float, count: int, seconds: float
    ) -> tuple[ModelFolder, list[str], Judgement]:
        folder = write_mixture(task.base, after, share, path, task.direction, shortlist)
        translations = task.translate(
            path, [sentence.source for sentence in sentences[:count]], seconds
        )
        return folder, translations, judge(sentences, before, translations, task.direction, terms)

    slowest = 0.0
    for later, share in zip(range(len(SHARES), 0, -1), SHARES, strict=True):
        if judged and task.left < 2 * slowest:
            task.say("No time for larger shares; more --minutes try them.")
            break
        started = task.left
        judged[share] = translated(share, _CHOOSING, task.left / (1 + later))[2]
        slowest = max(slowest, started - task.left)
        chrf, general = judged[share].chrf, judged[share].general
        task.say(f"{share:.0%} of the new weights: kept chrF {chrf}, general chrF {general}")
    # Half of what may be lost, because these are fewer sentences.
    share = max(
        judged,
        key=lambda share: (min(0.0, MOST_LOST / 2 - judged[share].lost), judged[share].gained),
    )
    folder, translations, judgement = translated(share, len(before), task.left)
    return Adapted(
        folder, share, judgement, list(zip(sentences, before, translations, strict=False))
    )


def _in_order(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Returns the sentences in a random order that has kept and general ones in equal shares
    everywhere."""
    shuffled = random.Random(1).sample(sentences, len(sentences))
    groups = [
        [sentence for sentence in shuffled if sentence.general == general]
        for general in (False, True)
    ]
    return [
        sentence
        for _, sentence in sorted(
            (i / len(group), sentence) for group in groups for i, sentence in enumerate(group)
        )
    ]


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
    models"). A share of 0 is `base`, bit for bit. Numbers have the format of `base`, or float16 for
    int8. Only requests that choose this model are translated by it."""
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
