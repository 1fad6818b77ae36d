"""The wheel contains all files that are read at run time, and the pinned versions are within the
declared ranges."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGE_DATA = PROJECT["tool"]["setuptools"]["package-data"]


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def requirements() -> list[Requirement]:
    extras = PROJECT["project"]["optional-dependencies"].values()
    texts = [*PROJECT["project"]["dependencies"], *(text for extra in extras for text in extra)]
    return [Requirement(text) for text in texts if not text.startswith(PROJECT["project"]["name"])]


def test_every_file_that_is_not_python_is_package_data() -> None:
    ignored = {".py", ".pyc", ".so", ".o", ".md"}
    everything = (
        path for top in ("model", "server", "training") for path in (ROOT / top).rglob("*")
    )
    tools = {"biome.json"}  # settings of the checks
    files = [
        path
        for path in everything
        if path.is_file() and path.suffix not in ignored and path.name not in tools
    ]
    listed = {
        path
        for package, patterns in PACKAGE_DATA.items()
        for pattern in patterns
        for path in (ROOT / package.replace(".", "/")).glob(pattern)
    }
    assert [path.relative_to(ROOT).as_posix() for path in files if path not in listed] == []


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_every_requirement_is_pinned_within_its_range(requirement: Requirement) -> None:
    pinned = pins().get(canonicalize_name(requirement.name))
    assert pinned is not None
    assert requirement.specifier.contains(pinned, prereleases=True)


def imported_distributions(*folders: str) -> set[str]:
    """Returns the distributions of all imports in these folders, or the module name if it is not
    installed."""
    modules: set[str] = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                modules.add(node.module.split(".")[0])
    beside = {path.stem for folder in folders for path in (ROOT / folder).rglob("*.py")}
    ours = {"model", "server", "training", "benchmarks", "tests", "attentive"}
    # torch's builds for GPUs bring triton
    foreign = modules - sys.stdlib_module_names - beside - ours - {"triton"}
    providers = packages_distributions()
    return {canonicalize_name(providers.get(module, [module])[0]) for module in foreign}


def declared(*extras: str) -> set[str]:
    texts = [
        text for extra in extras for text in PROJECT["project"]["optional-dependencies"][extra]
    ]
    texts += PROJECT["project"]["dependencies"]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def test_everything_the_server_imports_is_declared() -> None:
    assert imported_distributions("model", "server", "training") <= declared(
        "train", "redis", "ray", "otel", "export", "bench"
    )


PEERS = {"libretranslate", "argostranslate"}
"""Programs that benchmarks compare with. They run in environments of their own, which the benchmark
is told."""


def test_everything_the_tests_and_benchmarks_import_is_declared() -> None:
    ours = declared(*PROJECT["project"]["optional-dependencies"])
    assert imported_distributions("tests", "benchmarks") - PEERS <= ours


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "Attentive needs Python 3.11 or newer"),
        (
            "Could not find a version that satisfies the requirement torch (from versions: none)",
            "cannot be fetched",
        ),
        ("ResolutionImpossible: for help visit https://pip.pypa.io", "cannot be fetched"),
        ("No space left on device", "No space left on device"),
    ],
)
def test_make_says_in_one_line_why_it_cannot_install(
    tmp_path: Path, error: str | None, said: str
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\necho '{error}' >&2\nexit 1\n")
    python.chmod(0o755)
    if error:
        (tmp_path / "python-ready").touch()
    command = ["make", "serve", f"PYTHON={python}", f"VENV={tmp_path}"]
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }  # make runs the tests
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env=variables
    )
    lines = done.stderr.splitlines()
    assert said in lines[0] and lines[1].startswith("make:") and len(lines) == 2
