"""Slides and workbooks: text is translated, formatting follows its words, and everything else is
kept."""

from __future__ import annotations

import io
import re
import zipfile

import pytest

from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from server.translation.coded_text import MARK
from tests.support.texts.document_files import (
    archive,
    change,
    open_document,
    package,
    part,
    slides,
    word_body,
    word_file,
    workbook,
)

SLIDE = (
    '<a:p><a:pPr lvl="1"/><a:r><a:rPr lang="en-US" dirty="0"/><a:t>Water is H</a:t></a:r><a:r>'
    '<a:rPr lang="en-US" baseline="-25000"/><a:t>2</a:t></a:r><a:r><a:rPr lang="en-GB"/>'
    '<a:t>O here.</a:t></a:r><a:br/><a:fld id="{1}" type="slidenum"><a:t>7</a:t></a:fld><a:r>'
    '<a:t>More</a:t></a:r><a:endParaRPr lang="en-US"/></a:p>'
)
STRINGS = (
    "<si><t>Plain words</t></si><si><t>Total</t></si><si><r><rPr><b/></rPr><t>Bold</t></r>"
    '<r><t xml:space="preserve"> and more words</t></r><phoneticPr '
    'fontId="1"/></si><si><t>42</t></si>'
)


def test_a_subscript_within_a_word_is_kept():
    made = part(change("a.pptx", slides(SLIDE)), "ppt/slides/slide1.xml")
    runs = re.findall(r"<a:r>(?:<a:rPr([^>]*)/>)?<a:t>([^<]*)</a:t></a:r>", made)
    assert [text for _, text in runs] == ["WATER IS H", "2", "O HERE.", "MORE"]
    assert 'baseline="-25000"' in runs[1][0]
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
    assert re.findall(r"<t[^>]*>([^<]*)</t>", strings) == [
        "PLAIN WORDS",
        "Total",
        "BOLD",
        " AND MORE WORDS",
        "42",
    ]
    assert strings.count("<b/>") == 1 and strings.index("MORE WORDS") < strings.index("phoneticPr")
    assert "INLINE" in part(made, "xl/worksheets/sheet1.xml")


def test_the_sounds_of_words_are_left_out_of_their_translation():
    spoken = '<si><t>{}</t><rPh sb="0" eb="2"><t>sound</t></rPh><phoneticPr fontId="1"/></si>'
    made = change("a.xlsx", workbook(spoken.format("A word") + spoken.format("42")))
    assert part(made, "xl/sharedStrings.xml").count(">sound<") == 1
    assert ">A WORD</t><phoneticPr" in part(made, "xl/sharedStrings.xml")


def test_items_of_a_list_that_a_cell_is_chosen_from_are_kept():
    cells = "<si><t>yes</t></si><si><t>not &amp; now</t></si><si><t>no</t></si>"
    rule = '<dataValidation type="list"><formula1>"yes, not &amp; now"</formula1></dataValidation>'
    made = change("a.xlsx", workbook(cells, sheet=rule))
    assert re.findall(r"<t[^>]*>([^<]*)</t>", part(made, "xl/sharedStrings.xml")) == [
        "yes",
        "not &amp; now",
        "NO",
    ]


def test_line_ends_of_cells_are_kept():
    rich = "<r><rPr><b/></rPr><t>Ann:\nBold</t></r><r><t>\nand more\n</t></r>"
    made = change("a.xlsx", workbook(f"<si><t>One line\nand\n\nanother</t></si><si>{rich}</si>"))
    strings = part(made, "xl/sharedStrings.xml")
    plain, formatted = [
        re.findall(r"<t[^>]*>([^<]*)</t>", item)
        for item in re.findall("<si>.*?</si>", strings, re.DOTALL)
    ]
    assert plain == ["ONE LINE\nAND\n\nANOTHER"]
    assert "".join(formatted) == "ANN:\nBOLD\nAND MORE\n"


def test_the_number_of_a_note_is_not_read_as_a_part_of_its_word():
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>1</w:t></w:r>'
    document = read_document(
        "a.docx", word_body(f"<w:p><w:r><w:t>the note</w:t></w:r>{raised}</w:p>"), "fr"
    )
    [text] = document.texts
    assert len(MARK.findall(text)) == 1 and text.startswith("the note\x02")
    made = part(document.write([text.replace("the", "la")]), "word/document.xml")
    assert re.search(
        r">la note</w:t></w:r>.*superscript\"/></w:rPr><w:t[^>]*>1</w:t></w:r>", made, re.DOTALL
    )


