"""Measures a model's heads on sentences of this package: their roles and losses (roles.json), and
the layer that aligns words (alignment.json, if missing). An import measures roles and layer; a
server measures losses on demand (`server.inspection.head_worth`).

python -m model.head_roles weights/NAME
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np

from model.analysis.attention_alignment import FILE, AlignmentLayer, agreement, alignment_map, words
from model.analysis.encoder_study import SENTENCES
from model.analysis.head_roles import (
    HeadLosses,
    HeadRoles,
    RoleCounter,
    Tokens,
    Weights,
    measure_losses,
    weights_hash,
)
from model.analysis.types import AttentionMaps, HeadMask, Kind
from model.backends.cpu.backend import open_backend
from model.backends.cpu.build import library
from model.backends.cpu.isa import CpuBackendUnavailable
from model.backends.interface import InspectableBackend
from model.config import ModelConfig
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.tokenizer import Encoding, Tokenizer

log = logging.getLogger(__name__)
_DIRECTIONS = 3
"""Number of directions that are measured."""
_SENTENCES = 100
"""Number of measured sentences, over all directions."""
_LEAST, _SLOTS = 5, 24
"""Fewest sentences on which losses are measured, and slots of the backend."""
_LONGEST = 128
"""Longest source and target, in tokens."""


def open_exact(folder: ModelFolder) -> InspectableBackend:
    """Opens a folder in float32 on the CPU backend; if that cannot run the model, on PyTorch with a
    warning. Raises FolderError, and ModuleNotFoundError without the torch that is needed."""
    try:
        return open_backend(
            folder,
            library(),
            slots=_SLOTS,
            threads=min(16, os.cpu_count() or 1),
            precision="float32",
        )
    except CpuBackendUnavailable as reason:
        log.warning("The model needs PyTorch or a GPU to run. %s", reason)
    from model.backends.torch.backend import TorchBackend
    from model.checkpoint import load_model

    return TorchBackend(load_model(folder), _SLOTS)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A sentence and its translation, without start and end; `first` is the target's first
    token."""

    text: str
    source: Encoding
    target: tuple[int, ...]
    first: int | None

    def maps(self, backend: InspectableBackend, masked_heads: HeadMask = ()) -> AttentionMaps:
        if self.first is None:
            return backend.attention_maps(self.source.ids, self.target, masked_heads)
        return backend.attention_maps(
            self.source.ids, (self.first, *self.target), masked_heads
        ).without_first_token(None)


def measure(folder: ModelFolder, backend: InspectableBackend, seconds: float = 0.0) -> bool:
    """Writes the roles of the heads over the sentences, the losses without them, and the layer of
    cross-attention whose alignments agree most. Losses are measured on the sentences for which
    `seconds` suffice. Returns False if no direction of the model has sentences that it can read."""
    tokenizer, counter = folder.load_tokenizer(), RoleCounter()
    layers = range(folder.model.decoder_layers)
    agreed = {AlignmentLayer(layer, shift): 0 for layer in layers for shift in (False, True)}
    directions, pairs = _sample(folder, backend, tokenizer)
    for pair in pairs:
        maps = pair.maps(backend)
        _count(counter, maps, tokenizer, pair.source, pair.target)
        decoding = tokenizer.decode_pieces(pair.target)
        sides = ((pair.text, pair.source), (decoding.text, decoding))
        worded = [words(text, side.pieces, side.offsets) for text, side in sides]
        for layer in agreed:
            agreed[layer] += agreement(alignment_map(maps, layer), *worded)
    if not pairs:
        return False
    names = tuple(f"{source}-{target}" for source, target in directions)
    losses = _losses(backend, folder.model, pairs, seconds) if seconds else None
    HeadRoles(weights_hash(folder.path), counter.sentences, names, counter.roles(), losses).write(
        folder.path
    )
    if not (folder.path / FILE).exists():
        (folder.path / FILE).write_text(
            max(agreed, key=agreed.__getitem__).to_json(), encoding="utf-8"
        )
    return True


def losses(folder: ModelFolder, seconds: float) -> HeadLosses | None:
    """Returns the losses without heads, on the sentences for which `seconds` suffice; None if these
    are too few."""
    backend = open_exact(folder)
    try:
        _, pairs = _sample(folder, backend, folder.load_tokenizer())
        return _losses(backend, folder.model, pairs, seconds) if pairs else None
    finally:
        backend.close()


