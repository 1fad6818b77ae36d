"""Scans mathematics and commands of LaTeX ($ $, $$ $$, \\( \\), \\[ \\], environments, \\command{...}; Lamport, LaTeX: A Document
Preparation System, appendix C)."""

from __future__ import annotations

import re

from server.text.syntax.match import Match, Source, by_pattern

_BEGIN = re.compile(r"\\begin\{(\w+\*?)\}")
_PAIRS = {"\\(": "\\)", "\\[": "\\]"}
_LONGEST = 500

math = by_pattern(
    r"\$\$[^$]{1,500}\$\$"
    r"|\$(?![\s{<])(?=[^$\n]{0,200}?[\\^_=+*/]|(?!\d)(?:[^$\n]{0,200}?(?:\{| [<>] )|[^$\n]{1,3}\$))"
    r"[^$\n]{1,200}?(?<![\s\\])(?<!%\d)\$(?![\w$@])",
    "word",
    "math",
)
"""A formula between dollars. `$5 ... $6` are amounts of money."""


def display(source: Source, at: int) -> Match | None:
    """Returns the formula or the environment at a backslash."""
    text = source.text
    close = _PAIRS.get(text[at : at + 2])
    if close is None and (found := _BEGIN.match(text, at)):
        close = f"\\end{{{found[1]}}}"
    end = text.find(close, at + 2, at + 2 + _LONGEST * (1 if len(close) == 2 else 4)) if close else -1
    return Match(at, end + len(close), "word", "math") if close and end > at + 2 else None


begin = by_pattern(
    r"\\(?:emph|text(?!tt)[a-z]{2}|underline|(?:sub)*section\*?|chapter|paragraph|title|caption|footnote)\{"
    r"(?=(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,500}+\})",
    "open",
    "text command",
)
end = by_pattern(r"\}", "close", "text command")
command = by_pattern(r"\\[a-z]{2,}\*?(?:\[[^\]\n]{0,100}\])?(?:\{[^{}\n]{0,200}\})+", "word", "command")
