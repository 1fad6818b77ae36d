"""Files of messages: gettext, JSON and YAML."""

from __future__ import annotations

import json
import math
import time

import polib
import pytest
import yaml

from server.documents.formats.messages import COMMENT, blank
from server.documents.reader_process import read_document
from server.errors import InvalidRequest
from tests.support.texts.document_files import change, unchanged

PO = """# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

#: a.py:1
msgid "Hello there"
msgstr ""

#, fuzzy, python-format
msgctxt "menu"
msgid "Open %s\\n"
msgstr "Alt\\n"

msgid "One file"
msgid_plural "Many files"
msgstr[0] ""
msgstr[1] ""

msgid "Done"
msgstr "Fertig"

#~ msgid "Old"
#~ msgstr ""
"""
JSON = """{
    "title": "Hello \\"you\\"",  "n": 1.0,
    "nested": {"list": ["one thing", "two", true, null], "empty": "", "url": "https://x.org/a", "id": "menu.file"}
}
"""
YAML = """# comment
en:
  greeting: Hello there   # another
  "quoted": "Line\\nnext"
  'single': 'It''s here'
  yes: true
  number: 12
  literal: |
    First line
      indented

    second
  folded: >-
    Some folded
    text
  list: [one thing, "two", &a three things, *a]
"""


def test_gettext_messages_get_a_translation():
    catalog = polib.pofile(change("a.po", PO.encode()).decode())
    assert catalog.metadata["Language"] == "de"
    entries = {entry.msgid: entry for entry in catalog}
    assert entries["Hello there"].msgstr == "HELLO THERE"
    assert (entries["Open %s\n"].msgstr, entries["Open %s\n"].flags) == (
        "OPEN %S\n",
        ["python-format"],
    )
    assert entries["One file"].msgstr_plural == {0: "ONE FILE", 1: "MANY FILES"}
    assert entries["Done"].msgstr == "Fertig"
    assert len(catalog.obsolete_entries()) == 1


def test_a_template_gets_a_plural_rule():
    made = read_document(
        "a.pot", PO.replace('"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n', "").encode(), "ja"
    )
    catalog = polib.pofile(made.write(made.texts).decode())
    assert catalog.metadata["Plural-Forms"] == "nplurals=1; plural=0;"
    assert next(entry for entry in catalog if entry.msgid_plural).msgstr_plural == {0: "Many files"}


def test_the_fields_that_xgettext_leaves_open_are_filled_in():
    template = PO.replace("nplurals=2; plural=(n != 1);", "nplurals=INTEGER; plural=EXPRESSION;")
    template = template.replace("charset=UTF-8", "charset=CHARSET")
    made = read_document("a.pot", template.encode(), "de").write(
        ["Grüße", "%s öffnen\n", "Datei", "Dateien"]
    )
    catalog = polib.pofile(made.decode())
    assert catalog.metadata["Plural-Forms"] == "nplurals=2; plural=(n != 1);"
    assert catalog.metadata["Content-Type"] == "text/plain; charset=UTF-8"
    assert catalog.find("Hello there").msgstr == "Grüße"


@pytest.mark.parametrize("content", [b"msgid", b"/etc/passwd", b'msgid "a" "b\nmsgstr "c"'])
def test_a_damaged_catalog_is_rejected_and_no_file_is_opened(content):
    try:
        assert "root" not in "".join(read_document("a.po", content, "de").texts)
    except InvalidRequest as error:
        assert "gettext" in error.message


def test_json_strings_are_translated_in_place():
    made = change("a.json", JSON.encode()).decode()
    expected = (
        JSON.replace("Hello", "HELLO")
        .replace("you", "YOU")
        .replace("one thing", "ONE THING")
        .replace("two", "TWO")
    )
    assert made == expected
    assert json.loads(made)["nested"]["list"] == ["ONE THING", "TWO", True, None]


