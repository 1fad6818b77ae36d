"""The code blocks of the README run: commands against a live server with the default model, and
Python unchanged.

A `sh` block contains commands. A `json` block directly after a `curl` is the expected answer. It is
compared key by key; only the type is compared of times, ids and scores, which differ between
machines. An unknown command fails the test.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from server.config import Settings, default_text
from tests.support.servers.live import ROOT, LiveServer

DOCUMENTS = [ROOT / "README.md"]
VARYING = re.compile(r"(^id$|seconds|time|score|log_?prob|version)", re.IGNORECASE)
"""Keys whose values differ between runs and machines."""


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    text: str
    answer: str | None
    """Text of the following `json` block."""
    line: int


def blocks(document: Path) -> list[Block]:
    text = document.read_text(encoding="utf-8")
    found = list(re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    following = [*found[1:], None]
    return [
        Block(
            language=match[1],
            text=match[2],
            answer=after[2] if after is not None and after[1] == "json" else None,
            line=text[: match.start()].count("\n") + 1,
        )
        for match, after in zip(found, following, strict=True)
        if match[1] != "json"
    ]


CASES = [
    pytest.param(block, id=f"{document.name}:{block.line}")
    for document in DOCUMENTS
    for block in blocks(document)
]


def commands(text: str) -> list[str]:
    """Returns the commands of a block, with continued lines joined and without comments."""
    lines = text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]


def run(command: list[str], folder: Path = ROOT, given: str | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        input=given or "",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def same_kind(shown: Any, real: Any, key: str = "") -> None:
    """Asserts that an answer has the form and values of the README."""
    if isinstance(shown, dict):
        assert isinstance(real, dict)
        assert shown.keys() == real.keys()
        for name in shown:
            same_kind(shown[name], real[name], name)
    elif isinstance(shown, list):
        assert isinstance(real, list)
        assert len(shown) == len(real)
        for one, other in zip(shown, real, strict=True):
            same_kind(one, other, key)
    elif VARYING.search(key):
        assert type(shown) is type(real)
    elif isinstance(shown, float):
        assert real == pytest.approx(shown, abs=0.02)
    else:
        assert shown == real


def check_shell(command: str, answer: str | None, shipped: LiveServer, folder: Path) -> None:
    """Runs one command of the README, or checks its arguments if it would change the machine."""
    before, pipe, after = command.rpartition(" | ")
    given = shlex.split(before.removeprefix("echo"))[0] + "\n" if pipe else None
    words = shlex.split(after)
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        words = words[1:]
    match Path(words[0]).name:
        case "make":
            run(["make", "--dry-run", *words[1:]])
        case "curl":
            asked = [word.replace("http://localhost:8000", shipped.url) for word in words[1:]]
            output = run(["curl", "--fail", *asked], folder)
            if answer is not None:
                same_kind(json.loads(answer), json.loads(output))
        case "attentive":
            program = (
                [*words[1:], "--help"]
                if words[1] in {"serve", "pull", "import", "export"} or "--output" in words
                else words[1:]
            )
            run([sys.executable, "-m", "server", *program], given=given)
        case "docker":
            check_docker(words)
        case unknown:
            pytest.fail(f"The README has a command that this test does not support: {unknown}")


def check_docker(words: list[str]) -> None:
    """Checks that the files, services and profiles of a compose command exist."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    known = {
        "up",
        *services,
        *(profile for service in services.values() for profile in service.get("profiles", ())),
    }
    assert words[1] == "compose"
    if words[2] == "exec":
        assert words[3] in services and words[4] == "attentive"
        run([sys.executable, "-m", "server", *words[5:], "--help"])
    else:
        names = [word.partition("=")[0] for word in words[2:] if not word.startswith("-")]
        assert all(name in known or (ROOT / name).is_file() for name in names)


@pytest.mark.parametrize("block", CASES)
def test_readme_block_runs(block: Block, shipped: LiveServer, tmp_path: Path) -> None:
    if block.language in {"sh", "bash", "console"}:
        for command in commands(block.text):
            check_shell(command, block.answer, shipped, tmp_path)
    elif block.language == "python":
        exec(block.text.replace("http://localhost:8000", shipped.url), {"__name__": "readme"})
    else:
        assert block.language in {"text", "mermaid"}


def test_the_table_of_settings_has_the_correct_defaults() -> None:
    defaults = {
        f"--{item.name.replace('_', '-')}": default_text(item.default)
        for item in dataclasses.fields(Settings)
    }
    rows = re.findall(
        r"^\| (`--.*) \| (\S+) \|",
        (ROOT / "docs" / "operations.md").read_text("utf-8"),
        re.MULTILINE,
    )
    documented = {
        name: default.strip("`")
        for names, default in rows
        for name in re.findall(r"--[\w-]+", names)
    }
    assert documented
    assert documented.items() <= defaults.items()
