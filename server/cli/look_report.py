"""The alignment and the strongest heads of an attention answer, as tables for a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

_BAR = 12
"""Width of the bar of weight 1, in characters."""
SIDES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "decoder_input")}


@dataclass(frozen=True, slots=True)
class StrongHead:
    """A head with its strength: the mean over the words of the largest weight on another word. `query` and `key` are the words of
    its largest weight, `weight`."""

    name: str
    role: str
    strength: float
    query: str
    key: str
    weight: float


def show(answer: dict[str, Any], console: Console, heads: int) -> None:
    """Prints the sentence, its translation, the alignment, and the strongest heads of an answer in JSON at word level."""
    console.print(Text(answer["source"]["text"], style="bold"))
    console.print(Text(answer["target"]["text"], style="bold cyan"))
    if answer["sentences"] > 1:
        console.print(f"Sentence {answer['sentence']} of {answer['sentences']}, counted from 0.", style="dim")
    console.print()
    console.print(alignment_table(answer))
    if heads and (strong := strongest(answer)[:heads]):
        console.print()
        console.print(head_table(strong))


def alignment_table(answer: dict[str, Any]) -> Table:
    """Returns a table with a row for each word of the translation and the source words that it is linked to."""
    sources, targets = answer["source"]["words"], answer["target"]["words"]
    table = Table(title=f"Word alignment ({answer['alignment']['method']})", title_justify="left", box=None)
    for name in ("translation", "source", "weight"):
        table.add_column(name)
    for number, word in enumerate(targets):
        if word["start"] == word["end"]:
            continue
        links = [(sources[i]["text"], weight) for i, j, weight in answer["alignment"]["links"] if j == number]
        largest = max((weight for _, weight in links), default=0.0)
        linked = Text(", ".join(text for text, _ in links)) if links else Text("none", style="dim")
        table.add_row(Text(word["text"]), linked, bar(largest) if links else "")
    return table


def head_table(heads: list[StrongHead]) -> Table:
    """Returns a table of heads."""
    table = Table(title="Strongest heads", title_justify="left", box=None)
    for name in ("head", "role", "strength", "largest weight"):
        table.add_column(name)
    for head in heads:
        largest = Text.assemble(head.query, " → ", head.key, f"  {head.weight:.2f}")
        table.add_row(head.name, head.role, bar(head.strength), largest)
    return table


def strongest(answer: dict[str, Any]) -> list[StrongHead]:
    """Returns all heads, the strongest first. Weights on special tokens, and of a source word on itself, do not count."""
    heads = []
    for kind, sides in SIDES.items():
        if kind not in answer or answer[kind] is None:
            continue
        queries, keys = (answer[side]["words"] for side in sides)
        rows, columns = (
            [i for i, word in enumerate(words) if word["start"] < word["end"]] for words in (queries, keys)
        )
        if not rows or not columns:
            continue
        weights = np.array(answer[kind], dtype=np.float32)[:, :, rows][..., columns]
        if kind == "encoder":
            weights[..., range(len(rows)), range(len(rows))] = 0
        for layer, head in np.ndindex(*weights.shape[:2]):
            map = weights[layer, head]
            row, column = np.unravel_index(int(map.argmax()), map.shape)
            heads.append(
                StrongHead(
                    name=f"{kind}.{layer}.{head}",
                    role=str(answer["figures"][kind][layer][head]["role"]),
                    strength=float(map.max(axis=1).mean()),
                    query=queries[rows[row]]["text"],
                    key=keys[columns[column]]["text"],
                    weight=float(map[row, column]),
                )
            )
    return sorted(heads, key=lambda head: -head.strength)


def bar(share: float) -> Text:
    """Returns a bar with its number."""
    full = round(_BAR * max(0.0, min(1.0, share)))
    return Text.assemble(("█" * full, "cyan"), ("·" * (_BAR - full), "dim"), f" {share:.2f}")
