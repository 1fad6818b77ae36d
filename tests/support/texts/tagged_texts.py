"""Texts generated from the grammars of every syntax that the scanners read, nested in each other up
to three deep, with codes at the start, at the end, beside each other and inside words."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

WORDS = (
    "the cat sleeps at home and two dogs see a red house while it rains on their old garden Anna "
    "NASA PLEASE READ THIS"
).split()
"""Words of a text, all of which the hostile vocabulary has."""
SIGNS = (
    "😀",
    "❤️",
    "👩‍👩‍👧",
    "🇩🇪",
    "\uf015",
    "สวัสดี",
    "नमस्ते",
    "தமிழ்",
    "שָׁלוֹם",
    "مَرْحَبًا",
    "『』",
    "〜",
    "猫",
    "é",
    "e\u0301",
    "½",
    "…",
    "ﬁ",
)
"""Characters that the hostile vocabulary lacks, or has only in another form."""
Format = Literal["text", "html", "xml"]


@dataclass(frozen=True, slots=True)
class TaggedText:
    """A text of a `format`, and for each of its codes that has a number of its own the part with
    this number, and its syntax."""

    text: str
    format: Format
    marks: tuple[tuple[str, str], ...]


class TaggedTexts:
    """Generates texts with codes that are nested up to three deep."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._format: Format = "text"
        self._marks: list[tuple[str, str]] = []

    def next(self) -> TaggedText:
        """Returns the next text."""
        self._marks = []
        depth = self._random.choice((0, 1, 1, 2, 3))
        self._format = self._random.choices(("text", "html", "xml"), (3, 2, 2))[0]
        sentences = [self._sentence(depth) for _ in range(self._random.choice((1, 1, 1, 2, 3)))]
        text = self._random.choice((" ", " ", "\n")).join(sentences)
        if self._format == "html" and self._random.random() < 0.5:
            text = self._random.choice(
                ("<p>{}</p>", "<div><p>{}</p></div>", "<ul><li>{}</li></ul>", "<p>{}")
            ).format(text)
        if self._format == "xml" and self._random.random() < 0.7:
            text = f"<r>{text}</r>"
        return TaggedText(text, self._format, tuple(self._marks))

    def _sentence(self, depth: int) -> str:
        """Returns words with codes among them. A code may be inside a word."""
        parts = self._random.choices(WORDS, k=self._random.randint(0, 6))
        if self._random.random() < 0.1:  # a sentence in capitals
            parts = [part.upper() for part in parts]
        for _ in range(self._random.choice((0, 1, 1, 2, 2, 3))):
            parts.insert(self._random.randint(0, len(parts)), self._code(depth))
        text = ""
        for part in parts:
            text += ("" if self._random.random() < 0.12 else " ") * bool(text) + part
        return text + self._random.choice((".", "!", "", "", "?"))

    def _code(self, depth: int) -> str:
        kinds = {"text": TEXT, "html": HTML, "xml": XML}[self._format]
        kind = self._random.choice([*kinds, *PLAIN] if depth > 0 else [*kinds[:2], *ALONE])
        return kind(self, depth)

    def inside(self, depth: int) -> str:
        """Returns the content of a code: words with further codes, of one or two sentences."""
        content = " ".join(self._random.choices(WORDS, k=self._random.randint(1, 3)))
        if depth > 1:
            content = self._sentence(depth - 1).strip() or content
        return (
            content
            if self._random.random() < 0.8
            else f"{content}. {self._sentence(depth - 1).capitalize()}"
        )

    def mark(self, kind: str, pattern: str) -> str:
        """Returns a part with a number that no other code has. It is written at the two signs
        `@@`."""
        part = pattern.replace("@@", f"qz{len(self._marks) + 1}")
        if self._format != "text" and ("<" in part or "&" in part or '"' in part):
            part = part.replace("&", "&amp;").replace("<", "&lt;")
        self._marks.append((kind, f"qz{len(self._marks) + 1}"))
        return part

    def choice(self, options: tuple[str, ...]) -> str:
        return self._random.choice(options)


Kind = Callable[[TaggedTexts, int], str]


def _alone(kind: str, *patterns: str) -> Kind:
    return lambda texts, _: texts.mark(kind, texts.choice(patterns))


def _around(kind: str, *patterns: str) -> Kind:
    """Returns a code around words, which are at `\\0`."""

    def generate(texts: TaggedTexts, depth: int) -> str:
        opening, _, closing = texts.mark(kind, texts.choice(patterns)).partition("\0")
        return opening + texts.inside(depth) + closing

    return generate


def _message(texts: TaggedTexts, depth: int) -> str:
    head = texts.mark(
        "message",
        texts.choice(("{@@, plural, one {", "{ @@, plural, =0 {cat} one {", "{@@, select, a {")),
    )
    return f"{head}{texts.inside(depth)}}} other {{{texts.inside(depth)}}}}}"


def _select(texts: TaggedTexts, depth: int) -> str:
    head = texts.mark("fluent", "{ $@@ -> [one] ")
    return f"{head}{texts.inside(depth)} *[other] {texts.inside(depth)} }}"


def _plain(*parts: str) -> Kind:
    """Returns codes that may occur several times."""
    return lambda texts, _: texts.choice(parts)


