"""PDF files with text become a page of HTML with the paragraphs in order."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("data", [b"", b"%PDF-1.4", pdf(), pdf("42")], ids=["empty", "damaged", "no text", "numbers"])
def test_files_without_text_are_rejected(data):
    with pytest.raises(InvalidRequest):
        read_document("a.pdf", data, "de")


def test_the_name_says_what_the_file_is():
    assert translated_name("paper.pdf", "de", format_of("paper.pdf").written_as) == "paper.de.html"
