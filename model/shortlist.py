"""The lexical shortlist of a model: the target tokens that it may write for a source. Imports no
torch.

Firefox's models have one, and `training shortlist` makes one. The projection to the vocabulary then
computes some hundred outputs instead of all.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from model.model_folder import SHORTLIST, ModelFolder, let_others_read

log = logging.getLogger(__name__)
ShortlistUse = Literal["auto", "on", "off"]
"""Whether a model's shortlist is used; "auto" follows `Shortlist.by_default`."""
_MULTIPLE = 8
"""Bergamot fills lists to a multiple of 8, and so do lists without tags."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """Source token i allows `targets[offsets[i]:offsets[i + 1]]`, and every source the first
    `first` tokens; with `shared`, also its own tokens.

    A model with several target languages has such a table for each of the `tags`, in their order in
    `offsets`. The first token of a source chooses its table, and its own targets are the frequent
    tokens of its language; a source that begins otherwise is not limited. `by_default`: the list is
    used unless a request differs. Raises ValueError for ids outside the `vocabulary`, offsets that
    do not ascend and tags that do not fit.
    """

    offsets: NDArray[np.int64]
    targets: NDArray[np.int32]
    first: int
    shared: bool
    vocabulary: int
    tags: tuple[int, ...] = ()
    by_default: bool = False
    _common: list[NDArray[np.bool_]] = field(init=False, repr=False)
    """True for the tokens that every source of a table allows (V), by table."""
    _begins: list[int] = field(init=False, repr=False)
    """The offsets: a list is read faster than an array."""

    def __post_init__(self) -> None:
        offsets, targets = self.offsets, self.targets
        if offsets.ndim != 1 or len(offsets) < 2 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            raise ValueError("its offsets do not ascend from 0")
        if targets.ndim != 1 or offsets[-1] != len(targets):
            raise ValueError("its offsets do not end at its number of targets")
        if len(targets) and (targets.min() < 0 or targets.max() >= self.vocabulary):
            raise ValueError(f"its targets are outside the vocabulary of {self.vocabulary}")
        if not 0 <= self.first <= self.vocabulary:
            raise ValueError(
                f"it begins with {self.first} tokens of a vocabulary of {self.vocabulary}"
            )
        if self.tags and (len(offsets) - 1) % len(self.tags):
            raise ValueError("its offsets are not those of a table for each tag")
        if len(set(self.tags)) < len(self.tags) or not all(
            0 <= tag < self.sources for tag in self.tags
        ):
            raise ValueError("its tags are not different tokens of the source")
        object.__setattr__(self, "_begins", offsets.tolist())
        object.__setattr__(
            self, "_common", [self._common_of(table) for table in range(max(1, len(self.tags)))]
        )

    @cached_property
    def digest(self) -> str:
        """A hash of everything that decides which tokens a source allows."""
        stated = (self.first, self.shared, self.vocabulary, self.tags)
        content = hashlib.sha256(repr(stated).encode())
        content.update(np.ascontiguousarray(self.offsets).tobytes())
        content.update(np.ascontiguousarray(self.targets).tobytes())
        return content.hexdigest()[:8]

    @property
    def sources(self) -> int:
        """Number of source tokens."""
        return (len(self.offsets) - 1) // max(1, len(self.tags))

    def common(self) -> list[NDArray[np.int32]]:
        """Returns, for each table, the tokens that all its sources allow, in ascending order."""
        return [np.flatnonzero(common).astype(np.int32) for common in self._common]

    def split(
        self, source: Sequence[int], end: int, forced: Sequence[int] = ()
    ) -> tuple[int, NDArray[np.int32]] | None:
        """Returns the allowed tokens of a source: the number of its table, which has the first ones
        (`common`), and the further ones in ascending order. The end of sentence and the `forced`
        tokens are always allowed. Returns None if those of the source are more than half of the
        vocabulary: then all tokens are allowed. Raises ValueError for an unknown token."""
        if self.tags and (not source or source[0] not in self.tags):
            return None
        table = self.tags.index(source[0]) if self.tags else 0
        common = self._common[table]
        chosen = common.copy()
        tokens, sources, begins = set(source), self.sources, self._begins
        if not all(0 <= token < sources for token in tokens):
            raise ValueError(f"A source token is not in the shortlist of {sources} tokens.")
        rows = [table * sources + token for token in tokens]
        chosen[np.concatenate([self.targets[begins[row] : begins[row + 1]] for row in rows])] = True
        if self.shared:
            chosen[list(tokens)] = True
        if not self.tags:
            missing = -int(np.count_nonzero(chosen)) % _MULTIPLE
            chosen[np.flatnonzero(~chosen[self.first :])[:missing] + self.first] = True
        chosen[end] = True
        if 2 * np.count_nonzero(chosen) > self.vocabulary:
            return None
        if not all(0 <= token < self.vocabulary for token in forced):
            raise ValueError(f"A forced token is not in the vocabulary of {self.vocabulary}.")
        chosen[list(forced)] = True
        return table, np.flatnonzero(chosen & ~common).astype(np.int32)

    def _common_of(self, table: int) -> NDArray[np.bool_]:
        chosen = np.zeros(self.vocabulary, dtype=np.bool_)
        chosen[: self.first] = True
        if self.tags:
            row = table * self.sources + self.tags[table]
            chosen[self.targets[self.offsets[row] : self.offsets[row + 1]]] = True
        return chosen

    def write(self, folder: Path) -> None:
        """Writes the file of a model folder."""
        small = self.vocabulary <= 1 << 16
        targets: NDArray[Any] = self.targets.astype(np.uint16) if small else self.targets
        arrays: dict[str, NDArray[Any]] = {"offsets": self.offsets, "targets": targets}
        flags = {"shared": str(int(self.shared)), "by_default": str(int(self.by_default))}
        stated = {"first": str(self.first), "tags": json.dumps(self.tags), **flags}
        save_file(arrays, folder / SHORTLIST, metadata=stated)
        let_others_read(folder / SHORTLIST)


def read_shortlist(folder: ModelFolder) -> Shortlist | None:
    """Returns the shortlist of a model folder, None if it has none or an unreadable one (with a
    warning)."""
    path, config = folder.path / SHORTLIST, folder.model
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            stated = file.metadata() or {}
            offsets, targets = (
                np.asarray(file.get_tensor(name)) for name in ("offsets", "targets")
            )
        if offsets.dtype != np.int64 or targets.dtype not in (np.int32, np.uint16):
            raise ValueError("it does not have int64 offsets and int32 or uint16 targets")
        shortlist = Shortlist(
            offsets,
            targets.astype(np.int32),
            int(stated["first"]),
            stated["shared"] == "1",
            config.vocab_size,
            _tags(stated.get("tags", "[]")),
            stated.get("by_default") == "1",
        )
        if shortlist.sources != (config.source_vocab_size or config.vocab_size):
            raise ValueError("its offsets are not those of the source vocabulary")
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        log.warning("%s is not used, because it is not a shortlist: %s", path, error)
        return None
    return shortlist


def _tags(text: str) -> tuple[int, ...]:
    tags = json.loads(text)
    if not isinstance(tags, list) or not all(type(tag) is int for tag in tags):
        raise ValueError("its tags are not a list of ids")
    return tuple(tags)
