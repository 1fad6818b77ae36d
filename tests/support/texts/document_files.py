"""Creates small files of every format for tests."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Mapping

import docx

from model.symbols import PLACEHOLDERS
from server.documents.document import tagged_of
from server.documents.reader_process import read_document
from server.text.finishing import finish
from server.text.reading import SYMBOL, StandIns, masked
from server.text.tagged import Tagged

OFFICE = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
)
BOOK = (
    '<package xmlns="http://www.idpf.org/2007/opf"><metadata '
    'xmlns:dc="http://purl.org/dc/elements/1.1/">'
    "<dc:title>My Book</dc:title><dc:language>en</dc:language></metadata><manifest>"
    '<item href="a%20page.xhtml" media-type="application/xhtml+xml"/><item href="toc.ncx" '
    'media-type="application/x-dtbncx+xml"/><item href="cover.png" '
    'media-type="image/png"/></manifest></package>'
)
PAGE = (
    '<?xml version="1.0" encoding="utf-8"?><html xmlns="http://www.w3.org/1999/xhtml" '
    'xml:lang="en" lang="en">'
    "<head><title>One &amp; two</title></head><body><p>Hello "
    "<b>my</b>\nworld.</p><br/><p>A&#160;b</p></body></html>"
)
CONTENTS = (
    '<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" '
    '"http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">'
    '<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap><navPoint><navLabel><text>Chapter '
    "one</text></navLabel>"
    "</navPoint></navMap></ncx>"
)

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hello there</i>\r\nTom & Jerry.\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Yes.\r\n- {\\an8}No "
    "<b>way</b>!\r\n\r\n3\r\n00:00:05,000 --> 00:00:06,000\r\n12\r\n"
)
VTT = (
    "WEBVTT\n\nSTYLE\n::cue {}\n\nfirst\n00:01.000 --> 00:02.000 align:start\n<v Bob>Hi &amp; "
    "<00:01.500>bye\n\nNOTE keep me\n"
)


def archive(parts: Mapping[str, str | bytes], stored: tuple[str, ...] = ("mimetype",)) -> bytes:
    """Returns a zip archive with these entries in order."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in parts.items():
            made.writestr(
                name, content, zipfile.ZIP_STORED if name in stored else zipfile.ZIP_DEFLATED
            )
    return target.getvalue()


def word_file() -> bytes:
    """Returns a .docx with a heading, a formatted paragraph, a tabulator, a table and a header."""
    document = docx.Document()
    document.add_heading("The title", 1)
    paragraph = document.add_paragraph("Hello ")
    paragraph.add_run("bold").bold = True
    paragraph.add_run(" and ")
    paragraph.add_run("slanted").italic = True
    paragraph.add_run(" end.")
    document.add_paragraph("Left\tright")
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "A cell"
    table.cell(0, 1).text = "42"
    document.sections[0].header.paragraphs[0].text = "On every page"
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def package(main: str, parts: Mapping[str, str | bytes]) -> bytes:
    """Returns an Office Open XML file with these parts and relationships to them. The kind of each
    is its name without folder and digits, unless it is written before a colon."""
    kinds = {
        name.rpartition(":")[2]: re.sub(r".*/|\d*\.\w+$", "", name.partition(":")[0])
        for name in parts
    }
    kinds |= {main: "officeDocument", "docProps/core.xml": "core-properties"}
    base = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = {
        name: f'<Relationship Type="{base}/{kind}" Target="/{name}"/>'
        for name, kind in kinds.items()
        if name in {part.rpartition(":")[2] for part in parts}
    }
    head = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    folder, _, file = main.rpartition("/")
    first = [link for name, link in links.items() if name in (main, "docProps/core.xml")]
    others = [link for name, link in links.items() if name not in (main, "docProps/core.xml")]
    return archive(
        {
            "_rels/.rels": f"{head}{''.join(first)}</Relationships>",
            f"{folder}/_rels/{file}.rels": f"{head}{''.join(others)}</Relationships>",
            **{name.rpartition(":")[2]: content for name, content in parts.items()},
        }
    )


def word_body(body: str) -> bytes:
    """Returns a .docx with only this body."""
    namespace = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    document = f'<w:document xmlns:w="{namespace}"><w:body>{body}</w:body></w:document>'
    return package("word/document.xml", {"word/document.xml": document})


ODF_SPACES = ("office", "text", "draw", "table")


