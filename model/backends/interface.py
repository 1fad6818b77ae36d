"""The interface of a backend beyond decoding: attention maps, word readings, and details for status
pages."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Protocol, TypeVar

from model.analysis.pair_alignment import WordedSentence, WordReading
from model.analysis.types import EVERYTHING, AttentionMaps, Head, HeadMask, MapChoice
from model.search.backend_interface import Backend

Result = TypeVar("Result")


def finished(steps: Generator[None, None, Result]) -> Result:
    """Runs a generator to its end, and returns its result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


class ForcedPasses(Protocol):
    """A backend that runs a given target through its decoder. Backends inherit `attention_maps`
    and `linked_maps`."""

    def attention_passes(
        self,
        source: Sequence[int],
        target: Sequence[int],
        masked_heads: HeadMask = (),
        vectors_of: Head | None = None,
        shortlist: str | None = None,
        choice: MapChoice = EVERYTHING,
    ) -> Generator[None, None, AttentionMaps]:
        """Returns what `attention_maps` does, and yields where steps of slots may run."""

    def attention_maps(
        self,
        source: Sequence[int],
        target: Sequence[int],
        masked_heads: HeadMask = (),
        vectors_of: Head | None = None,
        shortlist: str | None = None,
        choice: MapChoice = EVERYTHING,
    ) -> AttentionMaps:
        """Returns the attention weights and the scores that decoding computes for a pair: `source`
        ids as the encoder reads them, `target` ids without start and end of sentence. `vectors_of`
        adds the queries, keys and values of one head. Scores are those among the tokens of the
        `shortlist` (as in Restriction) and of the target. Maps outside the `choice` may be missing.
        Raises ValueError for lengths, ids, layers and heads that the model does not have, and for
        an unknown shortlist."""
        return finished(
            self.attention_passes(source, target, masked_heads, vectors_of, shortlist, choice)
        )

    def soft_maps(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], choice: MapChoice
    ) -> list[AttentionMaps]:
        """Returns the maps of several pairs (source, target) as `attention_maps`, computed
        together. The choice has neither scores nor maps of the encoder."""

    def read_words(
        self, sentences: Sequence[WordedSentence], wanted: Sequence[Sequence[int]]
    ) -> list[WordReading]:
        """Returns for each sentence its states after the last encoder layer, and for each word the
        log-probabilities of the `wanted` first tokens. Raises ValueError for sentences and tokens
        that the model cannot read."""

    def linked_maps(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        choice: MapChoice,
        sentences: Sequence[WordedSentence],
        wanted: Sequence[Sequence[int]],
    ) -> tuple[list[AttentionMaps], list[WordReading]]:
        """Returns what `soft_maps` and `read_words` do, of two sentences for each pair."""
        return self.soft_maps(pairs, choice), self.read_words(sentences, wanted)


class InspectableBackend(Backend, ForcedPasses, Protocol):
    """A backend of search that also computes attention maps and word readings, without changes of
    slots."""

    @property
    def details(self) -> Mapping[str, str]:
        """How it computes, for status pages; empty where there is nothing to add."""

    @property
    def shortlist(self) -> str:
        """The digest of the shortlist that limits targets by default; "" if none does."""

    def has_shortlist(self, digest: str) -> bool:
        """Returns True if it has this shortlist, or ignores them all."""

    def close(self) -> None:
        """Releases memory outside Python. The backend cannot be used afterwards."""
