"""Hostile archives and XML are rejected before they are unpacked."""

from __future__ import annotations

import io
import random
import zipfile

import pytest

from server.documents import zip_archive as archive
from server.documents.formats.xml.parsing import parse_xml
from server.documents.reader_process import read_document
from server.documents.zip_archive import Archive
from server.errors import InvalidRequest, PayloadTooLarge
from tests.support.texts import document_files as make

ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{}]>'.format(
    "".join(f'<!ENTITY {chr(98 + i)} "{("&" + chr(97 + i) + ";") * 10}">' for i in range(9))
)


def test_a_zip_bomb_is_rejected_by_its_declared_size():
    with pytest.raises(PayloadTooLarge):
        Archive(make.archive({"word/document.xml": b" " * 30_000_000}))


def test_entries_parts_and_the_archive_have_limits(monkeypatch):
    data = make.archive({"a": "x" * 100, "b": "y" * 100}, stored=("a", "b"))
    monkeypatch.setattr(archive, "UNPACKED_BYTES", 150)
    with pytest.raises(PayloadTooLarge):
        Archive(data)
    monkeypatch.setattr(archive, "UNPACKED_BYTES", 1000)
    monkeypatch.setattr(archive, "ENTRIES_LIMIT", 1)
    with pytest.raises(PayloadTooLarge):
        Archive(data)
    monkeypatch.setattr(archive, "ENTRIES_LIMIT", 10)
    monkeypatch.setattr(archive, "PART_BYTES", 50)
    with pytest.raises(PayloadTooLarge):
        Archive(data).part("a")


def test_a_false_size_in_the_directory_is_rejected():
    """The directory declares 10 bytes and the entry has 1,000."""
    data = bytearray(make.archive({"word/document.xml": "x" * 1000}, stored=("word/document.xml",)))
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 20 : directory + 28] = (10).to_bytes(4, "little") * 2
    with pytest.raises(InvalidRequest):
        Archive(bytes(data)).part("word/document.xml")


def test_a_part_is_counted_once(monkeypatch):
    data = make.word_body("x" * 600)
    monkeypatch.setattr(archive, "PARTS_BYTES", 1_500)
    read_document("a.docx", data, "de")


def test_many_elements_are_rejected_before_they_are_parsed(monkeypatch):
    monkeypatch.setattr(
        "server.documents.formats.xml.office.parse_xml",
        lambda data: pytest.fail("parsed") if len(data) > 1_000_000 else parse_xml(data),
    )
    noise = random.Random(1).randbytes(10_000)
    data = make.package(
        "word/document.xml", {"word/document.xml": "<a/>" * 500_000, "image": noise}
    )
    with pytest.raises(PayloadTooLarge, match="paragraphs"):
        read_document("a.docx", data, "de")


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"x" * 1000])
def test_data_that_is_not_an_archive_is_rejected(damage):
    with pytest.raises(InvalidRequest):
        read_document("a.docx", damage, "de")


def test_encrypted_and_duplicate_parts_are_rejected():
    data = bytearray(make.archive({"a": "x"}))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(InvalidRequest, match="encrypted"):
        Archive(bytes(data))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("a", "x")
        made.writestr("a", "y")
    with pytest.raises(InvalidRequest, match="same name"):
        Archive(target.getvalue())


@pytest.mark.parametrize(
    "xml",
    [
        ENTITIES + "<w>&j;</w>",
        '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><w>&f;</w>',
        "<a>" * 5_000 + "</a>" * 5_000,
        "<a",
        "",
        "\x00",
    ],
    ids=["billion laughs", "external entity", "deep", "broken", "empty", "nul"],
)
def test_hostile_xml_is_rejected(xml):
    files = {
        "a.docx": make.archive({"word/document.xml": xml}),
        "a.odt": make.archive({"content.xml": xml}),
        "a.epub": make.archive({"META-INF/container.xml": xml}),
    }
    for name, data in files.items():
        with pytest.raises(InvalidRequest):
            read_document(name, data, "de")


@pytest.mark.parametrize(
    "declaration",
    ['<!ENTITY f SYSTEM "file:///etc/passwd">', '<!ENTITY f "x">', "<!ELEMENT x ANY>"],
)
@pytest.mark.parametrize("name", ["OEBPS/toc.ncx", "OEBPS/a page.xhtml", "OEBPS/book.opf"])
def test_a_book_that_declares_entities_is_rejected(name, declaration):
    text = make.BOOK_PARTS[name]
    _, _, content = text.rpartition("?>" if "?>" in text else '.dtd">')
    parts = make.BOOK_PARTS | {name: f"<!-- <a> --><!DOCTYPE x [{declaration}]>{content}"}
    with pytest.raises(InvalidRequest, match="of its own"):
        read_document("a.epub", make.archive(parts), "de")


def test_a_page_that_declares_entities_is_rejected():
    with pytest.raises(InvalidRequest, match="of its own"):
        read_document(
            "a.html", b'<?xml version="1.0"?>\n<!doctype html [<!ENTITY a "b">]><p>&a;', "de"
        )
    read_document("a.html", b"<!doctype html><p>[<!doctype x [", "de")
