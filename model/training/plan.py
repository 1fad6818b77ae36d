"""Preview of a training: the target tokens of an epoch by direction and domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.training.data.sampling import sampling_rates, target_tokens
from model.training.data.shards import Shard
from model.training.recipe import Recipe

_OTHER_DOMAIN = "other"


def describe(shard: Shard, recipe: Recipe, speed: float | None = None) -> str:
    """Returns a Markdown table of expected target tokens per epoch (millions) by domain and direction, with shares.

    With `speed` in target tokens per second a last line has the number of epochs in the recipe's minutes.
    """
    sampled = sampling_rates(shard, recipe)
    tokens = sampled * target_tokens(shard)  # (G, 2)
    domains = {source: domain for domain, sources in recipe.data.domains.items() for source in sources}
    columns = ["-".join(way) for way in recipe.directions]
    cells: dict[str, dict[str, float]] = {}
    for name, (from_english, into_english) in zip(shard.groups, tokens.tolist(), strict=True):
        source, language = name.rsplit(":", 1)
        row = cells.setdefault(domains.get(source, _OTHER_DOMAIN), dict.fromkeys(columns, 0.0))
        row[f"en-{language}"] += from_english
        row[f"{language}-en"] += into_english
    total = float(tokens.sum())
    rows = sorted(cells.items(), key=lambda cell: -sum(cell[1].values()))
    lines = [_line("domain", [*columns, "share"]), _line("---", ["---:"] * (len(columns) + 1))]
    for domain, row in rows:
        shown = [f"{row[column] / 1e6:.2f}" for column in columns]
        lines.append(_line(domain, [*shown, f"{100 * sum(row.values()) / total:.1f}%"]))
    sums = {column: sum(row[column] for _, row in rows) for column in columns}
    lines.append(_line("all", [*(f"{value / 1e6:.2f}" for value in sums.values()), f"{total / 1e6:.1f} M"]))
    lines.append(_line("share", [*(f"{100 * value / total:.1f}%" for value in sums.values()), ""]))
    lines.append(_line("a pair is seen", [*_uses_per_pair(shard, sampled, columns), "times"]))
    if speed is not None and recipe.train.minutes is not None:
        seen = 60 * recipe.train.minutes * speed
        lines.append(f"\n{recipe.train.minutes:g} minutes at {speed:,.0f} tokens/s: {seen / 1e6:,.0f} M tokens,")
        lines[-1] += f" {seen / total:.1f} epochs."
    return "\n".join(lines)


def _uses_per_pair(
    shard: Shard, sampled: np.ndarray[tuple[int, ...], np.dtype[np.float64]], columns: Sequence[str]
) -> list[str]:
    """Returns how often a pair is used in an epoch on average, by direction."""
    pairs = np.bincount(shard.group, minlength=len(shard.groups))
    uses = []
    for column in columns:
        left, right = column.split("-")
        of = [i for i, name in enumerate(shard.groups) if name.endswith(f":{right if left == 'en' else left}")]
        count = max(1, int(pairs[of].sum()))
        uses.append(f"{float((sampled[of, int(left != 'en')] * pairs[of]).sum()) / count:.2f}")
    return uses


def _line(first: str, cells: Sequence[str]) -> str:
    return "| " + " | ".join([first, *cells]) + " |"
