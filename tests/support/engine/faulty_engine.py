"""A worker that translates word by word and drops, doubles, changes and moves what it should
copy."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import numpy as np

from model.search.options import Hypothesis
from model.symbols import PLACEHOLDERS
from model.tokenizer import Decoding, Encoding
from server.engine.ipc.messages import JobResult, Timings
from server.text.reading import NAMES, NUMBERS
from tests.support.engine.fake_engine import EOS, FakeEngine, FakeTokenizer, attention_result

_PIECE = re.compile(rf"{'|'.join(PLACEHOLDERS)}|\w+|[^\w\s]")
FAULTS = ("none", "none", "drop", "double", "double at the end", "change")


def translated_word(word: str) -> str:
    """Returns the translation of a word: itself if it has a digit, otherwise its letters in reverse
    order."""
    return word if any(map(str.isdigit, word)) or word in NAMES else word[::-1]


class WordTokenizer(FakeTokenizer):
    """One id per word. `kind` decides about stand-ins: "symbols", "names" or "none"."""

    joint = False

    def __init__(self, kind: str) -> None:
        self._ids: dict[str, int] = {}
        self._pieces: list[str] = []
        self._known = {
            "symbols": set(PLACEHOLDERS),
            "names": {*NAMES, *"0123456789"},
            "none": set(),
        }[kind]

    def is_piece(self, text: str) -> bool:
        return text in self._known

    def encode(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> Encoding:
        found = list(_PIECE.finditer(text))
        pieces = [
            ("\u2581" if text[: match.start()][-1:] in ("", " ") else "") + match[0]
            for match in found
        ]
        return Encoding(
            (*(self._id(piece) for piece in pieces), EOS),
            (*pieces, "</s>"),
            (*(match.span() for match in found), (len(text), len(text))),
        )

    def symbol_of(
        self, ids: Sequence[int], target_language: str, source_language: str, symbols: Sequence[str]
    ) -> str:
        return ""

    def encode_target(self, text: str) -> tuple[int, ...]:
        return self.encode(text).ids[:-1]

    def piece(self, id: int) -> str:
        return self._pieces[id - 10]

    def decode(self, ids: Sequence[int]) -> str:
        return self.decode_pieces(ids).text

    def decode_pieces(self, ids: Sequence[int]) -> Decoding:
        text, offsets = "", []
        for id in ids:
            piece = self.piece(id)
            text += " " if piece[0] == "\u2581" and text else ""
            offsets.append((len(text), len(text) + len(piece.lstrip("\u2581"))))
            text += piece.lstrip("\u2581")
        return Decoding(text, tuple(self.piece(id) for id in ids), tuple(offsets))

    def translated(self, id: int) -> int:
        piece = self.piece(id)
        word = piece.lstrip("\u2581")
        return self._id(piece[: len(piece) - len(word)] + translated_word(word))

    def changed(self, id: int) -> int:
        """Returns another symbol, name or number."""
        piece = self.piece(id)
        word = piece.lstrip("\u2581")
        other = "<ph9>" if word.startswith("<") else word + "7" if word.isdigit() else "Tim"
        return self._id(piece[: len(piece) - len(word)] + other)

    def spaced(self, id: int) -> int:
        """Returns the same word with a space before it."""
        return self._id("\u2581" + self.piece(id).lstrip("\u2581"))

    def is_copied(self, id: int) -> bool:
        word = self.piece(id).lstrip("\u2581")
        return word in (*PLACEHOLDERS, *NAMES, *NUMBERS) or any(map(str.isdigit, word))

    def _id(self, piece: str) -> int:
        if piece not in self._ids:
            self._ids[piece] = 10 + len(self._pieces)
            self._pieces.append(piece)
        return self._ids[piece]


class FaultyEngine(FakeEngine):
    """Translates with a tokenizer of words. `repairs` counts translations with a prefix."""

    def __init__(self, tokenizer: WordTokenizer, seed: int = 0) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._seed = seed
        self.repairs = 0

    def plan(self, ids: Sequence[int], prefix: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Returns the tokens of the translation, each with the place of its word in the source."""
        tokenizer = self._tokenizer
        chance = random.Random(f"{self._seed} {ids} {prefix}")
        words = [(tokenizer.translated(id), place) for place, id in enumerate(ids) if id != EOS]
        given, rest = self._given(words, prefix)
        result, late = list(given), []
        for token, place in rest:
            fault = chance.choice(FAULTS) if tokenizer.is_copied(token) else "none"
            if fault != "drop":
                result.append((tokenizer.changed(token) if fault == "change" else token, place))
            if fault == "double":
                result.append((tokenizer.spaced(token), place))
            elif fault == "double at the end":
                late.append((tokenizer.spaced(token), place))
        return result + late

    def _given(
        self, words: Sequence[tuple[int, int]], prefix: Sequence[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Returns the tokens of the prefix with their places, and the words that are not in it."""
        left = list(words)
        given = []
        for token in prefix:
            at = next((i for i, (word, _) in enumerate(left) if word == token), None)
            given.append((token, left[at][1] if at is not None else 0))
            if at is not None:
                del left[: at + 1]
        return given, left

    async def _translate(self, ids, options, on_progress) -> JobResult:
        self.repairs += bool(options.prefix)
        tokens = options.target or tuple(token for token, _ in self.plan(ids, options.prefix))
        hypothesis = Hypothesis(tokens, (-0.1,) * (len(tokens) + 1), -0.1, "stop")
        return JobResult(
            0, (hypothesis,) * options.hypotheses, Timings(0, 0, 0, 0), len(tokens) + 1
        )

    async def _attend(self, source, target, words, masked) -> JobResult:
        """Attends from every token to the next word of the source with this translation, or else to
        the first."""
        cross = np.zeros((1, 1, len(target) + 1, len(source)), dtype=np.float32)
        translations = [self._tokenizer.translated(id) if id != EOS else EOS for id in source]
        done = -1
        for row, token in enumerate(target):
            places = [place for place, word in enumerate(translations) if word == token]
            done = next((place for place in places if place > done), places[0] if places else done)
            cross[0, 0, row, max(0, done)] = 1.0
        cross[0, 0, -1, -1] = 1.0
        return attention_result(cross, words)
