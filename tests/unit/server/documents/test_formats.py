"""Every file format: the text is translated, everything else is kept, and an untranslated file is unchanged."""

from __future__ import annotations

import io
import re
import zipfile

import docx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from server.documents.formats import SUFFIXES, format_of
from server.documents.reader_process import read_document
from server.documents.service import translated_name
from server.errors import InvalidRequest
from server.text.html_passages import parse_passages
from tests.support.document_files import TEXT, book, open_document, part, word_body, word_file

SRT = (
    "1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Hello there</i>\r\nTom & Jerry.\r\n\r\n"
    "2\r\n00:00:03,000 --> 00:00:04,000\r\n- Yes.\r\n- {\\an8}No <b>way</b>!\r\n\r\n3\r\n00:00:05,000 --> 00:00:06,000\r\n12\r\n"
)
VTT = "WEBVTT\n\nSTYLE\n::cue {}\n\nfirst\n00:01.000 --> 00:02.000 align:start\n<v Bob>Hi &amp; <00:01.500>bye\n\nNOTE keep me\n"


def change(name: str, data: bytes, how=str.upper) -> bytes:
    """Returns the file with its text changed, as the translator would change it."""
    document = read_document(name, data, "de")
    passages = [parse_passages(text, document.format) for text in document.texts]
    return document.write(
        ["".join(passage.translated(how(passage.text)).render() for passage in found) for found in passages]
    )


def unchanged(name: str, data: bytes) -> bytes:
    document = read_document(name, data, "en")
    return document.write(document.texts)


@given(st.text(st.sampled_from("ab .\n\r\t<&é\u2028"), max_size=300))
def test_unchanged_text_files_are_identical(text):
    data = text.encode()
    assert unchanged("a.txt", data) == data


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_files_keep_their_encoding(encoding):
    data = "Héllo\r\n\r\nwörld\n".encode(encoding)
    assert change("a.txt", data) == "HÉLLO\r\n\r\nWÖRLD\n".encode(encoding)


def test_long_texts_are_split_at_line_ends():
    text = "".join(f"Line number {i} of a long file.\n" for i in range(1000))
    document = read_document("a.txt", text.encode(), "de")
    assert len(document.texts) > 5
    assert document.write(document.texts) == text.encode()


def test_pages_keep_markup_and_encoding_and_get_the_new_language():
    data = '<html lang="en"><meta charset="latin-1"><p>Café <b class="x">más</b><!-- no --><script>a<b</script>'.encode(
        "latin-1"
    )
    made = change("a.html", data).decode("latin-1")
    assert made == '<html lang="de"><meta charset="latin-1"><p>CAFÉ <b class="x">MÁS</b><!-- no --><script>a<b</script>'
    document = read_document("a.html", data, "de")
    assert b"&#8364;" in document.write(["€" for _ in document.texts])


@pytest.mark.parametrize("encoding", ["punycode", "zip", "idna", "unicode_escape", "nonsense"])
def test_unusual_encodings_of_pages_are_ignored(encoding):
    data = f'<meta charset="{encoding}"><p>é'.encode()
    assert change("a.html", data).decode() == f'<meta charset="{encoding}"><p>É'


def test_subtitles_keep_everything_except_the_text():
    assert change("a.srt", SRT.encode()).decode() == (
        SRT.replace("Hello there", "HELLO THERE").replace("Tom & Jerry", "TOM & JERRY").replace("Yes", "YES")
        .replace("No ", "NO ").replace("way", "WAY")
    )  # fmt: skip
    assert change("a.vtt", VTT.encode()).decode() == VTT.replace("Hi &amp; <00:01.500>bye", "HI &amp; BYE")


def test_a_cue_keeps_its_number_of_lines():
    document = read_document("a.srt", SRT.encode(), "de")
    made = document.write(["one two three four five six", "Ja", "Nein"]).decode()
    assert "one two three\r\nfour five six\r\n\r\n2" in made
    assert "\r\n- Ja\r\n- {\\an8}Nein\r\n" in made


@given(
    st.lists(
        st.sampled_from(["1\n", "00:01 --> 00:02\n", "word\n", "- <i>a\n", "\n", "x & y</i>\n", "  \n", "-->\n"]),
        max_size=15,
    )
)
def test_unchanged_subtitles_keep_their_text(lines):
    text = "".join(lines)
    made = unchanged("a.srt", text.encode()).decode()
    assert made.split() == text.split()
    assert made.count("\n") <= text.count("\n")


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
    tag = re.search(r"<span \w+>", text)[0]
    made = etree.fromstring(part(document.write([f"chat {tag}rouge</span k0>"]), "word/document.xml").encode())
    runs = [("".join(run.itertext()), bool(run.findall(".//{*}b"))) for run in made.iter("{*}r")]
    assert runs == [("chat ", False), ("rouge", True)]


