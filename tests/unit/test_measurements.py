"""The tables of the measurements name every result file, and the speeds of the README are those of the files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
TABLES = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def rows(name: str, **values: object) -> list[dict[str, Any]]:
    """Returns the rows of a result file that have these values."""
    stored = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    return [row for row in stored if all(row[key] == value for key, value in values.items())]


def test_every_result_file_is_named_and_exists() -> None:
    assert set(re.findall(r"results/([\w.-]+\.json)", TABLES)) == {path.name for path in RESULTS.iterdir()}


def test_the_speeds_of_the_readme_are_those_of_the_result_files() -> None:
    figures = []
    for batch in (1, 64):
        ours, theirs = rows("engine-base-greedy-2-threads.json", batch=batch)
        figures.append(f"{ours['tokens/s']:,.0f} tokens/s | CTranslate2: {theirs['tokens/s']:,.0f}")
    for comparison in ("defaults", "greedy"):
        [row] = rows("load-beside-libretranslate-zen4.json", comparison=comparison, clients=32)
        figures += [f"| {row['sentences/s']:.0f} sentences/s |", f": {row['theirs']:.0f} |"]
    speed = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Speed\n")[1].split("\n## ")[0]
    assert [figure for figure in figures if figure not in speed] == []
