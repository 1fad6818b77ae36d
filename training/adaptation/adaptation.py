"""Adaptation of a model to pairs of texts: judges, trains, mixes the weights with those of before,
and judges again."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from model.analysis.confidence import weights_hash
from model.model_folder import ModelFolder
from model.pairs import Pair
from model.shortlist import read_shortlist
from model.transformer import Transformer
from training.adaptation.judgement import MOST_LOST, Judgement, Sentence, judge
from training.adaptation.training import Example, encode, train, write_mixture
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
