"""Reads PDF files with text, whose translation is a Word file with the layout as far as it is known.

Kept are the size of the first page, usual margins, page breaks, the places of paragraphs and columns, headings, and for
each paragraph or cell the size of its letters, bold and italic. A font is replaced by Times New Roman or Arial.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import groupby
from statistics import median

import docx
from docx.document import Document as WordDocument
from docx.enum.section import WD_ORIENT
from docx.enum.text import WD_ALIGN_PARAGRAPH, WD_TAB_ALIGNMENT, WD_TAB_LEADER
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.oxml.table import CT_Tbl
from docx.shared import Length, Pt, RGBColor
from docx.text.paragraph import Paragraph

from server.documents.document import Document
from server.documents.formats.pdf import Page, Piece, around, document_of, read_pages

PAGE_LIMIT = 1_584.0
"""Largest width and height in points of a page in Word."""
GAP_LIMIT = 250.0
"""A larger distance in points between two paragraphs, as beside another column, is dropped."""
COLUMNS_LIMIT = 63
"""Largest number of columns of a table in Word."""
HEADING_SCALE = 1.15
"""Letters of a heading are larger than the others by this factor."""
HEADING_CHARACTERS = 200
HEADINGS = ("Heading 1", "Heading 2", "Heading 3")
LEADER = re.compile(r" ?\.[. ]{5,}")
"""The dots between a title and the number of its page."""
EDGE = 6.0
"""Largest distance in points of a paragraph from the place where it is aligned."""


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file, for a Word file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    pages = read_pages(data)
    pieces = [piece for page in pages for piece in page.pieces]

    def write(texts: Sequence[str]) -> bytes:
        for piece, text in zip(pieces, texts, strict=True):
            piece.text = html.unescape(text)
        file = BytesIO()
        word_document([page for page in pages if page.pieces], target).save(file)
        return file.getvalue()

    return document_of(pieces, write)


def word_document(pages: Sequence[Page], target: str) -> WordDocument:
    """Returns the Word file with the pieces of these pages."""
    document = docx.Document()
    pieces = [piece for page in pages for piece in page.pieces]
    sizes: Counter[float] = Counter()
    for piece in pieces:
        sizes[piece.font.size] += len(piece.text)
    size = sizes.most_common(1)[0][0]
    larger = sorted((other for other in sizes if other > HEADING_SCALE * size), reverse=True)
    styles = {other: HEADINGS[min(i, len(HEADINGS) - 1)] for i, other in enumerate(larger)}
    serif = 2 * sum(piece.font.serif for piece in pieces) > len(pieces)
    set_styles(document, "Times New Roman" if serif else "Arial", size)
    for language in document.styles.element.iter(qn("w:lang")):
        language.set(qn("w:val"), target)
    document.core_properties.author = document.core_properties.comments = ""  # those of the library
    left, right, top = set_page(document, pages)
    for number, page in enumerate(pages):
        last = page.height - top
        breaks = number > 0
        for piece, paragraph in placed(document, page.pieces):
            format = paragraph.paragraph_format
            in_table = piece.before.endswith("<td>")
            run = paragraph.add_run(piece.text if in_table else LEADER.sub("\t", piece.text))
            if piece.font.size != size:
                run.font.size = Pt(piece.font.size)
            if piece.font.bold or piece.font.italic:
                run.bold, run.italic = piece.font.bold, piece.font.italic
            if breaks:
                format.page_break_before = True
            breaks = False
            if not in_table:
                gap = last - piece.box[3]
                if 0 < gap < GAP_LIMIT:
                    format.space_before = Pt(gap)
                if piece.before != "<p>":
                    paragraph.style = "List Bullet"
                elif piece.font.size in styles and len(piece.text) <= HEADING_CHARACTERS:
                    paragraph.style = styles[piece.font.size]
                if piece.before == "<p>":
                    format.alignment, format.left_indent = place(piece, left, right)
            last = piece.box[1]
    return document


def place(piece: Piece, left: float, right: float) -> tuple[WD_ALIGN_PARAGRAPH | None, Length | None]:
    """Returns the alignment and the indentation of a paragraph between these edges. A second column is not indented."""
    start, end = piece.box[0] - left, right - piece.box[2]
    if start > 4 * EDGE and abs(start - end) / 2 < EDGE:
        return WD_ALIGN_PARAGRAPH.CENTER, None
    if start > (right - left) / 2 and abs(end) < EDGE and piece.box[3] - piece.box[1] < 2 * piece.font.size:
        return WD_ALIGN_PARAGRAPH.RIGHT, None
    return None, Pt(start) if 1 < start < (right - left) / 3 else None


def set_styles(document: WordDocument, font: str, size: float) -> None:
    """Sets the font and its size. The template's headings are blue, and its paragraphs have gaps."""
    for name in ("Normal", "List Bullet", *HEADINGS):
        style = document.styles[name]
        style.font.name, style.font.size, style.font.bold, style.font.color.rgb = (
            font,
            Pt(size),
            False,
            RGBColor(0, 0, 0),
        )
        for theme in [key for key in style.element.rPr.rFonts.attrib if "Theme" in key]:
            del style.element.rPr.rFonts.attrib[theme]
        style.paragraph_format.line_spacing = 1.0
        style.paragraph_format.space_before = style.paragraph_format.space_after = Pt(0)


