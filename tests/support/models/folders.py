"""Model folders, their translations by our search as token ids and as pieces, and comparisons of
translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from model.backends.torch.backend import TorchBackend
from model.checkpoint import load_model
from model.config import ModelConfig
from model.convert.vocabulary import folder_pieces
from model.model_folder import ModelFolder, TokenizerFiles
from model.search.backend_interface import Backend
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis


def new_folder(path: Path, config: ModelConfig, **fields: Any) -> ModelFolder:
    """Returns a folder for a model from English to German. `fields` are other values of its
    config.json."""
    described = {
        "name": "tiny",
        "pairs": (("en", "de"),),
        "tags": {},
        "license": "MIT",
        "origin": "random weights",
    }
    return ModelFolder(
        path=path, model=config, **{"tokenizer": TokenizerFiles(), **described, **fields}
    )


def hypotheses(
    folder: ModelFolder,
    sources: Sequence[Sequence[int]],
    backend: Backend | None = None,
    **options: Any,
) -> list[tuple[Hypothesis, ...]]:
    """Returns the hypotheses of each source, by PyTorch without `backend`."""
    return translate(
        backend or TorchBackend(load_model(folder), 4 * len(sources)),
        sources,
        DecodingOptions(**options),
        folder.model,
        folder.generation,
    )


def target_pieces(
    folder: ModelFolder, sources: Sequence[Sequence[int]], **options: Any
) -> list[list[str]]:
    """Returns the pieces of the best target of each source."""
    pieces = folder_pieces(folder)[1]
    return [[pieces[i] for i in best.tokens] for best, *_ in hypotheses(folder, sources, **options)]


def ctranslate2_pieces(folder: ModelFolder, ids: Sequence[int]) -> list[str]:
    """Converts source ids to the pieces that the exported model reads: CTranslate2 adds start and
    end."""
    source, _ = folder_pieces(folder)
    files = folder.tokenizer
    return [source[i] for i in ids[int(files.source_start) : len(ids) - int(files.source_end)]]


def assert_same_up_to_ties(
    left: Sequence[Hypothesis], right: Sequence[Hypothesis], tolerance: float
) -> None:
    """Asserts that hypotheses are equal. Where tokens differ, the two choices must be a tie: their
    scores are within the tolerance, so that a difference in the last digit of a sum may have
    decided."""
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if one.tokens == other.tokens:
            assert one.token_scores == pytest.approx(other.token_scores, abs=tolerance)
            assert one.finish_reason == other.finish_reason
            continue
        equal = 0
        while one.tokens[equal : equal + 1] == other.tokens[equal : equal + 1]:
            equal += 1
        until = slice(equal + 1)  # with the first tokens that differ
        greedy_tie = one.token_scores[until] == pytest.approx(
            other.token_scores[until], abs=tolerance
        )
        assert greedy_tie or one.score == pytest.approx(other.score, abs=tolerance)
