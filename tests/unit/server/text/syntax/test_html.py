"""HTML is read as text with codes without loss, and tags follow their words in the translation."""

from __future__ import annotations

import gc
import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.symbols import PLACEHOLDERS
from server.text.finishing import finish
from server.text.reading import StandIns, masked
from server.text.syntax.html import CODES_LIMIT, parse, scan

TAGS = r"""<0>|</0>|<b>|</b>|<i class='x>y'>|</i>|<p>|</p>|<br/>|<img alt="a > b">|</a>|
<a href="?a=1&b=2">|<!-- no --|-->|<!-- c -->|<script>|</script>|if (a<b) {}|<code>|<ui>|</ui>|
</a><a>|</code>|<|>|'|"|<!DOCTYPE html>|<p translate=no>|<span class='a notranslate'>|</span>|
</|<3|&amp;|&nbsp;|&|<ruby>|</ruby>|<em lang=fr>|</em>|<sup>1</sup>|{{ a > b }}|%s""".replace(
    "\n", ""
).split("|")
WORDS = ["one ", "two", " three.", " Four!\n", "  ", "\n\n", "äöü", "😀"]
documents = st.lists(st.sampled_from(TAGS + WORDS), max_size=30).map("".join)


def translated(document: str, target: str, links: str = "") -> str:
    """Returns the only sentence of a document with `target` as what the model wrote."""
    tagged = scan(document, "en")
    text = tagged.text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    sentence = tagged.cut(start, end)
    reading = masked(sentence, StandIns(PLACEHOLDERS).choose(sentence))
    pairs = [link.replace("_", " ").split("=") for link in links.split()]
    known = [(span(reading.text, word), span(target, goal)) for word, goal in pairs]
    finished = finish(sentence, reading, target, known)
    return tagged.with_parts([(start, end, finished.tagged)]).write()


def span(text: str, part: str) -> tuple[int, int]:
    return text.index(part), text.index(part) + len(part)


@given(documents)
def test_nothing_of_a_document_is_lost(document):
    for tagged in (parse(document), scan(document, "en")):
        assert html.unescape(tagged.write()) == html.unescape(document)
        parts = tagged.passages()
        assert "".join(part.write() for part in parts) == tagged.write()
        assert not any(code.splits for part in parts for code in part.codes if code.start > 0)


MOVED = r"""
the <b>red</b> cat | le chat rouge | the=le red=rouge cat=chat | le chat <b>rouge</b>
<p>all <i>of it</i></p> | tout |  | <p><i>tout</i></p>
a <svg>x < y</svg> b | b a | a=a b=b | b a <svg>x < y</svg>
Use <img> now. | Benutze es jetzt. | Use=Benutze_es now=jetzt | Benutze es <img> jetzt.
I use <img>. | Yo uso. | I_use=Yo_uso | Yo uso <img>.
Press <img 1>, <img 2> now | Da, jetzt | Press=Da ,=, now=jetzt | Da <img 1>, <img 2> jetzt
<i>The cat <img></i> | Die Katze | The_cat=Die_Katze | <i>Die Katze <img></i>
a<img>b | ab | ab=ab | a<img>b
one <!-- c --> two | eins zwei | one=eins two=zwei | eins<!-- c --> zwei
<b>whole</b> | ganz & gar |  | <b>ganz &amp; gar</b>
<b>one <i>two</i></b> x | y TWO one | two=TWO one=one x=y | y <b><i>TWO</i> one</b>
# of two runs with the same number of words, the one with more source words
<b>not seen</b> me | no me visto | not=no seen=visto me=me | <b>no me visto</b>
# else the shorter one
<b>my own</b> dog | el chien de mon | own=el own=de my=mon dog=chien | el chien <b>de mon</b>
<b>she</b> <i>has come</i> | kam sie an | she=sie has=kam come=an | <i>kam</i> <b>sie</b> an
The house<sup>1</sup> is | Das Haus ist | house=Haus | Das Haus<sup>1</sup> ist
in 1999<sup>3, *</sup>. | von 1999. | 1999=1999 | von 1999<sup>3, *</sup>.
children<sup><a href="#c">[15]</a></sup> came | Kinder kamen | children=Kinder | Kinder<sup><a href="#c">[15]</a></sup> kamen
all H<sub>2</sub>O is | ist H2O da | H2O=H2O | ist H<sub>2</sub>O da
C<sub>6</sub>H or H<sub>2</sub>O | H2O, C6H |  | H<sub>2</sub>O, C<sub>6</sub>H
the 1<sup>st</sup> day | der 1. Tag | 1st=1 | der 1<sup></sup>. Tag
Use <code>a &lt; b</code> now | jetzt <ph1> |  | jetzt <code>a &lt; b</code>
use <kbd>x</kbd> and <i translate="no">My App</i> | <ph2> und <ph1> |  | <i translate="no">My App</i> und <kbd>x</kbd>
<kbd>x</kbd> or <code>x</code> | <ph1> oder <ph1> |  | <kbd>x</kbd> oder <code>x</code>
<ruby>漢<rt>kan</rt></ruby> is <em lang=fr>la</em> | <ph2> ist <ph1> |  | <em lang=fr>la</em> ist <ruby>漢<rt>kan</rt></ruby>
your <b>$name</b> is | <ph1> ist |  | <b>$name</b> ist
<b>fire</b> <i>dept</i> <u>car</u> | Feuerwehr Auto | fire=Feuerwehr dept=Feuerwehr car=Auto | <b><i>Feuerwehr</i></b> <u>Auto</u>
<b>the</b> <i>big</i> <u>car</u> | Riesenauto | the=Riesenauto big=Riesenauto car=Riesenauto | <b><i><u>Riesenauto</u></i></b>
<b>no</b> it <i>not</i> | niet | no=niet not=niet | <b>niet</b><i></i>
<a>coffee</a> <a>machine</a> | Kaffeemaschine | coffee=Kaffeemaschine machine=Kaffeemaschine | <a>Kaffeemaschine</a><a></a>
say {{ a > b ? 'x' : "y" }} now | sag <ph1> |  | sag {{ a > b ? 'x' : "y" }}
"""
"""Documents, what the model writes, links between words (`_` is a space), translations."""


