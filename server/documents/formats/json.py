"""Reads JSON files of messages (.json, .jsonc, .arb): the strings are translated in place, and everything else is copied.

In the message files of browser extensions only `message` is translated; in .arb files keys with `@` are metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import orjson

from server.documents.document import DEPTH_LIMIT, Document, has_words
from server.documents.formats.labels import with_mark, without_mark
from server.documents.formats.plain import decode
from server.errors import InvalidRequest
from server.text.offsets import edited

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|[{}\[\]]')
_COMMENTS = r"//[^\r\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?"
COMMENT = re.compile(rf'"(?:[^"\\]|\\.)*"?|{_COMMENTS}|,(?=\s*(?:(?:{_COMMENTS})\s*)*[}}\]])')
"""A string, a comment, or a comma after the last item."""
CODE = re.compile(r"(?:https?|mailto|ftp):\S*|\S*[/\\_]\S*|[#.]\S+|[a-z]+(?:[.\-][a-z]+)+|[a-z]+[A-Z]\w*")
"""Values that are not words: addresses, paths, names in code."""


@dataclass(frozen=True, slots=True)
class Value:
    """A string of the file from `start` to `end` with the keys that lead to it."""

    start: int
    end: int
    path: tuple[str, ...]
    text: str


def read_with_comments(data: bytes, target: str) -> Document:
    """Reads a JSON file (.jsonc) that may have comments, and commas after the last item."""
    return read(data, target, comments=True)


def read(data: bytes, target: str, comments: bool = False) -> Document:
    """Reads a JSON file. The locale of an .arb file is set to `target`."""
    text, encode = decode(data)
    plain = COMMENT.sub(blank, text) if comments else text
    try:
        orjson.loads(plain)
    except orjson.JSONDecodeError as error:
        hint = "" if comments or COMMENT.sub(blank, text) == text else " Name a file with comments .jsonc."
        raise InvalidRequest(f"The file is not valid JSON; see line {error.lineno}.{hint}") from error
    escapes = text.isascii() and "\\u" in text
    values = list(find_values(plain))
    with_message = {value.path[:-1] for value in values if value.path and value.path[-1] == "message"}

    @cache  # a file may have many strings in deep collections
    def hides(collections: tuple[str, ...]) -> bool:
        return any(collections[:depth] in with_message for depth in range(1, len(collections) + 1))

    texts = [value for value in values if is_text(value, hides)]
    labels = [without_mark(value.text) for value in texts]
    locales = [value for value in values if value.path == ("@@locale",)]

    def write(translations: Sequence[str]) -> bytes:
        marked = [with_mark(new, mark) for new, (_, mark) in zip(translations, labels, strict=True)]
        made = [*zip(texts, marked, strict=True), *[(value, target) for value in locales]]
        edits = [
            (value.start, value.end, json.dumps(new, ensure_ascii=escapes)) for value, new in made if new != value.text
        ]
        return encode(edited(text, sorted(edits))[0])

    return Document(tuple(text for text, _ in labels), "text", write)


def blank(found: re.Match[str]) -> str:
    """Returns spaces instead of a comment, and a string as it is."""
    return found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])


def find_values(text: str) -> Iterator[Value]:
    """Yields the strings of valid JSON that are not keys."""
    path: list[str] = []  # the last key of every open object, "" in an array
    for token in TOKEN.finditer(text):
        raw = token[0]
        if raw in "{[":
            path.append("")
            if len(path) > DEPTH_LIMIT:
                raise InvalidRequest(f"The file has more than {DEPTH_LIMIT} collections within each other.")
        elif raw in "}]":
            path.pop()
        elif token[1]:
            path[-1] = orjson.loads(raw[: len(raw) - len(token[1])])
        else:
            yield Value(token.start(), token.end(), tuple(path), orjson.loads(raw))


def is_text(value: Value, hides: Callable[[tuple[str, ...]], bool]) -> bool:
    """Returns whether people read a string. `hides` says whether its collections are metadata."""
    if value.path[-1:] != ("message",) and hides(value.path[:-1]):
        return False  # the description or a placeholder of a browser extension's message
    if any(key.startswith("@") for key in value.path):
        return False
    return has_words(value.text) and not CODE.fullmatch(value.text)
