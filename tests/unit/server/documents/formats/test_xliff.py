"""XLIFF: every source without a translation gets a target, with its inline codes around or between
the same words."""

from __future__ import annotations

import re

import pytest

from server.documents.document import tagged_of
from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from tests.support.texts.document_files import change

XLIFF_1 = """<?xml version='1.0' encoding='UTF-8' standalone='yes'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
  <file original="a" source-language="en" datatype="plaintext"><body>
    <trans-unit id="1"><source>Hello <g id="1">big</g> <x id="2"/>world</source></trans-unit>
    <trans-unit id="2"><source>Old words</source><target state="final">Alte Worte</target></trans-unit>
    <trans-unit id="3"><source>New words</source><target state="new">x<x id="1"/></target><note>A note</note></trans-unit>
    <trans-unit id="4" translate="no"><source>Brand</source></trans-unit>
    <trans-unit id="5"><source>A &lt;b&gt; and <mrk mtype="protected">Acme</mrk> here</source></trans-unit>
  </body></file>
</xliff>"""
XLIFF_2 = """<?xml version='1.0' encoding='UTF-8' standalone='yes'?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.1" srcLang="en">
  <file id="f"><unit id="1"><notes><note>A note</note></notes>
    <segment state="initial"><source>Click <pc id="1">this<ph id="2"/></pc> now</source></segment>
    <segment><source>Done</source><target>Fertig</target></segment>
  </unit></file>
</xliff>"""


def test_version_1():
    expected = XLIFF_1
    for before, after in (
        ('datatype="plaintext"', 'datatype="plaintext" target-language="de"'),
        (
            "world</source>",
            'world</source><target>HELLO <g id="1">BIG</g> <x id="2"/>WORLD</target>',
        ),
        ('"new">x<x id="1"/></target>', '"needs-review-translation">NEW WORDS</target>'),
        (
            "here</source>",
            'here</source><target>A &lt;B&gt; AND <mrk mtype="protected">Acme</mrk> HERE</target>',
        ),
    ):
        expected = expected.replace(before, after)
    assert change("a.xlf", XLIFF_1.encode()).decode() == expected


def test_version_2():
    made = change("a.xliff", XLIFF_2.encode()).decode()
    expected = XLIFF_2.replace('srcLang="en"', 'srcLang="en" trgLang="de"').replace(
        '"initial"', '"translated"'
    )
    target = '<target>CLICK <pc id="1">THIS<ph id="2"/></pc> NOW</target>'
    assert made == expected.replace("now</source>", f"now</source>{target}")


SEGMENT = '<mrk mtype="seg" mid="%s">%s</mrk>'


@pytest.mark.parametrize(
    ("segments", "target", "expected"),
    [
        ("{1:One.} {2:Two.}", "", "<target>{1:ONE.} {2:TWO.}</target>"),
        (
            '<g id="1">{1:One.} {2:<x id="2"/>Two.}</g>',
            "",
            '<target><g id="1">{1:ONE.} {2:<x id="2"/>TWO.}</g></target>',
        ),
        ("{1:One.} {2:12}", "<target/>", "<target>{1:ONE.} {2:12}</target>"),
        (
            "{1:One.} {2:Two.}",
            "<target>{1:Eins.} {2:}</target>",
            "<target>{1:Eins.} {2:TWO.}</target>",
        ),
        (
            "{1:One.} {2:Two.}",
            "<target>{1:Eins.} {2:Zwei.}</target>",
            "<target>{1:Eins.} {2:Zwei.}</target>",
        ),
        (
            "{1:One.}",
            '<target state="new">{1:One.}</target>',
            '<target state="needs-review-translation">{1:ONE.}</target>',
        ),
        ("One.", "", "<target>ONE.</target>"),
    ],
)
def test_segments_of_a_source_are_segments_of_the_target(segments, target, expected):
    def written(text: str) -> str:
        return re.sub(r"\{(\d):(.*?)\}", lambda match: SEGMENT % match.groups(), text)

    source = re.sub(r"\{\d:(.*?)\}", r"\1", segments)
    head = '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body><trans-unit id="1">'
    before = f"{head}<source>{source}</source><seg-source>{written(segments)}</seg-source>{written(target)}"
    made = change("a.xlf", f"{before}</trans-unit></body></file></xliff>".encode()).decode()
    assert made.partition("</seg-source>")[2].partition("</trans-unit>")[0] == written(expected)


