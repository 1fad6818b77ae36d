"""Studies of an encoder on one sentence: residual, feed-forward units, and the effect of positions in every layer.

Computed in float32 from the weights in the model folder, in a thread of the API process, one sentence at a time. Workers
do not take part, so translations do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from model.analysis.attention_alignment import Word, words
from model.analysis.encoder_layers import (
    EmbeddedSentence,
    LayerRecord,
    embedded,
    encoder_layers,
    encoder_output,
    encoder_parameters,
)
from model.analysis.position_fit import position_fit
from model.backends.cpu.tensors import SafetensorFiles, position_table
from model.convert.sample_sentences import SENTENCES
from model.model_folder import FolderError, ModelFolder, read_folder
from model.tokenizer import Encoding
from model.weight_files import weight_files
from server.errors import InvalidRequest, TextTooLong, Unavailable
from server.inspection.inspector import Inspector
from server.translation.catalog import Leg
from server.translation.time_limit import TimeLimit

PARAMETERS_LIMIT = 100_000_000
"""Largest encoder that is studied, in weights of its matrices: each pass reads all of them from the disk."""
_UNITS, _PIECES = 4, 3
"""Units that are named in each layer, and pieces of each unit."""
_KEPT = 64
Result = TypeVar("Result")
Fits = tuple[tuple[float, ...], tuple[float, ...]]
_fits: dict[tuple[str, str, str], Fits] = {}
"""R2 by layer with and without positions, by model and languages."""


@dataclass(frozen=True, slots=True)
class FiringUnit:
    """A unit of a feed-forward network with the pieces on which its output is largest: (piece, output)."""

    unit: int
    pieces: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class LayerStudy:
    """One layer. The numbers of `record` are those of each piece; `active` is the share of units above 0."""

    record: LayerRecord
    active: tuple[float, ...]
    units: tuple[FiringUnit, ...]


@dataclass(frozen=True, slots=True)
class EncoderStudy:
    """`order` are the pieces with the words in reverse order. `moved` and `moved_without_positions` say for each piece of
    the sentence how much the encoder's output for it changes in this order: the length of the difference over the length
    of the output. `position_fit` is R2 of the place in a sentence, read from the embedding and from each layer, and
    `position_fit_without` the same without positions; None for a language without sample sentences."""

    leg: Leg
    text: str
    encoding: Encoding
    words: tuple[Word, ...]
    layers: tuple[LayerStudy, ...]
    order: tuple[int, ...]
    moved: tuple[float, ...]
    moved_without_positions: tuple[float, ...]
    position_fit: tuple[float, ...] | None
    position_fit_without: tuple[float, ...] | None


async def study_encoder(
    inspector: Inspector, text: str, source: str, target: str, deadline: float | None
) -> EncoderStudy:
    """Returns the study of one sentence. Counts as an attention request.

    Raises InvalidRequest for an encoder that is too large and for directions that need two models, TextTooLong,
    Overloaded, DeadlineExceeded, Unavailable.
    """
    subject = inspector.given(text, "", source, target)
    leg, text = subject.leg, subject.pair.source_text
    encoding = leg.encode(text)
    limit = min(inspector.token_limit, leg.model.max_length)
    if len(encoding.ids) > limit:
        raise TextTooLong(f"The encoder is studied with at most {limit} tokens; this sentence has {len(encoding.ids)}.")
    async with TimeLimit(deadline):
        with inspector.admission.admit(1, deadline):
            return await in_turn(inspector.studies, lambda: _study(leg, text, encoding))


async def in_turn(place: asyncio.Semaphore, work: Callable[[], Result]) -> Result:
    """Runs `work` in a thread and returns its result. A cancelled caller leaves at once, and the place is free when the
    thread has ended, because a thread cannot be stopped."""

    def ended(thread: asyncio.Task[Result]) -> None:
        place.release()
        if not thread.cancelled():
            thread.exception()  # otherwise asyncio logs it when the caller is gone

    await place.acquire()
    thread = asyncio.create_task(asyncio.to_thread(work))
    thread.add_done_callback(ended)
    return await asyncio.shield(thread)


def _study(leg: Leg, text: str, encoding: Encoding) -> EncoderStudy:
    try:
        encoder = _Encoder(leg.model.folder)
        found = words(text, encoding.pieces, encoding.offsets)
        order = reversed_words(found)
        moved_ids = [encoding.ids[i] for i in order]
        sentences = [
            encoder.embed(ids, positions=positions) for positions in (True, False) for ids in (encoding.ids, moved_ids)
        ]
        layers = list(encoder_layers(encoder.config, encoder.tensors, sentences))
        fits = _position_fits(leg)
    except (FolderError, OSError):
        raise Unavailable("The model's weights cannot be read.") from None
    outputs = [encoder_output(encoder.config, encoder.tensors, record.output) for record in layers[-1]]
    plain = [i for word in found if not word.special for i in word.pieces]
    return EncoderStudy(
        leg=leg,
        text=text,
        encoding=encoding,
        words=found,
        layers=tuple(_layer(records[0], plain) for records in layers),
        order=order,
        moved=_change(outputs[0], outputs[1], order),
        moved_without_positions=_change(outputs[2], outputs[3], order),
        position_fit=fits and fits[0],
        position_fit_without=fits and fits[1],
    )


class _Encoder:
    """The encoder of a model folder. Raises InvalidRequest for one that is too large, FolderError."""

    def __init__(self, folder: Path) -> None:
        described: ModelFolder = read_folder(folder)
        self.config = described.model
        if encoder_parameters(self.config) > PARAMETERS_LIMIT:
            raise InvalidRequest(
                f"Only encoders of at most {PARAMETERS_LIMIT // 1_000_000} million weights are studied; this one has "
                f"{encoder_parameters(self.config) / 1e6:.0f} million."
            )
        self.tensors = SafetensorFiles(weight_files(folder))
        self._table = position_table(self.config, self.tensors)

    def embed(self, ids: Sequence[int], *, positions: bool) -> EmbeddedSentence:
        name = "embedding.weight" if self.config.tied_embeddings else "source_embedding.weight"
        return embedded(self.config, self.tensors.rows(name, ids), self._table, positions=positions)


def reversed_words(found: Sequence[Word]) -> tuple[int, ...]:
    """Returns the pieces of a sentence with its words in reverse order. Pieces without text keep their place."""
    plain = [word for word in found if not word.special]
    backwards = iter(reversed(plain))
    return tuple(i for word in found for i in (word if word.special else next(backwards)).pieces)


def _change(first: NDArray[np.float32], second: NDArray[np.float32], order: Sequence[int]) -> tuple[float, ...]:
    """Returns for each piece of `first` the relative distance to its vector in `second`, whose pieces are `order`."""
    place = np.argsort(order)
    distance = np.linalg.norm(first - second[place], axis=-1) / np.linalg.norm(first, axis=-1)
    return tuple(distance.tolist())


def _layer(record: LayerRecord, plain: Sequence[int]) -> LayerStudy:
    """Returns the numbers of a layer; units are chosen by the pieces with text."""
    units = record.units[list(plain)] if plain else record.units[:0]
    best = np.argsort(-units.max(axis=0, initial=0.0), kind="stable")[:_UNITS] if len(units) else ()
    firing = []
    for unit in best:
        strongest = np.argsort(-units[:, unit])[:_PIECES].tolist()
        pieces = ((plain[i], round(float(units[i, unit]), 4)) for i in strongest)
        firing.append(FiringUnit(int(unit), tuple((piece, output) for piece, output in pieces if output > 0)))
    return LayerStudy(record, tuple((record.units > 0).mean(axis=1).tolist()), tuple(firing))


def _position_fits(leg: Leg) -> Fits | None:
    """Returns R2 by layer with and without positions, over the sample sentences of the source language."""
    if leg.source not in SENTENCES:
        return None
    key = (leg.model.key, leg.source, leg.target)
    if key not in _fits:
        if len(_fits) >= _KEPT:
            _fits.clear()
        _fits[key] = _fit(leg, positions=True), _fit(leg, positions=False)
    return _fits[key]


def _fit(leg: Leg, *, positions: bool) -> tuple[float, ...]:
    encoder, encoded = _Encoder(leg.model.folder), [leg.encode(text) for text in SENTENCES[leg.source]]
    places = [np.array([i for i, (start, end) in enumerate(each.offsets) if start < end]) for each in encoded]
    sentences = [encoder.embed(each.ids, positions=positions) for each in encoded]
    states = [[sentence.x for sentence in sentences]]
    layers = encoder_layers(encoder.config, encoder.tensors, sentences)
    states += [[record.output for record in records] for records in layers]
    return tuple(position_fit([x[at] for x, at in zip(layer, places, strict=True)], places) for layer in states)
