"""Texts with protected spans of every kind, and the text that a translation word by word makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LEXICON = {
    "en": "the station opens every morning before seven while nobody buys bread near our small house".split(),
    "de": "der bahnhof macht jeden morgen vor sieben auf und niemand kauft brot bei unserem kleinen haus".split(),
    "fr": "la gare ouvre chaque matin avant sept heures mais personne ne prend du pain chez nous".split(),
    "es": "la tienda abre todas las tardes pero nadie compra pan cerca de nuestra casa vieja".split(),
}
IDENTIFIERS = "name count user_name order total first filePath N2 x item2".split()
_TEMPLATES = {
    "printf": ["%s", "%d", "%1$s", "%2$d", "%({})s", "%-5.2f", "%.1f", "%@", "%lu", "%%", "%1$@", "%05d", "%n", "%1", "%L2"],
    "braces": ["{{{}}}", "{{0}}", "{{}}", "{{{}, number}}", "{{{}!r:>10}}"],
    "mustache": ["{{{{{}}}}}", "{{{{ {}.first }}}}", "{{{{{{{}}}}}}}", "{{% if {} %}}", "<%= {} %>"],
    "shell": ["${}", "${{{}}}", "${{{}:-x y}}", "$({})"],
    "ruby": ["%{{{}}}", "#{{{}}}", "%<{}>d"],
    "rails": [":{}"],
    "drupal": ["@{}", "@@{}"],
    "XML": ['<x id="{}"/>', "<ph/>", '<ph id="1" type="{}"/>', "<keep>{} b. c</keep>", '<span translate="no">{}</span>',
            "<code>{} = 1</code>", '<b class="notranslate">{}</b>'],
    "code": ["`{}`", "``{}()``", "`a. {}`"],
    "math": ["$x_{{{}}} + 1$", "\\(a^2\\)", "$$\\frac{{a}}{{b}}$$", "\\ref{{{}}}"],
    "entity": ["&hellip;", "&#8594;", "&copy;"],
    "path": ["/etc/{}/x.conf", "src/{}/main.py", "~/{}", "./{}.sh", "C:\\Temp\\{}.txt", "{}.pdf"],
    "address": ["https://example.org/{}?a=1", "{}@example.org", "www.example.org/{}"],
    "version": ["v2.14.0", "3.11.4", "1.2.3-beta"],
    "hash": ["3f2a9c1", "d41d8cd98f00b204e9800998ecf8427e"],
    "hashtag": ["#{}"],
    "date": ["2024-05-17", "2021-12-31T23:59:59Z"],
    "unit": ["12.5 MB", "120 km/h", "45 kWh", "300 px"],
    "number": ["25", "1998", "3.75", "40%", "1,250"],
    "name": ["A4", "COVID-19", "sha256"],
}  # fmt: skip
_PAIRS = [
    ('<g id="2">', "</g>"), ("<b>", "</b>"), ('<a href="https://a.org/x?b=c">', "</a>"), ("[", "](https://a.org/x)"),
    ("[", "](../docs/x.md)"), ("![", "](logo.png)"), ("**", "**"), ('<bpt id="1">', "</bpt>"),
]  # fmt: skip
KINDS = (*_TEMPLATES, "pair", "ICU")


@dataclass(frozen=True, slots=True)
class SpanText:
    """A text, its translation with every span in place, the kinds of its spans, and their protected parts."""

    text: str
    expected: str
    kinds: tuple[str, ...]
    parts: tuple[str, ...]


Part = tuple[str, str]
"""A part of a text and of its translation."""


class SpanTexts:
    """Generates texts in a language. `translate` translates a word."""

    def __init__(self, seed: int, language: str, translate: Callable[[str], str]) -> None:
        self._random = random.Random(f"{seed} {language}")
        self._lexicon = LEXICON[language]
        self._translate = translate
        self._protected: list[str] = []

    def next(self) -> SpanText:
        """Returns the next text."""
        self._protected = []
        kinds = self._random.sample(KINDS, self._random.choice((1, 1, 1, 2, 2, 3)))
        parts = self._words(self._random.randint(4, 8))
        for kind in kinds:
            parts.insert(self._random.randint(0, len(parts)), self._span(kind))
        end = self._random.choice((".", "!", "", "?"))
        source, target = (" ".join(part[side] for part in parts) + end for side in (0, 1))
        return SpanText(source, target, tuple(kinds), tuple(self._protected))

    def _words(self, number: int) -> list[Part]:
        return [(word, self._translate(word)) for word in self._random.choices(self._lexicon, k=number)]

    def _span(self, kind: str) -> Part:
        if kind == "pair":
            opening, closing = self._random.choice(_PAIRS)
            self._protected += [opening, closing]
            return _surrounded(opening, self._words(self._random.randint(1, 3)), closing)
        if kind == "ICU":
            return self._message()
        name = self._random.choice(IDENTIFIERS)
        span = self._random.choice(_TEMPLATES[kind]).format(name)
        self._protected += [span] if kind != "number" else []
        opening, closing = self._random.choice((("", ""), ("", ""), ("", ""), ("(", ")"), ('"', '"'), ("", ",")))
        return opening + span + closing, opening + span + closing

    def _message(self) -> Part:
        kind, arms = self._random.choice(
            (("plural", ("=0", "one", "other")), ("select", ("male", "female", "other")), ("selectordinal", ("other",)))
        )
        name = self._random.choice(IDENTIFIERS)
        head = f"{{{name}, {kind},"
        self._protected += [head, *[f" {arm} {{#" for arm in arms]]
        bodies = [_surrounded(f" {arm} {{# ", self._words(2), "}") for arm in arms]
        return _surrounded(head, bodies, "}", "")


def _surrounded(opening: str, parts: Sequence[Part], closing: str, space: str = " ") -> Part:
    source, target = (space.join(part[side] for part in parts) for side in (0, 1))
    return opening + source + closing, opening + target + closing
