"""Reads JSON files of messages (.json, .jsonc, .arb): the strings are translated in place, and everything else is copied.

In the message files of browser extensions only `message` is translated; in .arb files keys with `@` are metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import orjson

from server.documents.document import Document, check_depth, has_words, in_place
from server.documents.formats.labels import labelled
from server.documents.formats.plain import decode
from server.errors import InvalidRequest

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|[{}\[\]]')
_COMMENTS = r"//[^\r\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?"
COMMENT = re.compile(rf'"(?:[^"\\]|\\.)*"?|{_COMMENTS}|,(?=\s*(?:(?:{_COMMENTS})\s*)*[}}\]])')
"""A string, a comment, or a comma after the last item."""
ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|x[\da-fA-F]{2}|/))"
)
NEVER_ESCAPED = re.compile(r"[\w\"\\]", re.ASCII)
CODE = re.compile(r"(?:https?|mailto|ftp):\S*|\S*[/\\_]\S*|[#.:]\S+|[a-z]+(?:[.\-][a-z]+)+|[a-z]+[A-Z]\w*")
"""Values that are not words: addresses, paths, names in code."""


class Value(NamedTuple):
    """A string of the file from `start` to `end` with the keys that lead to it."""

    start: int
    end: int
    path: tuple[str, ...]
    text: str


def read(data: bytes, target: str, comments: bool = False) -> Document:
    """Reads a JSON file, also one with `comments`. The locale of an .arb file becomes `target`."""
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
    locales = [
        (value.start, value.end, json.dumps(target))
        for value in values
        if value.path == ("@@locale",) and value.text != target
    ]
    places = [
        labelled(start, end, own, partial(quoted, source=text[start:end], ascii_only=escapes))
        for start, end, _, own in texts
    ]
    return in_place(text, encode, places, "text", locales)


read_with_comments = partial(read, comments=True)


def quoted(text: str, source: str, ascii_only: bool = False) -> str:
    """Returns a text in quotes. Signs and foreign letters that its source escapes are escaped in the same way."""
    kept: dict[int, str] = {}
    for escape in ESCAPE.findall(source):
        units = escape.replace("\\/", "/").encode().decode("unicode_escape").encode("utf-16", "surrogatepass")
        character = units.decode("utf-16", "replace")
        if not NEVER_ESCAPED.match(character):
            kept[ord(character)] = escape
    return json.dumps(text, ensure_ascii=ascii_only).translate(kept)


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
            check_depth(path)
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
