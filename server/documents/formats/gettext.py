"""Reads gettext catalogs (.po, .pot): messages without a translation get one."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from functools import partial

import polib

from server.documents.document import ACCESS_KEY, Document, has_words, label
from server.documents.formats.plain import LINES, decode
from server.errors import InvalidRequest

CHARSET = re.compile(rb"(Content-Type:[^\"\n]{0,100}charset=)([\w.:\-]{2,40})", re.IGNORECASE)
OTHER_CHARSET = re.compile(CHARSET.pattern.replace(rb"=)", rb"=)(?!utf-8)"), re.IGNORECASE)
PLURALS = re.compile(r"nplurals\s*=\s*([1-6])")
LONG_LINE = re.compile(r'(?:msg\w*(?:\[\d\])?\s+)?"(?:[^"\\]|\\.){81}')
"""A line of a catalog that does not wrap its lines."""
WIDTH, UNLIMITED = 79, 10**9
wrap = partial(
    textwrap.wrap,
    expand_tabs=False,
    replace_whitespace=False,
    drop_whitespace=False,
    break_long_words=False,
)
ONE_FORM = frozenset("ja zh ko vi th id ms lo my".split())
"""Languages without plural forms."""


def decoded(data: bytes) -> tuple[str, Callable[[str], bytes], bool]:
    """Returns the text of a catalog, its encoder, and whether it does not name its encoding."""
    charset = CHARSET.search(data)
    named = charset[2].decode() if charset else "utf-8"
    return *decode(data, named), named == "CHARSET"


def parse(text: str) -> polib.POFile:
    """Returns a catalog. Raises InvalidRequest."""
    try:
        # the line end keeps polib from taking the text for the name of a file
        return polib.pofile("\n" + text.replace("\r\n", "\n"), encoding="utf-8")
    except (OSError, ValueError, IndexError, AttributeError, UnicodeError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"; see line {int(line[1]) - 1}" if line else ""
        raise InvalidRequest(f"The file is not a valid gettext catalog{place}.") from error


def read(data: bytes, target: str) -> Document:
    """Reads a catalog and sets its language to `target`. All other lines are kept."""
    text, encode, open_charset = decoded(data)
    catalog = parse(text)
    entries = [
        entry
        for entry in catalog
        if not entry.obsolete and not is_translated(entry) and has_words(entry.msgid)
    ]
    labels = [
        label(text, ACCESS_KEY)
        for entry in entries
        for text in (entry.msgid, entry.msgid_plural)
        if text
    ]

    def write(translations: Sequence[str]) -> bytes:
        done = (written(new) for (_, written), new in zip(labels, translations, strict=True))
        stated = catalog.metadata.get("Plural-Forms", "")
        rule = stated if PLURALS.search(stated) else plural_rule(target)
        forms = int(PLURALS.findall(rule)[0])
        line_end = "\r\n" if "\r\n" in text else "\n"
        lines = text.replace("\r\n", "\n").split("\n")
        width = UNLIMITED if any(LONG_LINE.match(line) for line in lines) else WIDTH
        edits = []
        for entry in entries:
            singular = next(done)
            made = {-1: singular}
            if entry.msgid_plural:
                plural = next(done)
                made = {i: plural if i or forms == 1 else singular for i in range(forms)}
            first, last = entry_lines(lines, entry.linenum - 2)
            edits.append((first, last, rewritten(lines[first:last], made, width)))
        settings = {"Language": target, "Plural-Forms": rule}
        if "Content-Type" not in catalog.metadata:
            settings["Content-Type"] = "text/plain; charset=UTF-8"
        for first, last, block in reversed(edits):
            lines[first:last] = block
        lines = with_settings(lines, settings)
        written = line_end.join(lines)
        content, unicode = encode(written), written.encode("utf-8", "replace")
        if open_charset or (content == unicode and not written.isascii()):
            return OTHER_CHARSET.sub(rb"\1UTF-8", unicode, count=1)
        return content

    return Document(tuple(text for text, _ in labels), "text", write)


def entry_lines(lines: Sequence[str], first: int) -> tuple[int, int]:
    """Returns the range of lines of the entry that begins with line `first`, up to an empty line or
    the next entry."""
    first = max(0, first)  # polib gives the first entry no line
    while first < len(lines) and not lines[first].strip():
        first += 1
    last, has_translation = first, False
    while last < len(lines) and lines[last].strip():
        if has_translation and not lines[last].startswith(("msgstr", '"', " ", "\t")):
            break
        has_translation |= lines[last].startswith("msgstr")
        last += 1
    return first, last


def rewritten(lines: Sequence[str], made: dict[int, str], width: int) -> list[str]:
    """Returns the lines of an entry with new translations by number of the plural form (-1: no
    plural), without its mark as fuzzy."""
    kept = []
    for line in lines:
        if line.startswith("msgstr"):
            break
        if line.startswith("#,"):
            flags = [flag for flag in re.split(r"\s*,\s*", line[2:].strip()) if flag != "fuzzy"]
            kept += ["#, " + ", ".join(flags)] if flags else []
        elif not line.startswith("#|"):  # the previous message of a fuzzy entry
            kept.append(line)
    for number, text in made.items():
        name = f"msgstr{'' if number < 0 else f'[{number}]'}"
        parts = [
            part for line in LINES.findall(text) for part in wrap(polib.escape(line), width - 2)
        ] or [""]
        if len(parts) > 1 or len(name) + len(parts[0]) + 3 > width:
            parts.insert(0, "")
        kept += [f'{name} "{parts[0]}"', *[f'"{part}"' for part in parts[1:]]]
    return kept


def with_settings(lines: list[str], settings: dict[str, str]) -> list[str]:
    """Returns the lines of a catalog with these settings in its header, which is the translation of
    the empty message."""
    quoted = {name: f'"{name}: {value}\\n"' for name, value in settings.items()}
    before = ["", *lines]
    headers = (
        i
        for i, line in enumerate(lines)
        if line.startswith("msgstr")
        and before[i] == 'msgid ""'
        and not before[i - 1].startswith(("msgctxt", '"'))
    )
    if not (start := next(headers, 0)):
        return ['msgid ""', 'msgstr ""', *quoted.values(), "", *lines]
    stated = re.findall(r"(?:[^\\]|\\[^n])*(?:\\n|$)", lines[start].partition('"')[2].rstrip()[:-1])
    lines[start : start + 1] = ['msgstr ""', *[f'"{part}"' for part in stated if part]]
    end = start + 1
    while end < len(lines) and lines[end].startswith('"'):
        name = lines[end][1:].partition(":")[0]
        lines[end] = quoted.pop(name, lines[end])
        end += 1
    return [*lines[:end], *quoted.values(), *lines[end:]]


def is_translated(entry: polib.POEntry) -> bool:
    """Returns whether a message has a translation that is not fuzzy."""
    return all(entry.msgstr_plural.values() or [entry.msgstr]) and "fuzzy" not in entry.flags


def plural_rule(target: str) -> str:
    """Returns the plural rule of a language for a catalog without one."""
    if target in ONE_FORM:
        return "nplurals=1; plural=0;"
    return f"nplurals=2; plural=(n {'>' if target in ('fr', 'pt') else '!='} 1);"
