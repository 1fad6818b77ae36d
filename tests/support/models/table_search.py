"""Search on a table of next-token distributions in place of a model, whose results are exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.model_folder import Generation
from model.search.backend_interface import StepOutput
from model.search.driver import translate
from model.search.options import DEFAULT_GENERATION, DecodingOptions, Hypothesis

END, START = 0, 1
CONFIG = ModelConfig(vocab_size=4, eos_id=END, decoder_start_id=START, max_length=60)


class Table:
    """A backend whose next-token distribution is a function of the previous tokens. It counts the
    steps."""

    def __init__(self, size: int = 4, slots: int = 8, seed: int = 0) -> None:
        self.size, self.slots, self.seed = size, slots, seed
        self.rows: dict[int, tuple[int, ...]] = {}
        self.steps = 0

    def log_probabilities(self, prefix: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
        logits = np.random.default_rng([self.seed, *prefix]).normal(size=self.size) * 1.5
        return logits - np.log(np.exp(logits).sum())

    def prefill(
        self,
        sources: Sequence[Sequence[int]],
        slots: Sequence[int],
        masked_heads: Any = (),
        restrictions: Any = (),
    ) -> None:
        for source, slot in zip(sources, slots, strict=True):
            self.rows[slot] = tuple(source)

    def step(
        self, slots: Sequence[int], tokens: Sequence[int], candidates: int, forced: Sequence[int]
    ) -> StepOutput:
        ids, scores = [], []
        for slot, token, wanted in zip(slots, tokens, forced, strict=True):
            self.steps += 1
            self.rows[slot] = (*self.rows[slot], token)
            row = self.log_probabilities(self.rows[slot])
            order = [int(i) for i in np.argsort(-row)][:candidates]
            if wanted >= 0:
                order = [wanted, *order][: len(order)]
            ids.append(order)
            scores.append(row[order])
        return StepOutput(np.array(ids, dtype=np.int64), np.array(scores, dtype=np.float32))

    def reorder(self, targets: Sequence[int], origins: Sequence[int]) -> None:
        before = dict(self.rows)
        for target, origin in zip(targets, origins, strict=True):
            self.rows[target] = before[origin]

    def free(self, slots: Sequence[int], *, broken: bool = False) -> None:
        for slot in slots:
            self.rows.pop(slot, None)

    def total(self, source: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """Returns the log-probability of each token of a target of `source`."""
        read = (*source, START)
        return [
            float(self.log_probabilities((*read, *tokens[:i]))[token])
            for i, token in enumerate(tokens)
        ]


def search(
    table: Table,
    source: Sequence[int] = (2, 3),
    *,
    generation: Generation = DEFAULT_GENERATION,
    **options: Any,
) -> tuple[Hypothesis, ...]:
    """Returns the hypotheses of one source."""
    return translate(table, [source], DecodingOptions(**options), CONFIG, generation)[0]


def complete(hypothesis: Hypothesis) -> tuple[int, ...]:
    """Returns the tokens, with the end of sentence if the hypothesis is finished."""
    return (*hypothesis.tokens, END) if hypothesis.finish_reason == "stop" else hypothesis.tokens