@pytest.mark.parametrize("row", [row for row in MOVED.strip().splitlines() if row[0] != "#"])
def test_tags_are_moved_with_their_words(row):
    document, target, links, expected = row.split(" | ")
    assert translated(document, target, links) == expected


def test_elements_that_html_does_not_define_belong_to_the_words_before_them() -> None:
    for name in ("ui", "x-icon", "ph", "term1", "o:p", "my-very.long_name"):
        for document, texts in (
            (f"Press <{name}>Save</{name}> now", ["Press Save now"]),
            (f"<p>One <{name} id=1>two</{name}></p>", ["One two"]),
            (f"<{name}>One</{name}><{name}>Two</{name}>", ["One", "Two"]),
            (f"<{name}><p>One</p><p>Two</p></{name}>", ["One", "Two"]),
            (f"see <{name} id='1'/> here", ["see  here"]),
        ):
            assert passages(document) == texts, document


@pytest.mark.parametrize("space", ["", "\n", " \n\t"])
def test_links_beside_each_other_are_texts_of_their_own(space) -> None:
    for names in (["Home", "Contact us"], ["A", "B", "C"], ["<b>One</b> two", "<i>Three</i>"]):
        links = [f'<A href="{number}">{name}</A>' for number, name in enumerate(names)]
        texts = [html.unescape(re.sub("<.*?>", "", name)) for name in names]
        for around in ("<nav>{}</nav>", "{}", "<b>{}</b>", "<p>See</p>{}"):
            document = around.format(space.join(links))
            assert passages(document) == [*["See"] * ("See" in document), *texts], document
    assert passages("See <a>one</a> <a>two</a>") == ["See one two"]


def passages(document: str) -> list[str]:
    tagged = scan(document, "en")
    assert tagged.write() == document
    shown = [part.text.strip() for part in tagged.passages()]
    return [text for text in shown if text]


def test_scripts_comments_and_elements_with_translate_no_are_not_text():
    document = (
        "<script>var a = 'b';</script><!-- c --><style>p {}</style><div "
        "translate='no'>keep</div><p>say</p>"
    )
    assert parse(document).text == "say"


@pytest.mark.parametrize(
    "piece",
    [
        "<",
        "<a ",
        "<a '\">",
        "<!--",
        "<script>",
        "<b>",
        "</b>",
        "<b>x</b> ",
        "<b><i>",
        "&",
        "<a href='",
        "<a {{",
    ],
)
def test_long_documents_of_broken_markup_keep_their_content(piece):
    document = piece * (40_000 // len(piece))
    assert html.unescape(scan(document).write()) == html.unescape(document)


@pytest.mark.parametrize(
    "element",
    [
        "<b>x</b>",
        "<code>x</code>",
        "<svg><path/></svg>",
        '<i translate="no">x</i>',
        "<img>",
        "</b>",
    ],
)
def test_a_passage_has_a_bounded_number_of_codes(element):
    """The time to place codes grows with the square of their number."""
    document = f"a {element} " * (2 * CODES_LIMIT + 10)
    tagged = parse(document)
    assert max(len(part.codes) for part in tagged.passages()) <= 2 * CODES_LIMIT
    assert tagged.write() == document


def test_codes_are_freed_without_the_garbage_collector() -> None:
    parse("<a>one <b>two <i>three</i></b></a> four")
    gc.collect()
    gc.disable()
    try:
        translated("<a>one <b>two <i>three</i></b></a> four", "eins zwei drei vier")
        assert gc.collect() == 0
    finally:
        gc.enable()
