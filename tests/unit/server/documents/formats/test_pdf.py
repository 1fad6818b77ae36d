"""PDF files with text become PDF files with the same layout, or a page of HTML with the paragraphs
in order."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise

import pikepdf
import pytest

from server.documents.formats import format_of
from server.documents.formats.pdf.pages import Box, Font, read_pages
from server.documents.reader_process import read_document
from server.documents.service import translated_name
from server.errors import InvalidRequest
from tests.support.texts.document_files import change, pdf


def test_lines_are_joined_to_paragraphs():
    lines = (
        "The title",
        "",
        "A paragraph of two li-",
        "nes with <words>.",
        "",
        "42",
        "",
        "The end.",
    )
    made = change("a.pdf", pdf(*lines), output="html").decode()
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
        (
            ["- one", "", "Text", "", "- two"],
            "<ul>|<li>ONE</li>|</ul>|<p>TEXT</p>|<ul>|<li>TWO</li>|</ul>",
        ),
        (
            ["Text", row("Name", "Price"), row("Milk", "2"), row("Red apples", "3"), "", "End"],
            "<p>TEXT</p>|<table>|<tr><td>NAME</td><td>PRICE</td></tr>|<tr><td>MILK</td><td>2</td></tr>|"
            "<tr><td>RED APPLES</td><td>3</td></tr>|</table>|<p>END</p>",
        ),
        (
            [
                row("Name", "Note"),
                row("Milk", "cold and"),
                row("white", first=1),
                row("Tea", "hot"),
            ],
            "<table>|<tr><td>NAME</td><td>NOTE</td></tr>|<tr><td>MILK</td><td>COLD AND WHITE</td>"
            "</tr>|<tr><td>TEA</td><td>HOT</td></tr>|</table>",
        ),
        (
            [row("a", "b", "c"), row("d", "", "f"), row("g", "h", "i")],
            "<table>|<tr><td>A</td><td>B</td><td>C</td></tr>|<tr><td>D</td><td></td><td>F</td></tr>|"
            "<tr><td>G</td><td>H</td><td>I</td></tr>|</table>",
        ),
        (
            ["Left text", row("Page", "7"), "", "More text"],
            "<p>LEFT TEXT PAGE 7</p>|<p>MORE TEXT</p>",
        ),
        ([row("1.", "one"), row("2.", "two")], "<p>1. ONE</p>|<p>2. TWO</p>"),
    ],
)
def test_tables_and_lists_do_not_run_together(lines, expected):
    made = change("a.pdf", pdf(*lines), output="html").decode()
    assert made.partition("<body>\n")[2].partition("\n</body>")[0].replace("\n", "|") == expected


@pytest.mark.parametrize(
    "data", [b"", b"%PDF-1.4", pdf(), pdf("42")], ids=["empty", "damaged", "no text", "numbers"]
)
def test_files_without_text_are_rejected(data):
    with pytest.raises(InvalidRequest):
        read_document("a.pdf", data, "de")


def read_back(made: bytes) -> list[tuple[str, Box, Font]]:
    """Returns the texts of the first page of a PDF file, with their places and fonts."""
    return [
        (piece.text + piece.leader, piece.box, piece.font) for piece in read_pages(made)[0].pieces
    ]


def test_a_pdf_has_the_translated_texts_at_their_places():
    data = pdf(
        "Text & more",
        row("Name", "Price"),
        row("Milk", "2"),
        row("Red apples", "3"),
        row("", "4"),
        "",
        "- one",
        "",
        "(red)",
        "Go",
    )
    data = data.replace(b"((red)) Tj", b"1 0 0 rg    ")
    before, made = read_back(data), read_back(change("a.pdf", data, str.swapcase, "pdf"))
    assert [text for text, *_ in made] == [text.swapcase() for text, *_ in before]
    for (_, box, font), (_, old_box, old_font) in zip(made, before, strict=True):
        assert (box[0], box[3]) == pytest.approx((old_box[0], old_box[3]), abs=3)
        assert font.color == old_font.color
        assert font.size == pytest.approx(old_font.size, abs=3)
    assert {font.color for *_, font in made} == {"#000000", "#ff0000"}


def test_long_translations_are_written_smaller():
    lines = (
        "Some lines of a paragraph",
        "that goes on, and",
        "",
        "another paragraph.",
        "",
        "The end of it.",
    )
    made = read_back(change("a.pdf", pdf(*lines), lambda text: 6 * text, "pdf"))
    assert [sum(text.count(word) for text, *_ in made) for word in ("paragraph", "The end")] == [
        12,
        6,
    ]
    assert all(above[1][1] > below[1][3] for above, below in pairwise(made))
    assert made[0][2].size < 12


def test_drawings_and_the_rotation_are_kept_and_text_within_drawings_is_translated():
    with pikepdf.open(BytesIO(pdf("Hello world."))) as file:
        page, name = file.pages[0], pikepdf.Name
        form = {"/Subtype": name.Form, "/BBox": page.MediaBox, "/Resources": page.Resources}
        text = b"BT /F1 12 Tf 72 600 Td (A drawing) Tj ET 0 0 9 9 re f"
        page.contents_add(
            f"{page.add_resource(file.make_stream(text, form), name.XObject)} Do".encode()
        )
        page.rotate(90, relative=False)
        page.MediaBox = [10, 20, 612, 792]
        file.save(saved := BytesIO())
    made = change("a.pdf", saved.getvalue(), output="pdf")
    assert {text: round(box[0] / 10) for text, box, _ in read_back(made)} == {
        "HELLO WORLD.": 7,
        "A DRAWING": 7,
    }
    with pikepdf.open(BytesIO(made)) as file:
        assert file.pages[0].rotation == 90
        assert any(
            b"0 0 9 9 re" in form.read_bytes() for form in file.pages[0].Resources.XObject.values()
        )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Contents ......... 12", "CONTENTS.........12"),
        ("And so on...", "ANDSOON..."),
        (". " * 40_000 + "x", ""),
    ],
)
def test_dots_before_the_number_of_a_page_are_not_translated(text, expected):
    document = read_document("a.pdf", pdf("Hello", "", text), "de", "html")
    assert all("....." not in each for each in document.texts)
    assert expected in document.write([each.upper() for each in document.texts]).decode().replace(
        " ", ""
    )


def test_the_name_says_what_the_file_is():
    for output, name in (("", "paper.de.pdf"), ("html", "paper.de.html")):
        assert translated_name("paper.pdf", "de", format_of("paper.pdf", output).written_as) == name