def set_page(document: WordDocument, pages: Sequence[Page]) -> tuple[float, float, float]:
    """Sets the size and the margins, and returns where the text begins and ends and the upper margin. The right margin is at
    most the left one, because lines are ragged, and the lower one at most the upper one. A page with a title has others."""
    section, (width, height) = document.sections[0], (min(side, PAGE_LIMIT) for side in pages[0][:2])
    boxes = [around([piece.box for piece in page.pieces]) for page in pages]
    lefts, bottoms, rights, tops = (median(places) for places in zip(*boxes, strict=True))
    left, top = max(0.0, min(lefts, width / 3)), max(0.0, min(height - tops, height / 3))
    right, bottom = max(0.0, min(width - rights, left)), max(0.0, min(bottoms, top))
    section.page_width, section.page_height = Pt(width), Pt(height)
    section.orientation = WD_ORIENT.LANDSCAPE if width > height else WD_ORIENT.PORTRAIT
    section.left_margin, section.right_margin, section.top_margin, section.bottom_margin = map(
        Pt, (left, right, top, bottom)
    )
    stops = document.styles["Normal"].paragraph_format.tab_stops
    stops.add_tab_stop(Pt(width - right - left), WD_TAB_ALIGNMENT.RIGHT, WD_TAB_LEADER.DOTS)
    return left, width - right, top


def placed(document: WordDocument, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, Paragraph]]:
    """Yields the pieces with new paragraphs at the end of the document. The methods of the library that add one search all
    that are there."""
    end = document.element.body.sectPr
    for is_table, group in groupby(pieces, key=lambda piece: piece.before.endswith("<td>")):
        cells = list(group)
        rows = sum("<tr>" in piece.before for piece in cells)
        columns = len(cells) // rows if is_table else 0
        if not 0 < columns <= COLUMNS_LIMIT:
            for piece in cells:
                end.addprevious(element := OxmlElement("w:p"))
                yield piece, Paragraph(element, document._body)
            continue
        table = CT_Tbl.new_tbl(rows, columns, Pt(1))
        table.tblStyle_val = "TableGrid"
        end.addprevious(table)
        widths = [Pt(max(1.0, piece.box[2] - piece.box[0])) for piece in cells[:columns]]
        widths[-1] = Pt(widths[-1].pt + 2 * EDGE)  # the others contain the gap to the next
        for column, width in zip(table.tblGrid.gridCol_lst, widths, strict=True):
            column.w = width
        made = (cell for line in table.tr_lst for cell in line.tc_lst)
        for i, (piece, cell) in enumerate(zip(cells, made, strict=True)):
            cell.width = widths[i % columns]
            yield piece, Paragraph(cell.p_lst[0], document._body)
