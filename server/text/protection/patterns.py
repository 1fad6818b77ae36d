"""Patterns of the parts of a text that are not words: variables of programs, markup, addresses, code, formulas."""

from __future__ import annotations

import re
from typing import Literal

Role = Literal["word", "number", "point", "open", "close", "break", "icu"]

_ATTRIBUTES = r"(?:\s+[\w:@.-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>/]+))*+\s*"
_NO_TRANSLATE = r"\s[^<>]*?(?:translate\s*=\s*[\"']?no\b|class\s*=\s*[\"'][^\"'<>]*\bnotranslate\b)[^<>]*?"
_BRACES = r"\{(?:[^{}\n]|\{[^{}\n]{0,200}\}){0,300}+\}"
_LINK = r"\](?:\([^()\s]{0,500}(?:\s+\"[^\"\n]{0,200}\")?\)|\[[^\[\]\n]{1,100}\])"
_PRINTF = r"%(?:\d+\$)?[-+0#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|j|z|t)?"

KINDS: tuple[tuple[str, Role, str], ...] = (
    ("fence", "break", r"(?:^|(?<=\n))(?P<ticks>`{3,}|~{3,})[^\n]*\n(?:.{0,20000}?\n)??[ ]*(?P=ticks)[^\n]*"),
    ("code", "word", r"(?<!`)(?P<tick>`{1,2})(?!`)[^\n]{1,400}?(?<!`)(?P=tick)(?!`)"),
    ("template", "word", r"<%[^<>\n]{0,300}%>|<\?[^<>\n]{0,300}\?>|\{%[^\n]{0,300}?%\}|\{\{[^\n]{0,200}?\}\}+"),
    ("comment", "point", r"<!--.{0,2000}?-->"),
    ("element", "word", r"<(?P<kept>keep|code|kbd|samp|var|pre|script|style)\b[^<>]*>.{0,2000}?</(?P=kept)\s*>"),
    ("untranslated", "word", rf"<(?P<no>[a-z][\w:-]*){_NO_TRANSLATE}(?:/>|>.{{0,2000}}?</(?P=no)\s*>)"),
    ("line", "break", r"<(?:br|hr)\b[^<>]*>|\\[nrt](?![a-z]*\{)"),
    ("separator", "break", r"(?<!\S)[|¦›·•](?!\S)|(?<=\w\w )>(?= [^\W\d_]\w)"),
    ("empty", "word", rf"<[a-z][\w:.-]*{_ATTRIBUTES}/>"),
    ("end_tag", "close", r"</(?P<end_name>[a-z][\w:.-]*)\s*>"),
    ("start_tag", "open", rf"<(?P<start_name>[a-z][\w:.-]*){_ATTRIBUTES}>"),
    ("formula", "word", r"\$\$[^$]{1,500}\$\$|\\\([^\n]{1,300}?\\\)|\\\[.{1,500}?\\\]"
     r"|\\begin\{(?P<environment>\w+\*?)\}.{0,2000}?\\end\{(?P=environment)\}"),
    ("math", "word", r"\$(?![\s\d{])(?=[^$\n]{0,200}?[\\^_=+*/{]|[^$\n]{1,3}\$)[^$\n]{1,200}?(?<![\s\\])(?<!%\d)\$(?![\w$@])"
     r"|\$\d[^$\n]{0,100}?[\\^_=+*/][^$\n]{0,100}?(?<![\s\\])(?<!%\d)\$(?![\w$@])"),
    ("shell", "word", rf"\$[a-z]*{_BRACES}|\$[a-z]?\([^()\n]{{0,200}}\)|\$[a-z_]\w*(?:/[\w.@+-]*\w)*"),
    ("ruby", "word", rf"[%#]{_BRACES}|%<[\w.]+>[-+0#]*[\d.]*[a-z]"),
    ("braces", "word", _BRACES),
    ("named", "word", r"%\(\w+\)[-+0#]*\d*(?:\.\d+)?[a-z]"),
    ("printf", "number", rf"(?<!\d){_PRINTF}[diuxfeg](?!\w)|%n(?!\w)"),
    ("string", "word", rf"(?<!\d){_PRINTF}(?:[a-z_]\w*+(?:%(?!%))?|@)|(?<!\d)%L?\d{{1,2}}(?!\d)|%%"),
    ("latex", "word", r"\\[a-z]+\*?(?:\[[^\]\n]{0,100}\])?(?:\{[^{}\n]{0,200}\})+"),
    ("escape", "point", r"\\(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[\"'\\vf0])"),
    ("entity", "point", r"&(?!#39;|apos;|rsquo;|#8217;|#x27;)(?:#\d{1,7}|#x[0-9a-f]{1,6}|[a-z][a-z0-9]{1,30});"),
    ("link", "open", rf"!?\[(?=[^\[\]\n]{{1,300}}{_LINK})"),
    ("link_target", "close", _LINK),
    ("strong", "open", r"\*\*(?=[^\s*])|~~(?=[^\s~])|(?<=[^\s*])\*\*|(?<=[^\s~])~~"),
    ("address", "word", r"<(?:https?|mailto):[^<>\s]{1,500}>"),
    ("drupal", "word", r"(?<![\w@])@@?[a-z_]\w*"),
    ("symbol", "word", r"(?<![\w:]):[a-z_]\w*:?(?!\w)"),
    ("hashtag", "word", r"(?<![\w&#])#[^\W\d_]\w*"),
    ("path", "word", r"(?<![\w./~-])(?:~|\.{1,2})?/(?:[\w.@+-]+/)*(?:[\w.@+-]*\w/?)"),
)  # fmt: skip
"""Name, role and pattern of each kind, in the order in which they are tried. Case is ignored."""

ROLES: dict[str, Role] = {name: role for name, role, _ in KINDS}
KIND = re.compile(
    r"(?=[%{$<&`\\#\[\]*~/@:.!|¦›·•>])(?:" + "|".join(f"(?P<{name}>{pattern})" for name, _, pattern in KINDS) + ")",
    re.IGNORECASE | re.DOTALL,
)
PATH = re.compile(r"(?<!\w)[a-z]:\\(?:[\w.-]+\\)*[\w.-]*\w|(?<![\w./-])(?:[\w.-]+/)+[\w-]+\.[a-z]\w{0,4}(?!\w)", re.I)
"""Paths that begin with a word."""
MAY_HOLD = re.compile(r"[%{$<&`\\#\[*~/@:|¦›·•>]")
"""Matches every text in which `KIND` or `PATH` can match. This test is much faster than the search."""
INLINE_TAGS = frozenset("a b big del em font i ins mark s small span strike strong sub sup u p div li ul ol".split())
"""Tags of HTML that, without their partner, are no word of the sentence."""
