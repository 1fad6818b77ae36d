"""Codes of plain text beside the codes of a document: nothing is lost, pairs are nested, a code is
never torn."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.text.syntax.plain import NUMBER_SIGN, scan
from server.text.tagged import Code, Tagged
from tests.support.texts.matched import matches

PARTS = [
    *"%s|%(a)s|{0}|{{a}}|{{#if a}}|{{/if}}|{% if b %}|{% endif "
    "%}|${a}|$a|#a|@a|:a|`a`|`|**|*|_|~~|[|](b)|[b]|[/b]".split("|"),
    *"{n, plural, one {|} other {|}}|{n, "
    "plural,|'{|'|''|\\'|\\n|\\|<b>|</b>|<x/>|&amp;|$x$|http://a.b/|a@b.c|/a/b|[[a]]".split("|"),
    *[" ", "word", "\n", "a", ". ", "|", " > ", "#", "<", ">", "1", "```\n"],
]
TAGS = ["", "", "", "(", "(", ")", ")", "x", "/"]
"""Markup before a part: a pair's start or end, a point, one that splits."""


@st.composite
def tagged_texts(draw: st.DrawFn) -> Tagged:
    """A text whose markup is well-formed, as a scanner of HTML returns it."""
    text, codes, opened = "", [], []
    for _ in range(draw(st.integers(1, 14))):
        tag = draw(st.sampled_from(TAGS))
        if tag == "(":
            opened.append(len(codes))
            codes.append(Code(len(text), len(text), f"<{len(codes)}>", "sc", len(codes) + 1))
        elif tag == ")" and opened:
            pair = codes[opened.pop()].pair
            codes.append(Code(len(text), len(text), f"</{pair - 1}>", "ec", pair))
        elif tag in ("x", "/"):
            codes.append(Code(len(text), len(text), f"<{len(codes)}/>", splits=tag == "/"))
        text += draw(st.sampled_from(PARTS))
    while opened:
        pair = codes[opened.pop()].pair
        codes.append(Code(len(text), len(text), f"</{pair - 1}>", "ec", pair))
    return Tagged(text, tuple(codes))


@settings(max_examples=1000)
@given(tagged_texts(), st.sampled_from([(), ("word", "a"), (NUMBER_SIGN,)]))
def test_every_byte_stays_and_pairs_are_nested(tagged: Tagged, kept: tuple[str, ...]) -> None:
    scanned = scan(tagged, kept)
    assert scanned.write() == tagged.write() and scanned.text == tagged.text
    assert all(left.end <= right.start for left, right in pairwise(scanned.codes))
    opened: list[int] = []
    for code in scanned.codes:
        if code.role == "sc":
            opened.append(code.pair)
        elif code.role == "ec":
            assert opened.pop() == code.pair
    assert not opened
    assert all(
        start <= end <= code.end - code.start for code in scanned.codes for start, end in code.flows
    )


@pytest.mark.parametrize(
    ("pieces", "codes"),
    [
        (["your ", "<b>", "$name", "</b>", " is"], ["<b>$name</b>"]),
        (["#", "<i>", "tag", "</i>", " x"], ["#<i>tag</i>"]),
        (["@{", "<b>", "user", "</b>", "} x"], ["@{<b>user</b>}"]),
        (["<b>", "%d", "</b>", "-%d"], ["<b>%d</b>-%d"]),
        (
            ["see ", "<b>", "http://a.org/", "<i>", "x", "</i>", "</b>"],
            ["<b>http://a.org/<i>x</i></b>"],
        ),
        (["a ", "<b>", "word {0}", "</b>"], ["<b>", "{0}", "</b>"]),
        (["<b>", "**a", "</b>", "** b"], ["<b>", "**", "</b>", "**"]),
        (["`a ", "<p>", "b` ", "<p>", "`c`"], ["<p>", "<p>", "`c`"]),
        (
            ["{n, plural, one {", "<b>", "#", "</b>", " file} other {files}}"],
            ["{n, plural, one {", "<b>#</b>", "} other {", "}}"],
        ),
    ],
)
def test_a_code_has_the_tags_within_it(pieces: list[str], codes: list[str]) -> None:
    text, tags, opened = "", [], []
    for piece in pieces:
        if not piece.startswith("<"):
            text += piece
        elif piece == "<p>":
            tags.append(Code(len(text), len(text), piece, splits=True))
        elif piece.startswith("</"):
            tags.append(Code(len(text), len(text), piece, "ec", opened.pop()))
        else:
            opened.append(len(tags) + 1)
            tags.append(Code(len(text), len(text), piece, "sc", opened[-1]))
    scanned = scan(Tagged(text, tuple(tags)))
    assert [code.data if code.data is not None else code.equiv for code in scanned.codes] == codes
    assert scanned.write() == "".join(pieces)