def test_word_fields_notes_links_and_text_boxes_are_kept():
    data = word_body(
        '<w:p><w:bookmarkStart w:id="1" w:name="m"/><w:r><w:t>See page </w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGEREF m</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>seven</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'
        '<w:hyperlink w:anchor="m"><w:r><w:t>this link</w:t></w:r></w:hyperlink><w:bookmarkEnd w:id="1"/>'
        '<w:r><w:footnoteReference w:id="2"/></w:r><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p>'
        "</w:txbxContent></w:pict></w:r></w:p>"
        "<w:p><w:r><w:pict><w:txbxContent><w:p><w:r><w:t>alone</w:t></w:r></w:p></w:txbxContent></w:pict></w:r></w:p>"
    )
    before = etree.fromstring(part(data, "word/document.xml").encode())
    after = etree.fromstring(part(change("a.docx", data), "word/document.xml").encode())
    assert [element.tag for element in after.iter()].count("{*}p") == [element.tag for element in before.iter()].count(
        "{*}p"
    )
    assert "".join(after.itertext()) == "SEE PAGE PAGEREF msevenTHIS LINKBOXEDALONE"
    kinds = [element.get(element.keys()[0]) for element in after.iter("{*}fldChar")]
    assert kinds == ["begin", "separate", "end"]
    for tag in ("hyperlink", "footnoteReference", "bookmarkStart", "bookmarkEnd"):
        assert len(list(after.iter("{*}" + tag))) == 1


def test_words_in_content_controls_are_translated_and_choices_kept():
    body = (
        "<w:p><w:r><w:t>Dear </w:t></w:r>"
        "<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent><w:r><w:t>customer, welcome</w:t></w:r></w:sdtContent></w:sdt>"
        "<w:r><w:t> to </w:t></w:r>"
        "<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent><w:r><w:t>one</w:t></w:r></w:sdtContent></w:sdt></w:p>"
        "<w:sdt><w:sdtContent><w:p><w:r><w:t>A block</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    made = part(change("a.docx", word_body(body)), "word/document.xml")
    assert "".join(re.findall("<w:t[^>]*>([^<]*)</w:t>", made)) == "DEAR CUSTOMER, WELCOME TO oneA BLOCK"
    assert made.count("<w:sdt>") == 2 and "dropDownList" in made


@pytest.mark.parametrize("name", ["a.docx", "a.odt"])
def test_characters_that_xml_does_not_allow_are_removed(name):
    data = word_file() if name == "a.docx" else open_document("<text:p>Hello</text:p>")
    document = read_document(name, data, "de")
    made = document.write(["\x00\x1f\ufffe words &amp; <more" for _ in document.texts])
    texts = part(made, "word/document.xml" if name == "a.docx" else "content.xml")
    assert " words &amp; &lt;more" in texts


def test_opendocument_files_keep_spans_notes_and_line_breaks():
    data = open_document(
        '<text:h>Head</text:h><text:p>Say <text:span text:style-name="B">bold<text:s text:c="3"/>words</text:span> now<text:note>'
        "<text:note-citation>1</text:note-citation><text:note-body><text:p>The note</text:p></text:note-body></text:note> fine."
        "<text:line-break/>next</text:p><text:p/>"
    )
    made = etree.fromstring(part(change("a.odt", data), "content.xml").encode())
    head, paragraph, empty = made[0][0]
    assert (head.text, empty.text) == ("HEAD", None)
    assert paragraph.text == "SAY "
    assert [(child.tag.removeprefix("{" + TEXT + "}"), child.tail) for child in paragraph] == [
        ("span", " NOW"),
        ("note", " FINE."),
        ("line-break", "NEXT"),
    ]
    assert paragraph[0].text == "BOLD WORDS"
    assert "".join(paragraph[1].itertext()) == "1THE NOTE"


def test_books_keep_their_structure_and_get_the_new_language():
    data = book()
    made = change("a.epub", data)
    with zipfile.ZipFile(io.BytesIO(made)) as after, zipfile.ZipFile(io.BytesIO(data)) as before:
        assert [(e.filename, e.compress_type) for e in after.infolist()] == [
            (e.filename, e.compress_type) for e in before.infolist()
        ]
        assert after.read("OEBPS/cover.png") == before.read("OEBPS/cover.png")
    assert "<dc:title>MY BOOK</dc:title><dc:language>de</dc:language>" in part(made, "OEBPS/book.opf")
    assert "<text>CHAPTER ONE</text>" in part(made, "OEBPS/toc.ncx")
    page = part(made, "OEBPS/a page.xhtml")
    assert 'xml:lang="de" lang="de"' in page
    assert "<p>HELLO <b>MY</b>\nWORLD.</p><br/><p>A&#160;B</p>" in page
    etree.fromstring(page.encode())


@pytest.mark.parametrize("name", ["a.exe", "a", "", ".", "a.docx.zip"])
def test_unknown_formats_are_rejected(name):
    with pytest.raises(InvalidRequest, match=r"\.epub"):
        format_of(name)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(data=st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_random_data_is_rejected_or_read(suffix, data):
    try:
        document = read_document("a" + suffix, data, "de")
    except InvalidRequest as error:
        assert error.message.endswith(".")
    else:
        document.write(document.texts)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("book.epub", "book.de.epub"),
        ("../../etc/a.txt", "a.de.txt"),
        ("C:\\x\\a b.txt", "a b.de.txt"),
        (".txt", "translated.de.txt"),
        ('a"\r\n.txt', "a.de.txt"),
        ("x" * 500 + ".txt", "x" * 100 + ".de.txt"),
    ],
)
def test_the_translated_file_name_has_the_language_and_no_folder(name, expected):
    assert translated_name(name, "de") == expected


