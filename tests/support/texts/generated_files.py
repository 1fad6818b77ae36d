"""Files generated from the grammar of every format: nested runs, breaks, notes, fields,
right-to-left and empty runs.

Every code has a mark (`z12z`) that occurs nowhere else, so that a lost, doubled or invented code is
found in any format.
"""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import polib
import yaml
from markdown_it import MarkdownIt

from model.symbols import SYMBOLS
from server.documents.formats.xml.parsing import parse_xml
from server.errors import InvalidRequest
from server.text.reading import SYMBOL
from server.translation.preparation import prepare
from server.translation.types import TranslationRequest
from tests.support.texts import document_files as make
from tests.support.texts.hostile_checks import CATALOGS, HostileTranslation
from tests.support.texts.tagged_texts import TaggedText

WORDS = (
    "the cat sleeps at home and two dogs see a red house while it rains on their old garden Anna "
    "NASA שלום مرحبا 猫"
).split()
MARK = re.compile(r"z\d+z")
XLIFF = (
    '<xliff xmlns="urn:oasis:names:tc:xliff:document:{0}" version="{0}" srcLang="en" '
    'source-language="en">{1}</xliff>'
)

Grammar = Mapping[str, tuple[str, ...]]
"""The ways to write each kind of a part: `{n}` is a new number, `{words}` words, `{inner}` further
parts."""
GRAMMARS: Mapping[str, Grammar] = {
    ".docx": {
        "text": (
            '<w:r><w:t xml:space="preserve"> {words} </w:t></w:r>',
            "<w:r/>",
            "<w:r><w:rPr><w:rtl/></w:rPr></w:r>",
        ),
        "code": (
            '<w:r><w:footnoteReference w:id="z{n}z"/></w:r>',
            '<w:r><w:br w:type="z{n}z"/></w:r>',
            '<w:r><w:rPr><w:i/></w:rPr><w:tab/><w:sym w:char="z{n}z"/></w:r>',
            '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>REF '
            "z{n}z</w:instrText></w:r><w:r>"
            '<w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>7</w:t></w:r><w:r><w:fldChar '
            'w:fldCharType="end"/></w:r>',
            '<w:r><w:drawing><docPr id="z{n}z" descr="{words}"/></w:drawing></w:r>',
            "<w:r><w:pict><w:p><w:pPr><w:pStyle "
            'w:val="z{n}z"/></w:pPr><w:r><w:t>{words}</w:t></w:r></w:p></w:pict></w:r>',
        ),
        "pair": (
            '<w:hyperlink w:anchor="z{n}z">{inner}</w:hyperlink>',
            '<w:bookmarkStart w:id="{n}" w:name="z{n}z"/>{inner}<w:bookmarkEnd w:id="{n}"/>',
            "<w:sdt><w:sdtPr><w:tag "
            'w:val="z{n}z"/></w:sdtPr><w:sdtContent>{inner}</w:sdtContent></w:sdt>',
            '<w:ins w:id="z{n}z">{inner}</w:ins>',
            "<w:r><w:ruby><w:rubyPr><w:lid "
            'w:val="z{n}z"/></w:rubyPr><w:rt><w:r><w:t>kan</w:t></w:r></w:rt>'
            "<w:rubyBase>{inner}</w:rubyBase></w:ruby></w:r>",
        ),
    },
    ".pptx": {
        "text": (
            "<a:r><a:t> {words} </a:t></a:r>",
            '<a:r><a:rPr b="1"/><a:t> {words} </a:t></a:r>',
            "<a:r><a:t/></a:r>",
        ),
        "code": ('<a:fld id="z{n}z" type="slidenum"><a:t>7</a:t></a:fld>', '<a:br id="z{n}z"/>'),
        "pair": ("{inner}",),
    },
    ".xlsx": {
        "text": (
            '<r><t xml:space="preserve"> {words} </t></r>',
            '<r><rPr><b/></rPr><t xml:space="preserve">{words} </t></r>',
        ),
        "code": ("<r><t/></r>",),
        "pair": ("{inner}",),
    },
    ".odt": {
        "text": (" {words} ", " {words}<text:s/>", '<text:span text:style-name="T1"/>'),
        "code": (
            '<text:tab x="z{n}z"/>',
            '<text:line-break x="z{n}z"/>',
            "<text:note "
            'text:id="z{n}z"><text:note-body><text:p>{words}</text:p></text:note-body></text:note>',
            '<text:page-number x="z{n}z">7</text:page-number>',
            '<text:bookmark-start text:name="z{n}z"/>',
        ),
        "pair": (
            '<text:span text:style-name="z{n}z">{inner}</text:span>',
            '<text:a x="z{n}z">{inner}</text:a>',
            "<text:ruby "
            'x="z{n}z"><text:ruby-base>{inner}</text:ruby-base><text:ruby-text>kan</text:ruby-text></text:ruby>',
        ),
    },
    ".xlf": {
        "text": (" {words} ",),
        "code": (
            '<x id="z{n}z"/>',
            '<ph id="z{n}z">&lt;br/&gt;</ph>',
            '<bpt id="z{n}z">&lt;b&gt;</bpt>',
            '<sc id="z{n}z"/>',
        ),
        "pair": (
            '<g id="z{n}z">{inner}</g>',
            '<pc id="z{n}z">{inner}</pc>',
            '<mrk id="z{n}z">{inner}</mrk>',
        ),
    },
    ".html": {
        "text": (" {words} ", "{words}. {words}", " &amp; {words}", "<b></b>"),
        "code": (
            '<img src="z{n}z" alt="{words}">',
            '<br id="z{n}z">',
            "<!-- z{n}z -->",
            '<code id="z{n}z">x</code>',
            '<ruby id="z{n}z">猫<rt>cat</rt></ruby>',
        ),
        "pair": (
            '<a href="z{n}z">{inner}</a>',
            '<span dir="rtl" id="z{n}z">{inner}</span>',
            '<div id="z{n}z">{inner}</div>',
        ),
    },
    ".md": {
        "text": (" {words} ", " {words}\n", " {words}  \n", " {words}: {words}. "),
        "code": (
            "`z{n}z`",
            "![{words}](z{n}z.png)",
            "[^z{n}z]",
            '<br id="z{n}z">',
            '<img id="z{n}z" alt="{words}">',
            "<https://a.b/z{n}z>",
            "x<!-- z{n}z -->",
        ),
        "pair": (
            '[ {words} ](z{n}z "{words}")',
            "**[{words}](z{n}z)**",
            '<kbd id="z{n}z">{words}</kbd>',
            "*{words}*",
        ),
    },
    ".srt": {
        "text": (" {words}", " {words}.\n"),
        "code": ("{{\\anz{n}z}}{words} ",),
        "pair": ('<font color="z{n}z">{words}</font>', "<i>{words}</i>"),
    },
    ".vtt": {
        "text": (" {words}", " {words}.\n", " &amp; {words}"),
        "code": (" {words}",),
        "pair": ("<v z{n}z>{words}", "<c.z{n}z>{words}</c>", "<i.z{n}z>{inner}</i>"),
    },
    ".json": {
        "text": (
            " {words}",
            " {words}. {words}",
            r"\n{words}",
            r" \"{words}\"",
            r" caf\u00e9",
            r" \/ \ud83d\ude00",
        ),
        "code": (" {{{{z{n}z}}}}", " %(z{n}z)s", " ${{z{n}z}}", " @{{z{n}z}}"),
        "pair": (r" <a href=\"z{n}z\">{words}</a>", " **{words}**"),
    },
    ".txt": {
        "text": (" {words} {words}", " {words}.", ", {words}", " 1 < 2"),
        "code": (" {{{{z{n}z}}}}", " %(z{n}z)s", " https://a.b/z{n}z"),
        "pair": (' <a href="z{n}z">{words}</a>', " ({words})"),
    },
}
_QUOTED = GRAMMARS[".json"]
GRAMMARS = {
    **GRAMMARS,
    ".yml": {**_QUOTED, "text": (*_QUOTED["text"][:5], r" \/ \U0001F600 \N")},
    ".po": {**_QUOTED, "text": _QUOTED["text"][:4]},
}
LINES = {
    ".json": (
        '"k": "{}"',
        '"k": ["{}", 5, null, "", true]',
        '"k": {"message": "{}"}',
        '"k": "z/_a"',
    ),
    ".yml": (
        'a: "{}"',
        "a:\n  - '{}'\n  - ~",
        "a: |\n  {}",
        "a: >-\n  {}\n  two",
        "a: {}",
        "a: {b: [{}, 5]}",
        "# {}\na:",
    ),
    ".po": (
        'msgid "{}"\nmsgstr ""',
        '#, fuzzy, c-format\n#| msgid "old"\nmsgctxt "c"\nmsgid "{}"\nmsgstr "x"',
        'msgid ""\n"{}\\n"\n"{}"\nmsgstr ""',
        'msgid "{}"\nmsgid_plural "{}"\nmsgstr[0] ""\nmsgstr[1] ""',
        '# {}\n#. z0z\n#: a.c:1\nmsgid "z"\nmsgstr "{}"\n\n#~ msgid "{}"\n#~ msgstr ""',
    ),
    ".txt": ("{}", "  * The {}", "  1. The {}", "{}\n{}", "Name:   {}"),
    ".md": (
        "# {}",
        "- {}",
        "> {}",
        "1. [ ] {}",
        "    {}",
        "| a | {} |\n|---|---|\n| b | {} |",
        "!!! note\n    {}",
        ":::tip\n{}\n:::",
    ),
    ".html": ("<p>{}</p>", "<h1 title='the cat'>{}</h1>", "<li>{}", "<td>{}</td>"),
}
SAME_GRAMMAR = {".epub": ".html", ".odp": ".odt", ".ods": ".odt"}


