"""Translation memories: every format gives the pairs of two languages without markup, and useless
pairs are dropped."""

from __future__ import annotations

import pytest

from model.pairs import Pair
from server.errors import InvalidRequest
from server.translation_memory import read_memory


def tmx(*units: dict[str, str], head: str = "", name: str = "xml:lang") -> str:
    """A file with units of languages and their segments."""
    variants = [
        "".join(
            f'<tuv {name}="{tag}"><note>n</note><seg>{seg}</seg></tuv>' for tag, seg in unit.items()
        )
        for unit in units
    ]
    return (
        f"{head}<tmx><header/><body>{''.join(f'<tu>{unit}</tu>' for unit in variants)}</body></tmx>"
    )


def xliff(*units: str, tags: str = 'source-language="en" target-language="de"') -> str:
    namespace = 'xmlns="urn:oasis:names:tc:xliff:document:1.2"'
    return (
        f'<xliff {namespace}><file original="a" {tags}><body>{"".join(units)}</body></file></xliff>'
    )


def unit(target: str, attributes: str = "", source: str = "Old house", approved: str = "") -> str:
    return (
        f"<trans-unit {approved}><source>{source}</source><target "
        f"{attributes}>{target}</target></trans-unit>"
    )


def xliff2(*segments: str) -> str:
    namespace = 'xmlns="urn:oasis:names:tc:xliff:document:2.0"'
    body = "".join(f"<unit><notes><note>n</note></notes>{segment}</unit>" for segment in segments)
    return (
        f'<xliff {namespace} version="2.0" srcLang="en-US" trgLang="de-DE"><file '
        f'id="f">{body}</file></xliff>'
    )


def segment(target: str, state: str = "final", source: str = "Old house") -> str:
    return (
        "<segment "
        f'state="{state}"><source>{source}</source>{target and f"<target>{target}</target>"}</segment>'
    )


def po(*entries: str, language: str = "de") -> str:
    return "\n\n".join([f'msgid ""\nmsgstr ""\n"Language: {language}\\n"', *entries]) + "\n"


