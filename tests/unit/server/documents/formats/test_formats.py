"""Every file format: the text is translated, everything else is kept, and an untranslated file is
unchanged."""

from __future__ import annotations

import io
import zipfile

import pytest
from lxml import etree

from server.documents.formats import format_of
from server.documents.reader_process import read_document
from server.documents.service import translated_name
from server.errors import InvalidRequest
from tests.support.texts.document_files import (
    TEXT,
    book,
    change,
    open_document,
    part,
    word_file,
    workbook,
)


@pytest.mark.parametrize("name", ["a.docx", "a.odt", "a.xlsx"])
def test_characters_that_xml_does_not_allow_are_removed(name):
    margin = "<oddHeader>Page</oddHeader>"
    data, changed = {
        "a.docx": (word_file(), "word/document.xml"),
        "a.odt": (open_document("<text:p>Hello</text:p>"), "content.xml"),
        "a.xlsx": (workbook(f"<si><t>Hello</t></si>{margin}"), "xl/sharedStrings.xml"),
    }[name]
    document = read_document(name, data, "de")
    made = document.write(["\x00\x1f\ufffe words <more" for _ in document.texts])
    assert part(made, changed).count(" words &lt;more") >= (2 if name == "a.xlsx" else 1)


def test_opendocument_files_keep_spans_notes_and_line_breaks():
    data = open_document(
        '<text:h>Head</text:h><text:p>Say <text:span text:style-name="B">bold<text:s '
        'text:c="3"/>words</text:span> now<text:note>'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>The "
        "note</text:p></text:note-body></text:note> fine."
        "<text:line-break/>next</text:p><text:p/>"
    )
    made = etree.fromstring(part(change("a.odt", data), "content.xml").encode())
    head, paragraph, empty = made[0][0]
    assert (head.text, empty.text) == ("HEAD", None)
    assert paragraph.text == "SAY "
    assert [(child.tag.removeprefix("{" + TEXT + "}"), child.tail) for child in paragraph] == [
        ("span", " NOW"),
        ("note", " FINE."),
        ("line-break", "NEXT"),
    ]
    assert paragraph[0].text == "BOLD WORDS"
    assert "".join(paragraph[1].itertext()) == "1THE NOTE"


def test_books_keep_their_structure_and_get_the_new_language():
    data = book()
    made = change("a.epub", data)
    with zipfile.ZipFile(io.BytesIO(made)) as after, zipfile.ZipFile(io.BytesIO(data)) as before:
        assert [(e.filename, e.compress_type) for e in after.infolist()] == [
            (e.filename, e.compress_type) for e in before.infolist()
        ]
        assert after.read("OEBPS/cover.png") == before.read("OEBPS/cover.png")
    assert "<dc:title>MY BOOK</dc:title><dc:language>de</dc:language>" in part(
        made, "OEBPS/book.opf"
    )
    assert "<text>CHAPTER ONE</text>" in part(made, "OEBPS/toc.ncx")
    page = part(made, "OEBPS/a page.xhtml")
    assert 'xml:lang="de" lang="de"' in page
    assert "<p>HELLO <b>MY</b>\nWORLD.</p><br/><p>A&#160;B</p>" in page
    etree.fromstring(page.encode())


@pytest.mark.parametrize("name", ["a.exe", "a", "", ".", "a.docx.zip"])
def test_unknown_formats_are_rejected(name):
    with pytest.raises(InvalidRequest, match=r"\.epub"):
        format_of(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("book.epub", "book.de.epub"),
        ("../../etc/a.txt", "a.de.txt"),
        ("C:\\x\\a b.txt", "a b.de.txt"),
        (".txt", "translated.de.txt"),
        ('a"\r\n.txt', "a.de.txt"),
        ("x" * 500 + ".txt", "x" * 100 + ".de.txt"),
    ],
)
def test_the_translated_file_name_has_the_language_and_no_folder(name, expected):
    assert translated_name(name, "de") == expected
