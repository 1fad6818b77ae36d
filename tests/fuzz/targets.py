"""Fuzz targets for text functions and document readers: each checks its invariants for any
bytes."""

from __future__ import annotations

import html
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from server.documents.document import Document, tagged_of
from server.documents.reader_process import read_document
from server.errors import AttentiveError
from server.glossaries.types import EntriesFormat, check_entries, read_entries, write_entries
from server.text.glossary import Entry, TermIndex
from server.text.segmentation import (
    BREAKS,
    BULLET,
    LABEL,
    LAYOUT,
    split_long_sentence,
    split_sentences,
)
from server.text.syntax import html as html_syntax
from server.text.syntax import plain, xml
from server.text.tagged import Tagged
from tests.support.texts import document_files as make
from tests.support.texts.document_files import SRT, VTT
from tests.unit.server.documents.formats.test_markdown import PAGE as MARKDOWN
from tests.unit.server.documents.formats.test_message_files import JSON, PO, YAML
from tests.unit.server.documents.formats.test_office_open import SLIDE, STRINGS
from tests.unit.server.documents.formats.test_xliff import XLIFF_1, XLIFF_2

TEXT_CHARACTERS = 2_000
FORMATS: tuple[EntriesFormat, ...] = ("tsv", "csv")
LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja", "ar", "xx")
TEXTS = (
    "Hello world. How are you? I am fine!",
    "Dr. Smith paid $3.50 at 5 p.m. e.g. for tea\tand cake.\r\nNext line",
    "Ein Satz. Noch einer; und – so weiter … „Zitat“ (Klammer).",
    "你好世界。今天天气很好！是吗？",
    "Привет, мир! Как дела? Всё хорошо.",
    "مرحبا بالعالم. كيف حالك؟",
    "e\u0301 n\u0303 \u200b\u200d\ufeff 👩‍👩‍👧 \U0001f1e9\U0001f1ea \x00\x85\u2028",
    '<p>One <b>two <i class="a>b">three</i></b> four</p><br/><img alt="x > y">five',
    "<!-- c --><script>if (a<b) {}</script><a href='?x=1&y=2'>link</a> &amp; &lt; &nbsp; &#8364;",
    '<x id="1">keep</x> and <g id="2">move</g> <y/>',
    "<ul><li>1<li>2</ul><code>x < y</code><span translate='no'>brand</span>",
)
OPEN_BODY = (
    "<text:h>Head</text:h><text:p>Say <text:span "
    'text:style-name="B">bold</text:span><text:tab/>now<text:s/></text:p>'
)


@dataclass(frozen=True, slots=True)
class Target:
    """A check of any bytes with its seeds. `check` raises an exception if an invariant is broken,
    and returns False if the input was refused with an error message."""

    check: Callable[[bytes], bool]
    seeds: tuple[bytes, ...]


def check_text(data: bytes) -> bool:
    """Checks that segmentation, cutting, scanning, parsing and masking lose nothing. The first two
    bytes choose the language, the length limit, and whether `<` is removed."""
    if len(data) < 2:
        return False
    text = data[2:].decode("utf-8", "replace")[:TEXT_CHARACTERS]
    text = text.replace("<", "") if data[1] & 0x80 else text
    lost = list(losses(text, LANGUAGES[data[0] % len(LANGUAGES)], 1 + data[1] % 12))
    assert not lost, lost
    return True


def losses(text: str, language: str, limit: int) -> Iterator[str]:
    """Yields the name of every function that loses part of the text."""
    for split, breaks in (("all", LAYOUT), ("punctuation", BREAKS), ("none", BREAKS)):
        spans = split_sentences(text, language, split)  # type: ignore[arg-type]
        starts, ends = [start for start, _ in spans] + [len(text)], [0] + [end for _, end in spans]
        between = [text[a:b] for a, b in zip(ends, starts, strict=True)]
        inside = [text[a:b] for a, b in spans]
        rejoined = "".join(
            part for pair in zip(between, [*inside, ""], strict=True) for part in pair
        )
        if rejoined.encode() != text.encode() or any(
            has_content(separator, breaks) for separator in between
        ):
            yield f"segmentation ({split})"
    pieces = split_long_sentence(text, range(len(text)), limit)
    if "".join("".join(text[a:b].split()) for a, b in pieces) != "".join(text.split()):
        yield "cutting"
    if (
        "".join(
            token if isinstance(token, str) else token.raw
            for token in html_syntax.markup_tokens(text)
        ).encode()
        != text.encode()
    ):
        yield "scanning"
    if plain.scan(Tagged(text)).write() != text:
        yield "plain text"
    if html.unescape(html_syntax.scan(text).write()) != html.unescape(text):
        yield "HTML"
    document = text.replace("&", "+")  # in XML, text is escaped
    rules = xml.Rules(ignored=frozenset({"x"}), splitting=frozenset({"p"}))
    if html.unescape(xml.scan(document, rules).write()) != document:
        yield "XML"


def has_content(separator: str, breaks: re.Pattern[str]) -> bool:
    """Returns True if a separator between sentences contains more than white space and a list
    bullet."""
    left = LABEL.sub("", breaks.sub("", separator).strip() + " The", count=1).strip()
    bullet = BULLET.match(left)
    return left != "The" and (bullet is None or bullet.end() + len("The") < len(left))


