"""Web pages: markup, encoding, and the attributes that people read."""

from __future__ import annotations

import html
import random
import re

import pytest

from server.documents.reader_process import read_document
from tests.support.texts.document_files import change


def test_pages_keep_markup_and_encoding_and_get_the_new_language():
    data = (
        '<html lang="en"><meta charset="latin-1"><p>Café <b class="x">más</b><!-- no '
        "--><script>a<b</script>"
    ).encode("latin-1")
    made = change("a.html", data).decode("latin-1")
    assert (
        made == '<html lang="de"><meta charset="latin-1"><p>CAFÉ <b class="x">MÁS</b><!-- no '
        "--><script>a<b</script>"
    )
    document = read_document("a.html", data, "de")
    assert b"&#8364;" in document.write(["€" for _ in document.texts])


@pytest.mark.parametrize("encoding", ["punycode", "zip", "idna", "unicode_escape", "nonsense"])
def test_unusual_encodings_of_pages_are_ignored(encoding):
    data = f'<meta charset="{encoding}"><p>é'.encode()
    assert change("a.html", data).decode() == f'<meta charset="{encoding}"><p>É'


def test_a_tag_without_end_does_not_declare_an_encoding():
    assert change("a.html", b"<p>caf\xe9</p><meta charset=utf-16").startswith(b"<p>CAF\xc9</p>")


def test_attributes_that_people_read_are_translated():
    page = (
        '<meta name="description" content="Words &amp; more"><meta name="viewport" content="width">'
        '<img alt="a cat" src="a cat.png">'
        '<input type="submit" value="Send"><input type="text" value="data" placeholder=\'your '
        '"name"\'>'
        '<p title="hint" translate="no">Brand</p><a href="x" title="tip">link</a> &lt;b&gt;'
    )
    made = change("a.html", page.encode()).decode()
    expected = (
        page.replace("Words &amp; more", "WORDS &amp; MORE")
        .replace('"a cat"', '"A CAT"')
        .replace("Send", "SEND")
    )
    expected = (
        expected.replace("'your \"name\"'", "'YOUR \"NAME\"'")
        .replace("tip", "TIP")
        .replace("link", "LINK")
    )
    assert made == expected.replace("&lt;b&gt;", "&lt;B&gt;")


@pytest.mark.parametrize("quote", ['"', "'"])
@pytest.mark.parametrize(
    "value",
    [
        "A nice page",
        "It&#39;s &quot;nice&quot; &amp; long",
        "a > b and c",
        "{{ 'Save' if x else y }} now",
    ],
)
def test_attributes_are_written_as_they_were_read(quote, value):
    if quote in value:
        value = value.replace(quote, "&quot;" if quote == '"' else "&#39;")
    page = (
        f"<p title={quote}{value}{quote}>Text</p><img src=a.png alt = {quote}B {value}{quote} "
        "class='x'>"
    )
    document = read_document("a.html", page.encode(), "de")
    assert document.write(document.texts).decode() == page
    made = document.write([*document.texts[:-2], 'L\'été & "co" &lt;', "neu"]).decode()
    assert (
        html.unescape(re.search(f"title={quote}([^{quote}]*){quote}", made)[1]) == 'L\'été & "co" <'
    )
    assert f"alt = {quote}neu{quote} class='x'" in made


TEMPLATE = """<p>a < b && c > d, R&D &euro;10&nbsp;&hellip;<br>{% if user.age > 18 and x %}<b>Hello</b> {{ a > 1 ? "x" : "y" }}
{# a comment > words #}<!-- > --><ul><li>One &amp two<li>Three</ul><div v-if="a < b">x &lt; y</div><![CDATA[ > ]]>"""


@pytest.mark.parametrize("seed", range(20))
def test_a_page_without_a_change_is_written_as_it_was_read(seed):
    rng = random.Random(seed)
    parts = re.findall(r"<[^>]*>|&\w+;?|[^<&]+|.", TEMPLATE)
    for page in (TEMPLATE, "".join(rng.choices(parts, k=60))):
        document = read_document("a.html", page.encode(), "de")
        assert document.write(document.texts).decode() == page


@pytest.mark.parametrize(
    "sign", ["&euro;", "&#8212;", "&#x2014;", "&nbsp;", "&#160;", "\xa0", "—", "&quot;", "&times;"]
)
def test_signs_are_written_as_the_page_has_them(sign):
    given = f"<p>one {sign} two &amp; x</p><button>{sign}</button><img title='three {sign} four'>"
    assert change("a.html", given.encode()).decode() == given.replace("one", "ONE").replace(
        "two", "TWO"
    ).replace(" x", " X").replace("three", "THREE").replace("four", "FOUR")


def test_templates_are_text():
    page = "<template><p>Some words</p></template>"
    assert change("a.html", page.encode()).decode() == page.replace("Some words", "SOME WORDS")