OLD = {"en": "Old house", "de": "Altes Haus"}
MARKS = '<mrk mtype="seg" mid="1">{}</mrk> <mrk mtype="seg" mid="2">{}</mrk>'
CUT = (
    f"<trans-unit><source>x</source><seg-source>{MARKS.format('One day', 'Old house')}</seg-source>"
)
DTD = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'
HOUSE = ("Old house", "Altes Haus")
FILES = [
    ("a.tmx", tmx(OLD), [HOUSE], {}),
    (
        "A.TMX",
        tmx({"EN-US": "Old house", "fr": "Maison", "de_AT": "Altes Haus"}, head=DTD),
        [HOUSE],
        {},
    ),
    ("a.tmx", tmx({"en-US": "x", "en": "Old house", "de": "Altes Haus"}, name="lang"), [HOUSE], {}),
    ("a.tmx", tmx(OLD, {"en": "Old", "fr": "Vieux"}), [HOUSE], {"in other languages": 1}),
    (
        "a.tmx",
        tmx(
            {
                "en": '<bpt i="1">&lt;b></bpt>Old<ept i="1">&lt;/b></ept> <hi>house</hi> '
                "<ph>{count}</ph>",
                "de": "Altes<ph>&lt;br/></ph>Haus <ph>{count}</ph><x/>",
            }
        ),
        [("Old house {count}", "Altes Haus {count}")],
        {},
    ),
    (
        "a.xlf",
        xliff(unit("Altes Haus"), "<group>" + unit("") + "</group>"),
        [HOUSE],
        {"not translated": 1},
    ),
    (
        "a.sdlxliff",
        xliff(unit("<g id='1'>Altes</g><x id='2'/> Haus", 'state="final"')),
        [HOUSE],
        {},
    ),
    (
        "a.xliff",
        xliff(
            unit("Altes Haus", 'state="needs-review-translation"'),
            unit("Haus", approved='approved="no"'),
            unit("Haus", 'state-qualifier="mt-suggestion"'),
        ),
        [],
        {"fuzzy or not approved": 3},
    ),
    (
        "a.xlf",
        xliff(
            unit("Old house", source="Altes Haus"), tags='source-language="de" target-language="en"'
        ),
        [HOUSE],
        {},
    ),
    (
        "a.xlf",
        xliff(f"{CUT}<target>{MARKS.format('', 'Altes Haus')}</target></trans-unit>"),
        [HOUSE],
        {"empty": 1},
    ),
    (
        "a.xlf",
        xliff2(segment("Altes <pc>Haus</pc>"), segment("Haus", "initial"), segment("")),
        [HOUSE],
        {"fuzzy or not approved": 1, "not translated": 1},
    ),
    (
        "a.po",
        po(
            'msgid "Old house"\nmsgstr "Altes Haus"',
            '#, fuzzy\nmsgid "x"\nmsgstr "y"',
            'msgid "z"\nmsgstr ""',
        ),
        [HOUSE],
        {"fuzzy or not approved": 1, "not translated": 1},
    ),
    ("a.po", po('msgid "Altes Haus"\nmsgstr "Old house"', language="en_US"), [HOUSE], {}),
    (
        "a.po",
        po(
            'msgid "a %d file"\nmsgid_plural "%d files"\nmsgstr[0] "eine %d Datei"\nmsgstr[1] "%d '
            'Dateien"'
        ),
        [("a %d file", "eine %d Datei"), ("%d files", "%d Dateien")],
        {},
    ),
    ("a.tsv", 'Old house\tAltes Haus\n\n"a\tEin "b\n', [HOUSE, ('"a', 'Ein "b')], {}),
    ("a.csv", 'Old house,Altes Haus\r\n"a, b","ein ""b"""\r\n', [HOUSE, ("a, b", 'ein "b"')], {}),
    ("a.csv", "Old house;Altes Haus\na, b;ein b, c\n", [HOUSE, ("a, b", "ein b, c")], {}),
    ("a.csv", "id,de-DE,English\n1,Altes Haus,Old house\n", [HOUSE], {}),
    ("a.tsv", "source\ttarget\tnote\nOld house\tAltes Haus\t\n", [HOUSE], {}),
    (
        "a.csv",
        "Old house,Altes Haus,en,de\nAltes,Old,de,en\nx,y,en,fr\n",
        [HOUSE, ("Old", "Altes")],
        {"in other languages": 1},
    ),
    ("a.csv", "x,y,en,fr\nOld house,Altes Haus,en,de\n", [HOUSE], {"in other languages": 1}),
]


@pytest.mark.parametrize(("name", "text", "pairs", "dropped"), FILES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_formats(name, text, pairs, dropped, encoding, tmp_path):
    (tmp_path / name).write_bytes(text.encode(encoding))
    found = read_memory([tmp_path / name], "en", "de")
    assert found == ([Pair(*pair) for pair in pairs], dropped)


def read(tmp_path, name: str, data: str | bytes, pair: tuple[str, str] = ("en", "de")):
    (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return read_memory([tmp_path / name], *pair)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.docx", "", r"Files of this kind are not read here; give one of \.tmx, "),
        ("a.tmx", "", "Line 1 is not well-formed"),
        ("a.tmx", "no XML", "Line 1 is not well-formed"),
        ("a.tmx", tmx(OLD).replace("<body>", "<body>\n\n<tu>"), "Line 3 is not well-formed"),
        ("a.tmx", tmx(OLD)[:-20], "Line 1 is not well-formed"),
        ("a.tmx", xliff(unit("x")), "The file is not TMX"),
        ("a.xlf", tmx(OLD), "The file is not XLIFF"),
        ("a.tmx", tmx(OLD, head='<!DOCTYPE tmx [<!ENTITY a "b">]>'), "defines entities"),
        (
            "a.tmx",
            tmx(OLD, head='<!DOCTYPE tmx [<!ENTITY a "&a;&a;">]>').replace("Old", "&a;"),
            "entit|Line 1",
        ),
        ("a.tsv", "a\tb\n\na b\n", "Line 3 has 1 columns and not 2"),
        ("a.tsv", b"\x89PNG\r\n\x1a\n\x00\x00\xff\xfe" * 9, "not text in UTF-8"),
        ("a.csv", 'a,b\n"c,d\n', "Line 2 is not CSV"),
        (
            "a.po",
            'msgid "a"\nmsgstr "b"\n\nnothing "c"\n',
            "not a valid gettext catalog; see line 4",
        ),
        (
            "a.tsv",
            "Wir gehen heute in das alte Haus.\tWe go into the old house today, all of us.\n" * 20,
            "should be English",
        ),
        (
            "a.tsv",
            "We go into the old house today.\tNous allons tous ensemble dans la vieille maison.\n"
            * 20,
            "should be German",
        ),
    ],
)
def test_a_wrong_file_gets_a_sentence(name, data, message, tmp_path):
    rows = data.splitlines(keepends=True) if "should" in message else []
    data = (
        "".join(line.replace("\t", f" {chr(97 + n) * 3}\t") for n, line in enumerate(rows)) or data
    )
    with pytest.raises(InvalidRequest, match=rf"{name}: .*(?:{message}).*\.$"):
        read(tmp_path, name, data)


