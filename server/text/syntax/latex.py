"""Scans mathematics and commands of LaTeX (Lamport, LaTeX: A Document Preparation System, appendix
C)."""

from __future__ import annotations

import re

from server.text.syntax.match import by_pattern

math = by_pattern(
    r"\$\$[^$]{1,500}\$\$"
    r"|\$(?![\s{<])(?=[^$\n]{0,200}?[\\^_=+*/]|(?!\d)(?:[^$\n]{0,200}?(?:\{| [<>] )|[^$\n]{1,3}\$))"
    r"[^$\n]{1,200}?(?<![\s\\])(?<!%\d)\$(?![\w$@])",
    "math",
)
"""A formula between dollars. `$5 ... $6` are amounts of money."""


display = by_pattern(
    r"\\\(.{1,500}?\\\)|\\\[(?![\w "
    r"'’,-]{4,200}\\\]).{1,500}?\\\]|\\begin\{(\w+\*?)\}.{0,2000}?\\end\{\1\}",
    "math",
    flags=re.DOTALL,
)
tie = by_pattern(r"~(?=\\[a-z])", "tie", "point")
"""A space: Figure~\\ref{a}."""
begin = by_pattern(
    r"\\(?:emph|text(?!tt)[a-z]{2}|underline|(?:sub)*section\*?|chapter|paragraph|title|caption|footnote)\{"
    r"(?=(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,500}+\})",
    "text command",
    "open",
)
end = by_pattern(r"\}", "text command", "close")
command = by_pattern(r"\\[a-z]{2,}\*?(?:\[[^\]\n]{0,100}\])?(?:\{[^{}\n]{0,200}\})+", "command")