class GeneratedFiles:
    """Generates files of one kind."""

    def __init__(self, suffix: str, seed: int) -> None:
        self.suffix, self._random, self._number = suffix, random.Random(f"{suffix}{seed}"), 0
        self._grammar = GRAMMARS[SAME_GRAMMAR.get(suffix, suffix)]

    def file(self, paragraphs: int) -> bytes:
        """Returns a file with this number of paragraphs."""
        return self._in_file([self._paragraph() for _ in range(paragraphs)])

    def _words(self) -> str:
        return " ".join(self._random.choices(WORDS, k=self._random.randint(1, 4)))

    def _paragraph(self, depth: int = 2) -> str:
        parts = self._random.choices(
            ("text", "code", "pair") if depth else ("text", "code"), k=self._random.randint(1, 5)
        )
        return "".join(self._part(kind, depth) for kind in ("text", *parts))

    def _part(self, kind: str, depth: int) -> str:
        shape = self._random.choice(self._grammar[kind])
        self._number += 1
        number, inner = self._number, self._paragraph(depth - 1) if "{inner}" in shape else ""
        return (
            re.sub(r"\{words\}", lambda _: self._words(), shape)
            .replace("{{", "{")
            .replace("}}", "}")
            .replace("{n}", str(number))
            .replace("{inner}", inner)
        )

    def _in_file(self, paragraphs: list[str]) -> bytes:
        lines = []
        for number, each in enumerate(paragraphs):
            shape = self._random.choice(LINES.get(self.suffix, ("{}",)))
            text = " ".join(each.split()) if self.suffix in (".html", ".txt", ".yml") else each
            lines.append(_line(self.suffix, shape, number, text))
        return FILES[self.suffix](lines, paragraphs)


