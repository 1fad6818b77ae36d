"""Reads JSON and YAML files of messages: strings are translated in place.

In message files of browser extensions only `message` is translated; in .arb files keys with `@` are
metadata. A language as the only top key of a YAML file (Ruby on Rails) becomes the target language.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import NamedTuple

import orjson
import yaml

from server.documents.document import Document, check_depth, has_words, in_place, labelled
from server.documents.formats.plain import decode
from server.errors import InvalidRequest
from server.text.languages import NAMES, primary_subtag

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|[{}\[\]]')
_COMMENTS = r"//[^\r\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/)?"
COMMENT = re.compile(rf'"(?:[^"\\]|\\.)*"?|{_COMMENTS}|,(?=\s*(?:(?:{_COMMENTS})\s*)*[}}\]])')
"""A string, a comment, or a comma after the last item."""
ESCAPE = re.compile(
    r"(?<!\\)(?:\\\\)*(\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|x[\da-fA-F]{2}|/))"
)
NEVER_ESCAPED = re.compile(r"[\w\"\\]", re.ASCII)
CODE = re.compile(
    r"(?:https?|mailto|ftp):\S*|\S*[/\\_]\S*|[#.:]\S+|[a-z]+(?:[.\-][a-z]+)+|[a-z]+[A-Z]\w*"
)
"""Strings that are not words: addresses, paths, names in code."""
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
RESOLVER = yaml.resolver.Resolver()
LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
BRACKETS = re.compile(r"[\[\]{},:?]")
PROPERTIES = re.compile(r"(?:[&!]\S*\s*)*")
"""The anchor and the tag before a scalar."""
SYMBOL, COLON = re.compile(r"(?<![^\s\[{,]):(?=[^\W\d])"), "\ue000"
"""A colon that begins a word, and the character that replaces it for libyaml, which does not allow
it in a flow collection: `[:year, :month]`."""
STRING = "tag:yaml.org,2002:str"


def read(data: bytes, target: str, comments: bool = False) -> Document:
    """Reads a JSON file, also one with `comments`. The locale of an .arb file becomes `target`."""
    text, encode = decode(data)
    plain = COMMENT.sub(blank, text) if comments else text
    try:
        orjson.loads(plain)
    except orjson.JSONDecodeError as error:
        hint = (
            ""
            if comments or COMMENT.sub(blank, text) == text
            else " Name a file with comments .jsonc."
        )
        raise InvalidRequest(
            f"The file is not valid JSON; see line {error.lineno}.{hint}"
        ) from error
    escapes = text.isascii() and "\\u" in text
    values = list(find_values(plain))
    with_message = {path[:-1] for _, _, path, _ in values if path[-1:] == ("message",)}

    @cache  # a file may have many strings in deep collections
    def hides(collections: tuple[str, ...]) -> bool:
        return any(collections[:depth] in with_message for depth in range(1, len(collections) + 1))

    locales = [
        (start, end, json.dumps(target))
        for start, end, path, own in values
        if path == ("@@locale",) and own != target
    ]
    places = [
        labelled(start, end, own, partial(quoted, source=text[start:end], ascii_only=escapes))
        for start, end, path, own in values
        if is_text(path, own, hides)
    ]
    return in_place(text, encode, places, "text", locales)


read_with_comments = partial(read, comments=True)


def quoted(text: str, source: str, ascii_only: bool = False) -> str:
    """Returns a text in quotes. Characters that its source escapes are escaped in the same way."""
    kept: dict[int, str] = {}
    for escape in ESCAPE.findall(source):
        units = (
            escape.replace("\\/", "/")
            .encode()
            .decode("unicode_escape")
            .encode("utf-16", "surrogatepass")
        )
        character = units.decode("utf-16", "replace")
        if not NEVER_ESCAPED.match(character):
            kept[ord(character)] = escape
    return json.dumps(text, ensure_ascii=ascii_only).translate(kept)


def blank(match: re.Match[str]) -> str:
    """Returns a string as it is, and spaces instead of a comment."""
    return match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0])


def find_values(text: str) -> Iterator[tuple[int, int, tuple[str, ...], str]]:
    """Yields the strings of valid JSON that are not keys: start, end, the keys that lead to it, and
    text."""
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
            yield *token.span(), tuple(path), orjson.loads(raw)


def is_text(path: tuple[str, ...], text: str, hides: Callable[[tuple[str, ...]], bool]) -> bool:
    """Returns whether people read a string. `hides` says whether collections are metadata."""
    if path[-1:] != ("message",) and hides(path[:-1]):
        return False  # the description or a placeholder of a browser extension's message
    return is_words(text) and not any(key.startswith("@") for key in path)


def is_words(text: str) -> bool:
    """Returns whether a string has words and is no code."""
    return has_words(text) and not CODE.fullmatch(text)


class Scalar(NamedTuple):
    """A string of a YAML file from `start` to `end`. `style` is its first character, "" for a plain
    scalar. `depth` counts the collections around it. `flow` says that the last one is in
    brackets."""

    start: int
    end: int
    text: str
    style: str
    key: bool
    depth: int
    flow: bool


def read_yaml(data: bytes, target: str) -> Document:
    text, encode = decode(data)
    try:
        scalars = list(find_scalars(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise InvalidRequest(
            f"The file is not valid YAML{f'; see line {mark.line + 1}' if mark else ''}."
        ) from error
    locales: list[tuple[int, int, str]] = []
    tops = [scalar for scalar in scalars if scalar.depth == 1]
    if len(tops) == 1 and tops[0].key and not tops[0].style and LANGUAGE.fullmatch(tops[0].text):
        locales = [(*tops[0][:2], target)] if primary_subtag(tops[0].text) in NAMES else []
    places = [
        labelled(scalar.start, scalar.end, scalar.text, partial(rendered, scalar, text))
        for scalar in scalars
        if not scalar.key and is_words(scalar.text)
    ]
    return in_place(text, encode, places, "text", locales)


def find_scalars(text: str) -> Iterator[Scalar]:
    """Yields the strings of a file. Aliases are not followed."""
    flows = [False]
    # the number of nodes of each open mapping, or a negative number for a sequence
    stack: list[int] = []
    read = text if COLON in text else SYMBOL.sub(COLON, text)
    for event in yaml.parse(read, Loader=Loader):
        if isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            flows.pop()
            continue
        if not isinstance(event, yaml.NodeEvent):
            continue
        key = bool(stack) and stack[-1] >= 0 and stack[-1] % 2 == 0
        if stack and stack[-1] >= 0:
            stack[-1] += 1
        check_depth(stack)
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(0 if isinstance(event, yaml.MappingStartEvent) else -1)
            flows.append(bool(event.flow_style))
        elif isinstance(event, yaml.ScalarEvent):
            tag = STRING if event.tag in (None, "!") else event.tag
            if event.implicit[0] and not event.style:
                tag = RESOLVER.resolve(yaml.ScalarNode, event.value, (True, False))  # type: ignore[no-untyped-call]
            if tag == STRING and event.start_mark and event.end_mark:
                start, end = event.start_mark.index, event.end_mark.index
                if event.anchor or event.tag:
                    start += len(PROPERTIES.match(text, start, end)[0])  # type: ignore[index]
                value = event.value.replace(COLON, ":") if read is not text else event.value
                yield Scalar(start, end, value, event.style or "", key, len(stack), flows[-1])


def rendered(scalar: Scalar, text: str, new: str) -> str:
    """Returns a translation in the style of its scalar."""
    source = text[scalar.start : scalar.end]
    if scalar.style in ("|", ">"):
        header, _, body = source.partition("\n")
        indent = re.match(r"(?:[ ]*\n)*([ ]*)", body)[1]  # type: ignore[index]
        ending = body[len(body.rstrip("\n ")) :] or "\n"
        if indent and not re.search(r"\d", header) and not new.startswith(" "):
            between = "\n" if scalar.style == "|" else "\n\n"
            lines = new.strip("\n").split("\n")
            body = between.join(indent + line if line else "" for line in lines)
            return f"{header}\n{body}{ending}"
    if scalar.style == "'" and "\n" not in new and new.isprintable():
        return "'" + new.replace("'", "''") + "'"
    if not scalar.style and is_plain(scalar, new):
        return new
    ending = source[len(source.rstrip("\n")) :]  # a block ends with its line
    return quoted(new, source) + ending


def is_plain(scalar: Scalar, new: str) -> bool:
    """Returns whether a translation can be written in place of a scalar without quotes."""
    if not (new[:1].isalnum() or new[:1] == scalar.text[:1]) or (
        scalar.flow and BRACKETS.search(new)
    ):
        return False
    try:
        return new.isprintable() and yaml.load(f"a: {new}", Loader) == {"a": new}  # noqa: S506  a safe loader
    except (yaml.YAMLError, ValueError):
        return False
