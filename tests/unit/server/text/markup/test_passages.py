"""HTML is split into passages without loss, and tags follow their words in the translation."""

from __future__ import annotations

import gc
import html
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.markup.passages import MARKS_LIMIT, parse_passages
from server.text.markup.transfer import project_marks, with_marks

TAGS = [
    "<0>",
    "</0>",
    "<b>",
    "</b>",
    "<i class='x>y'>",
    "</i>",
    "<p>",
    "</p>",
    "<br/>",
    '<img alt="a > b">',
    "</a>",
    '<a href="?a=1&b=2">',
]
UNBALANCED = ["<!-- no --", "-->", "<!-- c -->", "<script>", "</script>", "if (a<b) {}", "<code>", "</code>", *"<>'\""]
MORE = [
    "<!DOCTYPE html>",
    "<p translate=no>",
    "<span class='a notranslate'>",
    "</span>",
    "</",
    "<3",
    "&amp;",
    "&nbsp;",
    "&",
]
WORDS = ["one ", "two", " three.", " Four!\n", "  ", "\n\n", "äöü", "😀"]
documents = st.lists(st.sampled_from(TAGS + UNBALANCED + MORE + WORDS), max_size=30).map("".join)


spans = st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: (min(pair), max(pair)))


@given(documents, st.text("xyz .", max_size=20), st.lists(st.tuples(spans, spans), max_size=6))
def test_every_mark_is_projected_once_and_nested_for_any_links(document, target, links):
    for passage in parse_passages(document, "html"):
        named = [replace(mark, opening=f"<{i}>", closing=f"</{i}>") for i, mark in enumerate(passage.marks)]
        projected = project_marks(named, passage.text, target, links)
        placed = "".join(part for part, _ in with_marks(projected, target, str))
        assert re.sub(r"</?\d+>", "", placed) == target
        assert sorted(re.findall(r"<\d+>", placed)) == sorted(mark.opening for mark in named)
        stack = []
        for close, number in re.findall(r"<(/?)(\d+)>", placed):
            assert not close or stack.pop() == number
            stack += [] if close else [number]
        assert stack == []


