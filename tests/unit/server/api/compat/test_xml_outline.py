"""XML under DeepL's interface: the outline is detected, and every answer is well-formed with the
structure of its source.

The fake worker reverses the letters of every passage, so the letters of an element show where its
words came from.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from lxml import etree

from server.text.syntax import html
from server.text.syntax.xml import Rules, mark_outline, scan, tokens

CORPUS = (Path(__file__).parent / "xml_corpus.txt").read_text(encoding="utf-8").split("\n%%%\n")
PROLOGUE = re.compile(r"(?:\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>)*", re.DOTALL)
LANGUAGES = (("EN", "DE"), ("EN", "FR"), ("DE", "EN-GB"))


@pytest.mark.parametrize("name", ["ph", "x", "ns:ref", "x1"])
@pytest.mark.parametrize("syntax", ["xml", "html"])
def test_what_is_not_translated_stands_for_a_word(name, syntax):
    ignored = frozenset({name})

    def words(text, ignored=frozenset()):
        rules = Rules(ignored=ignored)
        tagged = scan(text, rules) if syntax == "xml" else html.scan(text, "en", ignored)
        assert tagged.write() == text
        return [code.equiv for code in tagged.codes if code.word]

    for element in (f"<{name}/>", f"<{name} id='1'></{name}>"):
        for text in ("found in {}.", "the {} was", "Hello, {}!", "see {}"):
            assert words(text.format(element)) == [""], text
        for text in ("{}Hello", "one{} two", "<p>{}</p>", "one{}"):
            assert words(text.format(element)) == [], text
    assert words("see <br/> here") == []
    assert words(f"the <{name}>a &amp; <i>b</i></{name}> was", ignored) == ["a & b"]


def translated(client, text, source="EN", target="DE", **fields):
    body = {
        "text": [text],
        "source_lang": source,
        "target_lang": target,
        "tag_handling": "xml",
    } | fields
    answer = client.post("/v2/translate", json=body)
    assert answer.status_code == 200, answer.json()
    return answer.json()["translations"][0]["text"]


def parsed(document):
    """Returns the root; a fragment has one around it."""
    parser = etree.XMLParser(resolve_entities=False, strip_cdata=False)
    try:
        return etree.fromstring(document.strip().encode(), parser)
    except etree.XMLSyntaxError:
        return etree.fromstring(f"<fragment>{document}</fragment>".encode(), parser)


def described(node):
    parent = node.getparent()
    return (
        str(node.tag),
        node.text if callable(node.tag) else "",
        str(sorted(node.attrib.items())),
        parent is not None and parent.tag,
    )


def words(node):
    """Returns how often each letter and digit occurs in an element."""
    return Counter(
        re.findall(
            r"[^\W_]", node.xpath("string()").casefold() if isinstance(node.tag, str) else ""
        )
    )


def is_apart(node):
    """Whether no words stand beside the element or beside one around it: its words are its own."""
    # formats words, as in "<p><b>Name</b>: <i>Anna</i></p>"
    if node.tag in ("b", "i") and node.getparent().tag == "p":
        return False
    own = [
        text
        for parent in node.iterancestors()
        for text in (parent.text, *[child.tail for child in parent])
    ]
    return not re.search(r"\w", "".join([text for text in own if text]))


@pytest.mark.parametrize(("source_lang", "target_lang"), LANGUAGES)
@pytest.mark.parametrize("outline", [True, False])
def test_every_answer_is_well_formed_and_has_the_elements_of_its_source(
    client, source_lang, target_lang, outline
):
    for document in CORPUS:
        answer = translated(client, document, source_lang, target_lang, outline_detection=outline)
        assert answer.startswith(PROLOGUE.match(document)[0])
        before, after = parsed(document), parsed(answer)
        assert Counter(map(described, before.iter())) == Counter(map(described, after.iter())), (
            document
        )
        for tree in (document, answer) if outline else ():
            assert tree.count("<![CDATA[") == document.count("<![CDATA[")


@pytest.mark.parametrize(("source_lang", "target_lang"), LANGUAGES)
def test_an_element_has_the_words_of_the_same_element_only(client, source_lang, target_lang):
    for document in CORPUS:
        before = parsed(document)
        after = parsed(translated(client, document, source_lang, target_lang))
        pairs = [[node for node in root.iter() if is_apart(node)] for root in (before, after)]
        assert [described(node) for node in pairs[0]] == [described(node) for node in pairs[1]], (
            document
        )
        for source, target in zip(*pairs, strict=True):
            assert words(source) == words(target), document


@pytest.mark.parametrize(
    ("document", "fields", "expected"),
    [
        ("<t>one</t><t>two</t>", {}, "<t>eno</t><t>owt</t>"),
        ("<t>one </t><t>two</t>", {"non_splitting_tags": ["t"]}, "<t>owt</t> <t>eno</t>"),
        ("<t>one </t><t>two</t>", {"outline_detection": False}, "<t>owt</t> <t>eno</t>"),
        (
            "<t>one </t><t>two</t>",
            {"outline_detection": "0", "splitting_tags": "t"},
            "<t>eno </t><t>owt</t>",
        ),
        ("<t>one</t> two", {"splitting_tags": ["t"]}, "<t>eno</t> owt"),
        (
            "<t>one</t><k>two</k><t>three</t>",
            {"ignore_tags": ["k"]},
            "<t>eno</t><k>two</k><t>eerht</t>",
        ),
        ("one<br/>two", {}, "eno<br/>owt"),
        ("<b>one<par/>two</b> three", {"splitting_tags": ["par"]}, "<b>eno<par/>owt</b> eerht"),
        (
            "<e>one</e> two <l><e>three</e><e>four</e></l>",
            {},
            "<e>eno</e> owt <l><e>eerht</e><e>ruof</e></l>",
        ),
    ],
)
def test_parameters_change_the_outline(client, document, fields, expected):
    assert translated(client, document, **fields) == expected


def test_more_tags_in_a_sentence_than_it_can_hold_stay_in_order(client):
    document = "<p>" + "".join(f"word <b n='{n}'>and<i/></b> &x{n}; " for n in range(300)) + "</p>"
    assert re.findall(r"<[^>]*>|&\w+;", translated(client, document)) == re.findall(
        r"<[^>]*>|&\w+;", document
    )


@pytest.mark.parametrize(
    "piece",
    [
        "<a",
        "<a b='",
        "<!--",
        "<![CDATA[",
        "<!DOCTYPE a [<!--",
        "<?",
        "</a>",
        "<a>",
        "<a><b>",
        "&x;",
        "]]>",
    ],
)
def test_markup_that_is_not_well_formed_is_kept_in_linear_time(piece):
    for document in (piece * 20_000, f"one {piece} two", f"<p>{piece}one</p>"):
        found = tokens(document)
        mark_outline(found, Rules())
        assert "".join(token.raw for token in found) == document
