"""Scans the placeholders and escape sequences of message strings.

- Conversion specifications: printf of C (ISO C 7.21.6.1) and Objective-C, Java's Formatter,
  Python's %(name)s, Ruby's %<name>s, Qt's %1, %L1 and %n, %NAME% of Windows and Symfony
- Templates: Mustache, Handlebars, Angular and Vue ({{ }}), Jinja, Liquid, Twig and Django ({% %},
  {# #}), ERB and PHP (<% %>, <? ?>), shell and JavaScript (${ }, $(), $NAME, $1), Ruby (#{ },
  %{ }), Thymeleaf (@{ }, *{ }), Drupal (@name, %name), Rails (:name), i18next (__name__, $t()),
  Python, Java and C# ({name}, {0:N2})
- Messages of ICU MessageFormat, https://unicode-org.github.io/icu/userguide/format_parse/messages/
  (`{count, plural, =0 {none} other {# files}}`). An apostrophe before a brace, `#` or `|` quotes up
  to the next one; a doubled one is an apostrophe. Messages of Fluent,
  https://github.com/projectfluent/fluent/blob/main/spec/fluent.ebnf
  (`{ $count -> [one] a file *[other] { $count } files }`). Their arms are translated on their own.
- Escape sequences of string literals (ISO C 6.4.4.4, RFC 8259, Android's string resources), and
  controls of terminals (ECMA-48, 5.4) and of bidirectional text (UAX #9, 2)
"""

from __future__ import annotations

import re
from functools import partial

from server.text.spans import Span, grown
from server.text.syntax.markup import CLOSING
from server.text.syntax.match import LATIN, NO_FLAG, Match, Role, Source, by_pattern
from server.text.vocabulary import OPENING, core_end

_FORMAT = r"%(?:\d+\$)?(?:[-+0#,]|'(?=[\d.]*[a-z](?!\w))|'.(?=\d))*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|j|z|t)?"
_NUMERIC = re.compile(rf"{_FORMAT}[diuxfeg](?!\w)|%n(?!\w)", re.IGNORECASE)
_OTHER = re.compile(
    r"%\(\w+\)[-+0#]*\d*(?:\.\d+)?[a-z]|%<[\w.]+>[-+0#]*[\d.]*[a-z]"
    rf"|%[a-z_][\w.-]+(?!{_FORMAT}[a-z@])%(?!\w)|%[a-z_]\w*+|{_FORMAT}(?:[a-z]{{1,2}}(?!\w)|[sd]\w*+|@)|%L?\d{{1,2}}(?!\d)|%%\w*",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"(?<![^\W\d])\d[ \u00a0\u202f-]$")
_SUFFIX = re.compile(r"%-?(?:[^\W\d_]{2,}(?![%\w])|[^\W\d_]['’])")


def specification(source: Source, at: int) -> Match | None:
    """Returns the specification at a "%", unless this is a percent sign: 50%, 100 %ig, 5
    %d'intérêts."""
    text = source.text
    if at and text[at - 1].isdecimal():
        return Match(at, at + 2, "word", "printf") if text.startswith("%%", at) else None
    if found := _NUMERIC.match(text, at):
        role: Role = "number"
    elif found := _OTHER.match(text, at):
        role = "word"
    if found is None or (_SUFFIX.match(text, at) and _AMOUNT.search(text, max(0, at - 2), at)):
        return None
    return Match(at, found.end(), role, "printf")


BRACES = r"\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,300}+\}"
_LONGEST_TEMPLATE = 2000
_STATEMENTS = (
    "if|unless|for|with|block|trans|blocktrans|blocktranslate|autoescape|filter|spaceless|ifchanged"
)
_ELSE = re.compile(
    r"\{\{~?\s*(?:else\b|\^\s*~?\}\})|\{%[-+~]?\s*(?:else|elif|elsif|elseif|empty|plural(?:ize)?|assign|set|include)\b",
    re.IGNORECASE,
)
_END_BLOCK = re.compile(r"\{\{~?\s*/\s*([\w.-]+)|\{%[-+~]?\s*end(\w+)", re.IGNORECASE)
_START_BLOCK = re.compile(
    rf"\{{\{{~?\s*[#^]\s*([\w.-]+)|\{{%[-+~]?\s*({_STATEMENTS})\b", re.IGNORECASE
)


def template(source: Source, at: int) -> Match | None:
    """Returns the expression, comment or statement of a template at "{" or "<"."""
    text = source.text
    opening = text[at : at + 2]
    end = source.find(CLOSING[opening], at + 2) if opening in CLOSING else -1
    if not 0 <= end <= at + _LONGEST_TEMPLATE:
        return None
    end += 2
    if opening == "{{":
        while end < len(text) and text[end] == "}":
            end += 1
    role: Role = "word"
    name = ""
    if opening == "{#" or text.startswith("{{!", at):
        role = "point"
        if opening == "{#" and not text[at + 2].isspace():
            return None
    elif opening[0] == "{":
        if _ELSE.match(text, at):
            role = "break"
        elif found := _END_BLOCK.match(text, at):
            role, name = "close", (found[1] or found[2]).lower()
        elif found := _START_BLOCK.match(text, at):
            role, name = "open", (found[1] or found[2]).lower()
    return Match(at, end, role, "template", name)


