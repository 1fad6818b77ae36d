"""Sentences with inline tags, translated as HTML: are the tags around the words that `marked_sentences.tsv` accepts?

A line of the file has the direction, a class, the sentence, and for each tag a regular expression of the words that it may be
around in a translation. For an element that is not translated (`code`) these are the words before it. A tag is not judged
if the translation has none of them. The tags of a sentence differ from each other.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock, patch

from server.services import Services, default_options
from server.text.markup.passages import Passage, parse_passages
from server.translation import alignment
from server.translation.types import TranslationRequest

SENTENCES = Path(__file__).with_suffix(".tsv")
HEADER = ("tags of", "tags", "judged", "position", "attention", "combined")
METHODS: dict[str, dict[str, Any]] = {
    "position": {"sentence_attention": AsyncMock(return_value=None)},
    "attention": {"sentence_pair": Mock(return_value=None)},
    "combined": {"sentence_pair": alignment.sentence_pair},
}
"""What the server computes the links with."""


async def measure(services: Services) -> list[list[object]]:
    """Returns the rows of the table: of how many tags the translation has acceptable words, and how many are around them."""
    options = default_options(services.settings)
    counts: Counter[tuple[str, str]] = Counter()
    for line in SENTENCES.read_text(encoding="utf-8").splitlines():
        direction, kind, text, *accepted = line.split("\t")
        [source] = parse_passages(text, "html")
        words = {mark.opening: words for mark, words in zip(source.marks, accepted, strict=True)}
        first, second = direction.split("-")
        request = TranslationRequest(
            texts=(text,), source=first, target=second, format="html", storage="none", options=options
        )
        for method, parts in METHODS.items():
            with patch.multiple(alignment, **parts):
                [translation] = await services.translator.translate(request)
            [target] = parse_passages(translation.text, "html")
            for tag, pattern in words.items():
                verdict = judged(target, tag, pattern)
                for each in (kind, "all"):
                    counts[each, "tags"] += method == "combined"
                    counts[each, "judged"] += verdict is not None and method == "combined"
                    counts[each, method] += bool(verdict)
    kinds = dict.fromkeys([*(kind for kind, _ in counts if kind != "all"), "all"])
    return [[kind, *(counts[kind, column] for column in HEADER[1:])] for kind in kinds]


def judged(target: Passage, tag: str, accepted: str) -> bool | None:
    """Returns whether a tag is around accepted words, or behind them if it has no text; None if there are no such words."""
    if not re.search(rf"(?<!\w)(?:{accepted})(?:(?<=\W)|(?!\w))", " ".join(target.text.split()), re.IGNORECASE):
        return None
    start, end = next(mark.span for mark in target.marks if mark.opening == tag)
    if "</" in tag:
        return bool(re.search(rf"(?<!\w)(?:{accepted})\s*$", target.text[:start], re.IGNORECASE))
    return bool(re.fullmatch(accepted, target.text[start:end], re.IGNORECASE))
