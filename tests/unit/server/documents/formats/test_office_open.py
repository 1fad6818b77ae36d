"""Slides and workbooks: text is translated, formatting follows its words, and everything else is kept."""

from __future__ import annotations

import re

import pytest

from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from tests.support.texts.document_files import (
    archive,
    change,
    open_document,
    part,
    slides,
    word_body,
    word_file,
    workbook,
)

SLIDE = (
    '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>Water is H</a:t></a:r>'
    '<a:r><a:rPr lang="en-US" baseline="-25000"/><a:t>2</a:t></a:r><a:r><a:rPr lang="en-GB"/><a:t>O here.</a:t></a:r>'
    '<a:br/><a:fld id="{1}" type="slidenum"><a:t>7</a:t></a:fld><a:r><a:t>More</a:t></a:r><a:endParaRPr lang="en-US"/></a:p>'
)
STRINGS = (
    "<si><t>Plain words</t></si><si><t>Total</t></si><si><r><rPr><b/></rPr><t>Bold</t></r>"
    '<r><t xml:space="preserve"> and more words</t></r><phoneticPr fontId="1"/></si><si><t>42</t></si>'
)


def test_a_subscript_within_a_word_is_kept():
    made = part(change("a.pptx", slides(SLIDE)), "ppt/slides/slide1.xml")
    runs = re.findall(r"<a:r>(?:<a:rPr([^>]*)/>)?<a:t>([^<]*)</a:t></a:r>", made)
    assert [text for _, text in runs] == ["WATER IS ", "H", "2", "O", " HERE.", "MORE"]
    assert 'baseline="-25000"' in runs[2][0]
    assert (
        made.index("<a:pPr")
        < made.index("WATER")
        < made.index("<a:br")
        < made.index("slidenum")
        < made.index("endParaRPr")
    )
    assert 'descr="A RED HOUSE"' in made and 'name="Picture 1"' in made


def test_properties_of_the_document_are_translated():
    made = part(change("a.pptx", slides(SLIDE)), "docProps/core.xml")
    assert "<dc:title>MY FILE</dc:title><dc:creator>Ann</dc:creator>" in made
    assert "PYTHON-DOCX" in part(change("a.docx", word_file()), "docProps/core.xml")


def test_strings_of_cells():
    made = change("a.xlsx", workbook(STRINGS, header="Total"))
    strings = part(made, "xl/sharedStrings.xml")
    assert re.findall(r"<t[^>]*>([^<]*)</t>", strings) == ["PLAIN WORDS", "Total", "BOLD", " AND MORE WORDS", "42"]
    assert strings.count("<b/>") == 1 and strings.index("MORE WORDS") < strings.index("phoneticPr")
    assert "INLINE" in part(made, "xl/worksheets/sheet1.xml")


def test_line_ends_of_cells_are_kept():
    rich = "<r><rPr><b/></rPr><t>Ann:\nBold</t></r><r><t>\nand more\n</t></r>"
    made = change("a.xlsx", workbook(f"<si><t>One line\nand\n\nanother</t></si><si>{rich}</si>"))
    strings = part(made, "xl/sharedStrings.xml")
    plain, formatted = [
        re.findall(r"<t[^>]*>([^<]*)</t>", item) for item in re.findall("<si>.*?</si>", strings, re.DOTALL)
    ]
    assert plain == ["ONE LINE\nAND\n\nANOTHER"]
    assert "".join(formatted) == "ANN:\nBOLD\nAND MORE\n"


def test_the_number_of_a_note_is_not_read_as_a_part_of_its_word():
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>1</w:t></w:r>'
    document = read_document("a.docx", word_body(f"<w:p><w:r><w:t>the note</w:t></w:r>{raised}</w:p>"), "fr")
    assert document.texts == ("the note<img k0>",)
    made = part(document.write(["la note<img k0>"]), "word/document.xml")
    assert re.search(r">la note</w:t></w:r>.*superscript\"/></w:rPr><w:t[^>]*>1</w:t></w:r>", made, re.DOTALL)


@pytest.mark.parametrize("name", ["a.odp", "a.ods"])
def test_other_opendocument_files(name):
    title = '<x:title xmlns:x="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">A cat</x:title>'
    made = change(name, open_document(f"{title}<text:p>Hello</text:p>"))
    assert ">HELLO<" in part(made, "content.xml") and ">A CAT<" in part(made, "content.xml")


def test_a_formula_is_translated_as_a_word():
    low = '<w:r><w:rPr><w:vertAlign w:val="subscript"/></w:rPr><w:t>2</w:t></w:r>'
    body = f"<w:p><w:r><w:t>the H</w:t></w:r>{low}<w:r><w:t>O</w:t></w:r></w:p>"
    document = read_document("a.docx", word_body(body), "fr")
    made = part(document.write(["eau H2O"]), "word/document.xml")
    assert re.sub("<[^>]*>|\n", "", made) == "eau H2O"
    assert re.search(r'<w:vertAlign w:val="subscript"/></w:rPr><w:t[^>]*>2</w:t>', made)
    body = '<text:p>the CO<text:span text:style-name="B">2</text:span> here</text:p>'
    made = part(change("a.odt", open_document(body)), "content.xml")
    assert '<text:span>CO<text:span text:style-name="B">2</text:span></text:span> HERE' in made


@pytest.mark.parametrize("name", ["a.pptx", "a.xlsx"])
def test_other_archives_are_rejected(name):
    with pytest.raises(InvalidRequest, match="missing"):
        read_document(name, archive({"a": "b"}), "de")