@pytest.mark.parametrize("name", ["a.odp", "a.ods"])
def test_other_opendocument_files(name):
    title = (
        '<x:title xmlns:x="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">A '
        "cat</x:title>"
    )
    made = change(name, open_document(f"{title}<text:p>Hello</text:p>"))
    assert ">HELLO<" in part(made, "content.xml") and ">A CAT<" in part(made, "content.xml")


def in_reverse(text: str) -> str:
    return " ".join(text.split(" ")[::-1])


def test_the_number_of_a_formula_stays_in_its_word():
    low = '<w:r><w:rPr><w:vertAlign w:val="subscript"/></w:rPr><w:t>2</w:t></w:r>'
    body = f"<w:p><w:r><w:t>the H</w:t></w:r>{low}<w:r><w:t>O water</w:t></w:r></w:p>"
    made = part(change("a.docx", word_body(body), in_reverse), "word/document.xml")
    assert re.sub("<[^>]*>|\n", "", made) == "water H2O the"
    assert re.search(
        r'H</w:t></w:r><w:r><w:rPr><w:vertAlign w:val="subscript"/></w:rPr><w:t[^>]*>2</w:t>', made
    )
    body = '<text:p>the CO<text:span text:style-name="B">2</text:span> here</text:p>'
    made = part(change("a.odt", open_document(body), in_reverse), "content.xml")
    assert 'here CO<text:span text:style-name="B">2</text:span> the' in made


@pytest.mark.parametrize("name", ["a.pptx", "a.xlsx"])
def test_other_archives_are_rejected(name):
    with pytest.raises(InvalidRequest, match="missing"):
        read_document(name, archive({"a": "b"}), "de")


W, A, S = (
    f"http://schemas.openxmlformats.org/{name}ml/2006/main"
    for name in ("wordprocessing", "drawing", "spreadsheet")
)
CHART = "http://schemas.openxmlformats.org/drawingml/2006/chart"
WORDS = f'<x xmlns="{W}"><p><r><t>Hello</t></r></p></x>'
TEXTS = f'<x xmlns="{A}"><p><r><t>Hello</t></r></p></x>'
CACHE = (
    "<c:chart "
    f'xmlns:c="{CHART}"><c:ser><c:tx><c:strRef><c:f>A1</c:f><c:strCache><c:pt><c:v>Hello</c:v></c:pt></c:strCache>'
    "</c:strRef></c:tx><c:cat><c:strLit><c:pt><c:v>Hello</c:v></c:pt></c:strLit></c:cat><c:val><c:numRef><c:numCache>"
    "<c:formatCode>General</c:formatCode><c:pt><c:v>e5</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser></c:chart>"
)
P = "http://schemas.openxmlformats.org/presentationml/2006/main"
MASTER = (
    f'<p:{{0}} xmlns:p="{P}" '
    f'xmlns:a="{A}"><p:sp><p:nvSpPr><p:nvPr><p:ph/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r>'
    "<a:t>Click to "
    "edit</a:t></a:r></a:p></p:txBody></p:sp><p:sp><p:nvSpPr><p:nvPr/></p:nvSpPr><p:txBody><a:p><a:r>"
    "<a:t>Hello</a:t></a:r></a:p></p:txBody></p:sp></p:{0}>"
)
"""A master or layout of slides: the text of the first shape is only seen where a slide has none."""
MAINS = {
    "a.docx": ("word/document.xml", "document"),
    "a.pptx": ("ppt/p.xml", "presentation"),
    "a.xlsx": ("b.xml", "workbook"),
}


