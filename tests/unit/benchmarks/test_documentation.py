"""Commands of the documentation have options that the programs accept; every program and every result file is named; the
figures of the README are those of the result files."""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "benchmarks"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
FOREIGN = {"engine.marian_process", "load.libretranslate_server"}
"""Scripts that run in the Python of another program."""
MODULES = {
    ".".join(path.relative_to(FOLDER).with_suffix("").parts).removesuffix(".__main__"): path
    for path in FOLDER.rglob("*.py")
}


class ParsedError(Exception):
    """The arguments were accepted."""


def documents() -> Iterator[tuple[str, str]]:
    """Yields the name and the text of each document and of each docstring of a benchmark."""
    for path in sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *FOLDER.rglob("*.md"), *ROOT.glob("weights/*/*.md")]
    ):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    for name, path in sorted(MODULES.items()):
        yield name, ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def commands() -> Iterator[object]:
    """Yields each command with arguments: its module and its words. Without arguments it is the name of a program."""
    for document, text in documents():
        text = re.sub(r"`(python\s+-m[^`]*)`", lambda found: "\n" + " ".join(found[1].split()) + "\n", text)
        for module, rest in re.findall(r"python -m (benchmarks\.[a-z_.]+) (.+)", text.replace("\\\n", " ")):
            words = [word for word in shlex.split(rest, comments=True) if word != "&"]
            yield pytest.param(module, words, id=f"{document}: {module} {' '.join(words)}")


@pytest.mark.parametrize(("module", "words"), list(commands()))
def test_the_arguments_of_commands_are_accepted(
    module: str, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> None:
        _, unknown = parser.parse_known_args(arguments)
        raise ParsedError if not unknown else AssertionError(unknown)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    path = MODULES[module.removeprefix("benchmarks.")]
    program = importlib.import_module(f"{module}.__main__" if path.name == "__main__.py" else module)
    try:
        program.main(words)
    except ParsedError:
        return
    except SystemExit as end:
        assert end.code == 0, capsys.readouterr().err  # 0 is --help


def test_every_program_has_a_row_in_the_table() -> None:
    programs = {
        name for name, path in MODULES.items() if 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")
    }
    listed = set(re.findall(r"^\| `([\w.]+)(?: \w+)?` \|", README, re.MULTILINE))
    assert programs - FOREIGN <= listed <= set(MODULES)


def test_every_result_file_is_named() -> None:
    patterns = set(re.findall(r"results/([\w*.-]+\w)", README))
    files = {path.name for path in (FOLDER / "results").iterdir()}
    assert {name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)} == set()
    assert {pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in files)} == set()


def rows(name: str, **wanted: object) -> list[dict[str, Any]]:
    """Returns the rows of a result file that have these values."""
    found = json.loads((FOLDER / "results" / name).read_text(encoding="utf-8"))["rows"]
    return [row for row in found if all(row[key] == value for key, value in wanted.items())]


def test_the_speeds_in_the_readme_are_those_of_the_result_files() -> None:
    figures = []
    for batch in (1, 64):
        ours, theirs = rows("engine-base-greedy-2-threads.json", batch=batch)
        figures.append(f"{ours['tokens/s']:,.0f} tokens/s | CTranslate2: {theirs['tokens/s']:,.0f}")
    ours, theirs = rows("load.json", clients=64)
    figures += [f"{one['sentences/s']:,.0f}" for one in (ours, theirs)]
    figures += [f"99% within {one['p99 ms']:.0f} ms" for one in (ours, theirs)]
    for comparison in ("defaults", "greedy"):
        [row] = rows("load-beside-libretranslate-zen4.json", comparison=comparison, clients=32)
        figures += [f"| {row['sentences/s']:.0f} sentences/s |", f": {row['theirs']:.0f} |"]
    speed = (ROOT / "README.md").read_text(encoding="utf-8").split("\n## Speed\n")[1].split("\n## ")[0]
    assert [figure for figure in figures if figure not in speed] == []