@pytest.mark.parametrize(
    ("document", "target", "links", "expected"),
    [
        (
            "the <b>red</b> cat",
            "le chat rouge",
            [((0, 3), (0, 2)), ((4, 7), (8, 13)), ((8, 11), (3, 7))],
            "le chat <b>rouge</b>",
        ),
        ("<p>all <i>of it</i></p>", "tout", [], "<p><i>tout</i></p>"),
        ("a <svg>x < y</svg> b", "b a", [((0, 1), (2, 3)), ((3, 4), (0, 1))], "b a <svg>x < y</svg>"),
        (
            "Use <img> now.",
            "Benutze es jetzt.",
            [((0, 3), (0, 10)), ((5, 8), (11, 16))],
            "Benutze es <img> jetzt.",
        ),
        ("I use <img>.", "Yo uso.", [((0, 5), (0, 6))], "Yo uso <img>."),
        (
            "Press <img 1>, <img 2> now",
            "Da, jetzt",
            [((0, 5), (0, 2)), ((6, 7), (2, 3)), ((9, 12), (4, 9))],
            "Da <img 1>, <img 2> jetzt",
        ),
        ("<i>The cat <img></i>", "Die Katze ", [((0, 7), (0, 9))], "<i>Die Katze <img></i>"),
        ("A. <img> B.", "X.  Y.", [((0, 2), (0, 2)), ((4, 6), (4, 6))], "X. <img> Y."),
        ("use <img>, now", "nun , ja", [((0, 3), (0, 3))], "nun <img>, ja"),
        ("a <img> b", "b  a", [((0, 1), (3, 4)), ((3, 4), (0, 1))], "b  a <img>"),
        ("a<img>b", "ab", [((0, 2), (0, 2))], "a<img>b"),
        ("one <!-- c --> two", "eins zwei", [((0, 3), (0, 4)), ((5, 8), (5, 9))], "eins<!-- c --> zwei"),
        ("<b>whole</b>", "ganz & gar", [], "<b>ganz &amp; gar</b>"),
        (
            "<b>one <i>two</i></b> x",
            "y TWO one",
            [((4, 7), (2, 5)), ((0, 3), (6, 9)), ((8, 9), (0, 1))],
            "y <b><i>TWO</i> one</b>",
        ),
        (  # of two runs with the same number of words, the one with more source words
            "<b>not seen</b> me",
            "no me visto",
            [((0, 3), (0, 2)), ((4, 8), (6, 11)), ((9, 11), (3, 5))],
            "<b>no me visto</b>",
        ),
        (  # else the shorter one
            "<b>my own</b> dog",
            "el chien de mon",
            [((3, 6), (0, 2)), ((3, 6), (9, 11)), ((0, 2), (12, 15)), ((7, 10), (3, 8))],
            "el chien <b>de mon</b>",
        ),
        (
            "<b>she</b> <i>has come</i>",
            "kam sie an",
            [((0, 3), (4, 7)), ((4, 7), (0, 3)), ((8, 12), (8, 10))],
            "<i>kam</i> <b>sie</b> an",
        ),
        ("The house<sup>1</sup> is", "Das Haus ist", [((4, 9), (4, 8))], "Das Haus<sup>1</sup> ist"),
        ("in 1999<sup>3, *</sup>.", "von 1999.", [((3, 7), (4, 8))], "von 1999<sup>3, *</sup>."),
        ("all H<sub>2</sub>O is", "ist H2O da", [((4, 7), (4, 7))], "ist H<sub>2</sub>O da"),
        ("C<sub>6</sub>H or H<sub>2</sub>O", "H2O, C6H", [], "H<sub>2</sub>O, C<sub>6</sub>H"),
        ("the 1<sup>st</sup> day", "der 1. Tag", [((4, 7), (4, 5))], "der 1<sup></sup>. Tag"),
        ("a word<sup>[1]</sup>", "ein Wort[1]", [((6, 9), (8, 11))], "ein Wort<sup>[1]</sup>"),
        ("Use <code>a &lt; b</code> now", "jetzt `a < b`", [], "jetzt <code>a &lt; b</code>"),
        (
            'use <kbd>x</kbd> and <i translate="no">My App</i>',
            "`My App` und `x`",
            [],
            '<i translate="no">My App</i> und <kbd>x</kbd>',
        ),
        (  # a tag holds an element or it does not
            "<b>call <var>x y</var></b> now",
            "jetzt `x y` rufen",
            [((0, 4), (12, 17)), ((5, 10), (7, 8)), ((11, 14), (0, 5))],
            "jetzt <b><var>x y</var> rufen</b>",
        ),
        ("<kbd>x</kbd> or <code>x</code>", "`x` oder", [((4, 6), (4, 8))], "<kbd>x</kbd> oder <code>x</code>"),
        ("`a <code>x</code>", "`ein", [((0, 2), (0, 4))], "`ein <code>x</code>"),
    ],
)
def test_tags_are_moved_with_their_words(document, target, links, expected):
    passages = parse_passages(document, "html")
    [translated] = [passage for passage in passages if passage.text.strip()]
    assert (
        "".join(p.translated(target, links).render() if p is translated else p.render() for p in passages) == expected
    )


def test_scripts_comments_and_elements_with_translate_no_are_not_text():
    document = "<script>var a = 'b';</script><!-- c --><style>p {}</style><div translate='no'>keep</div><p>say</p>"
    assert "".join(passage.text for passage in parse_passages(document, "html")) == "say"


@pytest.mark.parametrize(
    "piece", ["<", "<a ", "<a '\">", "<!--", "<script>", "<b>", "</b>", "<b>x</b> ", "<b><i>", "&", "<a href='"]
)
def test_long_documents_of_broken_markup_keep_their_content(piece):
    document = piece * (40_000 // len(piece))
    passages = parse_passages(document, "html")
    rendered = "".join(passage.translated(passage.text.upper()).render() for passage in passages)
    assert len(html.unescape(rendered)) == len(html.unescape(document))


@pytest.mark.parametrize(
    "element", ["<b>x</b>", "<code>x</code>", "<svg><path/></svg>", '<i translate="no">x</i>', "<img>", "</b>"]
)
def test_a_passage_has_a_bounded_number_of_marks(element):
    """The time to place marks grows with the square of their number."""
    document = f"a {element} " * (2 * MARKS_LIMIT + 10)
    passages = parse_passages(document, "html")
    assert max(len(passage.marks) for passage in passages) <= MARKS_LIMIT
    assert "".join(passage.render() for passage in passages) == document


def test_markup_is_freed_without_the_garbage_collector() -> None:
    [passage] = parse_passages("<a>one <b>two <i>three</i></b></a> four", "html")
    gc.collect()
    gc.disable()
    try:
        passage.translated("eins zwei drei vier").render()
        assert gc.collect() == 0
    finally:
        gc.enable()