@pytest.mark.parametrize(
    ("name", "part_name", "content"),
    [
        (
            "a.docx",
            "officeDocument:word/document2.xml",
            WORDS.replace("x ", "document ").replace("/x", "/document"),
        ),
        ("a.docx", "header:word/parts/top.xml", WORDS),
        ("a.docx", "footnotes:notes.xml", WORDS),
        ("a.docx", "comments:Word/Comments.xml", WORDS),
        ("a.docx", "chart:word/charts/c.xml", CACHE),
        ("a.docx", "diagramData:word/d.xml", TEXTS),
        ("a.pptx", "slide:slides/first.xml", TEXTS),
        ("a.pptx", "slideMaster:m.xml", MASTER.format("sldMaster")),
        ("a.pptx", "slideLayout:l.xml", MASTER.format("sldLayout")),
        ("a.pptx", "notesSlide:ppt/n/n.xml", TEXTS),
        ("a.pptx", "chart:ppt/c/a%20b.xml", CACHE),
        (
            "a.xlsx",
            "comments:xl/comments/comment1.xml",
            f'<x xmlns="{S}"><text><t>Hello</t></text></x>',
        ),
        ("a.xlsx", "sharedStrings:strings.xml", f'<x xmlns="{S}"><si><t>Hello</t></si></x>'),
        (
            "a.xlsx",
            "worksheet:1.xml",
            f'<x xmlns="{S}"><c t="inlineStr"><is><t>Hello</t></is></c></x>',
        ),
        (
            "a.xlsx",
            "worksheet:2.xml",
            f'<x xmlns="{S}"><dataValidation type="list" prompt="Hello"/></x>',
        ),
        (
            *("a.xlsx", "worksheet:3.xml"),
            "<x "
            f'xmlns="{S}"><headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;12Hello&amp;R&amp;P/&amp;N</oddHeader>'
            "<evenFooter>&amp;CHello &amp;&amp; Hello "
            "&amp;KFF0000&amp;D</evenFooter></headerFooter></x>",
        ),
        ("a.xlsx", "chart:xl/c.xml", CACHE),
        ("a.xlsx", "drawing:xl/d.xml", TEXTS),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_parts_are_found_whatever_their_names_and_in_both_forms_of_the_standard(
    name, part_name, content, strict
):
    main, root = MAINS[name]
    kind, _, own = part_name.partition(":")
    parts = {own: content} if kind == "officeDocument" else {main: f"<{root}/>", part_name: content}
    data = package(own if kind == "officeDocument" else main, parts)
    if strict:
        with zipfile.ZipFile(io.BytesIO(data)) as entries:
            data = archive(
                {entry: strict_form(entries.read(entry).decode()) for entry in entries.namelist()}
            )
        content = strict_form(content)
    if "%20" in own:
        with zipfile.ZipFile(io.BytesIO(data)) as entries:
            data = archive(
                {entry.replace("%20", " "): entries.read(entry) for entry in entries.namelist()}
            )
    made = part(change(name, data), own.replace("%20", " "))
    plain = re.sub(r"<\?.*\?>\n| xml:space=\"preserve\"", "", made)
    assert plain == content.replace("Hello", "HELLO")


def strict_form(content: str) -> str:
    """Returns a part in the strict form of ISO 29500."""
    names = r"http://schemas.openxmlformats.org/(wordprocessingml|drawingml|spreadsheetml)/2006/"
    return re.sub(names, r"http://purl.oclc.org/ooxml/\1/", content).replace(
        "http://schemas.openxmlformats.org/officeDocument/2006/",
        "http://purl.oclc.org/ooxml/officeDocument/",
    )


def test_relationships_out_of_the_file_and_in_circles_are_harmless():
    links = "".join(
        f'<Relationship Type="x/{kind}" Target="{target}" TargetMode="{mode}"/>'
        for kind, target, mode in [
            ("slide", "../../../../etc/passwd", "Internal"),
            ("slide", "http://a.b/ppt/p.xml", "External"),
            ("slide", "p.xml", "Internal"),
            ("notesSlide", "", "Internal"),
            ("slide", "missing.xml", "Internal"),
        ]
    )
    data = package("ppt/p.xml", {"ppt/p.xml": "<presentation/>"})
    with zipfile.ZipFile(io.BytesIO(data)) as entries:
        parts = {entry: entries.read(entry) for entry in entries.namelist()}
    parts["ppt/_rels/p.xml.rels"] = f"<Relationships>{links}</Relationships>".encode()
    assert read_document("a.pptx", archive(parts), "de").texts == ()


def test_a_protected_file_is_named_as_such():
    with pytest.raises(InvalidRequest, match="password"):
        read_document("a.docx", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(2_000), "de")
