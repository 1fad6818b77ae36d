"""The subject, the options and the result of an attention request, and the error for a number that names nothing."""

from __future__ import annotations

from dataclasses import dataclass

from server.engine.client.engine_client import Head
from server.engine.ipc.messages import AttentionResult
from server.errors import InvalidRequest
from server.store.history_records import SentenceRecord
from server.translation.catalog import Leg
from server.translation.word_pairs import SentencePair


@dataclass(frozen=True, slots=True)
class Token:
    """One piece and its character span in the text of the sentence. Special pieces have an empty span."""

    piece: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class InspectedSentence:
    """The sentence pair that an attention request is about. `sentence` of `sentences` and `leg_number` of `legs` count
    from 0. `id` is None for a pair that is not in the history."""

    leg: Leg
    pair: SentenceRecord
    id: str | None = None
    sentence: int = 0
    sentences: int = 1
    leg_number: int = 0
    legs: int = 1


@dataclass(frozen=True, slots=True)
class InspectionOptions:
    """Options of one attention request: heads to switch off, a head whose query, key and value vectors are returned,
    and whether to collect evidence for the word alignment. A head is its kind, layer and number, such as ("cross", 0,
    1)."""

    masked_heads: tuple[Head, ...] = ()
    vectors_of: Head | None = None
    align: bool = False


@dataclass(frozen=True, slots=True)
class InspectionResult:
    """One sentence with its attention maps.

    `target` ends with the end-of-sentence piece, whose query is the last row of the maps. `decoder_input` holds the
    keys of the decoder's self-attention: the start piece, then the target without its last piece. `scores` holds the
    log-probability of each target piece, `candidates` the most probable pieces at every position with their
    log-probabilities. `sentence_pair` describes the words of `attention.evidence`, if the request asked for it.
    """

    subject: InspectedSentence
    source_text: str
    target_text: str
    source: tuple[Token, ...]
    target: tuple[Token, ...]
    decoder_input: tuple[Token, ...]
    candidates: tuple[tuple[tuple[str, float], ...], ...]
    scores: tuple[float, ...]
    attention: AttentionResult
    sentence_pair: SentencePair | None = None


def out_of_range(name: str, count: int, whole: str, noun: str = "") -> InvalidRequest:
    """Returns the error for parameter `name` where `whole`, such as "this translation", has `count` of them. `noun` says
    what the parameter counts, if not its own name."""
    noun = noun or name
    if count == 0:
        return InvalidRequest(f"{whole[:1].upper()}{whole[1:]} has no {noun}.")
    if count == 1:
        return InvalidRequest(f"{name} must be 0: {whole} has one {noun}.")
    return InvalidRequest(f"{name} must be between 0 and {count - 1} for {whole}.")
