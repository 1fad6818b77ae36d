"""Measures the roles of a model's heads on sentences of this package and writes roles.json. An import does so.

python -m model.convert.head_roles weights/NAME
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from model.analysis.head_roles import HeadRoles, Kind, RoleCounter, Tokens, Weights, weights_hash
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


def measure(folder: ModelFolder, backend: InspectableBackend) -> HeadRoles | None:
    """Returns the roles of the heads over the sentences, or None where no direction of the model has sentences that it can
    read."""
    directions = list(islice((pair for pair in folder.pairs if pair[0] in SENTENCES), _DIRECTIONS))
    if not directions:
        return None
    tokenizer, counter = folder.load_tokenizer(), RoleCounter()
    for source, target in directions:
        for encoding, written in _pairs(backend, tokenizer, folder, source, target):
            _count(counter, backend, tokenizer, encoding, written, tokenizer.first_token(target))
    if not counter.sentences:
        return None
    names = tuple(f"{source}-{target}" for source, target in directions)
    return HeadRoles(weights_hash(folder.path), counter.sentences, names, counter.roles())


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m model.convert.head_roles", description=measure.__doc__)
    parser.add_argument("folder", type=Path, help="model folder")
    try:
        folder = read_folder(parser.parse_args(arguments).folder)
        roles = measure(folder, open_exact(folder))
    except FolderError as error:
        parser.error(str(error))
    if roles is None:
        parser.error(f"there are no sentences for the languages of {folder.name}")
    roles.write(folder.path)


def _pairs(
    backend: InspectableBackend, tokenizer: Tokenizer, folder: ModelFolder, source: str, target: str
) -> list[tuple[Encoding, tuple[int, ...]]]:
    """Returns the sources, and the target ids without start and end. The targets are the sentences of the package, or the
    model's own greedy translations into other languages."""
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
    pairs = zip(encodings, targets, strict=True)
    return [(encoding, ids) for encoding, ids in pairs if 0 < len(ids) <= limit and len(encoding.ids) <= limit]


def _count(
    counter: RoleCounter,
    backend: InspectableBackend,
    tokenizer: Tokenizer,
    source: Encoding,
    target: tuple[int, ...],
    first: int | None,
) -> None:
    maps = backend.attention_maps(source.ids, target if first is None else (first, *target))
    if first is not None:
        maps = maps.without_first_token(None)
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