@pytest.mark.parametrize(
    "content", ["<xliff/>", "<x", '<!DOCTYPE x [<!ENTITY a "b">]><xliff>&a;</xliff>']
)
def test_other_files_are_rejected(content):
    with pytest.raises(InvalidRequest):
        read_document("a.xlf", content.encode(), "de")


@pytest.mark.parametrize("namespace", ["1.2", "1.1", "1.0", "2.0", "2.1", "2.2", ""])
def test_every_version_and_files_without_a_namespace(namespace):
    second = namespace.startswith("2")
    source = XLIFF_2 if second else XLIFF_1
    named = re.search(' xmlns="[^"]*"', source)[0]
    given = f' xmlns="urn:oasis:names:tc:xliff:document:{namespace}"' if namespace else ""
    made = change("a.xlf", source.replace(named, given).encode()).decode()
    assert (
        made.replace(given, named, 1) == change("a.xlf", source.encode()).decode()
        if given
        else "<target>HELLO" in made
    )


@pytest.mark.parametrize(
    ("unit", "state", "translated"),
    [
        ("", "", True),
        ("", ' state="translated"', False),
        (' approved="yes"', "", False),
        ("", ' state="new"', True),
    ],
)
def test_a_target_that_repeats_its_source_is_translated(unit, state, translated):
    text = (
        f"<trans-unit{unit}><source>Save all <g id='1'>now</g></source><target{state}>Save  all "
        "now</target></trans-unit>"
    )
    head = '<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file><body>'
    made = change("a.xlf", f"{head}{text}</body></file></xliff>".encode()).decode()
    assert ("SAVE ALL" in made) == translated


@pytest.mark.parametrize(
    "head",
    [
        '<?xml version="1.0" encoding="UTF-8"?>\n<!-- <xliff -->\n',
        '<!DOCTYPE xliff PUBLIC "-//XLIFF//DTD XLIFF//EN" '
        '"http://www.oasis-open.org/committees/xliff/documents/xliff.dtd">\n',
    ],
)
def test_only_targets_change(head: str) -> None:
    unit = '<trans-unit id="1"><source>&amp;Save &lt;x&gt;</source>{}</trans-unit>'
    file = '<xliff version="1.0"><file target-language="de"><body>{}</body></file></xliff>\n\n'
    given, expected = [
        head + file.format(unit.format(each))
        for each in ("", "<target>&amp;SAVE &lt;X&gt;</target>")
    ]
    assert read_document("a.xlf", given.encode(), "de").texts == ("Save <x>",)
    assert change("a.xlf", given.encode()).decode() == expected


@pytest.mark.parametrize(
    ("version", "start", "end"),
    [
        ("1.2", '<bpt id="{}">&lt;b&gt;</bpt>', '<ept id="{}">&lt;/b&gt;</ept>'),
        ("1.2", '<bpt id="a{0}" rid="{0}"/>', '<ept id="b{0}" rid="{0}"/>'),
        ("2.0", '<sc id="{}"/>', '<ec startRef="{}"/>'),
    ],
)
@pytest.mark.parametrize(
    ("shape", "roles"),
    [
        ("0 one /0 two", ["sc", "ec"]),
        ("0 one 1 two /1 three /0", ["sc", "sc", "ec", "ec"]),
        ("/0 one 0 two", ["ph", "ph"]),
        ("0 one <mrk id='m'>two /0</mrk> three", ["ph", "sc", "ph", "ec"]),
        ("0 one 1 two /0 three", ["ph", "ph", "ph"]),
    ],
)
def test_paired_codes_surround_their_words(version, start, end, shape, roles):
    def code(found):
        return (end if found[1] else start).format(found[2])

    content = re.sub(r"(/?)(?<![<\w])(\d)", code, shape)
    unit, outer = ("trans-unit", "file") if version == "1.2" else ("segment", "unit")
    head = f'<xliff xmlns="urn:oasis:names:tc:xliff:document:{version}" version="{version}">'
    data = f"{head}<{outer}><{unit}><source>{content}</source></{unit}></{outer}></xliff>"
    [text] = read_document("a.xlf", data.encode(), "de").texts
    assert [each.role for each in tagged_of(text, "coded").codes] == roles
    made = change("a.xlf", data.encode(), str.upper).decode()
    assert all(made.count(mark) == 2 for mark in re.findall(r"<(?:[be]pt|sc|ec) [^<>]*>", content))