@pytest.mark.parametrize(
    "text",
    [
        "two children[15] and ,[15] (15) house/15 end[3][4]",
        "a) red i. ii) b. - [ ] Buy milk - [x] Bread",
        "50% discount, in 5 %-Schritten, 100 %ig, 5 %d'intérêts, 20 % des",
        "5 < 6 and 7 > 6, if a < b and c > d",
        "a_b_c and f**k, 2*3*4, *.txt or *.pdf",
        "``one'' and ``two'', `one' and `two'",
        "4 · 10 and · · − for V",
        "50 €/Monat, 50 € /Monat, km/h",
        "F$CKED, Ke$ha, US$5, $5 and $6",
        "a {longer remark in braces} here",
        "tally[row x][col y], $_FILES['a'",
        "its author (either/or), he/she",
        "the System/360, 450 kcal/100 g, 2,6 Tonnen/2,99 Tonnen, „gebaut“/geprüft und",
        "-n :Number-of-iterations, :Jump-to-Home, and the key ` is not ` here",
        "groups {for a load of less than 75 W} and {Inglés, Física, Arte, Música, ...}",
    ],
)
def test_prose_has_no_codes(text: str) -> None:
    others = ("variable", "note", "quote")
    assert [match for match in matches(text) if match.kind not in others] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("#नमस्ते और @สวัสดี", ["#नमस्ते", "@สวัสดี"]),
        ("请看https://example.org/a，谢谢", ["https://example.org/a"]),
        (
            "at @icloud.com, @user. @me@a.org @babel/core",
            ["@icloud.com", "@user", "@me@a.org", "@babel/core"],
        ),
        (
            "/users/{id}/posts/:pid /proc/[pid]/fd ./*.txt",
            ["/users/{id}/posts/:pid", "/proc/[pid]/fd", "./*.txt"],
        ),
        ('<p v-if="a > b">', ['<p v-if="a > b">']),
        (
            "<input disabled> <?php echo $a->b ?> <%= a > b %>",
            ["<input disabled>", "<?php echo $a->b ?>", "<%= a > b %>"],
        ),
        ("*${a}* @{b} #{c} !{d} ${{ e }}", ["*${a}*", "@{b}", "#{c}", "!{d}", "${{ e }}"]),
        ("text[[1]](#c) [![a](b)](c)", ["[", "](#c)", "[", "![", "](b)", "](c)"]),
        ("*it is* _so it is_ _fields_", ["*", "*", "_", "_"]),
        ("\x1b[1;31mred\x1b[0m", ["\x1b[1;31m", "\x1b[0m"]),
        ("To: a@b.org\nCc: c@d.org", ["To:", "a@b.org", "Cc:", "c@d.org"]),
        (":flag-us: :name", [":flag-us:", ":name"]),
        ("#debian-women, #a-b:c.org, #MeToo-Debatte", ["#debian-women", "#a-b:c.org", "#MeToo"]),
        ("[.file]#rc.conf#, [.path]#/etc/rc# C#", ["[.file]#", "#", "[.path]#/etc/rc#"]),
        (
            "\\[open models\\] \\*not bold\\* \\[a^2\\] a\\_b",
            ["\\[", "\\]", "\\*", "\\*", "\\[a^2\\]", "a\\_b"],
        ),
        ("in /pɑ̃kʁeas/ and [\\alpha]", ["/pɑ̃kʁeas/", "\\alpha"]),
    ],
)
def test_codes_are_whole(text: str, found: list[str]) -> None:
    assert [text[match.start : match.end] for match in matches(text)] == found
