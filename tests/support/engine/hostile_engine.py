"""A hostile model: it acts on tokens and may write any id of its vocabulary. It drops, doubles,
swaps, splits, re-cases and glues stand-ins, invents symbols, repeats, reverses, and writes nothing
or only punctuation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from model.search.options import Hypothesis
from model.symbols import SYMBOLS as SYMBOLS_OF_MODELS
from model.tokenizer import Decoding, Encoding
from server.engine.ipc.messages import JobResult, Timings
from server.text.reading import NAMES
from tests.support.engine.fake_engine import FakeEngine, FakeTokenizer, attention_result
from tests.support.texts.tagged_texts import WORDS

SPACE = "\u2581"
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZäöüß"
PUNCTUATION = ".,;:!?'\"()-<>[]{}&%$#@/\\|*_`~=+^"
UNKNOWN, EOS = 0, 1


class HostileTokenizer(FakeTokenizer):
    """A small vocabulary: words, letters, digits and punctuation, each with and without a space
    before it. `symbols` says whether it has symbols for placeholders; otherwise stand-ins are names
    and digits."""

    joint = True

    def __init__(self, symbols: bool) -> None:
        words = [*WORDS, *([] if symbols else NAMES), "chat", "Haus", "s", "ii"]
        alone = [
            *LETTERS,
            *"0123456789",
            *PUNCTUATION,
            "\u2047",
            "\ufffd",
            *(SYMBOLS_OF_MODELS if symbols else ()),
        ]
        alone = list(dict.fromkeys([*words, *alone]))
        self._pieces = ["<unk>", "</s>", SPACE, *alone, *[SPACE + piece for piece in alone]]
        self._ids = {piece: id for id, piece in enumerate(self._pieces)}
        self._parts = re.compile(
            "|".join(map(re.escape, sorted(alone, key=len, reverse=True))) + r"|\S"
        )
        self.size = len(self._pieces)
        self.punctuation = [self._ids[sign] for sign in PUNCTUATION]
        self.copied = frozenset(
            [
                self._ids[space + word]
                for space in ("", SPACE)
                for word in (SYMBOLS_OF_MODELS if symbols else (*NAMES, *"0123456789"))
            ]
        )

    def encode(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> Encoding:
        found = list(self._parts.finditer(text))
        pieces = [
            (SPACE if text[: part.start()][-1:] in ("", " ") else "") + part[0] for part in found
        ]
        ids = [self._ids.get(piece, UNKNOWN) for piece in pieces]
        size = len(text)
        return Encoding(
            (*ids, EOS), (*pieces, "</s>"), (*[part.span() for part in found], (size, size))
        )

    def encode_ids(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> tuple[int, ...]:
        known = self._ids
        return (*[known.get(part, UNKNOWN) for part in self._parts.findall(text)], EOS)

    def symbol_of(
        self, ids: Sequence[int], target_language: str, source_language: str, symbols: Sequence[str]
    ) -> str:
        return ""

    def may_spell(self, ids: Iterable[int]) -> bool:
        return UNKNOWN in ids

    def spelled(self, text: str) -> str | None:
        return None if self.may_spell(self.encode_ids(text)) else text.strip()

    def is_piece(self, text: str) -> bool:
        return text in self._ids

    def beginnings(self, words: Sequence[str]) -> tuple[int, ...]:
        return tuple([self.encode_ids(word)[0] for word in words])

    def as_source(self, ids: Sequence[int], target_language: str) -> tuple[tuple[int, ...], int]:
        return (*ids, EOS), 0

    def encode_target(self, text: str) -> tuple[int, ...]:
        return self.encode(text).ids[:-1]

    def encode_target_pieces(self, text: str) -> Encoding:
        encoding = self.encode(text)
        return Encoding(encoding.ids[:-1], encoding.pieces[:-1], encoding.offsets[:-1])

    def piece_ids(self, pieces: Sequence[str]) -> tuple[int, ...]:
        return tuple([self._ids[piece] for piece in pieces])

    def piece(self, id: int) -> str:
        return self._pieces[id]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join([self._pieces[id] for id in ids]).replace(SPACE, " ").strip(" ")

    def decode_pieces(self, ids: Sequence[int]) -> Decoding:
        text = self.decode(ids)
        offsets, done = [], 0
        for id in ids:
            start = done + text.startswith(" ", done)
            done = min(start + len(self.piece(id).lstrip(SPACE)), len(text))
            offsets.append((start, done))
        return Decoding(text, tuple([self.piece(id) for id in ids]), tuple(offsets))

    def spaced(self, id: int) -> int:
        return self._ids.get(SPACE + self.piece(id).lstrip(SPACE), id)

    def glued(self, id: int) -> int:
        return self._ids.get(self.piece(id).lstrip(SPACE), id)

    def letters(self, id: int, change: Callable[[str], str] = str) -> list[int]:
        """Returns a piece letter by letter."""
        spelled = change(self.piece(id).lstrip(SPACE))
        return [self._ids.get(letter, UNKNOWN) for letter in spelled]


SYMBOLS, NAMED = HostileTokenizer(True), HostileTokenizer(False)


def hostile_tokens(
    chance: random.Random, tokenizer: HostileTokenizer, read: Sequence[int]
) -> list[int]:
    """Returns what the model writes for the tokens that it read."""
    source = [id for id in read if id > EOS]
    plan = chance.random()
    if plan < 0.03:
        return []
    if plan < 0.06:
        return chance.choices(tokenizer.punctuation, k=chance.randint(1, 4))
    if plan < 0.16:
        return [chance.randrange(EOS + 1, tokenizer.size) for _ in range(chance.randint(1, 15))]
    if plan < 0.22:
        return chance.choices(sorted(tokenizer.copied), k=chance.randint(1, 8))
    if plan < 0.30:
        return source[::-1]
    if plan < 0.36:
        return source * chance.randint(2, 3)
    if plan < 0.42:
        return chance.sample(source, len(source))
    result: list[int] = []
    late: list[int] = []
    for id in source:
        fault = chance.randrange(12 if id in tokenizer.copied else 40)
        if fault == 0:
            continue
        if fault == 1:
            result += [id, tokenizer.spaced(id)]
        elif fault == 2:
            late.append(tokenizer.spaced(id))
            result.append(id)
        elif fault == 3:
            late.append(id)
        elif fault == 4:
            result += tokenizer.letters(id)
        elif fault == 5:
            result += tokenizer.letters(id, str.swapcase)
        elif fault == 6:
            result += [tokenizer.glued(id), chance.randrange(EOS + 1, tokenizer.size)]
        elif fault == 7:
            result.append(chance.choice(sorted(tokenizer.copied)))
        elif fault == 8:
            result += [tokenizer.glued(id), *tokenizer.letters(tokenizer.spaced(id))[:1]]
        else:
            result.append(id)
    return result + late


class HostileEngine(FakeEngine):
    """Answers as the hostile model, and aligns words at random. The answer for a sentence depends
    on `seed`."""

    def __init__(self, tokenizer: HostileTokenizer, seed: int = 0) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._seed = seed

    async def _translate(self, ids, options, on_progress) -> JobResult:
        chance = random.Random(f"{self._seed} {ids} {options.prefix}")
        hypotheses = []
        for _ in range(options.hypotheses):
            tokens = options.target
            if tokens is None:
                tokens = (*options.prefix, *hostile_tokens(chance, self._tokenizer, ids))[
                    : options.max_length
                ]
            scores = (-0.01,) * (len(tokens) + 1)
            hypotheses.append(Hypothesis(tuple(tokens), scores, sum(scores), "stop"))
        return JobResult(0, tuple(hypotheses), Timings(0, 0, 0, 0), len(hypotheses[0].tokens) + 1)

    async def _attend(self, source, target, words, masked) -> JobResult:
        chance = random.Random(f"{self._seed} {source} {target}")
        cross = np.zeros((1, 1, len(target) + 1, len(source)), dtype=np.float32)
        for row in range(len(target) + 1):
            cross[0, 0, row, chance.randrange(len(source))] = 1.0
        return attention_result(cross, words)
