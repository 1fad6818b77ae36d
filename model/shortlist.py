"""The lexical shortlist of a model: the target tokens that it may write for a source. Imports no torch.

Firefox's models have one. The projection to the vocabulary then computes some hundred outputs instead of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from model.model_folder import FolderError, ModelFolder

SHORTLIST = "shortlist.safetensors"
_MULTIPLE = 8
"""Bergamot fills lists to a multiple of 8."""


@dataclass(frozen=True, slots=True, eq=False)
class Shortlist:
    """Source token i allows `targets[offsets[i]:offsets[i + 1]]`, and every source the first `first` tokens; with
    `shared`, also its own tokens. Raises ValueError for ids outside the `vocabulary` and offsets that do not ascend."""

    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    first: int
    shared: bool
    vocabulary: int

    def __post_init__(self) -> None:
        offsets, targets = self.offsets, self.targets
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise ValueError("its offsets do not ascend from 0")
        if targets.ndim != 1 or offsets[-1] != len(targets):
            raise ValueError("its offsets do not end at its number of targets")
        if len(targets) and (targets.min() < 0 or targets.max() >= self.vocabulary):
            raise ValueError(f"its targets are outside the vocabulary of {self.vocabulary}")
        if not 0 <= self.first <= self.vocabulary:
            raise ValueError(f"it begins with {self.first} tokens of a vocabulary of {self.vocabulary}")

    def allowed(self, source: Sequence[int], end: int) -> NDArray[np.int32] | None:
        """Returns the allowed tokens of a source in ascending order, the end of sentence among them; None for all tokens,
        where they are more than half of the vocabulary. Raises ValueError for an unknown source token."""
        chosen = np.zeros(self.vocabulary, dtype=np.bool_)
        chosen[: self.first] = True
        for token in set(source):
            if not 0 <= token < len(self.offsets) - 1:
                raise ValueError(f"The source token {token} is not in the shortlist.")
            chosen[self.targets[self.offsets[token] : self.offsets[token + 1]]] = True
            if self.shared:
                chosen[token] = True
        missing = -int(chosen.sum()) % _MULTIPLE
        chosen[np.flatnonzero(~chosen[self.first :])[:missing] + self.first] = True
        chosen[end] = True
        allowed = np.flatnonzero(chosen).astype(np.int32)
        return None if 2 * len(allowed) > self.vocabulary else allowed

    def write(self, folder: Path) -> None:
        """Writes the file of a model folder."""
        arrays: dict[str, NDArray[Any]] = {"offsets": self.offsets, "targets": self.targets}
        save_file(arrays, folder / SHORTLIST, metadata={"first": str(self.first), "shared": str(int(self.shared))})


def read_shortlist(folder: ModelFolder) -> Shortlist | None:
    """Returns the shortlist of a model folder, None if it has none. Raises FolderError if it is damaged."""
    path, config = folder.path / SHORTLIST, folder.model
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            stated = file.metadata() or {}
            offsets, targets = (np.asarray(file.get_tensor(name)) for name in ("offsets", "targets"))
        if offsets.dtype != np.int64 or targets.dtype != np.int32:
            raise ValueError("it does not have int64 offsets and int32 targets")
        if len(offsets) != (config.source_vocab_size or config.vocab_size) + 1:
            raise ValueError("its offsets are not those of the source vocabulary")
        return Shortlist(offsets, targets, int(stated["first"]), stated["shared"] == "1", config.vocab_size)
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise FolderError(f"{path} is not a shortlist: {error}.") from None