def test_an_undefined_prefix_is_rejected_even_before_a_warning():
    """lxml does not raise the error if a warning about the next element's attribute follows."""
    body = '<w:p><q:r/><w:r><w:t xml:space="nonsense">Hello</w:t></w:r></w:p>'
    with pytest.raises(InvalidRequest, match="well-formed"):
        read_document("a.docx", word_body(body), "de")


@pytest.mark.parametrize("dash", "-–—")
def test_a_dash_within_a_subtitle_does_not_begin_a_line(dash):
    """A dash at the beginning of a line marks another speaker."""
    data = f"1\n00:00:01,000 --> 00:00:02,000\nI do not know what to say\n{dash}ever {dash} again\n".encode()
    once = unchanged("a.srt", data)
    assert f"\n{dash} " not in once.decode()
    assert unchanged("a.srt", once) == once


def test_a_tag_without_end_does_not_declare_an_encoding():
    assert change("a.html", b"<p>caf\xe9</p><meta charset=utf-16").startswith(b"<p>CAF\xc9</p>")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16-le", "utf-16-be"])
def test_other_encodings_are_recognized(encoding):
    text = "Das M\u00e4dchen h\u00f6rt die Musik in der Stra\u00dfe.\n"
    changed = text.replace("Musik", "\u00dcbung")
    assert change("a.txt", text.encode(encoding), lambda _: changed.strip()) == changed.encode(encoding)


def test_text_that_is_not_western_is_rejected():
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_document("a.txt", "Привет, мир! Как дела?".encode("cp1251"), "de")


def test_attributes_that_people_read_are_translated():
    page = (
        '<meta name="description" content="Words &amp; more"><meta name="viewport" content="width">'
        '<img alt="a cat" src="a cat.png">'
        '<input type="submit" value="Send"><input type="text" value="data" placeholder=\'your "name"\'>'
        '<p title="hint" translate="no">Brand</p><a href="x" title="tip">link</a> &lt;b&gt;'
    )
    made = change("a.html", page.encode()).decode()
    expected = (
        page.replace("Words &amp; more", "WORDS &amp; MORE").replace('"a cat"', '"A CAT"').replace("Send", "SEND")
    )
    expected = (
        expected.replace("'your \"name\"'", '"YOUR &quot;NAME&quot;"').replace("tip", "TIP").replace("link", "LINK")
    )
    assert made == expected.replace("&lt;b&gt;", "&lt;B&gt;")


def test_cues_of_one_sentence_are_translated_together():
    cues = ["I think that the old house", "near the river is", "very beautiful.", "Yes."]
    data = "".join(f"{i}\n00:00:0{i},000 --> 00:00:0{i},900\n{cue}\n\n" for i, cue in enumerate(cues)).encode()
    document = read_document("a.srt", data, "de")
    assert document.texts == (" ".join(cues[:3]), "Yes.")
    assert document.write(document.texts) == data
    made = document.write(["Ich denke, dass das alte Haus am Fluss sehr schön ist.", "Ja."]).decode()
    lines = [line for line in made.split("\n") if line and not line[0].isdigit()]
    assert (len(lines), lines[3]) == (4, "Ja.")
    assert " ".join(lines[:3]) == "Ich denke, dass das alte Haus am Fluss sehr schön ist."
    assert "…" in document.write(["Kurz", "Ja."]).decode()