def _line(suffix: str, shape: str, number: int, text: str) -> str:
    """Returns the lines of a file with a text in the shape that its format has for it."""
    if suffix == ".yml":
        shape = re.sub("^a:", f"a{number}:", shape, flags=re.MULTILINE)
        if '"' not in shape:  # nothing is escaped without quotes
            text = re.sub(r"\\(?:n|u\w{4}|.)", " ", text).replace("'", "").strip()
        if shape.endswith((" {}", ", 5]}")):
            text = "x" + re.sub(r"[\[\]{},#&*!|>'\"%@`:]|[$@%]?[({]*z\d+z", "", text)
    if "    {}" in shape and suffix == ".md":
        text = text.replace("\n", "\n    ")
    return shape.replace('"k"', f'"k{number}"').replace("{}", text)


def _units(version: str, unit: str) -> Callable[[list[str], list[str]], bytes]:
    return lambda _, paragraphs: XLIFF.format(
        version, f"<file>{''.join(map(unit.format, paragraphs))}</file>"
    ).encode()


def _paragraphs(texts: list[str]) -> str:
    return "".join(f"<text:p>{text}</text:p>" for text in texts)


def _page(paragraphs: list[str]) -> str:
    closed = [re.sub(r"<(img|br)\b([^>]*)>", r"<\1\2/>", each) for each in paragraphs]
    return make.PAGE.replace("<br/>", "".join(f"<p>{each}</p>" for each in closed))


