"""Word files: formatting follows its words, and everything else is kept."""

from __future__ import annotations

import io
import re
import zipfile

import docx
import pytest
from lxml import etree

from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from server.translation import coded_text
from tests.support.texts.document_files import change, package, part, word_body, word_file


def test_word_files_keep_the_formatting_of_words():
    document = docx.Document(io.BytesIO(change("a.docx", word_file())))
    title, paragraph, tabbed = document.paragraphs
    assert (title.text, title.style.name) == ("THE TITLE", "Heading 1")
    assert [(run.text, run.bold, run.italic) for run in paragraph.runs] == [
        ("HELLO ", None, None),
        ("BOLD", True, None),
        (" AND ", None, None),
        ("SLANTED", None, True),
        (" END.", None, None),
    ]
    assert tabbed.text == "LEFT\tRIGHT"
    assert [cell.text for cell in document.tables[0].row_cells(0)] == ["A CELL", "42"]
    assert document.sections[0].header.paragraphs[0].text == "ON EVERY PAGE"


def test_word_runs_are_moved_with_their_words():
    data = word_body(
        "<w:p><w:r><w:t>the </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>red</w:t></w:r>"
        '<w:r><w:t xml:space="preserve"> cat</w:t></w:r></w:p>'
    )
    document = read_document("a.docx", data, "fr")
    [text] = document.texts
    opened, closed = (mark[0] for mark in coded_text.MARK.findall(text))
    made = etree.fromstring(
        part(document.write([f"chat {opened}rouge{closed}"]), "word/document.xml").encode()
    )
    runs = [("".join(run.itertext()), bool(run.findall(".//{*}b"))) for run in made.iter("{*}r")]
    assert runs == [("chat ", False), ("rouge", True)]


def test_word_fields_notes_links_and_text_boxes_are_kept():
    data = word_body(
        '<w:p><w:bookmarkStart w:id="1" w:name="m"/><w:r><w:t>See page </w:t></w:r><w:r>'
        '<w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF m</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>seven</w:t></w:r><w:r>'
        '<w:fldChar w:fldCharType="end"/></w:r><w:hyperlink w:anchor="m"><w:r><w:t>this link</w:t>'
        '</w:r></w:hyperlink><w:bookmarkEnd w:id="1"/><w:r><w:footnoteReference w:id="2"/></w:r>'
        "<w:r><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent>"
        "</w:pict></w:r></w:p><w:p><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>alone</w:t></w:r>"
        "</w:p></w:txbxContent></w:pict></w:r></w:p>"
    )
    before = etree.fromstring(part(data, "word/document.xml").encode())
    after = etree.fromstring(part(change("a.docx", data), "word/document.xml").encode())
    assert [element.tag for element in after.iter()].count("{*}p") == [
        element.tag for element in before.iter()
    ].count("{*}p")
    assert "".join(after.itertext()) == "SEE PAGE PAGEREF msevenTHIS LINKBOXEDALONE"
    kinds = [element.get(element.keys()[0]) for element in after.iter("{*}fldChar")]
    assert kinds == ["begin", "separate", "end"]
    for tag in ("hyperlink", "footnoteReference", "bookmarkStart", "bookmarkEnd"):
        assert len(list(after.iter("{*}" + tag))) == 1


def test_words_in_content_controls_are_translated_and_choices_kept():
    body = (
        "<w:p><w:r><w:t>Dear </w:t></w:r><w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent><w:r>"
        "<w:t>customer, welcome</w:t></w:r></w:sdtContent></w:sdt><w:r><w:t> to </w:t></w:r>"
        "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent><w:r><w:t>one</w:t></w:r>"
        "</w:sdtContent></w:sdt></w:p><w:sdt><w:sdtContent><w:p><w:r><w:t>A block</w:t></w:r>"
        "</w:p></w:sdtContent></w:sdt>"
    )
    made = part(change("a.docx", word_body(body)), "word/document.xml")
    assert (
        "".join(re.findall("<w:t[^>]*>([^<]*)</w:t>", made))
        == "DEAR CUSTOMER, WELCOME TO oneA BLOCK"
    )
    assert made.count("<w:sdt>") == 3 and "dropDownList" in made


