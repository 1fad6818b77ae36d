"""Reading and writing take linear time, or the file is refused."""

from __future__ import annotations

import time

import pytest

from server.documents.reader_process import cut_pieces, read_document
from server.errors import InvalidRequest
from tests.support.texts.document_files import open_document, word_body, workbook

BYTES = 40_000
SECONDS = 20.0
"""Each takes less than a second of a processor alone; with the square of the length each took
minutes."""
FIELD = (
    '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:fldChar '
    'w:fldCharType="separate"/></w:r><w:r><w:t>a</w:t></w:r>'
)


def repeated(fragment: str) -> str:
    return fragment * (BYTES // len(fragment))


@pytest.mark.parametrize(
    "fragment",
    [
        *["*a **b ", "_a __b ", "**a* ", "[", "![", "[a](", "``a ` ", "~~a ", "<a@b.c>", "]", "|"],
        *["\n", "> \n", "{{< code\n", "{{< code >}}\n", "[^a]:\n\n    ", "{/* ", "/// a |\n"],
    ],
)
def test_markdown(fragment):
    within_seconds("a.md", repeated(fragment).encode())


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "a.xlsx",
            workbook(f"<si><t>{''.join(chr(97 + i // 7 % 26) for i in range(5 * BYTES))}</t></si>"),
        ),
        ("a.xlsx", workbook("<si><t>" + "ab\n" * (BYTES // 3) + "</t></si>")),
        ("a.docx", word_body("<w:p>" + repeated(FIELD) + "</w:p>")),
        (
            "a.odt",
            open_document("<text:p>" + repeated("<text:span>ab</text:span> b") + "</text:p>"),
        ),
    ],
)
def test_office_files(name, data):
    within_seconds(name, data)


@pytest.mark.parametrize("name", ["a.json", "a.yaml"])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_deep_files_are_refused(name, opening, closing):
    read_document(name, (opening * 100 + '"a b"' + closing * 100).encode(), "de")
    start = time.process_time()
    for depth in (101, 500, BYTES):
        with pytest.raises(InvalidRequest, match=r"100 collections|not valid"):
            read_document(name, (opening * depth + '"a b"' + closing * depth).encode(), "de")
    assert time.process_time() - start < SECONDS


def within_seconds(name: str, data: bytes) -> None:
    start = time.process_time()
    document = read_document(name, data, "de")
    for text in document.texts:
        cut_pieces(document, text)
    document.write(
        [text.replace("a", "ab") if document.format == "text" else text for text in document.texts]
    )
    assert time.process_time() - start < SECONDS
