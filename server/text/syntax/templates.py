"""Scans templates: Mustache, Handlebars, Angular and Vue ({{ }}), Jinja, Liquid, Twig and Django
({% %}, {# #}), ERB and PHP (<% %>, <? ?>), shell and JavaScript (${ }, $(), $NAME, $1), Ruby (#{ },
%{ }), Thymeleaf (@{ }, *{ }), Drupal (@name, %name), Rails (:name), i18next (__name__, $t()),
Python, Java and C# ({name}, {0:N2})."""

from __future__ import annotations

import re

from server.text.syntax.markup import CLOSING
from server.text.syntax.match import LATIN, NO_FLAG, Match, Role, Source, by_pattern

BRACES = r"\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,300}+\}"
_LONGEST = 2000
_STATEMENTS = (
    "if|unless|for|with|block|trans|blocktrans|blocktranslate|autoescape|filter|spaceless|ifchanged"
)
_ELSE = re.compile(
    r"\{\{~?\s*(?:else\b|\^\s*~?\}\})|\{%[-+~]?\s*(?:else|elif|elsif|elseif|empty|plural(?:ize)?|assign|set|include)\b",
    re.IGNORECASE,
)
_END = re.compile(r"\{\{~?\s*/\s*([\w.-]+)|\{%[-+~]?\s*end(\w+)", re.IGNORECASE)
_BLOCK = re.compile(rf"\{{\{{~?\s*[#^]\s*([\w.-]+)|\{{%[-+~]?\s*({_STATEMENTS})\b", re.IGNORECASE)


def template(source: Source, at: int) -> Match | None:
    """Returns the expression, the comment or the statement of a template at "{" or "<"."""
    text = source.text
    opening = text[at : at + 2]
    end = source.find(CLOSING[opening], at + 2) if opening in CLOSING else -1
    if not 0 <= end <= at + _LONGEST:
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
        elif found := _END.match(text, at):
            role, name = "close", (found[1] or found[2]).lower()
        elif found := _BLOCK.match(text, at):
            role, name = "open", (found[1] or found[2]).lower()
    return Match(at, end, role, "template", name)


_BRACES = re.compile(BRACES)
_PROSE = re.compile(r"\{(?=.*[^\W\d_]{3})\s*[^\W\d_]+(?:[\s,’'–&/-]+\w+){3,}[\s.,;:!?…]*\}")


def braces(source: Source, at: int) -> Match | None:
    """Returns braces with what is in them. Four words and more are prose. With a backslash they are
    a tag of subtitles."""
    found = _BRACES.match(source.text, at)
    if found is None or _PROSE.fullmatch(found[0]):
        return None
    return Match(at, found.end(), "point" if found[0].startswith("{\\") else "word", "braces")


_PARAMETER = re.compile(r"\$(\d{1,2})\$?(?![., ]?\d|[-–]?\w| ?(?:[mb]il|tri|thous|Mio|Mrd))")


def parameter(source: Source, at: int) -> Match | None:
    """Returns a numbered parameter."""
    found = _PARAMETER.match(source.text, at)
    return (
        Match(at, found.end(), "word", "parameter")
        if found and source.computed(_are_numbered)
        else None
    )


def _are_numbered(text: str) -> bool:
    """Returns whether they count from 0 or 1 without a gap: $5 and $6 are amounts."""
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