_BRACES = re.compile(BRACES)
_PROSE = re.compile(r"\{(?=.*[^\W\d_]{3})\s*[^\W\d_]+(?:[\s,’'–&/-]+\w+){3,}[\s.,;:!?…]*\}")


def braces(source: Source, at: int) -> Match | None:
    """Returns braces and their content: a tag of subtitles if it begins with a backslash. Braces
    around four words or more are prose."""
    found = _BRACES.match(source.text, at)
    if found is None or _PROSE.fullmatch(found[0]):
        return None
    return Match(at, found.end(), "point" if found[0].startswith("{\\") else "word", "braces")


_PARAMETER = re.compile(r"\$(\d{1,2})\$?(?![., ]?\d|[-–]?\w| ?(?:[mb]il|tri|thous|Mio|Mrd))")


def parameter(source: Source, at: int) -> Match | None:
    found = _PARAMETER.match(source.text, at)
    if found and source.computed(_are_numbered):
        return Match(at, found.end(), "word", "parameter")
    return None


def _are_numbered(text: str) -> bool:
    """Returns whether the parameters count from 0 or 1 without a gap: $5 and $6 are amounts."""
    counted = [int(number) for number in _PARAMETER.findall(text)]
    first, last = min(counted), max(counted)
    return (
        first < 2
        and len({*counted}) > last - first
        and len(re.findall(r"\$\d", text)) == len(counted)
    )


dollar = by_pattern(
    rf"\$[a-z]*{BRACES}|\$[a-z]?\([^()\n]{{0,200}}\)|(?<!\w)\$[a-z_]\w*(?:\$(?!\w)|(?:/[\w.@+-]*\w)*)",
    "variable",
)
sign_before_braces = by_pattern(
    rf"(?:(?<!\d)%|#|(?<!\w)[@*!~](?!\{{.{{0,200}}\}}[*~]))(?!\{{[{{%]){BRACES}", "signed braces"
)
colon_name = by_pattern(
    r"(?<![^\s(\[{\"'`«»„“‚‘‹›=,;|/*>])(?<!\w[\"']):(?:[A-Za-z_][\w-]*:"
    r"|(?!(?<!\S:)[A-ZÀ-Þ][a-zà-ÿ]|(?<=[^\W\d_] :)[a-z]{1,2}\b)[A-Za-z_]\w*)(?!\w)",
    "symbol",
    flags=NO_FLAG,
)
underscores = by_pattern(rf"(?<![{LATIN}\d_])__\w{{1,100}}?__(?![{LATIN}\d_]|\.\w)", "underscores")
field = by_pattern(
    r"\[[A-Z][a-z]+(?:(?: [A-Z][a-z]+){1,2}\](?![(\[:])|\](?=[,!:]|['’]s))", "field", flags=NO_FLAG
)
Message = tuple[tuple[Span, ...], int]
"""The contents of the arms of a message (variants in Fluent), and its end."""
Braces = dict[int, tuple[int, int]]
"""For each opening brace the position of its partner, and the depth of the braces between them."""
DEPTH = 40
"""Greatest depth of braces of a message whose arms are translated."""
_HEAD = re.compile(
    r"\{\s*[\w.-]+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset\s*:\s*\d+\s*)?",
    re.IGNORECASE,
)
_ARM = re.compile(r"\s*(?:=\s*-?\d+|[^\s{}=,'#]+)\s*(?=\{)")
_END_OF_MESSAGE = re.compile(r"\s*\}")
_QUOTED = re.compile(r"''|'(?=[{}#|])(?:[^']|'')*+'?|[{}]")
_UNQUOTED = re.compile(r"[{}]")
_LITERAL = r'"(?:[^"\\\n]|\\.){0,200}+"'
_NAME = r"[A-Za-z](?:\w|-(?!>))*+"
_PART = rf"""\{{\s*+(?:{_LITERAL}|[$-]?{_NAME}(?:\.{_NAME})?(?:\s*+\((?:[^()"{{}}]|{_LITERAL}){{0,200}}+\))?)\s*+(?:->|\}})"""
"""A literal, variable, term, message or call of Fluent, up to the arrow of a select expression."""
_PLACEABLE = re.compile(_PART)
message_head = by_pattern(_HEAD.pattern, "message head")
quoted = by_pattern(rf"('{{1,2}})(?:{BRACES}|[{{}}#|]+)\1", "quoted")
"""Braces in quotes, which are text: '{0}', ''{0}''."""
apostrophe = by_pattern(
    r"(?:(?<=[^\W\d_])|(?<=[}>])(?=..s\b))(?:\\'|'')(?=[^\W\d_])", "apostrophe", "apostrophe"
)
"""A doubled apostrophe, or one with a backslash, between letters."""
_FLUENT_BRACES = re.compile(rf"{_PART}|[{{}}]")
_KEY = r"\*?\[\s*+[\w.-]{1,100}+\s*+\]"
_FIRST_VARIANT = re.compile(rf"\s*+{_KEY}")
_VARIANT = re.compile(rf"\{{|(?<=\s){_KEY}")
_VARIANT_LINE = re.compile(rf"\{{|(?<=\n)[ \t]*+{_KEY}")


