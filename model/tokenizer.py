"""SentencePiece tokenizer: text, ids, and pieces with character offsets. Imports no torch."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import sentencepiece

_SPACE = "\u2581"
_KEPT_TEXTS = 64
_KEPT_WORDS, _KEPT_LENGTH = 20_000, 32
"""Words whose first tokens are kept, and the characters of the longest one."""
_CONTROL = frozenset(("<pad>", "<s>", "</s>"))
_in_use: WeakSet[Tokenizer] = WeakSet()


@dataclass(frozen=True, slots=True)
class Encoding:
    """Model input of a text. Token i has the id `ids[i]`, the piece `pieces[i]` and the characters
    [start, end) `offsets[i]`: empty ranges for tags (0, 0) and the end of sentence (length,
    length)."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Decoding:
    """Text of a target, and for each id its piece and its characters [start, end) in `text`."""

    text: str
    pieces: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]


class Tokenizer:
    """Tokenizer of the source and target side of a model.

    Ids are those of SentencePiece, or of a separate vocabulary (piece -> id) as in Marian models.
    `tags` maps a target language to the piece before the source, such as `>>de<<`, `source_tags` a
    source language to such a piece. `first_tokens` maps a target language to the first piece of
    every target (M2M100, NLLB).

    `added` tokens are found in a text before SentencePiece reads the rest of it. Each maps to
    letters: "l" and "r" take the spaces on its left and right, "w" is found as a whole word only,
    "s" is not part of a target's text. With `trailing_space` a space at the end of what
    SentencePiece reads is a piece, as in the library `tokenizers`.
    """

    def __init__(
        self,
        source: Path,
        target: Path | None = None,
        *,
        vocabulary: Mapping[str, int] | None = None,
        target_vocabulary: Mapping[str, int] | None = None,
        tags: Mapping[str, str] | None = None,
        source_tags: Mapping[str, str] | None = None,
        first_tokens: Mapping[str, str] | None = None,
        unk_id: int = 1,
        eos_id: int = 3,
        prepend: Sequence[int] = (),
        append_end: bool = True,
        added: Mapping[str, str] | None = None,
        trailing_space: bool = False,
    ) -> None:
        self._source = sentencepiece.SentencePieceProcessor(model_file=str(source))
        self._target = (
            self._source
            if target is None or target == source
            else sentencepiece.SentencePieceProcessor(model_file=str(target))
        )
        self.joint = self._target is self._source and target_vocabulary is None
        """True if source and target share a vocabulary."""
        texts = _AddedTokens(added or {}, trailing_space)
        self._tags, self._source_tags = dict(tags or {}), dict(source_tags or {})
        unwritten = {
            *_CONTROL,
            "<unk>",
            "<mask>",
            *self._tags.values(),
            *self._source_tags.values(),
        }
        unwritten |= {*(first_tokens or {}).values(), *texts.special}
        self._source_ids = self._target_ids = _Vocabulary(
            self._source, vocabulary, unk_id, texts, unwritten
        )
        if not self.joint:
            self._target_ids = _Vocabulary(
                self._target, target_vocabulary or vocabulary, unk_id, texts, unwritten
            )
        self._first_tokens = {
            language: self._first_id(piece) for language, piece in (first_tokens or {}).items()
        }
        # The source vocabulary may have another id for the end of sentence.
        self._eos_id = eos_id if vocabulary is None else vocabulary.get("</s>", eos_id)
        self._prepend = tuple(prepend)
        self._append = (self._eos_id,) if append_end else ()
        self._spelling = self._source_ids.spelling()
        _in_use.add(self)
        self._beginnings: dict[str, int] = {}
        """The first target id of words, written alone."""
        for language, tag in (*self._tags.items(), *self._source_tags.items()):
            if not self._source_ids.has(tag):
                raise ValueError(f"The vocabulary lacks {tag}, the tag for {language}.")

    def encode(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> Encoding:
        """Encodes a source: the tags of the languages, `symbol` (one of `model.symbols`), the
        pieces, the end of sentence."""
        pieces, offsets = self._source_ids.placed(text)
        head = self._head(target_language, source_language, symbol)
        return Encoding(
            ids=(
                *self._source_ids.ids(head),
                *self._prepend,
                *self._source_ids.ids(pieces),
                *self._append,
            ),
            pieces=(
                *head,
                *(self._source_ids.piece(i) for i in self._prepend),
                *pieces,
                *(["</s>"] if self._append else []),
            ),
            offsets=(
                *((0, 0) for _ in (*head, *self._prepend)),
                *offsets,
                *((len(text), len(text)) for _ in self._append),
            ),
        )

    def encode_ids(
        self,
        text: str,
        target_language: str | None = None,
        source_language: str | None = None,
        symbol: str = "",
    ) -> tuple[int, ...]:
        """Returns the ids of `encode`, faster because without offsets."""
        head = self._head(target_language, source_language, symbol)
        return (
            *self._source_ids.ids(head),
            *self._prepend,
            *self._source_ids.encoded(text),
            *self._append,
        )

    def first_token(self, target_language: str) -> int | None:
        """Returns the first id of every target in a language; None for models without such
        tokens."""
        return self._first_tokens.get(target_language)

    def symbol_of(
        self, ids: Sequence[int], target_language: str, source_language: str, symbols: Sequence[str]
    ) -> str:
        """Returns the one of `symbols` that `encode` put before the pieces of a source, or ""."""
        place = len(self._head(target_language, source_language))
        first = ids[place] if len(ids) > place else None
        return next(
            (
                symbol
                for symbol in symbols
                if self.has(symbol) and self._source_ids.id(symbol) == first
            ),
            "",
        )

    def has(self, symbol: str) -> bool:
        """Returns whether the source vocabulary has a symbol."""
        return self._source_ids.has(symbol)

    def _head(
        self, target_language: str | None, source_language: str | None, symbol: str = ""
    ) -> tuple[str, ...]:
        tags = (
            self._source_tags.get(source_language or ""),
            self._tags.get(target_language or ""),
            symbol or None,
        )
        return tuple([tag for tag in tags if tag is not None])

    def _first_id(self, piece: str) -> int:
        if not self._target_ids.has(piece):
            raise ValueError(f"The vocabulary lacks {piece}, a first token of targets.")
        return self._target_ids.id(piece)

    def may_spell(self, ids: Iterable[int]) -> bool:
        """Returns True if source ids may contain byte pieces: characters outside the vocabulary."""
        return not self._spelling.isdisjoint(ids)

    def spelled(self, text: str) -> str | None:
        """Returns a source text as its pieces give it back; None if the vocabulary lacks a
        character."""
        pieces = self._source.encode(text, out_type=str)
        if self.may_spell(self._source_ids.ids(pieces)):
            return None
        return "".join(pieces).replace(_SPACE, " ").strip(" ")

    def is_piece(self, text: str) -> bool:
        """Returns whether a word is one piece on both sides."""
        return all(
            [piece.lstrip(_SPACE) for piece in pieces if piece != _SPACE] == [text]
            and all(map(ids.has, pieces))
            for pieces, ids in (
                (self._source.encode(text, out_type=str), self._source_ids),
                (self._target.encode(text, out_type=str), self._target_ids),
            )
        )

    def beginnings(self, words: Sequence[str]) -> tuple[int, ...]:
        """Returns the first target id of each word, written alone, without a separate space."""
        if len(self._beginnings) > _KEPT_WORDS:
            self._beginnings = {}
        kept = self._beginnings
        if new := [word for word in words if word not in kept]:
            spelled = self._target.encode(new, out_type=str, num_threads=1)
            first = [
                next((piece for piece in pieces if piece != _SPACE), _SPACE) for pieces in spelled
            ]
            tokens = {
                word: self._target_ids.id(piece) for word, piece in zip(new, first, strict=True)
            }
            kept.update(
                (word, token) for word, token in tokens.items() if len(word) <= _KEPT_LENGTH
            )
            return tuple([kept[word] if word in kept else tokens[word] for word in words])
        return tuple([kept[word] for word in words])

    def as_source(self, ids: Sequence[int], target_language: str) -> tuple[tuple[int, ...], int]:
        """Returns the source with a target's ids in a joint vocabulary, as `encode` would make it,
        and the place of the first id."""
        head = (*self._source_ids.ids(self._head(target_language, None)), *self._prepend)
        return (*head, *ids, *self._append), len(head)

    def encode_target(self, text: str) -> tuple[int, ...]:
        """Encodes a target, without start and end of sentence."""
        return tuple(self._target_ids.encoded(text))

    def encode_target_pieces(self, text: str) -> Encoding:
        """Encodes a target with its pieces and their characters in `text`, without start and end of
        sentence."""
        pieces, offsets = self._target_ids.placed(text)
        return Encoding(tuple(self._target_ids.ids(pieces)), pieces, offsets)

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the text of target ids without start and end of sentence."""
        return self._target_ids.decode(ids)

    def piece(self, id: int) -> str:
        """Returns the piece of a target id."""
        return self._target_ids.piece(id)

    def piece_ids(self, pieces: Sequence[str]) -> tuple[int, ...]:
        """Returns the ids of target pieces. Raises ValueError for a piece that no target
        contains."""
        for piece in pieces:
            if not self._target_ids.has(piece) or piece in _CONTROL:
                raise ValueError(f"The model writes no piece \u201c{piece}\u201d.")
        return tuple(self._target_ids.ids(pieces))

    def decode_pieces(self, ids: Sequence[int]) -> Decoding:
        """Returns the text of target ids, and the piece and characters of each id."""
        pieces = tuple(self._target_ids.piece(i) for i in ids)
        text = self._target_ids.text(pieces)
        return Decoding(text=text, pieces=pieces, offsets=self._target_ids.written(pieces, text))


class _Vocabulary:
    """Piece <-> id: SentencePiece's ids, or those of a mapping."""

    def __init__(
        self,
        processor: sentencepiece.SentencePieceProcessor,
        mapping: Mapping[str, int] | None,
        unk_id: int,
        added: _AddedTokens,
        unwritten: Collection[str],
    ) -> None:
        self._processor, self._added = processor, added
        self._own = mapping is None
        """Whether the ids are SentencePiece's, as in models trained here."""
        self._unwritten = frozenset(() if self._own else unwritten)
        """Pieces of an imported model that are no part of its texts, as in its own program."""
        if mapping is None:
            pieces = processor.id_to_piece(list(range(processor.get_piece_size())))
            mapping = {piece: i for i, piece in enumerate(pieces)}
        self._unk_id = mapping.get("<unk>", unk_id)
        self._ids = dict(mapping)
        self._pieces = {i: piece for piece, i in self._ids.items()}
        self.size = max(self._pieces, default=-1) + 1

    def has(self, piece: str) -> bool:
        return piece in self._ids

    def id(self, piece: str) -> int:
        return self._ids.get(piece, self._unk_id)

    def ids(self, pieces: Iterable[str]) -> list[int]:
        known, unknown = self._ids, self._unk_id
        return [known.get(piece, unknown) for piece in pieces]

    def encoded(self, text: str) -> list[int]:
        if self._added:
            return self.ids(self.placed(text)[0])
        ids: list[int] = (
            self._processor.encode(text)
            if self._own
            else self.ids(self._processor.encode(text, out_type=str))
        )
        return ids

    @lru_cache(_KEPT_TEXTS)  # noqa: B019 - an alignment reads the same text twice
    def placed(self, text: str) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
        """Returns the pieces of a text and the characters [start, end) of each."""
        if not self._added:
            return _pieces(self._processor, text)
        pieces: list[str] = []
        offsets: list[tuple[int, int]] = []
        for start, end, is_added in self._added.parts(text):
            part = text[start:end]
            part_pieces, places = (
                ((part,), ((0, len(part)),)) if is_added else _pieces(self._processor, part)
            )
            pieces += part_pieces
            offsets += [(start + first, start + last) for first, last in places]
            if self._added.trailing_space and not is_added and part[-1:].isspace():
                pieces.append(_SPACE)
                offsets.append((end, end))
        return tuple(pieces), tuple(offsets)

    def written(self, pieces: Sequence[str], text: str) -> tuple[tuple[int, int], ...]:
        """Returns the characters of `text`, which is `self.text(pieces)`, of each piece. All byte
        pieces of a character have its span, and unwritten pieces an empty one."""
        spans: list[tuple[int, int]] = []
        done = 0
        for count, piece in enumerate(pieces, 1):
            if piece in self._unwritten:
                length = done
            elif piece.startswith("<0x") and piece.endswith(">"):
                # A character is complete at its last byte. The length of the decoded prefix is the
                # position in the text.
                length = len(self.text(pieces[:count]).rstrip("\ufffd"))
            else:
                written = piece.replace(_SPACE, " ")
                # The text lacks a space at its beginning, and one that would follow another.
                extra = written.startswith(" ") and not text.startswith(" ", done)
                length = done + len(written) - extra
            length = min(max(length, done), len(text))
            spans.append((done, length))
            done = length
        _share_characters(spans)
        return tuple(_without_space(text, span) for span in spans)

    def decode(self, ids: Sequence[int]) -> str:
        if self._own and max(ids, default=0) < self.size:
            return _without_extra_spaces(str(self._processor.decode(list(ids))))
        return self.text([self.piece(i) for i in ids])

    def text(self, pieces: Sequence[str]) -> str:
        """Returns the text of pieces, with the spaces that an imported model's own program
        writes."""
        text = str(self._processor.decode_pieces([p for p in pieces if p not in self._unwritten]))
        # SentencePiece copies the U+2581 of pieces that only the model of the other side has.
        text = text.replace(_SPACE, " ").removeprefix(" ") if _SPACE in text else text
        return _without_extra_spaces(text) if self._own else text

    def spelling(self) -> frozenset[int]:
        """Ids of the byte pieces and of the unknown piece."""
        return frozenset(
            {self._unk_id, *(i for piece, i in self._ids.items() if piece.startswith("<0x"))}
        )

    def piece(self, i: int) -> str:
        return self._pieces.get(i, "<unk>")


class _AddedTokens:
    """Tokens that are found in a text before SentencePiece reads the rest (see Tokenizer). False if
    there are none."""

    def __init__(self, added: Mapping[str, str], trailing_space: bool) -> None:
        self.trailing_space = trailing_space
        self.special = frozenset(token for token, letters in added.items() if "s" in letters)
        longest_first = sorted(added, key=len, reverse=True)
        self._pattern = (
            re.compile("|".join(_pattern(token, added[token]) for token in longest_first))
            if added
            else None
        )
        self._letters = dict(added)

    def __bool__(self) -> bool:
        return self._pattern is not None or self.trailing_space

    def parts(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Yields the parts of a text: [start, end) and whether it is an added token."""
        done, strips = 0, False
        for match in self._pattern.finditer(text) if self._pattern else ():
            letters, end = self._letters[match[0]], match.start()
            yield from _between(text, done, end, strips, "l" in letters)
            yield (*match.span(), True)
            done, strips = match.end(), "r" in letters
        yield from _between(text, done, len(text), strips, False)


def _between(
    text: str, start: int, end: int, left: bool, right: bool
) -> Iterator[tuple[int, int, bool]]:
    """Yields the text between two tokens, without the spaces that a token takes."""
    part = text[start:end]
    start += len(part) - len(part.lstrip()) if left else 0
    end = start + len(text[start:end].rstrip()) if right else end
    if start < end:
        yield start, end, False


def _pattern(token: str, letters: str) -> str:
    return rf"(?<!\w){re.escape(token)}(?!\w)" if "w" in letters else re.escape(token)


def load_vocabulary(path: Path) -> dict[str, int]:
    """Reads vocab.json, an object of piece -> id. Raises ValueError for other contents."""
    try:
        mapping = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is not JSON: {error}.") from None
    if not isinstance(mapping, dict) or not all(
        type(i) is int and i >= 0 for i in mapping.values()
    ):
        raise ValueError(f"{path.name} must be an object of piece -> id.")
    return mapping


def _without_extra_spaces(text: str) -> str:
    """Returns a text as SentencePiece's normalisation leaves it: stripped, with single spaces. A
    model that writes a lone space before the piece of a word means one space."""
    text = text.strip(" ")
    while "  " in text:
        text = text.replace("  ", " ")
    return text


def forget_texts() -> None:
    """Forgets texts and words that were read lately, and vocabularies that nothing else uses."""
    _Vocabulary.placed.cache_clear()
    for tokenizer in _in_use:
        tokenizer._beginnings.clear()


def _pieces(
    processor: sentencepiece.SentencePieceProcessor, text: str
) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    # Offsets count code points of the original text, not of the normalised text.
    mapping: Any = processor.encode(text, out_type="offset_mapping")
    pieces, offsets = (
        tuple(mapping["pieces"]),
        [(int(start), int(end)) for start, end in mapping["offsets"]],
    )
    _share_characters(offsets)
    return pieces, tuple(offsets)


def _share_characters(offsets: list[tuple[int, int]]) -> None:
    """Gives the pieces of one character (bytes, parts of a ligature) the span of this character."""
    for i in range(len(offsets) - 2, -1, -1):
        if offsets[i][0] == offsets[i][1] == offsets[i + 1][0]:
            offsets[i] = offsets[i + 1]


def _without_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    start, end = span
    while start < end and text[start] == " ":
        start += 1
    return start, end
