"""Pairs as token ids, and their batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from model.backends.torch.inputs import pad_ids
from model.model_folder import FolderError, ModelFolder
from model.pairs import Pair
from model.symbols import PLACEHOLDERS
from training.data.batches import PADDING, Batch, aligned
from training.data.placeholders import mask_shared_spans
from training.loop.hardware import row_multiple

_LONGEST = 128
"""Tokens of the longest side of a pair."""
_MASKED_SHARE = 0.5
"""Share of the pairs whose common spans are masked, as a server masks what is not translated."""

Example = tuple[tuple[int, ...], tuple[int, ...]]
"""What the model reads and writes: the source with tags and end, the target with start and end."""


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
    """An endless stream of batches of all examples, determined by the epoch and the index of the
    batch in it. A batch has at most `batch_tokens` padded tokens on each side."""

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
        """Returns the batch of the examples with these numbers."""
        rows = zip(*(self._examples[i] for i in chosen), strict=True)
        source, target = (pad_ids(side, PADDING, torch.device("cpu"))[0] for side in rows)
        return Batch(source, target, int((target[:, 1:] != PADDING).sum()))
