"""Codes of plain text: what is found in a text, alone or with the codes of a document. Nothing is
lost, pairs are nested, and no code is torn."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.text.syntax.plain import NUMBER_SIGN, scan
from server.text.tagged import Code, Tagged
from tests.support.texts.matched import marked_codes, matches, unmarked


@pytest.mark.parametrize(
    "row",
    [
        "⟦#नमस्ते⟧ और ⟦@สวัสดี⟧",
        "请看⟦https://example.org/a⟧，谢谢",
        "at ⟦@icloud.com⟧, ⟦@user⟧. ⟦@me@a.org⟧ ⟦@babel/core⟧",
        "⟦/users/{id}/posts/:pid⟧ ⟦/proc/[pid]/fd⟧ ⟦./*.txt⟧",
        '⟦<p v-if="a > b">⟧',
        "⟦<input disabled>⟧ ⟦<?php echo $a->b ?>⟧ ⟦<%= a > b %>⟧",
        "⟦*${a}*⟧ ⟦@{b}⟧ ⟦#{c}⟧ ⟦!{d}⟧ ⟦${{ e }}⟧",
        "text⟦[⟧[1]⟦](#c)⟧ ⟦[⟧⟦![⟧a⟦](b)⟧⟦](c)⟧",
        "⟦*⟧it is⟦*⟧ ⟦_⟧so it is⟦_⟧ _fields_",
        "⟦\x1b[1;31m⟧red⟦\x1b[0m⟧",
        "⟦To:⟧ ⟦a@b.org⟧\n⟦Cc:⟧ ⟦c@d.org⟧",
        "⟦:flag-us:⟧ ⟦:name⟧",
        "⟦#debian-women⟧, ⟦#a-b:c.org⟧, ⟦#MeToo⟧-Debatte",
        "⟦[.file]#⟧rc.conf⟦#⟧, ⟦[.path]#/etc/rc#⟧ C#",
        r"⟦\[⟧open models⟦\]⟧ ⟦\*⟧not bold⟦\*⟧ ⟦\[a^2\]⟧ ⟦a\_b⟧",
        r"in ⟦/pɑ̃kʁeas/⟧ and [⟦\alpha⟧]",
        "⟦%s⟧ ⟦%d⟧ ⟦%1$s⟧ ⟦%(name)s⟧ ⟦%-5.2f⟧ ⟦%lu⟧ ⟦%@⟧",
        "⟦%d%%⟧ of ⟦%s%%⟧",
        "⟦%1⟧ of ⟦%L2⟧, ⟦%n⟧ files",
        "⟦{0}⟧ ⟦{name}⟧ ⟦{}⟧ ⟦{{user.first}}⟧ ⟦{{{raw}}}⟧ ⟦{a: {b}}⟧",
        "⟦${count}⟧ ⟦$HOME/bin⟧ ⟦$(date)⟧ ⟦#{user.name}⟧",
        "⟦%{ruby}⟧ ⟦%<price>.2f⟧ ⟦:rails⟧ ⟦@drupal⟧ ⟦@@drupal⟧",
        '⟦<x id="1"/>⟧ ⟦<ph/>⟧ <your name>',
        "⟦<keep>a b</keep>⟧ ⟦<b translate=no>c</b>⟧",
        "⟦<% user.name %>⟧ ⟦{% if a %}⟧",
        "⟦`a. b`⟧ and ⟦``c ` d``⟧",
        r"⟦$x^2$⟧ and ⟦$$a$$⟧ and ⟦\(b\)⟧ and ⟦\cite{c}⟧",
        r"⟦/etc/hosts⟧ ⟦./run.sh⟧ ⟦~/x⟧ ⟦src/a.py⟧ ⟦C:\Temp\a.txt⟧",
        "⟦&amp;⟧ ⟦&#8594;⟧ ⟦&nbsp;⟧",
        "⟦#news⟧ at ⟦https://a.org/b?c=d⟧. (⟦www.a.org⟧)",
        "⟦https://a.org/b_(c)⟧ (⟦https://a.org/d_(e)_f⟧), ok",
        "⟦https://a.org/a[1]?b={c}&d⟧, ⟦http://[::1]:8/e⟧.",
        "see link:⟦https://a.org⟧[the page] and ⟦www.a.org⟧.",
        "die ⟦/usr/⟧-Ordner und ⟦/bin/sh⟧-Programme",
        '"⟦My house 2 (old).pdf⟧" and „⟦Mein Haus.docx⟧“',
        "web1 ⟦sshd[901]⟧: closed, children⟦[15]⟧: red",
        "[⟦--a=b⟧] [⟦--c[=d]⟧] (⟦--e⟧)",
        r"You found ⟦$X$⟧.⟦\w⟧How many?",
        r"Figure⟦~⟧⟦\ref{a}⟧ and ⟦~/b⟧",
        "Hallo ⟦:name⟧, ⟦:other⟧ ist da",
        "une ère :Les jours sont, un verre :un",
        "die 5-%-Hürde und 20 %-Klausel",
        'is """ and (""" three)',
        "a '_' or '_', Wf > Wi",
        "⟦${a:-x y}⟧ and ⟦#{b}⟧ (⟦%1$@⟧)",
        "Run⟦`make`⟧now, set⟦`a=1`⟧and⟦`b`⟧",
        "l`homme d`affaires, rock`n`roll",
        "你好⟦__name__⟧欢迎, ⟦__name__⟧",
        "ask in ⟦r/name⟧ or ⟦u/name-1⟧",
        "a r/w file, and/or, his/her",
        "costs $5 and $6, or 5$ and 6$",
        "50% of it, 100%, 20 % des Umsatzes",
        "if a < b and c > d, and/or e",
        "At 10:30: he said: no!",
        "don&#39;t",
        "Wait... what? [sic] (see below)",
        "3 * 4 * 5",
        "two children⟦[15]⟧ and ,[15] (15) house⟦/15⟧ end⟦[3][4]⟧",
        "a) red i. ii) b. - [ ] Buy milk - [x] Bread",
        "50% discount, in 5 %-Schritten, 100 %ig, 5 %d'intérêts, 20 % des",
        "5 < 6 and 7 > 6, if a < b and c > d",
        "a_b_c and f**k, 2*3*4, *.txt or *.pdf",
        "``one'' and ``two'', ⟦`⟧one⟦'⟧ and ⟦`⟧two⟦'⟧",
        "4 · 10 and · · − for V",
        "50 €/Monat, 50 € /Monat, km/h",
        "F$CKED, Ke$ha, US$5, $5 and $6",
        "a {longer remark in braces} here",
        "tally[row x][col y], ⟦$_FILES⟧['a'",
        "its author (either/or), he/she",
        "the System/360, 450 kcal/100 g, 2,6 Tonnen/2,99 Tonnen, „gebaut“/geprüft und",
        "-n :Number-of-iterations, :Jump-to-Home, and the key ` is not ` here",
        "groups {for a load of less than 75 W} and {Inglés, Física, Arte, Música, ...}",
        "PLEASE SELECT A SEAT FROM THE LIST AND UPDATE YOUR DATA.",
        "You can SELECT one FROM the list.",
        "INSERT COIN (25 CENTS) INTO SLOT; PRESS START",
        "DELETE ALL FILES FROM TABLE 5",
        "Please UPDATE the SET of tools.",
        "UPDATE software",
        "[tom]: note: this and that",
        "Comment: this is red, and that is blue.",
        "At 10:30 --> we left",
        "f = m a",
        'He said "yes", and she said "no".',
        "error: the house is open",
        "Note: This is red.",
        "Yes,I do\nNo,he does not",
        "They are red,\nthey are blue,\nthey are sweet,\nand so are we.",
        "It cost 1,000 euros\nand 2,000 euros\nand 3,000 euros",
        "At HH:MM:SS we leave",
        "-X turns it on",
        "speed = distance / time",
        "the word(s), a colo(u)r (here) and he said[sic] it",
        "yes -- but no--or maybe - and so on",
        "I said no. Five people left. State of the art. The end",
        "5 < 6, 7 > 3; a, b and c",
        "aged 5, - he; in 1850,—the year; pages 5,-6; nine,- ten",
        'a house ("the red one") and Mr. Smith ("Joe")',
        "black/white",
        "and/or",
        "e.g. this/that",
        "the U.S./Canada border",
    ],
)
def test_codes(row: str) -> None:
    assert marked_codes(row) == row


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("[the book](http://a.org/x)", ["open", "close"]),
        ("![alt](a.png)", ["open", "close"]),
        ("<b>bold</b> **strong**", ["open", "close", "open", "close"]),
        ("&lt;b&gt;bold&lt;/b&gt; and 1 &lt; 2", ["open", "close", "point"]),
        ("\ue001 Home \ue002Log out, press \ue003 to go", ["break", "break"]),
        ("press \ue003 Home or \ue003 to go", []),
        ("‹ Back", ["break"]),
        ("<b>one <i>two</b> three</i>", ["open", "point", "close", "point"]),
        ("</b> and ** alone", ["point"]),
        ("enter <name> here", ["word"]),
        ("see [[https://a.org][this page]] or a]]", ["open", "close"]),
        ("[*]One", ["break"]),
        ("{% assign a = 1 %}All {{!-- no --}}Good", ["break", "point"]),
        ("one<br>two\\nthree", ["break", "break"]),
        ("One.<3/>Two and <3/>two", ["break", "word"]),
        ("{{#if a}}One{{else}}Two{{/if}}", ["open", "break", "close"]),
        ("{% if a %}One{% elif b %}Two{% endif %}", ["open", "break", "close"]),
        ("The {{^big}}small{{/big}} house of {{name}}", ["open", "close", "word"]),
        ("{% for x in y %}{{ x }}{% endfor %} {% url 'a' %}", ["word", "word"]),
        ("<color=#ff0000>One</color> <size=20>two</size>", ["open", "close", "open", "close"]),
        (
            "[b]One[/b] [url=https://a.org/x]two [i]three[/i][/url] [sic]",
            ["open", "close", "open", "open", "close", "close"],
        ),
        ("<![CDATA[<b>One</b> two]]>", ["break", "open", "close", "break"]),
        (
            "Don\\'t. User''s ''{0}'' {1}''s",
            ["apostrophe", "apostrophe", "word", "word", "apostrophe"],
        ),
        ("```\ncode. Code.\n```\ntext", ["break"]),
        ("{n, plural, one {# file} other {# files}}", ["message"]),
        ("{n, plural, one {# file}", ["word", "word"]),
        ("Home | About us › Legal notice · Press", ["break", "break", "break"]),
        ("Settings > Privacy > Location", ["break", "break"]),
        ("a > b, x || y, a|b, 5>3 and 7 > 6", []),
        ("| one | two |", ["break", "break", "break"]),
    ],
)
def test_roles(text: str, roles: list[str]) -> None:
    assert [span.role for span in matches(text)] == roles


def test_terms_are_found_as_whole_words() -> None:
    text = "Acme and Acme Inc, not Acmeville: C++ stays."
    found = matches(text, ("Acme", "Acme Inc", "C++", " "))
    assert [text[span.start : span.end] for span in found] == ["Acme", "Acme Inc", "C++"]
    assert matches("Acme", ("", " ")) == []


@given(st.text("{}%$<>/:.@#*`\\[]()!&;a1 \n~|›·,=\"'", max_size=40))
def test_spans_are_in_order_and_do_not_overlap(text: str) -> None:
    spans = matches(text)
    assert all(left.end <= right.start for left, right in pairwise(spans))
    assert all(0 <= span.start < span.end <= len(text) for span in spans)


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
    "row",
    [
        "your ⟦<b>$name</b>⟧ is",
        "⟦#<i>tag</i>⟧ x",
        "⟦@{<b>user</b>}⟧ x",
        "⟦<b>%d</b>-%d⟧",
        "see ⟦<b>http://a.org/<i>x</i></b>⟧",
        "a ⟦<b>⟧word ⟦{0}⟧⟦</b>⟧",
        "⟦<b>⟧⟦**⟧a⟦</b>⟧⟦**⟧ b",
        "`a ⟦<p>⟧b` ⟦<p>⟧⟦`c`⟧",
        "⟦{n, plural, one {⟧⟦<b>#</b>⟧ file⟦} other {⟧files⟦}}⟧",
    ],
)
def test_a_code_has_the_tags_within_it(row: str) -> None:
    text, tags, opened = "", [], []
    for piece in re.split("(</?[a-z]>)", unmarked(row)):
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
    written, done = "", 0
    for code in scanned.codes:
        data = code.equiv if code.data is None else code.data
        written += f"{scanned.text[done : code.start]}⟦{data}⟧"
        done = code.end
    assert written + scanned.text[done:] == row
    assert scanned.write() == unmarked(row)