def test_metadata_of_messages_is_kept():
    extension = (
        '{"a": {"message": "Hello $x$", "description": "For people", "placeholders": {"x": '
        '{"content": "text"}}}}'
    )
    assert change("a.json", extension.encode()).decode() == extension.replace(
        "Hello $x$", "HELLO $X$"
    )
    arb = '{"@@locale": "en", "hello": "Hello", "@hello": {"description": "Words"}}'
    assert change("a.arb", arb.encode()).decode() == arb.replace('"Hello"', '"HELLO"').replace(
        '"en"', '"de"'
    )


def test_escapes_of_json_are_kept():
    assert change("a.json", b'["caf\\u00e9 au lait"]') == b'["CAF\\u00c9 AU LAIT"]'


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        *[
            (f"{key}:\n  greeting: Hello there\n", {key: {"greeting": "HELLO THERE"}})
            for key in ("app", "faq", "title")
        ],
        *[
            (f"{key}:\n  greeting: Hello\n", {"de": {"greeting": "HELLO"}})
            for key in ("en", "pt-BR", "en_US")
        ],
        ("id: Hello there\n", {"id": "HELLO THERE"}),
    ],
)
def test_a_single_yaml_key_becomes_the_target_if_it_is_a_language(source, translated):
    assert yaml.safe_load(change("a.yml", source.encode())) == translated


def test_yaml_strings_are_translated_in_place():
    made = change("a.yml", YAML.encode())
    values = yaml.safe_load(made)["de"]
    assert [values[key] for key in ("greeting", "quoted", "single")] == [
        "HELLO THERE",
        "LINE\nNEXT",
        "IT'S HERE",
    ]
    assert (values[True], values["number"], values["folded"]) == (True, 12, "SOME FOLDED TEXT")
    assert values["literal"] == "FIRST LINE\n  INDENTED\n\nSECOND\n"
    assert values["list"] == ["ONE THING", "TWO", "THREE THINGS", "THREE THINGS"]
    assert made.decode().startswith(
        '# comment\nde:\n  greeting: HELLO THERE   # another\n  "quoted": '
    )
    assert unchanged("a.yml", YAML.encode()).decode() == YAML.replace("en:\n", "en:\n")


def test_aliases_do_not_multiply_work():
    lines = ["a0: &a0 [text]"] + [
        f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}, *a{i - 1}]" for i in range(1, 40)
    ]
    document = read_document("a.yml", "\n".join(lines).encode(), "de")
    assert document.texts == ("text",)


