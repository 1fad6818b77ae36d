"""Scans URIs (RFC 3986), www. and e-mail addresses (GFM 6.9, extended autolinks), handles, hashtags
and files; options of commands (GNU Coding Standards 4.8); expressions of programs; numbers of notes
and things; emoticons."""

from __future__ import annotations

from server.text.syntax.match import MARKS, NO_FLAG, around, by_pattern

_REST = (
    r"(?:[^\s<>()\[\]{}‹›«»„“”\u0e00-\u0eff\u3000-\u30ff\u3400-\u9fff\uff00-\uff65]"
    r"|\([^\s<>()]*\)|\[[^\s<>\[\]]*\]|\{[^\s{}]*\})+(?<![.,;:!?\"'’…])"
)
"""Brackets are balanced. Scripts without spaces end an address."""
_SCHEME = r"(?i:[a-z][a-z0-9+.-]{1,30})"
uri = around(_SCHEME, rf"{_SCHEME}(?=://){_REST}", "uri")
www = around(r"(?<![\w.])(?i:www)", rf"(?i:www)(?=\.){_REST}", "uri")
_SEGMENT = (
    rf"(?:(?:[\w{MARKS}.@+*]|-(?!(?<=[\w/]-)[A-Z][a-z]{{2}}))+|\[\w+\]|\{{[\w.]+\}}|:\w+|<[\w-]+>)"
)
_NAME = rf"[\w{MARKS}]"
handle = by_pattern(
    rf"(?<![\w@])@@?{_NAME}+(?:[.-][a-z0-9]\w*)*(?:@[\w-]+(?:\.[\w-]+)+|/[a-z][\w.-]*\w)?",
    "handle",
    flags=NO_FLAG,
)
hashtag = by_pattern(
    rf"(?<![\w&#])#[^\W\d_]{_NAME}*(?:(?:-[a-z\d]+)+(?![\w-]))?(?::[\w-]+(?:\.[\w-]+)+)?",
    "hashtag",
    flags=NO_FLAG,
)
"""A tag, a channel of IRC or a room of Matrix: #name, #a-b, #a:b.org."""
emoticon = by_pattern(
    r"(?<!\S)(?:[:;]['^-]?[()\[\]DPpOo|/*@$]+|=['^-]?[()\[\]DP]+|<3)(?![\w>/])",
    "emoticon",
    "point",
    NO_FLAG,
)
RAISED_DIGITS = "¹²³⁰⁴⁵⁶⁷⁸⁹"
note = by_pattern(
    r"(?<=[^\W\dA-Z_]{3})/\d\d?(?!\w|[/.,-]\w| [A-Z])"
    r"|(?:(?<=[^\W\d_]{3})|(?<=[^\W_][,.;:!?]))(?:\[(?!0\]|\d{3,4}\]:)\d{1,4}\])+(?![\w(\[])"
    rf"|(?:(?<=[^\W\d_]{{4}})|(?<=[^\W_][,.;:!?]))[{RAISED_DIGITS}]+(?!\w)",
    "note",
    "point",
    NO_FLAG,
)
"""The mark of a note at a word: house/15, children[15], twice.²"""
option = by_pattern(
    r"--[a-z]\w*(?:-\w+)*+(?:\[=\w+\]|=[^\s\"'`,;()\[\]“”«»]+(?<![.:!?]))?", "option"
)
"""An option in quotes or brackets. `exact_tokens` finds others with their command."""
unix_path = by_pattern(
    r"(?<![^\s(\[{\"'`«»„“‚‘‹›=:,;|>*#])(?<!\w#)(?<![\w.!?][\"'“”»])(?:(?:~|\.{1,2})/|(?<![€$£¥%] "
    r")/)"
    r"(?=[^\W\d]|[.*]\w|\*\.|\[|[\w.-]+/)"
    rf"(?:{_SEGMENT}/)*+(?:{_SEGMENT}(?<=[\w\]}}>]))?(?:\?[\w.%&=+-]*=[\w.%&=+-]*\w)?",
    "path",
    flags=NO_FLAG,
)
email = around(r"[\w.+-]{1,64}", r"[\w.+-]+@[\w-]{1,63}(?:\.[\w-]{1,63})+", "email")
file_path = around(
    r"(?<![\w./-])[\w.-]{1,100}",
    rf"(?:[\w-]+\.)+[a-z]{{2,18}}(?=/\w){_REST}|"
    r"[\w.-]+/(?:[\w.-]+/)*+[\w-]+\.(?:[a-z][a-z0-9]{0,4}|[A-Z][A-Z0-9]{1,3})(?!\w|\.\w)"
    r"|[ru]/[\w-]{2,21}(?![\w/])",
    "file",
)
"""A relative path: src/main.py; an address without a scheme: example.org/help; r/name of Reddit."""
named_file = around(
    r"(?<=[\"“„«])[^\"“”„«»<>?!\n]{1,90}",
    r"[^.\"”“»]* [^\"”“»]*\.[a-z][a-z\d]{1,3}(?=[\"”“»])",
    "file",
)
"""A file in quotes: "My report 2.pdf"."""
_LITERAL = r"[@\w]{0,2}\"[^\"\n]{0,80}\""
_ARGUMENT = rf"(?:{_LITERAL}|[^\s(),\"]+)"
expression = around(
    r"(?<![\w.-])[A-Za-z_][\w.:>-]{0,60}",
    r"(?:[A-Za-z]|\w+(?=\[\w+\]\[|\[0\]|\[\d{3,}\]:))(?:\[\w+\])+(?!\w)"
    r"|(?:\w+(?:\.|::|->))*\w+<[\w:.*&?]{1,60}(?:, ?[\w:.*&?<>]{1,60}){1,9}>"
    rf"|(?:(?:\w+(?:\.|::|->))+\w+|[a-z]+(?:_\w*|[A-Z]\w*)|\w+(?=\({_LITERAL}))\((?:{_ARGUMENT}(?:, ?{_ARGUMENT})*)?\)",
    "expression",
)
"""A name with brackets: a[i][j], Map<K, V>, os.rename(old, new)."""
numbered = around(
    r"(?<!\w)(?:[Nn](?:os?|úms?)?|[Aa]rts?)|(?<![\w.,-])\d[\d.' ]{0,12},",
    r"\d[\d.' ]*,(?:--?|–)(?![\w-])|\w+\.[ºª°]?[ \u00a0]?\d+(?:[-/.]\d+)*(?![\w:]|,\d)",
    "number",
    "number",
)
"""A number with an abbreviation (No. 5, art. 14.2, n.º 3), and an amount (5,-)."""