def message(source: Source, at: int) -> Match | None:
    """Returns the message or the placeable of Fluent at a brace."""
    text, found = source.text, None
    placeable = _PLACEABLE.match(text, at)
    if placeable and placeable[0][-1] == ">":
        found = _select(text, at, placeable.end(), source.computed(_placeables))
    elif head := _HEAD.match(text, at):
        found = _read(text, at, head.end(), source.computed(_quoted))
        # some libraries know no quotes
        found = found or _read(text, at, head.end(), source.computed(_unquoted))
    if found:
        return Match(at, found[1], "message", "message", flows=found[0])
    return Match(at, placeable.end(), "word", "placeable") if placeable else None


def _read(text: str, start: int, position: int, braces: Braces) -> Message | None:
    if start not in braces:
        return None
    arms: list[Span] = []
    while (arm := _ARM.match(text, position)) and arm.end() in braces:
        position = braces[arm.end()][0] + 1
        arms.append((arm.end() + 1, position - 1))
    last = _END_OF_MESSAGE.match(text, position)
    if not arms or last is None:
        return None
    return tuple(arms) if braces[start][1] < DEPTH else (), last.end()


def _select(text: str, start: int, position: int, braces: Braces) -> Message | None:
    first = _FIRST_VARIANT.match(text, position)
    if start not in braces or first is None:
        return None
    variant = _VARIANT_LINE if "\n" in first[0] else _VARIANT
    end, depth = braces[start]
    arms: list[Span] = []
    begin = position = first.end()
    while found := variant.search(text, position, end):
        if found[0] == "{":
            position = braces[found.start()][0] + 1
        else:
            arms.append((begin, found.start()))
            begin = position = found.end()
    return (*arms, (begin, end)) if depth < DEPTH else (), end + 1


def _matched(text: str, pattern: re.Pattern[str]) -> Braces:
    opened: list[list[int]] = []
    matched: Braces = {}
    for found in pattern.finditer(text):
        if found[0][0] == "{":
            opened.append([found.start(), 0])
        if found[0][-1] == "}" and opened:
            start, depth = opened.pop()
            matched[start] = (found.end() - 1, depth)
            if opened:
                opened[-1][1] = max(opened[-1][1], depth + 1)
    return matched


_quoted, _unquoted, _placeables = [
    partial(_matched, pattern=pattern) for pattern in (_QUOTED, _UNQUOTED, _FLUENT_BRACES)
]
_LONGEST_WORD = 500
line_end = by_pattern(
    r"(?<!\b[A-Za-z]:)\\(?:[nrt]|N(?:(?<=\W\\N)|(?![a-z])))(?![a-z]*\{|\[\d|(?<=[\"“„«'`]..)[\"”“»'`])"
    r"|(?<!\S)\"{3}(?=\w)|(?<=[\w.!?])\"{3}(?!\S)",
    "line end",
    "break",
    NO_FLAG,
)
escape = by_pattern(
    r"\\(?:[uU][0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?<!\S\\)[\[*_#~](?=[^\W\d_]{2})|(?<=[\w.!?]\\)[\]*_~](?!\w)|\\(?![\w.-]+\\)|[vf0](?!\w)|(?<![\w:\\]\\)[a-z](?=[A-ZÀ-Þ][a-zà-ÿ]))",
    "escape",
    "point",
    NO_FLAG,
)
quote = by_pattern(r"\\[\"']", "strong", "open")
BIDI_OPENING, BIDI_CLOSING = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068", "\u202c\u2069"
BIDI = f"{BIDI_OPENING}{BIDI_CLOSING}\u061c\u200e\u200f"
control = by_pattern(r"\x1b\[[0-?]*[ -/]*[@-~]", "control", "point")


def direction(source: Source, at: int) -> Match | None:
    sign = source.text[at]
    role: Role = "open" if sign in BIDI_OPENING else "close" if sign in BIDI_CLOSING else "point"
    return Match(at, at + 1, role, "direction", "isolate" if sign >= "\u2066" else "embedding")


def backslash(source: Source, at: int) -> Match | None:
    """Returns the word around a backslash: \\*, C:\\Temp, \\s[3]."""
    text = source.text
    low, high = grown(
        text,
        at,
        at + 1,
        lambda sign: not sign.isspace(),
        max(source.done, at - _LONGEST_WORD),
        at + _LONGEST_WORD,
    )
    low = min(at, high - len(text[low:high].lstrip(OPENING)))
    return Match(low, max(min(high, at + 2), core_end(text, low, high)), "word", "backslash")