ALONE: tuple[Kind, ...] = (
    _alone("printf", "%(@@)s", "%(@@)d"),
    _plain("%s", "%d", "%-5.2f", "%1$s", "%1", "%n", "%@", "%%"),
    _alone(
        "template", "{{ @@ }}", "{{@@}}", "{{{@@}}}", "${@@}", "#{@@}", "{@@}", "{@@:N2}", "{% @@ %}",
        "%{@@}", "__@@__",
    ),
    _alone("fluent", "{ $@@ }", "{ -@@ }", '{ @@(a: "x") }', '{ "@@" }'),
    _alone("latex", "$@@_1^2$", r"\(@@ + 1\)", r"\[@@\]", r"\textbf{@@}", r"\begin{x}@@\end{x}"),
    _alone("wiki", "[[@@]]", "[[@@|cat]]", "*|@@|*"),
    _alone("code span", "`@@ x`", "``@@``"),
    _alone("address", "https://@@.org/a?b=1", "www.@@.org", "@@@example.org", r"C:\dir\@@.txt", "/usr/lib/@@/x", "@@@"),
    _alone("program", "(--@@)", "'--@@=x'", "@@[i][j]", "Map<@@, cat>", "os.@@(a, b)"),
    _plain(
        "\u2066", "\u2069", "\u200e", "No. 5", "art. 7.2", "cat,²", "twice²", '\\"%s\\"', "<v Anna>"
    ),
    _plain("\\n", "\\t", "it''s", ":)", "a > b", "| cat |", "10s", "5x", "[15]", "(15)", "r/name", "a)", "&", "<3", "$5"),
    _plain(*SIGNS, "\u00ad", "\u00a0", "\u200b", "\t", "\u2028", "’", "cat’s", "\x00", "\x1b[0m", "---", "\r\n"),
    _plain("&lt;ph1&gt;", "Tom", "27", "Tom's", "Linux 42", "Bostons", "27th", "Tom27", "ph1", "<ph1>", "<ph2>s", "<g>"),
)  # fmt: skip
PLAIN: tuple[Kind, ...] = (
    *ALONE,
    _message,
    _select,
    _around("template", "{% if @@ %}\0{% endif %}", "{{#if @@}}\0{{/if}}", "{{#@@}}\0{{/@@}}"),
    _around("bbcode", "[b]\0[/b]", "[url=https://@@.org]\0[/url]", "[i]\0[/i]"),
    _around(
        "markdown", "**\0**", "[\0](https://@@.org)", "![\0](@@.png)", "~~\0~~", "*\0*", "_\0_"
    ),
)
TEXT: tuple[Kind, ...] = (
    _plain("<br>", "<b>", "</b>", "<your-name>"),
    _alone("tag", '<img src="@@">', "<@@/>"),
    _around("tag", "<b>\0</b>", '<a href="@@">\0</a>', "<0>\0</0>", "<1>\0</1>"),
    _alone("template", "<%= @@ %>", "<? @@ ?>"),
)


def _tag(kind: str, *patterns: str) -> Kind:
    """Returns markup of HTML or XML, which is written as it is."""

    def generate(texts: TaggedTexts, depth: int) -> str:
        number = texts.mark(kind, "@@")
        opening, middle, closing = texts.choice(patterns).replace("@@", number).partition("\0")
        return opening + (texts.inside(depth) if middle else "") + closing

    return generate


HTML: tuple[Kind, ...] = (
    _tag(
        "html",
        '<img alt="@@">',
        "<!-- @@ -->",
        '<wbr id="@@">',
        '<br id="@@">',
        '<span id="@@"></span>',
    ),
    _plain("&nbsp;", "&lt;b&gt;", "&amp;", "&#128512;", "<br>", "&", "<"),
    _tag(
        "html",
        '<b id="@@">\0</b>',
        '<i id="@@">\0</i>',
        "<a href='@@'>\0</a>",
        '<span id="@@">\0</span>',
    ),
    _tag(
        "html",
        "{{ @@ &gt; 1 }}",
        "{{ @@ > 1 }}",
        "${@@ &lt; 1}",
        "<%= @@ %>",
        "<? @@ ?>",
        "{% if @@ > 1 %}\0{% endif %}",
    ),
    _tag(
        "html",
        '<sup id="@@">1</sup>',
        '<sup><a href="#@@">[15]</a></sup>',
        "<sup>\0<b id=@@></b></sup>",
    ),
    _tag(
        "html",
        '<ruby id="@@">cat<rt>dog</rt></ruby>',
        '<code id="@@">cat</code>',
        '<i lang="fr" id="@@">la</i>',
    ),
    _tag(
        "html",
        '<p id="@@">\0</p>',
        '<li id="@@">\0',
        '<script id="@@">a<b</script>',
        '<p translate="no" id="@@">\0</p>',
    ),
    _tag(
        "html",
        '<b id="@@">\0',
        '</b id="@@">',
        "<b><i id=@@>\0</b></i>",
        '<b title="{{ @@ }}">\0</b>',
    ),
)
XML: tuple[Kind, ...] = (
    _tag("xml", '<x id="@@"/>', "<!-- @@ -->", "<?pi @@?>", '<g id="@@"></g>'),
    _plain("&amp;", "&lt;", "&#x1F600;", "&quot;", "&#10;", "&gt;"),
    _tag("xml", '<g id="@@">\0</g>', '<ph:b id="@@">\0</ph:b>', "<i id='@@'>\0</i>"),
    _tag(
        "xml",
        "<![CDATA[@@ cat]]>",
        '<![CDATA[cat <b id="@@">dogs</b> & two]]>',
        "<![CDATA[<p @@>red & old</p>]]>",
    ),
    _tag(
        "xml",
        "<![CDATA[<b>&lt; {@@} &amp; {{ @@ > 1 }}</b> cat]]>",
        "{{ @@ &gt; 1 }}",
        "{{ @@ > 1 }}",
        "${@@ &lt; 1}",
    ),
    _tag(
        "xml", '<p id="@@">\0</p>', '<script id="@@">a</script>', '<g translate="no" id="@@">\0</g>'
    ),
)
