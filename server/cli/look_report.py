"""The alignment and the strongest heads of an attention answer, as tables for a terminal."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

_BAR = 12
"""Width of the bar of weight 1, in characters."""
SIDES = {"cross": ("target", "source"), "encoder": ("source", "source"), "decoder": ("target", "decoder_input")}


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


def head_table(heads: list[tuple[float, str, str, str]]) -> Table:
    """Returns a table of the heads of `strongest`."""
    table = Table(title="Strongest heads", title_justify="left", box=None)
    for name in ("head", "role", "strength", "largest weight"):
        table.add_column(name)
    for strength, name, role, largest in heads:
        table.add_row(name, role, bar(strength), Text(largest))
    return table


def strongest(answer: dict[str, Any]) -> list[tuple[float, str, str, str]]:
    """Returns strength, name, role and largest weight of all heads, the strongest first. The strength is the mean over the
    words of the largest weight on another word; those on special tokens and of a source word on itself do not count."""
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
            largest = f"{queries[rows[row]]['text']} → {keys[columns[column]]['text']}  {map[row, column]:.2f}"
            role = str(answer["figures"][kind][layer][head]["role"])
            heads.append((float(map.max(axis=1).mean()), f"{kind}.{layer}.{head}", role, largest))
    return sorted(heads, key=lambda head: -head[0])


def bar(share: float) -> Text:
    """Returns a bar with its number."""
    full = round(_BAR * max(0.0, min(1.0, share)))
    return Text.assemble(("█" * full, "cyan"), ("·" * (_BAR - full), "dim"), f" {share:.2f}")