def field(instruction: str, words: str) -> str:
    """Returns the runs of a field."""
    marks = [
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
    ]
    return (
        f"{marks[0]}<w:r><w:instrText> {instruction} "
        f"</w:instrText></w:r>{marks[1]}{words}{marks[2]}"
    )


def run(words: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{words}</w:t></w:r>'


LINK = field('HYPERLINK "http://a.b" \\o "tip"', run("my page"))
CONTROL = (
    '<w:sdt><w:sdtPr><w:alias w:val="x"/><w:dataBinding w:xpath="/a" w:storeItemID="{1}"/>'
    "<w:text/></w:sdtPr><w:sdtContent>%s</w:sdtContent></w:sdt>"
)
MARK = '<w:bookmark%s w:id="%s"/>'


@pytest.mark.parametrize(
    "inner",
    [
        LINK,
        field("HYPERLINK \\l a", run("one ") + "<w:r><w:rPr><w:b/></w:rPr><w:t>bold</w:t></w:r>"),
        f'<w:fldSimple w:instr="HYPERLINK a">{run("my page")}</w:fldSimple>',
        CONTROL % run("my value"),
        CONTROL % LINK,
        CONTROL % (CONTROL % run("nested")),
        f'<w:hyperlink w:anchor="m">{CONTROL % run("linked")}</w:hyperlink>',
        f"<w:smartTag><w:smartTagPr/>{run('my town')}</w:smartTag>",
        MARK % ("Start", 1) + run("my place") + MARK % ("End", 1),
        MARK % ("Start", 1) + LINK + MARK % ("End", 1),
        field("HYPERLINK a", MARK % ("Start", 1) + run("my place") + MARK % ("End", 1)),
        '<w:commentRangeStart w:id="4"/>' + run("noted") + '<w:commentRangeEnd w:id="4"/>',
        MARK % ("Start", 1)
        + run("a ")
        + MARK % ("Start", 2)
        + run("b")
        + MARK % ("End", 2)
        + MARK % ("End", 1),
    ],
)
def test_elements_around_words_stay_around_them(inner):
    """The paragraph keeps all its elements, each around the same words."""
    data = word_body(f"<w:p>{run('Before ')}{inner}{run(' and after.')}</w:p>")
    before = re.sub("<w:t[^>]*>", "<w:t>", part(data, "word/document.xml"))
    after = re.sub(
        "<w:t[^>]*>|(?<=</w:r>)\n", "<w:t>", part(change("a.docx", data), "word/document.xml")
    )
    assert after.partition("?>\n")[2] == re.sub(
        "(?<=<w:t>)[^<]*", lambda words: words[0].upper(), before
    )


@pytest.mark.parametrize(
    ("path", "kind", "expected"),
    [
        ("/n:a[1]/n:b[1]", "text", "MY VALUE"),
        ("/n:a/n:b", "richText", "MY VALUE"),
        ("/n:a/n:b", "dropDownList", "my value"),
        ("//n:b[string-length(.) > 1]", "text", "my value"),
        ("/q:a/q:b", "text", "my value"),
    ],
)
def test_the_value_that_a_control_shows_is_translated_where_it_is_kept(path, kind, expected):
    binding = (
        f'<w:dataBinding w:prefixMappings="xmlns:n=\'urn:n\'" w:xpath="{path}" '
        f'w:storeItemID="{{AB-1}}"/>'
    )
    control = f"<w:sdt><w:sdtPr>{binding}<w:{kind}/></w:sdtPr><w:sdtContent>{run('my value')}</w:sdtContent></w:sdt>"
    with zipfile.ZipFile(io.BytesIO(word_body(f"<w:p>{control}</w:p>"))) as entries:
        body = entries.read("word/document.xml")
    link = '<Relationships><Relationship Type="x/customXmlProps" Target="p.xml"/></Relationships>'
    other = '<a xmlns="urn:n" ><b>my value</b></a>'
    parts = {
        "word/document.xml": body,
        "customXml:data/one.xml": '<a xmlns="urn:n"><b>my value</b></a>',
        "customXml:data/two.xml": other,
        "ignored:data/_rels/one.xml.rels": link,
        "ignored:data/p.xml": '<i xmlns:d="urn:d" d:itemID="{ab-1}"/>',
    }
    made = change("a.docx", package("word/document.xml", parts))
    assert (
        f"<b>{expected}</b>" in part(made, "data/one.xml") and part(made, "data/two.xml") == other
    )


def test_marks_that_overlap_or_end_elsewhere_stay_at_their_place():
    overlapping = (
        MARK % ("Start", 1)
        + run("one ")
        + MARK % ("Start", 2)
        + run("two ")
        + MARK % ("End", 1)
        + run("three")
    )
    for inner in (
        overlapping + MARK % ("End", 2),
        overlapping,
        MARK % ("End", 7) + LINK + MARK % ("Start", 8),
    ):
        data = word_body(f"<w:p>{run('Before ')}{inner}{run(' and after.')}</w:p>")
        made = etree.fromstring(part(change("a.docx", data), "word/document.xml").encode())
        source = etree.fromstring(part(data, "word/document.xml").encode())

        def places(root):
            """Returns the text before each mark."""
            return [
                (
                    mark.get(mark.keys()[0]),
                    "".join(mark.xpath("preceding::*[local-name()='t']/text()")).upper(),
                )
                for mark in root.iter("{*}bookmarkStart", "{*}bookmarkEnd")
            ]

        assert places(made) == places(source)


def test_the_first_line_of_a_table_of_contents_is_translated():
    marks = [
        f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
    ]
    first = f"{marks[0]}<w:r><w:instrText>TOC</w:instrText></w:r>{marks[1]}{field('HYPERLINK a', run('My chapter'))}"
    made = part(
        change("a.docx", word_body(f"<w:p>{first}</w:p><w:p>{run('More')}{marks[2]}</w:p>")),
        "word/document.xml",
    )
    assert re.findall("<w:t[^>]*>([^<]*)", made) == ["MY CHAPTER", "MORE"]
    assert re.findall('fldCharType="(\\w+)"', made) == [
        "begin",
        "separate",
        "begin",
        "separate",
        "end",
        "end",
    ]


def test_an_undefined_prefix_is_rejected_even_before_a_warning():
    """lxml does not raise the error if a warning about the next element's attribute follows."""
    body = '<w:p><q:r/><w:r><w:t xml:space="nonsense">Hello</w:t></w:r></w:p>'
    with pytest.raises(InvalidRequest, match="well-formed"):
        read_document("a.docx", word_body(body), "de")


def test_the_texts_that_empty_controls_show_are_translated():
    namespace = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    parts = {
        "word/document.xml": f"<w:document {namespace}><w:body/></w:document>",
        "glossaryDocument:word/glossary/document.xml": "<w:glossaryDocument "
        f"{namespace}><w:docParts><w:docPart><w:docPartPr>"
        '<w:name w:val="ABC"/></w:docPartPr><w:docPartBody><w:p><w:r><w:t>Click '
        "here</w:t></w:r></w:p></w:docPartBody>"
        "</w:docPart></w:docParts></w:glossaryDocument>",
    }
    made = part(change("a.docx", package("word/document.xml", parts)), "word/glossary/document.xml")
    assert ">CLICK HERE<" in made and '<w:name w:val="ABC"/>' in made


def test_hyphens_and_hints_of_the_layout_are_no_codes():
    run = (
        "<w:p><w:r>{}<w:t>The co</w:t><w:softHyphen/><w:t>lor is "
        "dark</w:t><w:noBreakHyphen/><w:t>red.</w:t></w:r></w:p>"
    )
    document = read_document("a.docx", word_body(run.format("<w:lastRenderedPageBreak/>")), "de")
    assert document.texts == ("The color is dark\u2011red.",)


def test_what_links_say_is_translated():
    link = (
        '<w:p><w:hyperlink w:anchor="a" w:tooltip="Go there"><w:r><w:t>one '
        "word</w:t></w:r></w:hyperlink></w:p>"
    )
    made = part(change("a.docx", word_body(link)), "word/document.xml")
    assert 'w:tooltip="GO THERE"' in made and ">ONE WORD<" in made
