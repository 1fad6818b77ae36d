"""Sentences with inline tags, translated as HTML: are the tags around the words that
`marked_sentences.tsv` accepts?

A line of the file has the direction, a class, the sentence, and for each tag a regular expression
of the words that it may be around in a translation. For an element that is not translated (`code`)
these are the words before it. A tag is not judged if the translation has none of them. The tags of
a sentence differ from each other.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

from server.services import Services, default_options
from server.translation import alignment
from server.translation.types import TranslationRequest

SENTENCES = Path(__file__).with_suffix(".tsv")
STARTS = re.compile(r"<(code|kbd)>.*?</\1>|<\w[^>]*>")
TAGS = re.compile(rf"{STARTS.pattern}|</\w+>")
HEADER = ("tags of", "tags", "judged", "position", "attention", "combined")
METHODS: dict[str, dict[str, Any]] = {
    "position": {"linked_words": Mock(return_value={})},
    "attention": {"compares_words": Mock(return_value=False)},
    "combined": {"compares_words": alignment.compares_words},
}
"""What the server computes the links with."""


async def measure(services: Services) -> list[list[object]]:
    """Returns the rows of the table: of how many tags the translation has acceptable words, and how
    many are around them."""
    options = default_options(services.settings)
    counts: Counter[tuple[str, str]] = Counter()
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        direction, kind, text, *accepted = line.split("\t")
        words = {tag[0]: words for tag, words in zip(STARTS.finditer(text), accepted, strict=True)}
        first, second = direction.split("-")
        request = TranslationRequest(
            texts=(text,),
            source=first,
            target=second,
            format="html",
            storage="none",
            options=options,
        )
        for method, parts in METHODS.items():
            with patch.multiple(alignment, **parts):
                [translation] = await services.translator.translate(request)
            for tag, pattern in words.items():
                verdict = judged(translation.text, tag, pattern)
                for each in (kind, "all"):
                    counts[each, "tags"] += method == "combined"
                    counts[each, "judged"] += verdict is not None and method == "combined"
                    counts[each, method] += bool(verdict)
    kinds = dict.fromkeys([*(kind for kind, _ in counts if kind != "all"), "all"])
    return [[kind, *(counts[kind, column] for column in HEADER[1:])] for kind in kinds]


def judged(translation: str, tag: str, accepted: str) -> bool | None:
    """Returns whether a tag of HTML is around accepted words, or an element behind them; None if
    there are no such words."""
    if not re.search(
        rf"(?<!\w)(?:{accepted})(?:(?<=\W)|(?!\w))",
        " ".join(_words(translation).split()),
        re.IGNORECASE,
    ):
        return None
    before, _, after = translation.partition(tag)
    if "</" in tag:
        return bool(re.search(rf"(?<!\w)(?:{accepted})\s*$", _words(before), re.IGNORECASE))
    inside = after.partition(f"</{re.findall('[a-z]+', tag)[0]}>")[0]
    return bool(re.fullmatch(accepted, _words(inside), re.IGNORECASE))


def _words(markup: str) -> str:
    return html.unescape(TAGS.sub("", markup))