def _sample(
    folder: ModelFolder, backend: InspectableBackend, tokenizer: Tokenizer
) -> tuple[list[tuple[str, str]], list[_Pair]]:
    """Returns the measured directions, and their sentences in turns."""
    directions = list(islice((pair for pair in folder.pairs if pair[0] in SENTENCES), _DIRECTIONS))
    chosen = [
        _pairs(backend, tokenizer, folder, direction, -(-_SENTENCES // len(directions)))
        for direction in directions
    ]
    return directions, [
        pair for number in zip_longest(*chosen) for pair in number if pair is not None
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m model.head_roles", description=measure.__doc__)
    parser.add_argument("folder", type=Path, help="model folder")
    try:
        folder = read_folder(parser.parse_args(arguments).folder)
        measured = measure(folder, open_exact(folder), math.inf)
    except FolderError as error:
        parser.error(str(error))
    if not measured:
        parser.error(f"there are no sentences for the languages of {folder.name}")


def _pairs(
    backend: InspectableBackend,
    tokenizer: Tokenizer,
    folder: ModelFolder,
    direction: tuple[str, str],
    count: int,
) -> list[_Pair]:
    """Returns the first `count` sentences of a direction that the model can read. Their targets are
    the package's sentences, or else the model's own greedy translations."""
    source, target = direction
    config, texts, first = folder.model, SENTENCES[source][:count], tokenizer.first_token(target)
    limit = min(config.max_length, _LONGEST) - 2
    encodings = [tokenizer.encode(text, target, source) for text in texts]
    if target in SENTENCES:
        targets = [tokenizer.encode_target(text) for text in SENTENCES[target][:count]]
    else:
        sources = [encoding.ids[:limit] for encoding in encodings]
        longest = min(config.max_length, 2 * max(map(len, sources)))
        options, shorter = DecodingOptions(first_token=first), config.replace(max_length=longest)
        translations = translate(backend, sources, options, shorter, folder.generation)
        targets = [tuple(hypotheses[0].tokens) for hypotheses in translations]
    pairs = zip(texts, encodings, targets, strict=True)
    return [
        _Pair(*pair, first)
        for pair in pairs
        if 0 < len(pair[2]) <= limit and len(pair[1].ids) <= limit
    ]


def _losses(
    backend: InspectableBackend, config: ModelConfig, pairs: Sequence[_Pair], seconds: float
) -> HeadLosses | None:
    shape: dict[Kind, tuple[int, int]] = {
        "encoder": (config.encoder_layers, config.heads),
        "decoder": (config.decoder_layers, config.decoder_heads),
        "cross": (config.decoder_layers, config.heads),
    }
    shape = {kind: size for kind, size in shape.items() if all(size)}
    start = time.monotonic()
    for pair in pairs[:_LEAST]:
        pair.maps(backend)
    passes = 1 + sum(1 + layers * (1 + heads) for layers, heads in shape.values())
    affordable = seconds * len(pairs[:_LEAST]) / (time.monotonic() - start) / passes
    least, pairs = min(_LEAST, len(pairs)), pairs[: int(min(affordable, len(pairs)))]

    def loss(masked_heads: HeadMask) -> float:
        return -float(
            np.concatenate([pair.maps(backend, masked_heads).token_scores for pair in pairs]).mean()
        )

    return measure_losses(loss, shape, len(pairs)) if len(pairs) >= least else None


def _count(
    counter: RoleCounter,
    maps: AttentionMaps,
    tokenizer: Tokenizer,
    source: Encoding,
    target: tuple[int, ...],
) -> None:
    weights: dict[Kind, Weights] = {
        "encoder": maps.encoder,
        "decoder": maps.decoder,
        "cross": maps.cross,
    }
    written = tuple(tokenizer.piece(token) for token in target)
    plain = (False,) * len(target)
    # A vocabulary has its rare pieces last, so an id tells how rare a piece is.
    counter.add(
        weights,
        Tokens(source.pieces, source.ids, tuple(start == end for start, end in source.offsets)),
        Tokens((*written, "</s>"), (*target, 0), (*plain, True)),
        Tokens(("<s>", *written), (0, *target), (True, *plain)),
    )


if __name__ == "__main__":
    main()
