"""Reads gettext catalogs (.po, .pot): messages without a translation get one. Translated messages are kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polib

from server.documents.document import Document, has_words
from server.documents.formats.plain import decode
from server.errors import InvalidRequest

CHARSET = re.compile(rb"Content-Type:[^\"\n]{0,100}charset=([\w.:\-]{2,40})", re.IGNORECASE)
PLURALS = re.compile(r"nplurals\s*=\s*([1-6])")
ONE_FORM = frozenset("ja zh ko vi th id ms lo my".split())
"""Languages without plural forms, for catalogs that do not state a rule."""


def parse(data: bytes) -> tuple[polib.POFile, Callable[[str], bytes], bool]:
    """Returns a catalog, the function that encodes it, and whether it leaves its encoding open. Raises InvalidRequest."""
    charset = CHARSET.search(data)
    named = charset[1].decode() if charset else "utf-8"
    open_charset = named == "CHARSET"
    text, encode = decode(data, "utf-8" if open_charset else named)
    try:
        # The first character makes sure that polib does not take the text for the name of a file.
        catalog = polib.pofile("\n" + text.replace("\r\n", "\n"), encoding="utf-8", wrapwidth=78)
    except (OSError, ValueError, IndexError, AttributeError, UnicodeError) as error:
        line = re.search(r"line (\d+)", str(error))
        place = f"; see line {int(line[1]) - 1}" if line else ""
        raise InvalidRequest(f"The file is not a valid gettext catalog{place}.") from error
    return catalog, encode, open_charset


def read(data: bytes, target: str) -> Document:
    """Reads a catalog and sets its language to `target`. Raises InvalidRequest."""
    catalog, encode, open_charset = parse(data)
    entries = [entry for entry in catalog if not entry.obsolete and not is_translated(entry) and has_words(entry.msgid)]
    texts = [text for entry in entries for text in (entry.msgid, entry.msgid_plural) if text]

    def write(translations: Sequence[str]) -> bytes:
        done = iter(translations)
        stated = catalog.metadata.get("Plural-Forms", "")
        rule = stated if PLURALS.search(stated) else plural_rule(target)
        forms = int(PLURALS.findall(rule)[0])
        catalog.metadata |= {"Plural-Forms": rule, "Language": target}
        if open_charset:  # a template of xgettext
            catalog.metadata["Content-Type"] = "text/plain; charset=UTF-8"
        for entry in entries:
            singular = framed(entry.msgid, next(done))
            if entry.msgid_plural:
                plural = framed(entry.msgid_plural, next(done))
                entry.msgstr_plural = {i: plural if i or forms == 1 else singular for i in range(forms)}
            else:
                entry.msgstr = singular
            entry.flags = [flag for flag in entry.flags if flag != "fuzzy"]
        made = str(catalog) + "\n"
        return made.encode() if open_charset else encode(made)

    return Document(tuple(texts), "text", write)


def is_translated(entry: polib.POEntry) -> bool:
    """Returns whether a message has a translation that is not marked as fuzzy."""
    filled = all(entry.msgstr_plural.values()) if entry.msgstr_plural else bool(entry.msgstr)
    return filled and "fuzzy" not in entry.flags


def framed(source: str, translated: str) -> str:
    """Returns a translation with the line ends of its source at the beginning and the end, which gettext compares."""
    start, end = (bool(re.match(r"\n", source)), source.endswith("\n"))
    return "\n" * start + translated.strip("\n") + "\n" * end


def plural_rule(target: str) -> str:
    """Returns a rule for the plural forms of a language that its catalog does not state, or leaves open as templates do."""
    if target in ONE_FORM:
        return "nplurals=1; plural=0;"
    return f"nplurals=2; plural=(n {'>' if target in ('fr', 'pt') else '!='} 1);"