@pytest.mark.parametrize(
    ("source", "target", "kept"),
    [
        ("Old", "", "empty"),
        ("  ", "Alt", "empty"),
        ("Linux", "linux", "equal"),
        ("Old \ufffd", "Alt", "with control or broken characters"),
        ("Old\x07", "Alt", "with control or broken characters"),
        ("12", "zwölf", "without words of the language"),
        ("Old", "Старый", "without words of the language"),
        ("Old", "Alt " * 30, "of very different lengths"),
        ("Old " * 300, "Alt " * 300, "too long"),
        ("Old %s", "Alt", "with other placeholders"),
        ("{name} is here", "{nom} ist hier", "with other placeholders"),
        ("An <b>old</b> house", "Ein altes Haus", "with other placeholders"),
        ("HOUSE  7", "haus 12", "repeated"),
        (
            "We all go into the old house today",
            "Nous allons tous dans la vieille maison",
            "in another language",
        ),
        ("%1$s of {n}", "{n} von %1$s", ("%1$s of {n}", "{n} von %1$s")),
        (
            "{n, plural, one {# file} other {# files}}",
            "{n, plural, one {# Datei} other {# Dateien}}",
            True,
        ),
        ("See https://a.org/en/x", "Siehe https://a.org/de/x", True),
        ("%(done)s / %(all)s", "%(done)s/%(all)s", True),
        (
            '<i class="oi" title="End of it all"/> Old',
            '<i class="oi" title="Ende von allem"/> Alt',
            True,
        ),
        (
            "<span class='badge rounded of' invisible='alone is not the one'>Speaker</span>",
            "<span class='badge rounded of' invisible='alone is not the one'>Referent</span>",
            True,
        ),
        ("Save 50% today", "Heute 50 % sparen", True),
        ("OK, abort", "OK, abbrechen", True),
        ("Chat with André", "Chat mit André", True),
        ("Fritz Chess Engine Plugin Settings", "Fritz Chess Engine Plugin Settings (Schach)", True),
        ("  An\u00ad  old\u200b house ", "Ein\u00a0altes Haus", ("An old house", "Ein altes Haus")),
    ],
)
def test_cleaning(source, target, kept, tmp_path):
    pairs, dropped = read(tmp_path, "a.tsv", f"House 1\tHaus 1\n{source}\t{target}\n")
    if isinstance(kept, str):
        assert (len(pairs), dropped) == (1, {kept: 1})
    else:
        assert (pairs[1:], dropped) == ([Pair(source, target) if kept is True else Pair(*kept)], {})


def test_text_in_another_encoding(tmp_path):
    for name, text in (
        ("a.tsv", "Café\tKaffeehäuser\n"),
        ("a.po", po('msgid "Café"\nmsgstr "Kaffeehäuser"')),
    ):
        assert read(tmp_path, name, text.encode("cp1252")) == ([Pair("Café", "Kaffeehäuser")], {})


def test_a_table_of_short_entries_beside_a_memory_is_a_glossary(tmp_path):
    (tmp_path / "terms.csv").write_text("gear,Gang\ngear lever,Schalthebel\n")
    (tmp_path / "a.tmx").write_text(tmx(OLD, {"en": "gear", "de": "Gang"}))
    files = [tmp_path / "a.tmx", tmp_path / "terms.csv"]
    assert [pair.term for pair in read_memory(files, "en", "de")[0]] == [True, True, False]
    assert [pair.term for pair in read_memory(files[1:], "en", "de")[0]] == [False, False]