CATALOG = """# Translators: nobody

msgid ""
msgstr ""
"Project-Id-Version: demo 1.0\\n"
"Language: en\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"X-Own: kept\\n"

#. A comment
#: a.c:10 b.c:20
#, fuzzy, c-format
#| msgid "Old"
msgctxt   "menu"
msgid "Save %s"
msgstr "Alt"
msgid ""
"The first part of a message that is "
"wrapped as nobody else does."
msgstr ""
""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""


msgid "Done"
msgstr   "Fertig"
#~ msgid "gone"
#~ msgstr ""
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["header", "no header"])
def test_only_the_lines_of_translations_change(name, line_end):
    source = CATALOG if name == "header" else CATALOG[CATALOG.index("#. A") :]
    made = change("a.po", source.replace("\n", line_end).encode()).decode()
    assert made.count("\r\n") == (made.count("\n") if line_end == "\r\n" else 0)
    lines = made.replace("\r\n", "\n").split("\n")
    gone = {
        '"Language: en\\n"',
        "#, fuzzy, c-format",
        '#| msgid "Old"',
        'msgstr "Alt"',
        '""',
        'msgstr ""',
        'msgstr[0] ""',
        'msgstr[1] ""',
    }
    kept = [line for line in source.split("\n") if line not in gone]
    rest = iter(lines)
    assert all(line in rest for line in kept)  # all others are there, in their order
    entries = {entry.msgid: entry for entry in polib.pofile(made)}
    assert entries["Save %s"].msgstr == "SAVE %S" and entries["Save %s"].flags == ["c-format"]
    assert entries[
        "The first part of a message that is wrapped as nobody else does."
    ].msgstr.startswith("THE FIRST")
    assert entries["%d file"].msgstr_plural == {0: "%D FILE", 1: "%D FILES"}
    assert polib.pofile(made).metadata["Language"] == "de"


@pytest.mark.parametrize(
    "header",
    [
        'msgid ""\nmsgstr ""',
        'msgid ""\nmsgstr "Language: en\\nX-Own: a\\n"',
        '#, fuzzy\nmsgid ""\nmsgstr ""\n"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"',
        'msgctxt "menu"\nmsgid ""\nmsgstr ""',
    ],
)
@pytest.mark.parametrize(
    "after", ["", "\n", '\n\nmsgid "one"\nmsgid_plural "two"\nmsgstr[0] ""\nmsgstr[1] ""']
)
def test_a_catalog_has_one_header(header, after):
    document = read_document("a.po", (header + after).encode(), "fr")
    catalog = polib.pofile("\n" + document.write(document.texts).decode())
    assert len({(each.msgctxt, each.msgid) for each in catalog}) == len(catalog)
    assert not [each for each in catalog if not each.msgid and not each.msgctxt]
    assert catalog.metadata["Language"] == "fr" and "UTF-8" in catalog.metadata["Content-Type"]
    assert catalog.metadata["Plural-Forms"] == "nplurals=2; plural=(n > 1);"


@pytest.mark.parametrize(
    ("label", "text", "translated", "written"),
    [
        ("&Save", "Save", "Speichern", "&Speichern"), ("_Open", "Open", "Öffnen", "_Öffnen"),
        ("E_xit", "Exit", "Beenden", "_Beenden"), ("Select &All", "Select All", "Alles auswählen", "&Alles auswählen"),
        ("Pr_eferences", "Preferences", "Einstellungen", "_Einstellungen"), ("Se&lect", "Select", "Auswählen", "Auswäh&len"),
        ("R&D team", "R&D team", "R&D-Team", "R&D-Team"), ("a &amp; b", "a &amp; b", "a &amp; b", "a &amp; b"),
        ("&A and &B", "&A and &B", "x", "x"), ("my_name is %s", "my_name is %s", "x", "x"),
    ],
)  # fmt: skip
def test_the_mark_of_an_access_key_is_no_text(label, text, translated, written):
    document = read_document("a.po", f'msgid "{label}"\nmsgstr ""\n'.encode(), "de")
    assert document.texts == (text,)
    assert [entry.msgstr for entry in polib.pofile(document.write([translated]).decode())] == [
        written
    ]


COMMENTED = """{
  // a "comment"
  "title": "Hello there",  /* another // one */
  "address": "https://x.org/a//b", "star": "a /* b */ c",
  "list": ["one thing", "two things", /* last */ ],
}
"""


def test_comments_of_json_are_kept_where_the_name_says_so():
    document = read_document("a.jsonc", COMMENTED.encode(), "de")
    assert document.texts == ("Hello there", "a /* b */ c", "one thing", "two things")
    assert document.write(document.texts).decode() == COMMENTED
    assert document.write([text.upper() for text in document.texts]).decode().count(
        "//"
    ) == COMMENTED.count("//")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", COMMENTED, r"line 2.*\.jsonc"),
        ("a.json", '{"a": }', r"JSON.*line 1\.$"),
        ("a.json", "{'a': 1}", "JSON"),
        ("a.yaml", "a: 1\nb: - c\n", "line 2"),
    ],
)
def test_invalid_files_name_their_line(name, content, message):
    with pytest.raises(InvalidRequest, match=message):
        read_document(name, content.encode(), "de")


@pytest.mark.parametrize("piece", ['"\\\\"', "/*", "//", ", /**/ ", ",", " ", "*", "/"])
def test_comments_are_found_in_linear_time(piece):
    def seconds(count: int) -> float:
        text, best = piece * count, math.inf
        for _ in range(3):
            started = time.process_time()
            COMMENT.sub(blank, text)
            best = min(best, time.process_time() - started)
        return best

    assert seconds(80_000) < 20 * max(seconds(10_000), 1e-3)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("order: [ :year, :month, :day ]\n", (":year", ":month", ":day")),
        ("a: {b: :some words, :key: more words}\n", (":some words", "more words")),
        ("bang: ! 'Hello world'\nplain: ! Hello you\n", ("Hello world", "Hello you")),
        ('time: 10:30\nlist: [a: one thing, "b":two]\n', ("one thing", "two")),
        ('text: "a, :b c"\nblock: |\n  x [ :y\n', ("a, :b c", "x [ :y\n")),
    ],
)
def test_yaml_of_version_1_2(text, found):
    document = read_document("a.yaml", text.encode(), "de")
    assert [each for each in document.texts if each in found] == [
        each for each in found if each in document.texts
    ]
    assert document.write(document.texts).decode() == text
    assert "\ue000" not in document.write([each.upper() for each in document.texts]).decode()


@pytest.mark.parametrize(
    ("label", "text"),
    [
        *(("&Save", "Save"), ("&&Save as", "Save as"), ("Find &next", "Find next")),
        *((each, each) for each in ("R&D now", "Save &amp; close", "a}}_rpm b", "&Save &all")),
    ],
)
def test_access_keys_of_labels_are_set_again(label: str, text: str) -> None:
    for name, file in (("a.json", '{"a": "@"}'), ("a.yaml", 'a: "@"\n')):
        document = read_document(name, file.replace("@", label).encode(), "de")
        assert document.texts == (text,)
        assert document.write([text]).decode() == file.replace("@", label)


@pytest.mark.parametrize(
    "text",
    ["word " * 40, "word " * 14 + "w", "a\nb " * 3 + "word " * 30, "x" * 200, 'say "a\\b" ' * 12],
)
def test_a_catalog_keeps_the_width_of_its_lines(text):
    given = (
        b'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "a b"\nmsgstr ""\n'
    )
    made = read_document("a.po", given, "de").write([text]).decode()
    assert polib.pofile(made)[0].msgstr == text.strip("\n")
    for line in made.splitlines():
        assert len(line) <= 79 or " " not in line.removeprefix("msgstr ").strip('"').rstrip()


def strings(value: object) -> list[str]:
    """Returns the keys and the strings of a YAML file in order."""
    if isinstance(value, dict):
        return [text for key, each in value.items() for text in (key, *strings(each))]
    return (
        [value.rstrip("\n")]
        if isinstance(value, str)
        else [text for each in value for text in strings(each)]
    )


@pytest.mark.parametrize(
    "place",
    [
        "a: {}",
        "- {}",
        "a: [{}, b]",
        "a: {{b: {}}}",
        "[{}, b]",
        "a: '{}'",
        'a: "{}"',
        "a: |\n  {}\n",
    ],
)
@pytest.mark.parametrize(
    "new",
    "a: b|# x|- x|yes|12||'|é: {x}|x\ny|tab\tz|@a|null|Hallo %{name}, du|a #b|ja|no|5|a:b|a?|?a|x [y]|:a|[a".split(
        "|"
    ),
)
def test_any_translation_is_a_string_of_yaml(place, new):
    given = place.format("Some words")
    document = read_document("a.yml", given.encode(), "de")
    made = document.write([new, *document.texts[1:]])
    expected = [new if text == "Some words" else text for text in strings(yaml.safe_load(given))]
    assert strings(yaml.safe_load(made)) == expected
    if new == "Hallo %{name}, du" and place in ("a: {}", "- {}"):
        assert made.decode() == given.replace("Some words", new)


@pytest.mark.parametrize("name", ["a.json", "a.yml"])
@pytest.mark.parametrize("escape", ["\\u003c", "\\u0027", "\\/", "\\u00a0", "\\u2014"])
def test_escapes_are_written_as_in_the_source(name, escape):
    given = f'{{"a": "one {escape} two \\"x\\" \\\\u003c"}}'
    made = change(name, given.encode()).decode()
    assert escape in made and json.loads(made)["a"].lower() == json.loads(given)["a"]
