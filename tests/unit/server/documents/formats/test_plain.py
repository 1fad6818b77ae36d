"""Plain text: hard-wrapped lines are translated as sentences and wrapped again, and the encoding is
kept."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from tests.support.texts.document_files import change

PROSE = """\
It was a bright cold day in the town, and the clocks
on the tower were striking all at once. The old man,
who had waited for hours, went home.
"""
JOINED = PROSE.replace("\n", " ").strip()
LETTER = """\
    The first line of this paragraph is indented, as in
a printed book, and the others are not, since that is
how it was done.
"""
LIST = """\
- The first item of the list is too long for one line
  and goes on in the next one, which is indented.
- The second item is short.
"""
VERSE = """\
The curfew tolls the knell of parting day,
The lowing herd winds slowly o'er the lea,
The ploughman homeward plods his weary way,
And leaves the world to darkness and to me.
"""


def texts(content: str) -> list[str]:
    return [
        line
        for text in read_document("a.txt", content.encode(), "de").texts
        for line in text.split("\n")
    ]


def changed(content: str, how=lambda text: text.replace("a", "aa")) -> str:
    document = read_document("a.txt", content.encode(), "de")
    return document.write([how(text) for text in document.texts]).decode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PROSE, [JOINED]),
        (PROSE.replace("\n", "\r\n"), [JOINED]),
        (PROSE + "\n" + PROSE, [JOINED, JOINED]),
        ("A Heading\n\n" + PROSE, ["A Heading", JOINED]),
        ("A Heading\n" + PROSE, ["A Heading", JOINED]),
        (LETTER, [" ".join(LETTER.split())]),
        (
            "We know that this is the end of a line with well-\nknown words in it.\n",
            ["We know that this is the end of a line with well-known words in it."],
        ),
    ],
)
def test_wrapped_lines_are_one_text(content, expected):
    assert [text for text in texts(content) if text] == expected


@pytest.mark.parametrize(
    "content",
    [
        VERSE,
        "One line that is long enough to be a paragraph.\nAnother sentence that has a line of its "
        "own.\n",
        "Milk and butter\nbread and cheese\napples\n",
        "# A heading that is as long as the lines of wrapped text\nand a line that begins with a "
        "small letter.\n",
        "Name of the article that is for sale   12.50\nname of another article that is there   "
        "3.00\n",
        "> this is what somebody else has written before in a\n> message that is cited here, line "
        "by line.\n",
        "Dear Sir or Madam at the other end of this long line,\n\nthe second paragraph begins with "
        "a small letter\n",
        "this is one line of the list of the things we need\n1. and this is an item with a number "
        "before it.\n",
    ],
)
def test_other_lines_stay(content):
    assert [text for text in texts(content) if text] == [
        line for line in content.split("\n") if line
    ]


def test_the_translation_is_wrapped_at_the_same_width():
    made = changed(PROSE).splitlines()
    assert " ".join(made) == JOINED.replace("a", "aa")
    width = max(map(len, PROSE.splitlines()))
    assert all(len(line) <= width for line in made)
    assert all(len(line) + 1 + len(after.split()[0]) > width for line, after in pairwise(made))


def test_indentation_and_line_ends_are_kept():
    made = changed(LETTER.replace("\n", "\r\n") + "\r\n" + LIST)
    indents = [line[: len(line) - len(line.lstrip())] for line in made.split("\n")]
    assert made.startswith("    The first") and made.count("\r\n") >= 4 and "\r\n\r\n- The" in made
    assert indents[:2] == ["    ", ""]
    assert [line[:2] for line in made.split("\r\n\r\n")[1].split("\n")[:2]] == ["- ", "  "]


def test_a_language_without_spaces_is_wrapped_too():
    made = changed(PROSE, lambda text: "電池" * 60)
    assert max(map(len, made.splitlines())) <= 30 and made.replace("\n", "") == "電池" * 60


@given(st.lists(st.text(st.sampled_from("abcdefg .,"), min_size=40, max_size=80), max_size=8))
def test_no_word_is_lost(lines):
    content = "\n".join(lines)
    assert changed(content, lambda text: text + " x").replace("x", "").split() == content.split()


def test_long_texts_are_split_at_line_ends():
    text = "".join(f"Line number {i} of a long file.\n" for i in range(1000))
    document = read_document("a.txt", text.encode(), "de")
    assert len(document.texts) > 5
    assert document.write(document.texts) == text.encode()


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-16-le", "utf-16-be"]
)
def test_text_files_keep_their_encoding(encoding):
    text = (
        "Das M\u00e4dchen h\u00f6rt die Musik in der Stra\u00dfe.\r\n\r\nEine W\u00f6rter-Musik.\n"
    )
    made = change("a.txt", text.encode(encoding), lambda each: each.replace("Musik", "\u00dcbung"))
    assert made == text.replace("Musik", "\u00dcbung").encode(encoding)


CUE = "00:00:01.000 --> 00:00:02.000\n{}\n"
CATALOG = (
    'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-1\\n"\n\nmsgid "{}"\nmsgstr ""\n'
)
FRAMES = {
    "a.txt": "{}\n",
    "a.srt": "1\n" + CUE,
    "a.vtt": "WEBVTT\n\n" + CUE,
    "a.json": '{{"a": "{}"}}',
    "a.yml": "a: '{}'\n",
    "a.po": CATALOG,
}


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16", "utf-32"])
def test_files_of_every_encoding_take_a_translation_in_another_script(name, encoding):
    given = FRAMES[name].format("Das Mädchen hört die Musik.").encode(encoding)
    made = change(name, given, lambda _: "Музыка").decode(
        "utf-8" if encoding == "cp1252" else encoding
    )
    assert "Музыка" in made and "&#" not in made
    assert ("charset=UTF-8" in made) == (name == "a.po" and encoding == "cp1252")


@pytest.mark.parametrize("name", ["a.txt", "a.srt", "a.vtt", "a.json", "a.yml"])
def test_text_that_is_not_western_is_rejected(name):
    with pytest.raises(InvalidRequest, match="UTF-8"):
        read_document(name, FRAMES[name].format("Привет, мир! Как дела?").encode("cp1251"), "de")


@pytest.mark.parametrize(
    ("sentence", "encodings"),
    [
        ("Zażółć gęślą jaźń, a łódź płynie.", ("cp1250", "iso8859-2")),
        ("Žluťoučký kůň pěl ďábelské ódy.", ("cp1250", "iso8859-2")),
        ("Árvíztűrő tükörfúrógép.", ("cp1250", "iso8859-2")),
        ("Pijamalı hasta yağız şoföre çabucak güvendi.", ("cp1254",)),
        ("Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą.", ("cp1257",)),
        ("Voix ambiguë d'un cœur qui préfère à là où.", ("cp1252",)),
        ("Zwölf Boxkämpfer jagen Viktor quer über den großen Deich.", ("cp1252",)),
        ("El pingüino comió kiwi: ¿qué año, señor?", ("cp1252",)),
        ("På Åland ønsker æren seg blå øyne.", ("cp1252",)),
    ],
)
def test_older_encodings_are_told_apart_by_the_letters_of_languages(sentence, encodings):
    for encoding in encodings:
        given = f"It is old.\n\n{sentence}\n".encode(encoding)
        document = read_document("a.txt", given, "de")
        assert sentence in "\n".join(document.texts), encoding
        assert document.write(
            [text.replace("old", "alt") for text in document.texts]
        ) == given.replace(b"old", b"alt")