def _cues(paragraphs: list[str], comma: str) -> str:
    return "".join(
        f"{number}\n00:00:{number % 60:02}{comma}000 --> "
        f"00:00:59{comma}000\n{re.sub(chr(10) + '+', chr(10), each).strip()}\n\n"
        for number, each in enumerate(paragraphs, 1)
    )


PAGE_OF_SLIDES = "<draw:page><draw:frame><draw:text-box>{}</draw:text-box></draw:frame></draw:page>"
SHEET = "<table:table><table:table-row>{}</table:table-row></table:table>"
CELL = "<table:table-cell>{}</table:table-cell>"
FILES: Mapping[str, Callable[[list[str], list[str]], bytes]] = {
    ".docx": lambda _, each: make.word_body("".join(f"<w:p><w:pPr/>{one}</w:p>" for one in each)),
    ".pptx": lambda _, each: make.slides(
        "".join(f"<a:p>{one}<a:endParaRPr/></a:p>" for one in each)
    ),
    ".xlsx": lambda _, each: make.workbook("".join(f"<si>{one}</si>" for one in each)),
    ".odt": lambda _, each: make.open_document(_paragraphs(each)),
    ".odp": lambda _, each: make.open_document(
        "".join([PAGE_OF_SLIDES.format(_paragraphs([one])) for one in each]), "presentation"
    ),
    ".ods": lambda _, each: make.open_document(
        SHEET.format("".join([CELL.format(_paragraphs([one])) for one in each])), "spreadsheet"
    ),
    ".xlf": _units("1.2", "<trans-unit><source>{}</source></trans-unit>"),
    ".html": lambda lines, _: f"<html lang=en><body>{chr(10).join(lines)}</body></html>".encode(),
    ".epub": lambda _, each: make.archive(make.BOOK_PARTS | {"OEBPS/a page.xhtml": _page(each)}),
    ".md": lambda lines, _: "\n\n".join(lines).encode(),
    ".txt": lambda lines, _: "\n\n".join(lines).encode(),
    ".json": lambda lines, _: ("{\n" + ",\n".join(lines) + "\n}").encode(),
    ".yml": lambda lines, _: ("\n".join(lines) + "\n").encode(),
    ".po": lambda lines, _: (
        'msgid ""\nmsgstr ""\n"Language: x\\n"\n\n' + "\n\n".join(lines) + "\n"
    ).encode(),
    ".srt": lambda _, each: _cues(each, ",").encode(),
    ".vtt": lambda _, each: f"WEBVTT\n\n{_cues(each, '.')}".encode(),
}
SUFFIXES = tuple(FILES)


class Silent(HostileTranslation):
    """A model that writes nothing but symbols and stand-ins."""

    def _target(self, ids: Sequence[int]) -> str:
        written = SYMBOL.findall(super()._target(ids))
        return " ".join(
            [*written, *self._chance.choices(("", "\u2047", "\ufffd", SYMBOLS[0]), k=2)]
        )


