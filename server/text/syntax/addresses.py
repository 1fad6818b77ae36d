"""Scans addresses: URIs (RFC 3986), www. and e-mail addresses (GFM 6.9, extended autolinks), handles, hashtags, paths of Unix
and Windows; and emoticons."""

from __future__ import annotations

import re

from server.text.syntax.match import MARKS, NO_FLAG, Match, Source, by_pattern

_CLOSING = ".,;:!?)]}\"'»”’…"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]{1,30}$", re.IGNORECASE)
_REST = re.compile(r"[^\s<>‹›«»„“”\u0e00-\u0eff\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]+")
"""Scripts without spaces would go on after an address."""
_LOCAL = re.compile(r"[\w.+-]{1,64}$")
_DOMAIN = re.compile(r"@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_BEFORE_FILE = re.compile(r"(?<![\w./-])[\w.-]{1,100}$")
_FILE = re.compile(r"/(?:[\w.-]+/)*+[\w-]+\.(?:[a-z][a-z0-9]{0,4}|[A-Z][A-Z0-9]{1,3})(?!\w|\.\w)")
_COMMUNITY = re.compile(r"(?<![\w./-])(?:r/\w{2,21}|u/[\w-]{3,20})(?![\w/])")
_WINDOWS = re.compile(r":\\(?:[\w.$-]+\\)*[\w.$-]*\w")
_SEGMENT = r"(?:(?:[\w.@+*]|-(?!(?<=[a-z]-)[A-Z][a-z]{2}))+|\[\w+\]|\{[\w.]+\}|:\w+|<[\w-]+>)"
_NAME = rf"[\w{MARKS}]"
handle = by_pattern(
    rf"(?<![\w@])@@?{_NAME}+(?:\.[a-z0-9]\w*)*(?:@[\w-]+(?:\.[\w-]+)+|/[a-z][\w.-]*\w)?", "word", "handle", NO_FLAG
)
hashtag = by_pattern(rf"(?<![\w&#])#[^\W\d_]{_NAME}*", "word", "hashtag")
emoticon = by_pattern(
    r"(?<!\S)(?:[:;]['^-]?[()\[\]DPpOo|/*@$]+|=['^-]?[()\[\]DP]+|<3)(?![\w>/])", "point", "emoticon", NO_FLAG
)
note = by_pattern(
    r"(?<=[^\W\dA-Z_]{3})/\d{1,4}(?!\w|[/.-]\w)|(?:(?<=[^\W\d_]{3})|(?<=[^\W_][,.;:!?]))(?:\[\d{1,4}\])+(?![\w(\[])",
    "point",
    "note",
    NO_FLAG,
)
"""The number of a note at a word: house/15, children[15]."""
share = by_pattern(r"(?<!\w)\\\\[\w.-]+\\(?:[\w.$-]+\\)*[\w.$-]*\w", "word", "path")
unix_path = by_pattern(
    r"(?<![^\s(\[{\"'`«»„“‚‘‹›=:,;|>*#])(?<!\w#)(?<![\w.!?][\"'])(?:(?:~|\.{1,2})/|(?<![€$£¥%] )/)"
    r"(?=[^\W\d]|[.*]\w|\*\.|\[|[\w.-]+/)"
    rf"(?:{_SEGMENT}/)*+(?:{_SEGMENT}(?<=[\w\]}}>]))?(?:\?[\w.%&=+-]*=[\w.%&=+-]*\w)?",
    "word",
    "path",
    NO_FLAG,
)


def uri(source: Source, at: int) -> Match | None:
    """Returns the address around "://", or at "www."."""
    text, start = source.text, at
    if text[at] == ":":
        scheme = _SCHEME.search(text, max(source.done, at - 31), at) if text.startswith("://", at) else None
        if scheme is None:
            return None
        start = scheme.start()
    elif text[max(source.done, at - 3) : at].lower() == "www" and not re.match(r"[\w.]", text[max(0, at - 4) : at - 3]):
        start = at - 3
    else:
        return None
    rest = _REST.match(text, at)
    end = at + len(rest[0].rstrip(_CLOSING)) if rest else at
    if end < at + (3 if text[at] == ":" else 2):
        return None
    return Match(start, _balanced(text, start, end), "word", "uri")


def email(source: Source, at: int) -> Match | None:
    """Returns the e-mail address around "@"."""
    domain = _DOMAIN.match(source.text, at)
    local = _LOCAL.search(source.text, max(source.done, at - 64), at) if domain else None
    return Match(local.start(), domain.end(), "word", "email") if domain and local else None


def community(source: Source, at: int) -> Match | None:
    """Returns the name of a forum or of a user of Reddit around its slash: r/name, u/name."""
    found = _COMMUNITY.match(source.text, at - 1) if at > source.done else None
    return Match(at - 1, found.end(), "word", "handle") if found else None


def file_path(source: Source, at: int) -> Match | None:
    """Returns the relative path of a file around its first slash: src/main.py."""
    text = source.text
    before = _BEFORE_FILE.search(text, max(source.done, at - 100), at)
    found = _FILE.match(text, at) if before else None
    return Match(before.start(), found.end(), "word", "file") if found and before else None


def windows_path(source: Source, at: int) -> Match | None:
    """Returns the path after the letter of a drive, at its colon."""
    text = source.text
    found = _WINDOWS.match(text, at) if at > source.done and text[at - 1].isascii() and text[at - 1].isalpha() else None
    if found is None or (at > 1 and (text[at - 2].isalnum() or text[at - 2] == "_")):
        return None
    return Match(at - 1, found.end(), "word", "path")


def _balanced(text: str, start: int, end: int) -> int:
    close = text.find(")", start, end)
    return end if close < 0 or text.find("(", start, close) >= 0 else close
