"""Files of every format, generated and translated by a hostile model: codes are there once, and
nothing else changes."""

from __future__ import annotations

import io
import re
import zipfile

import pytest

from server.documents.reader_process import read_document
from tests.support.texts.document_files import archive, open_document, word_body
from tests.support.texts.generated_files import SUFFIXES, GeneratedFiles, Silent, faults, hostile

SEEDS = range(12)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_hostile_translation_keeps_the_file(suffix: str) -> None:
    for seed in SEEDS:
        given = GeneratedFiles(suffix, seed).file(1 + seed % 5)
        document = read_document(f"a{suffix}", given, "de")
        written = document.write(
            [hostile(text, document.format, seed + i) for i, text in enumerate(document.texts)]
        )
        assert not faults(suffix, given, written), f"{suffix} {seed}"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_texts_that_are_written_as_they_were_read_leave_the_file(suffix: str) -> None:
    for seed in SEEDS:
        given = GeneratedFiles(suffix, seed).file(3)
        document = read_document(f"a{suffix}", given, "en")
        written = document.write(document.texts)
        assert not faults(suffix, given, written), f"{suffix} {seed}"
        if suffix in (".md", ".srt", ".vtt", ".html", ".txt", ".json", ".yml"):
            assert written == given
        if suffix in (".docx", ".pptx", ".xlsx", ".odt"):
            before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (given, written))
            assert [before.read(name) for name in before.namelist()] == [
                after.read(name) for name in after.namelist()
            ]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_model_that_writes_nothing_leaves_the_texts(suffix: str) -> None:
    for seed in SEEDS[:4]:
        given = GeneratedFiles(suffix, seed).file(3)
        document = read_document(f"a{suffix}", given, "de")
        silent = [
            hostile(text, document.format, seed + i, Silent)
            for i, text in enumerate(document.texts)
        ]
        written = document.write(silent)
        document = read_document(f"a{suffix}", given, "de")
        assert written == document.write(document.texts), f"{suffix} {seed}"


@pytest.mark.parametrize(
    "body",
    [
        "<w:p/>",
        '<w:p><w:hyperlink w:anchor="z1z"/><w:r w:id="z1z"/></w:p>',
        "<w:p><w:r/></w:p><w:p/>",
    ],
)
def test_codes_that_are_lost_doubled_or_elsewhere_are_found(body: str) -> None:
    assert faults(".docx", word_body('<w:p><w:hyperlink w:anchor="z1z"/></w:p>'), word_body(body))


def test_objects_and_parts_with_backslashes_are_read() -> None:
    with zipfile.ZipFile(io.BytesIO(open_document("<text:p>one word</text:p>"))) as entries:
        parts = {name: entries.read(name).decode() for name in entries.namelist()}
    formula = '<!DOCTYPE math:math PUBLIC "-//a" "math.dtd"><math:math xmlns:math="m"/>'
    both = archive(
        parts | {"Object 1/content.xml": parts["content.xml"], "Object 2/content.xml": formula}
    )
    assert len(read_document("a.odt", both, "de").texts) == 2
    with zipfile.ZipFile(
        io.BytesIO(word_body("<w:p><w:r><w:t>one word</w:t></w:r></w:p>"))
    ) as entries:
        windows = archive(
            {name.replace("/", "\\"): entries.read(name) for name in entries.namelist()}
        )
    assert read_document("a.docx", windows, "de").texts == ("one word",)


@pytest.mark.parametrize(
    ("given", "translated"),
    [
        ("In 2009 it grew.\n", "2009. It grew.\n"),
        ("A dash is fine.\n", "- a dash.\n"),
        ("Two lines\nof a text.\n", "# two lines.\n"),
        ("> A quote.\n", "> quote"),
        ("Nothing is lost<br>here.\n", ""),
        ("A comment <!-- x --> here.\n", "<!-- x --> a comment here."),
        ("| a | b c |\n|---|---|\n| d | e |\n", "d | e"),
    ],
)
def test_a_translation_becomes_no_other_block(given: str, translated: str) -> None:
    document = read_document("a.md", given.encode(), "de")
    written = document.write([translated, *document.texts[1:]]).decode()
    assert not faults(".md", given.encode(), written.encode()), written
    assert len(re.findall(r"(?<!\\)\|", written)) == given.count("|")