def hostile(
    text: str, format: str, seed: int, model: type[HostileTranslation] = HostileTranslation
) -> str:
    """Returns a text of a document as a hostile model translates it."""
    case = model(TaggedText(text, format, ()), seed)  # type: ignore[arg-type]
    request = TranslationRequest(texts=(text,), source="en", target="de", format=format)  # type: ignore[arg-type]
    [prepared] = prepare(request, CATALOGS[case._tokenizer], None)  # type: ignore[arg-type]  # detects no language
    assert prepared.segmented is not None
    return case._translated(prepared.segmented).write()


def faults(suffix: str, given: bytes, written: bytes) -> list[str]:
    """Returns what a translated file breaks: codes that are not there once, parts that are not
    valid, changes outside texts."""
    found = []
    for name, before, after in zip(*_parts(suffix, given, written), strict=True):
        lost = Counter(MARK.findall(_messages(before, True) if suffix == ".po" else before))
        texts = re.sub(r"<source>.*?</source>", "", after) if suffix == ".xlf" else after
        lost.subtract(MARK.findall(_messages(after, False) if suffix == ".po" else texts))
        found += [f"{name}: {mark} {count:+}" for mark, count in lost.items() if count]
        try:
            frames = [_frame(suffix, text) for text in (before, after)]
        except InvalidRequest as error:
            found.append(f"{name}: {error}")
            continue
        if frames[0] != frames[1]:
            found.append(
                f"{name}: {next(pair for pair in zip_longest(*frames) if pair[0] != pair[1])}"
            )
    return found


def _messages(text: str, source: bool) -> str:
    """Returns the messages of a catalog that are to be translated (`source`), or translations."""
    return "".join(
        each.msgid + each.msgid_plural
        if each.obsolete or (source and not each.translated())
        else each.msgstr + "".join(each.msgstr_plural.values())
        for each in polib.pofile("\n" + text)
    )


def _shape(value: object) -> object:
    """Returns a value of JSON or YAML without its words."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    return (
        list(map(_shape, value))
        if isinstance(value, list)
        else ""
        if isinstance(value, str)
        else repr(value)
    )


def _frame(suffix: str, text: str) -> list[str]:
    """Returns what a file has around its texts."""
    if suffix == ".md":
        return [
            token.type
            for token in MarkdownIt("commonmark").enable("table").parse(text)
            if token.type != "inline"
        ]
    if suffix == ".txt":
        return [re.match(r"  (?:\*|1\.)|", block)[0] for block in text.split("\n\n")]  # type: ignore[index]
    if suffix == ".json":
        return [repr(_shape(json.loads(text)))]
    if suffix == ".yml":
        return [repr(_shape(yaml.safe_load(text))), *re.findall(r"^#.*", text, re.MULTILINE)]
    if suffix == ".po":
        return re.sub(r'^(?:msgstr.*\n(?:".*\n)*|#[,|].*\n)', "", text, flags=re.MULTILINE).split(
            "\n"
        )
    if suffix in (".srt", ".vtt"):
        return re.findall(r"^.*-->.*$", text, re.MULTILINE)
    if suffix == ".html":
        return sorted(re.findall(r"</?\w+", text))
    root = parse_xml(
        re.sub(r"<target>.*?</target>", "", text, flags=re.DOTALL).encode(), doctype=True
    )
    for paragraph in [
        element
        for element in root.iter("*")
        if element.tag.rpartition("}")[2] in ("p", "si", "is", "text", "title")
    ]:
        paragraph[:], paragraph.text = [], None
    return [f"{element.tag} {element.get('id', '')}" for element in root.iter("*")]


def _parts(suffix: str, given: bytes, written: bytes) -> tuple[list[str], list[str], list[str]]:
    if not given.startswith(b"PK"):
        return [suffix], [given.decode()], [written.decode()]
    before, after = (zipfile.ZipFile(io.BytesIO(data)) for data in (given, written))
    assert before.namelist() == after.namelist() and after.testzip() is None
    names = [name for name in before.namelist() if name.endswith(("xml", "html", "opf", "ncx"))]
    return (
        names,
        [before.read(name).decode() for name in names],
        [after.read(name).decode() for name in names],
    )