def check_file(name: str, data: bytes, exact: bool = False, repeatable: bool = True) -> bool:
    """Checks that a file is refused with a sentence, or can be written and read again with any
    translation.

    An unchanged file has the same words after writing (unless its texts are then translated:
    not `repeatable`), and the same bytes if `exact`.
    """
    try:
        document = read_document(name, data, "de")
    except AttentiveError as error:
        assert error.message.endswith(".")
        return False
    same = read_document(name, data, "de").write(document.texts)
    assert not exact or same == data
    assert not repeatable or words(read_document(name, same, "de")) == words(document)
    reversed_texts = [
        make.changed(text, document.format, lambda part: part[::-1]) for text in document.texts
    ]
    read_document(name, document.write(reversed_texts), "de")
    return True


def check_pdf(data: bytes) -> bool:
    """Checks that a PDF file is refused with a sentence, or becomes a page with its words."""
    try:
        document = read_document("a.pdf", data, "de", "html")
    except AttentiveError as error:
        assert error.message.endswith(".")
        return False
    assert words(read_document("a.html", document.write(document.texts), "de"))[
        : len(words(document))
    ] == words(document)
    return True


def words(document: Document) -> list[str]:
    """Returns the words to translate, without markup."""
    texts = (
        passage.text
        for text in document.texts
        for passage in tagged_of(text, document.format).passages()
    )
    return [word for text in texts for word in text.split()]


def part_target(name: str, whole: bytes) -> Target:
    """Returns a target for an archive: the first byte chooses the XML part that the other bytes
    replace."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts: Mapping[str, bytes] = {entry: archive.read(entry) for entry in archive.namelist()}
    names = [entry for entry in parts if entry.endswith((".xml", ".opf", ".ncx", ".xhtml"))]

    def check(data: bytes) -> bool:
        chosen = names[data[0] % len(names)] if data else names[0]
        return check_file(name, make.archive({**parts, chosen: data[1:]}))

    return Target(check, tuple(bytes([i]) + parts[entry] for i, entry in enumerate(names)))


def check_glossary(data: bytes) -> bool:
    """Reads entries, writes them in both formats, and finds the terms in the text of the entries.
    Returns whether there are entries."""
    text, accepted = data.decode("utf-8", "replace"), False
    for format in FORMATS:
        try:
            entries = read_entries(text, format)
            check_entries(entries)
        except AttentiveError:
            continue
        accepted = True
        for other in FORMATS:
            assert read_entries(write_entries(entries, other), other) == entries
        terms = TermIndex([Entry(*pair) for pair in entries.items()]).find(text)
        assert all(0 <= term.start < term.end <= len(text) for term in terms)
        assert all(term.end <= after.start for term, after in pairwise(terms))
    return accepted


TARGETS = {
    "texts": Target(
        check_text,
        tuple(bytes([1, limit]) + text.encode() for text in TEXTS for limit in (0x05, 0x85)),
    ),
    "txt": Target(
        lambda data: check_file("a.txt", data, exact=True),
        (
            b"Hello.\nWorld\r\n\n",
            "Hé".encode("utf-16"),
            b"A line that is long enough to be wrapped here, and\nthe next\n",
        ),
    ),
    "glossary": Target(
        check_glossary, (b"battery\tAkku\n{name}\t{name}\n", b'battery,Akku\n"a, b",c')
    ),
    "srt": Target(lambda data: check_file("a.srt", data), (SRT.encode(),)),
    "vtt": Target(lambda data: check_file("a.vtt", data), (VTT.encode(),)),
    "html": Target(
        lambda data: check_file("a.html", data),
        (
            make.PAGE.encode(),
            b'<html lang="en"><meta charset=latin-1><pre>a</pre><p>b <b>c</b> \xe9&eacute;',
        ),
    ),
    "md": Target(
        lambda data: check_file("a.md", data, exact=b"\r" not in data), (MARKDOWN.encode(),)
    ),
    "po": Target(lambda data: check_file("a.po", data, repeatable=False), (PO.encode(),)),
    "json": Target(lambda data: check_file("a.json", data, exact=True), (JSON.encode(),)),
    "yaml": Target(lambda data: check_file("a.yml", data), (YAML.encode(),)),
    "xliff": Target(
        lambda data: check_file("a.xlf", data, repeatable=False),
        (XLIFF_1.encode(), XLIFF_2.encode()),
    ),
    "docx": part_target("a.docx", make.word_file()),
    "pptx": part_target("a.pptx", make.slides(SLIDE)),
    "xlsx": part_target("a.xlsx", make.workbook(STRINGS, "Total")),
    "pdf": Target(check_pdf, (make.pdf("Hello world.", "Second line"),)),
    "odt": part_target("a.odt", make.open_document(OPEN_BODY)),
    "epub": part_target("a.epub", make.book()),
    "archive": Target(
        lambda data: check_file("a.docx", data),
        (make.word_body("<w:p/>"), make.archive({"a": "b"})),
    ),
}
