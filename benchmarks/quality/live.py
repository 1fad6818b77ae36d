"""Quality against delay of live translation: AlignAtt with several waits, wait-k, and whole
sentences.

python -m benchmarks.quality.live http://127.0.0.1:8000 --data DATA --set tatoeba-dev --limit 200
--directions en-de de-en

Sentences are sent word by word. The delay is average lagging (Ma et al. 2019, "STACL"): by how many
source words the translation lags behind one that is perfectly in step. With wait-k (same paper),
word t of the translation goes out after k + t - 1 words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import httpx

from benchmarks.common import report
from benchmarks.common.command_line import new_parser, run
from benchmarks.common.development_sets import DevelopmentSet, choose, read_sets
from model.evaluation import score

_TWO = re.compile(r"[.!?]\s")
"""Two sentences, of which POST /live translates the first."""
_HEADER = ("direction", "policy", "average lagging (words)", "BLEU", "chrF")
Policy = tuple[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    parser = new_parser("quality.live", __doc__, "--data", "--set")
    parser.add_argument("url")
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--directions", nargs="+", default=["en-de", "de-en"])
    parser.add_argument("--wait", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--k", nargs="*", type=int, default=[1, 3, 5])
    options = parser.parse_args(arguments)
    policies: list[Policy] = [
        *(("AlignAtt, wait", wait) for wait in options.wait),
        *(("wait-k, k", k) for k in options.k),
        ("whole sentences", 0),
    ]

    def measure() -> None:
        sets = choose(read_sets(options.data, [options.set], options.limit), options.directions)
        with httpx.Client(base_url=options.url, timeout=60) as client:
            rows = [measured(client, item, policy) for item in sets for policy in policies]
        print(report.table(_HEADER, rows))

    return run(measure)


def measured(client: httpx.Client, item: DevelopmentSet, policy: Policy) -> list[Any]:
    """Returns the row of a development set and a policy."""
    pairs = [
        pair for pair in zip(item.sources, item.references, strict=True) if not _TWO.search(pair[0])
    ]
    answers = [translate(client, text, item.source, item.target, policy) for text, _ in pairs]
    scores = score(
        [text for text, _ in answers], [reference for _, reference in pairs], item.target
    )
    lagging = sum(lag for _, lag in answers) / len(answers)
    name, value = policy
    return [
        item.direction,
        f"{name} {value}" if value else name,
        f"{lagging:.1f}",
        f"{scores.bleu:.1f}",
        f"{scores.chrf:.1f}",
    ]


def translate(
    client: httpx.Client, text: str, source: str, target: str, policy: Policy
) -> tuple[str, float]:
    """Returns the translation of a sentence that is sent word by word, and its average lagging."""
    name, value = policy
    words, shown = text.split(), ""
    prefix: list[str] = []
    # the number of source words that were read when each word of the translation went out
    read: list[int] = []
    for count in range(1 if value else len(words), len(words) + 1):
        final, wait = count == len(words), value if name.startswith("Align") else 0
        ask: dict[str, Any] = {"q": " ".join(words[:count]), "source": source, "target": target}
        ask |= {"prefix": prefix, "final": final, "wait": wait}
        answer = client.post("/live", json=ask).raise_for_status().json()
        prefix, shown = answer["prefix"], answer["target"]["text"][: answer["kept"]]
        if name.startswith("wait-k") and not final:
            prefix, shown = _first_words(answer, max(0, count - value + 1))
        read += [count] * (len(shown.split()) - len(read))
    return shown, average_lagging(read, len(words))


def average_lagging(read: Sequence[int], length: int) -> float:
    """Returns the mean of read[t] - t * length / len(read) over the words up to the first that went
    out after the last source word."""
    if not read:
        return float(length)
    until = next((t for t, count in enumerate(read) if count >= length), len(read) - 1)
    return sum(read[t] - t * length / len(read) for t in range(until + 1)) / (until + 1)


def _first_words(answer: dict[str, Any], count: int) -> tuple[list[str], str]:
    """Returns the pieces and the text of the first words, between spaces, of a translation."""
    text, offsets, pieces = (answer["target"][name] for name in ("text", "offsets", "pieces"))
    end = len(" ".join(text.split(" ")[:count]))
    kept = sum(stop <= end for _, stop in offsets[:-1]) if count else 0
    return pieces[:kept], text[:end]


if __name__ == "__main__":
    sys.exit(main())
