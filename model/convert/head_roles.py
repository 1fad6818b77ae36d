"""Measures a model's heads on sentences of this package: their roles (roles.json), and the layer that aligns words
(alignment.json, where there is none). An import does so.

python -m model.convert.head_roles weights/NAME
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from model.analysis.attention_alignment import FILE, AlignmentLayer, agreement, alignment_map, words
from model.analysis.head_roles import HeadRoles, Kind, RoleCounter, Tokens, Weights, weights_hash
from model.analysis.types import AttentionMaps
from model.backends.cpu.backend import open_backend
from model.backends.cpu.build import build
from model.backends.cpu.isa import CpuBackendUnavailable
from model.backends.interface import InspectableBackend
from model.convert.sample_sentences import SENTENCES
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.tokenizer import Encoding, Tokenizer

log = logging.getLogger(__name__)
_DIRECTIONS = 3
"""Number of directions that are measured."""
_SLOTS = 24
_LONGEST = 128
"""Longest source and target, in tokens."""


def open_exact(folder: ModelFolder) -> InspectableBackend:
    """Opens a folder in float32: on the CPU backend, or on PyTorch where that cannot run the model, with a warning. Raises
    FolderError, and ModuleNotFoundError without the torch that is needed."""
    try:
        return open_backend(folder, build(), slots=_SLOTS, threads=min(16, os.cpu_count() or 1), precision="float32")
    except CpuBackendUnavailable as reason:
        log.warning("The model needs PyTorch or a GPU to run. %s", reason)
    from model.backends.torch.backend import TorchBackend
    from model.checkpoint import load_model

    return TorchBackend(load_model(folder), _SLOTS)


def measure(folder: ModelFolder, backend: InspectableBackend) -> bool:
    """Writes the roles of the heads over the sentences, and the layer of cross-attention whose alignments agree most.
    Returns False where no direction of the model has sentences that it can read."""
    directions = list(islice((pair for pair in folder.pairs if pair[0] in SENTENCES), _DIRECTIONS))
    tokenizer, counter = folder.load_tokenizer(), RoleCounter()
    layers = range(folder.model.decoder_layers)
    agreed = {AlignmentLayer(layer, shift): 0 for layer in layers for shift in (False, True)}
    for source, target in directions:
        first = tokenizer.first_token(target)
        for text, encoding, written in _pairs(backend, tokenizer, folder, source, target):
            maps = backend.attention_maps(encoding.ids, written if first is None else (first, *written))
            maps = maps if first is None else maps.without_first_token(None)
            _count(counter, maps, tokenizer, encoding, written)
            decoding = tokenizer.decode_pieces(written)
            sides = ((text, encoding), (decoding.text, decoding))
            worded = [words(text, side.pieces, side.offsets) for text, side in sides]
            for layer in agreed:
                agreed[layer] += agreement(alignment_map(maps, layer), *worded)
    if not counter.sentences:
        return False
    names = tuple(f"{source}-{target}" for source, target in directions)
    HeadRoles(weights_hash(folder.path), counter.sentences, names, counter.roles()).write(folder.path)
    if not (folder.path / FILE).exists():
        (folder.path / FILE).write_text(max(agreed, key=agreed.__getitem__).to_json(), encoding="utf-8")
    return True


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m model.convert.head_roles", description=measure.__doc__)
    parser.add_argument("folder", type=Path, help="model folder")
    try:
        folder = read_folder(parser.parse_args(arguments).folder)
        measured = measure(folder, open_exact(folder))
    except FolderError as error:
        parser.error(str(error))
    if not measured:
        parser.error(f"there are no sentences for the languages of {folder.name}")


def _pairs(
    backend: InspectableBackend, tokenizer: Tokenizer, folder: ModelFolder, source: str, target: str
) -> list[tuple[str, Encoding, tuple[int, ...]]]:
    """Returns the sources with their encodings, and the target ids without start and end. The targets are the sentences of
    the package, or the model's own greedy translations into other languages."""
    config = folder.model
    limit = min(config.max_length, _LONGEST) - 2
    encodings = [tokenizer.encode(text, target, source) for text in SENTENCES[source]]
    if target in SENTENCES:
        targets = [tokenizer.encode_target(text) for text in SENTENCES[target]]
    else:
        sources = [encoding.ids[:limit] for encoding in encodings]
        translations = translate(
            backend,
            sources,
            DecodingOptions(first_token=tokenizer.first_token(target)),
            start=config.decoder_start_id,
            end=config.eos_id,
            max_length=min(config.max_length, 2 * max(map(len, sources))),
            generation=folder.generation,
        )
        targets = [tuple(hypotheses[0].tokens) for hypotheses in translations]
    pairs = zip(SENTENCES[source], encodings, targets, strict=True)
    return [pair for pair in pairs if 0 < len(pair[2]) <= limit and len(pair[1].ids) <= limit]


def _count(
    counter: RoleCounter, maps: AttentionMaps, tokenizer: Tokenizer, source: Encoding, target: tuple[int, ...]
) -> None:
    weights: dict[Kind, Weights] = {"encoder": maps.encoder, "decoder": maps.decoder, "cross": maps.cross}
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
