"""Reads PDF files with text. The translation is a page of HTML with the paragraphs in their order.

Lost are the layout, fonts, pictures, tables, links and notes; a scanned page has no text. The order of paragraphs is that
of the file, which is the reading order in files of word processors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pypdfium2

from server.documents.document import Document, has_words
from server.errors import InvalidRequest, PayloadTooLarge
from server.text.markup.passages import escape

PAGES_LIMIT = 2_000
PARAGRAPH_GAP = 0.7
"""A larger distance between two lines, in heights of a line, begins a paragraph."""
INDENT = 0.8
"""A line that begins further to the right than the one above, in heights of a line, begins a paragraph."""
HYPHEN = re.compile(r"(?<=[^\W\d_])[\u00ad\x02\ufffe-]$")
CONTROLS = re.compile(r"[\x00-\x1f\ufffe\uffff]")


def read(data: bytes, target: str) -> Document:
    """Reads a PDF file. Raises InvalidRequest, also for a file without text, or PayloadTooLarge."""
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is encrypted, damaged, or not a PDF file.") from error
    try:
        if len(pdf) > PAGES_LIMIT:
            raise PayloadTooLarge(f"The file has more than {PAGES_LIMIT:,} pages; split it.")
        paragraphs = [text for number in range(len(pdf)) for text in page_paragraphs(pdf, number)]
    except pypdfium2.PdfiumError as error:
        raise InvalidRequest("The file is damaged: a page cannot be read.") from error
    finally:
        pdf.close()
    texts = [escape(text) for text in paragraphs]
    with_words = [i for i, text in enumerate(paragraphs) if has_words(text)]
    if not with_words:
        raise InvalidRequest("The file contains no text, only pictures; recognize its text first.")

    def write(translations: Sequence[str]) -> bytes:
        made = list(texts)
        for i, translated in zip(with_words, translations, strict=True):
            made[i] = translated
        body = "\n".join(f"<p>{text}</p>" for text in made)
        return f'<!DOCTYPE html>\n<html lang="{target}"><meta charset="utf-8"><body>\n{body}\n</body></html>\n'.encode()

    return Document(tuple(texts[i] for i in with_words), "html", write)


def page_paragraphs(pdf: pypdfium2.PdfDocument, number: int) -> Iterator[str]:
    """Yields the paragraphs of a page. Lines are joined, and hyphens at their ends are removed."""
    page = pdf[number]
    text_page = page.get_textpage()
    paragraph, last = "", None
    for text, box in lines(text_page):
        left, bottom, _, top = box
        height = max(1.0, top - bottom)
        new = last is None or last[1] - top > PARAGRAPH_GAP * height or top > last[3] + height
        new = new or (last is not None and left - last[0] > INDENT * height and top < last[1] + height / 2)
        if new and paragraph:
            yield paragraph
            paragraph = ""
        joined = HYPHEN.sub("", paragraph) if text[:1].islower() else paragraph
        paragraph = text if not paragraph else joined + ("" if joined != paragraph else " ") + text
        last = box
    if paragraph:
        yield paragraph
    text_page.close()
    page.close()


def lines(text_page: pypdfium2.PdfTextPage) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Yields the lines of a page with their boxes (left, bottom, right, top) in points."""
    text = text_page.get_text_range()
    start = 0
    for line in re.split(r"(?:\r\n|\r|\n)", text):
        words = CONTROLS.sub("", line).strip()
        if words:
            boxes = [text_page.get_charbox(i) for i in range(start, start + len(line)) if not text[i].isspace()]
            boxes = [box for box in boxes if box[2] > box[0]] or boxes
            lefts, bottoms, rights, tops = zip(*boxes, strict=True)
            yield words, (min(lefts), min(bottoms), max(rights), max(tops))
        start += len(line) + (2 if text[start + len(line) : start + len(line) + 2] == "\r\n" else 1)
