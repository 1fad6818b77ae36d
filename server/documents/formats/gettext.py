"""Reads gettext catalogs (.po, .pot): messages without a translation get one. Only the lines of translations and of the header's
settings change.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial

from server.documents.document import Document, has_words
from server.documents.formats.labels import MARK, label
from server.documents.formats.plain import LINES, decode
from server.errors import InvalidRequest
from server.text.offsets import edited

CHARSET = re.compile(rb"(Content-Type:[^\"\n]{0,100}charset=)([\w.:\-]{2,40})", re.IGNORECASE)
OTHER_CHARSET = re.compile(CHARSET.pattern.replace(rb"=)", rb"=)(?!utf-8)"), re.IGNORECASE)
PLURALS = re.compile(r"Plural-Forms:\s*([^\n]*nplurals\s*=\s*([1-6])[^\n]*)")
_QUOTED = r'\s*"(?:[^"\\\n]|\\.)*"'
_STRING = rf"(?:{_QUOTED}[ \t]*(?:\n|\Z))++"
MESSAGE = re.compile(
    r"^(?P<notes>(?:[ \t]*#(?!~).*(?:\n|\Z))*+)"
    rf"(?:(?P<source>(?P<context>msgctxt{_STRING})?msgid(?P<id>{_STRING})(?:msgid_plural(?P<plural>{_STRING}))?)"
    rf"(?P<made>(?:msgstr(?:\[\d\])?{_STRING})++))?",
    re.MULTILINE,
)
"""The comments before a message, and the message if one follows."""
TRANSLATION = re.compile(rf"msgstr(?:\[\d\])?({_STRING})")
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = dict(zip('\\"ntrvbf', '\\"\n\t\r\v\b\f', strict=True))
ESCAPES = str.maketrans({character: "\\" + letter for letter, character in UNESCAPED.items()})
LONG_LINE = re.compile(r'^(?:msg\w*(?:\[\d\])?\s+)?"(?:[^"\\\n]|\\.){81}', re.MULTILINE)
"""A line longer than those of a catalog that wraps them."""
WIDTH, UNLIMITED = 79, 10**9
wrap = partial(
    textwrap.wrap, expand_tabs=False, replace_whitespace=False, drop_whitespace=False, break_long_words=False
)
ONE_FORM = frozenset("ja zh ko vi th id ms lo my".split())
"""Languages without plural forms, for catalogs that do not state a rule."""


def read(data: bytes, target: str) -> Document:
    """Reads a catalog and sets its language to `target`. Raises InvalidRequest."""
    charset = CHARSET.search(data)
    named = charset[2].decode() if charset else "utf-8"
    text, encode = decode(data, "utf-8" if named == "CHARSET" else named)
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    messages = [message for message in MESSAGE.finditer(text) if message["id"]]
    others = edited(text, [(*each.span(), "\n" * each[0].count("\n")) for each in messages])[0].split("\n")
    for number, line in enumerate(others, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            raise InvalidRequest(f"The file is not a valid gettext catalog; see line {number}.")
    open_messages = [each for each in messages if not is_translated(each) and has_words(value(each["id"]))]
    sources = [value(each[name]) for each in open_messages for name in ("id", "plural") if each[name]]
    labels = [label(source, MARK) for source in sources]
    header = next((each for each in messages if not each["context"] and not value(each["id"])), None)

    def write(translations: Sequence[str]) -> bytes:
        rows = zip(sources, labels, translations, strict=True)
        done = (framed(source, written(new)) for source, (_, written), new in rows)
        stated = PLURALS.search(value(header["made"]) if header else "")
        rule = stated[1] if stated else plural_rule(target)
        forms = int((stated or PLURALS.search(f"Plural-Forms: {rule}"))[2])  # type: ignore[index]
        width = UNLIMITED if LONG_LINE.search(text) else WIDTH
        edits = [with_settings(header, {"Language": target, "Plural-Forms": rule})]
        for each in open_messages:
            made = {"": next(done)}
            if each["plural"]:
                plural = next(done)
                made = {f"[{i}]": plural if i or forms == 1 else made[""] for i in range(forms)}
            lines = [line for number, new in made.items() for line in wrapped(f"msgstr{number}", new, width)]
            end = "\n" * each[0].endswith("\n")
            edits.append((*each.span(), "".join(notes(each)) + each["source"] + "\n".join(lines) + end))
        written = edited(text, sorted(edits))[0].replace("\n", line_end)
        content, unicode = encode(written), written.encode("utf-8", "replace")
        if named == "CHARSET" or (content == unicode and not written.isascii()):
            return OTHER_CHARSET.sub(rb"\1UTF-8", unicode, count=1)
        return content

    return Document(tuple([text for text, _ in labels]), "text", write)


def value(strings: str) -> str:
    """Returns the text of strings in quotes."""
    parts = "".join(part[part.index('"') + 1 : -1] for part in re.findall(_QUOTED, strings))
    return ESCAPE.sub(lambda found: UNESCAPED.get(found[1], found[1]), parts)


def is_translated(message: re.Match[str]) -> bool:
    """Returns whether a message has a translation that is not marked as fuzzy."""
    return all(map(value, TRANSLATION.findall(message["made"]))) and "fuzzy" not in flags(message["notes"])


def flags(comments: str) -> list[str]:
    """Returns the flags in comments."""
    return [flag.strip() for line in re.findall(r"^#,(.*)", comments, re.MULTILINE) for flag in line.split(",")]


def notes(message: re.Match[str]) -> Iterator[str]:
    """Yields the comments of a message that is no longer fuzzy: without the message before it changed."""
    for line in message["notes"].splitlines(keepends=True):
        if line.startswith("#,"):
            rest = [flag for flag in flags(line) if flag != "fuzzy"]
            yield f"#, {', '.join(rest)}\n" if rest else ""
        elif not line.startswith("#|"):
            yield line


def wrapped(name: str, text: str, width: int) -> list[str]:
    """Returns the lines of a translation."""
    escaped = (line.translate(ESCAPES) for line in LINES.findall(text))
    parts = [part for line in escaped for part in wrap(line, width - 2)] or [""]
    if len(parts) > 1 or len(name) + len(parts[0]) + 3 > width:
        parts.insert(0, "")
    return [f'{name} "{parts[0]}"', *[f'"{part}"' for part in parts[1:]]]


def with_settings(header: re.Match[str] | None, settings: dict[str, str]) -> tuple[int, int, str]:
    """Returns the edit of a catalog that writes settings into its header, and the encoding if it states none."""
    made = header["made"] if header else 'msgid ""\nmsgstr ""\n'
    if "Content-Type:" not in made:
        settings |= {"Content-Type": "text/plain; charset=UTF-8"}
    made += "" if made.endswith("\n") else "\n"
    for name, setting in settings.items():
        stated = f"{name}: {setting}\\n"
        made, count = re.subn(rf'(?<=["n]){name}:[^"\n]*?\\n', lambda _, stated=stated: stated, made, count=1)
        made += "" if count else f'"{stated}"\n'
    return (*header.span("made"), made) if header else (0, 0, made + "\n")


def framed(source: str, translated: str) -> str:
    """Returns a translation with the line ends of its source at the beginning and the end, which gettext compares."""
    return "\n" * source.startswith("\n") + translated.strip("\n") + "\n" * source.endswith("\n")


def plural_rule(target: str) -> str:
    """Returns a rule for the plural forms of a language whose catalog states none."""
    if target in ONE_FORM:
        return "nplurals=1; plural=0;"
    return f"nplurals=2; plural=(n {'>' if target in ('fr', 'pt') else '!='} 1);"
