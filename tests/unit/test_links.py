"""Links and figures of the documentation refer to files that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/**/*.md")]
)


def anchors(document: Path) -> set[str]:
    """Returns the anchors of the headings, formed as GitHub does."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        assert found.exists(), target
        assert not fragment or fragment in anchors(found), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_named_folders_exist(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    tops = "server|model|benchmarks|tests|deploy|docs|weights"
    for target in re.findall(rf"`((?:{tops})/[\w./-]*)`", text):
        assert (ROOT / target).exists(), target


RESULTS = ROOT / "benchmarks" / "results"
TABLES = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")


def rows(name: str, **values: object) -> list[dict[str, Any]]:
    """Returns the rows of a result file that have these values."""
    stored = json.loads((RESULTS / name).read_text(encoding="utf-8"))["rows"]
    return [row for row in stored if all(row[key] == value for key, value in values.items())]


def test_every_result_file_is_named_and_exists() -> None:
    assert set(re.findall(r"results/([\w.-]+\.json)", TABLES)) == {
        path.name for path in RESULTS.iterdir()
    }


def test_the_speeds_of_the_readme_are_those_of_the_result_files() -> None:
    figures = []
    for batch in (1, 64):
        ours, theirs = rows("engine-base-greedy-2-threads.json", batch=batch)
        figures.append(f"{ours['tokens/s']:,.0f} tokens/s | CTranslate2: {theirs['tokens/s']:,.0f}")
    for comparison in ("defaults", "greedy"):
        [row] = rows("load-beside-libretranslate-zen4.json", comparison=comparison, clients=32)
        figures += [f"| {row['sentences/s']:.0f} sentences/s |", f": {row['theirs']:.0f} |"]
    speed = (
        (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Speed\n")[1].split("\n## ")[0]
    )
    assert [figure for figure in figures if figure not in speed] == []