def open_document(body: str, kind: str = "text") -> bytes:
    """Returns an .odt with this body, or a "presentation" or "spreadsheet"."""
    spaces = "".join(f' xmlns:{name}="{OFFICE.replace("office", name)}"' for name in ODF_SPACES)
    head = f"<office:document-content{spaces}><office:body><office:{kind}>"
    content = f"{head}{body}</office:{kind}></office:body></office:document-content>"
    kind = f"application/vnd.oasis.opendocument.{kind}"
    return archive({"mimetype": kind, "content.xml": content})


BOOK_PARTS = {
    "mimetype": "application/epub+zip",
    "META-INF/container.xml": CONTAINER,
    "OEBPS/book.opf": BOOK,
    "OEBPS/a page.xhtml": PAGE,
    "OEBPS/toc.ncx": CONTENTS,
    "OEBPS/cover.png": bytes(range(256)),
}


def book() -> bytes:
    """Returns an .epub with a page, a table of contents and an image."""
    return archive(BOOK_PARTS)


def part(data: bytes, name: str) -> str:
    """Returns one entry of a zip archive as text."""
    with zipfile.ZipFile(io.BytesIO(data)) as entries:
        return entries.read(name).decode()


DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
CORE = (
    "<cp:coreProperties "
    'xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
    'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>My '
    "file</dc:title><dc:creator>Ann</dc:creator></cp:coreProperties>"
)


def slides(paragraphs: str) -> bytes:
    """Returns a .pptx with one slide that has these paragraphs and a picture, and the document's
    properties."""
    slide = (
        '<p:sld xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" '
        f'xmlns:a="{DRAWING}">'
        '<p:cNvPr id="1" name="Picture 1" descr="A red '
        f'house"/><p:txBody>{paragraphs}</p:txBody></p:sld>'
    )
    parts = {
        "ppt/presentation.xml": "<presentation/>",
        "ppt/slides/slide1.xml": slide,
        "docProps/core.xml": CORE,
    }
    return package("ppt/presentation.xml", parts)


def workbook(strings: str, header: str = "", sheet: str = "") -> bytes:
    """Returns a .xlsx with these shared strings, more of a `sheet`, and a table with one column
    header."""
    return package(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": "<workbook/>",
            "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{strings}</sst>',
            "worksheet:xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{SHEET}"><c '
                f't="inlineStr"><is><t>Inline</t></is></c>{sheet}</worksheet>'
            ),
            "xl/tables/table1.xml": f'<table xmlns="{SHEET}"><tableColumn name="{header}"/></table>',
        },
    )


def pdf(*lines: str, leading: int = 14) -> bytes:
    """Returns a .pdf with one page of these lines in ASCII; an empty line is a gap."""
    shown = "".join(f"({line}) Tj 0 -{leading} Td " for line in lines)
    content = f"BT /F1 12 Tf 72 720 Td {shown}ET"
    objects = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 "
        "R>>>>>>",
        f"<</Length {len(content)}>>\nstream\n{content}\nendstream",
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body, places = "%PDF-1.4\n", []
    for number, text in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{text}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(body)}\n%%EOF"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def change(name: str, data: bytes, how=str.upper, output: str = "") -> bytes:
    """Returns the file with its text changed, as the translator would change it."""
    document = read_document(name, data, "de", output)
    return document.write([changed(text, document.format, how) for text in document.texts])


def changed(text: str, format: str, how: Callable[[str], str]) -> str:
    """Returns a text of a document with its words changed and its codes kept."""
    return "".join(
        [_changed(passage, how).write() for passage in tagged_of(text, format).passages()]
    )


def _changed(passage: Tagged, how: Callable[[str], str]) -> Tagged:
    lines = [line.span() for line in re.finditer(r"[^\s](?:[^\r\n]*[^\s])?", passage.text)]
    return passage.with_parts([(*line, _changed_line(passage.cut(*line), how)) for line in lines])


def _changed_line(sentence: Tagged, how: Callable[[str], str]) -> Tagged:
    reading = masked(sentence, StandIns(PLACEHOLDERS).choose(sentence))
    parts = re.split(f"({SYMBOL.pattern})", reading.text)
    target = "".join([part if SYMBOL.fullmatch(part) else how(part) for part in parts])
    return finish(sentence, reading, target, ()).tagged


def unchanged(name: str, data: bytes) -> bytes:
    document = read_document(name, data, "en")
    return document.write(document.texts)
