"""PDF files with text become a page of HTML with the paragraphs in order."""

from __future__ import annotations

from io import BytesIO

import docx
import pytest
from docx.document import Document as DocxDocument

from server.documents.formats import format_of
from server.documents.reader_process import read_document
from server.documents.service import translated_name
from server.errors import InvalidRequest
from tests.support.texts.document_files import change, pdf


def test_lines_are_joined_to_paragraphs():
    made = change(
        "a.pdf", pdf("The title", "", "A paragraph of two li-", "nes with <words>.", "", "42", "", "The end.")
    ).decode()
    assert made.startswith('<!DOCTYPE html>\n<html lang="de"><meta charset="utf-8">')
    paragraphs = [line for line in made.splitlines() if line.startswith("<p>")]
    texts = ["THE TITLE", "A PARAGRAPH OF TWO LINES WITH &lt;WORDS&gt;.", "42", "THE END."]
    assert paragraphs == [f"<p>{text}</p>" for text in texts]


def row(*cells: str, first: int = 0) -> str:
    """Returns a line with cells 150 points apart, for `pdf`."""
    places = f") Tj {150} 0 Td (".join(cells)
    return f") Tj {first * 150} 0 Td ({places}) Tj -{150 * (first + len(cells) - 1)} 0 Td ("


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["- one", "- two", "Goes on"], "<ul>|<li>ONE</li>|<li>TWO GOES ON</li>|</ul>"),
        (["Text:", "1. one", "2. two"], "<p>TEXT:</p>|<p>1. ONE</p>|<p>2. TWO</p>"),
        (["a. one", "b. two", "", "Text"], "<p>A. ONE</p>|<p>B. TWO</p>|<p>TEXT</p>"),
        (["- one", "", "Text", "", "- two"], "<ul>|<li>ONE</li>|</ul>|<p>TEXT</p>|<ul>|<li>TWO</li>|</ul>"),
        (
            ["Text", row("Name", "Price"), row("Milk", "2"), row("Red apples", "3"), "", "End"],
            "<p>TEXT</p>|<table>|<tr><td>NAME</td><td>PRICE</td></tr>|<tr><td>MILK</td><td>2</td></tr>|"
            "<tr><td>RED APPLES</td><td>3</td></tr>|</table>|<p>END</p>",
        ),
        (
            [row("Name", "Note"), row("Milk", "cold and"), row("white", first=1), row("Tea", "hot")],
            "<table>|<tr><td>NAME</td><td>NOTE</td></tr>|<tr><td>MILK</td><td>COLD AND WHITE</td></tr>|"
            "<tr><td>TEA</td><td>HOT</td></tr>|</table>",
        ),
        (
            [row("a", "b", "c"), row("d", "", "f"), row("g", "h", "i")],
            "<table>|<tr><td>A</td><td>B</td><td>C</td></tr>|<tr><td>D</td><td></td><td>F</td></tr>|"
            "<tr><td>G</td><td>H</td><td>I</td></tr>|</table>",
        ),
        (["Left text", row("Page", "7"), "", "More text"], "<p>LEFT TEXT PAGE 7</p>|<p>MORE TEXT</p>"),
        ([row("1.", "one"), row("2.", "two")], "<p>1. ONE</p>|<p>2. TWO</p>"),
    ],
)
def test_tables_and_lists_do_not_run_together(lines, expected):
    made = change("a.pdf", pdf(*lines)).decode()
    assert made.partition("<body>\n")[2].partition("\n</body>")[0].replace("\n", "|") == expected


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4", pdf(), pdf("42")], ids=["empty", "damaged", "no text", "numbers"])
def test_files_without_text_are_rejected(data):
    with pytest.raises(InvalidRequest):
        read_document("a.pdf", data, "de")


def word(*lines: str) -> DocxDocument:
    """Returns the Word file of a .pdf with these lines."""
    document = read_document("a.pdf", pdf(*lines), "de", "docx")
    return docx.Document(BytesIO(document.write([text.upper() for text in document.texts])))


def test_a_word_file_has_the_page_and_the_pieces_in_order():
    made = word(
        "Text & more",
        row("Name", "Price"),
        row("Milk", "2"),
        row("Red apples", "3"),
        "",
        "",
        "- one",
        "- two",
        "",
        "End",
    )
    assert [(p.style.name, p.text) for p in made.paragraphs] == [
        ("Normal", "TEXT & MORE"),
        ("List Bullet", "ONE"),
        ("List Bullet", "TWO"),
        ("Normal", "END"),
    ]
    [table] = made.tables
    assert [[cell.text for cell in line.cells] for line in table.rows] == [
        ["NAME", "PRICE"],
        ["MILK", "2"],
        ["RED APPLES", "3"],
    ]
    assert [child.tag.rpartition("}")[2] for child in made.element.body] == ["p", "tbl", "p", "p", "p", "sectPr"]
    page = made.sections[0]
    assert (page.page_width.pt, page.page_height.pt) == (612, 792)
    assert page.left_margin.pt == pytest.approx(72, abs=2) and page.top_margin.pt == pytest.approx(64, abs=3)
    assert table.columns[0].width.pt == pytest.approx(150, abs=2)


def test_larger_letters_are_headings_and_indented_lines_stay_indented():
    made = word(
        ") Tj /F1 24 Tf (Title", "", "", ") Tj /F1 12 Tf (The text of a paragraph.", "", ") Tj 36 0 Td (More text."
    )
    title, text, indented = made.paragraphs
    assert (title.style.name, title.runs[0].font.size.pt, text.style.font.size.pt) == ("Heading 1", 24, 12)
    assert indented.paragraph_format.left_indent.pt == pytest.approx(36, abs=1)
    assert indented.paragraph_format.space_before.pt > 14


@pytest.mark.parametrize("data", [b"", pdf("42")], ids=["empty", "numbers"])
def test_a_word_file_needs_text(data):
    with pytest.raises(InvalidRequest):
        read_document("a.pdf", data, "de", "docx")


def test_the_name_says_what_the_file_is():
    assert translated_name("paper.pdf", "de", format_of("paper.pdf").written_as) == "paper.de.html"
