"""Import rules that the contracts of import-linter (pyproject.toml) do not cover."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((*ROOT.glob("model/**/*.py"), *ROOT.glob("server/**/*.py")))

OWNERS = {
    "prometheus_client": ["server/observability/metrics.py"],
    "fastapi": ["server/api/"],
    "starlette": ["server/api/"],
    "ray": ["server/ray_serve/"],
    "opentelemetry": ["server/api/middleware/tracing.py"],
}
"""Files and folders that may import each library."""

API_SIDE = [
    "server.api.app",
    "server.cli.serve",
    "server.services",
    "server.translation.translator",
    "server.engine.client.worker_pool",
]


@cache
def imported(path: Path) -> tuple[str, ...]:
    """Returns the names of all modules that a file imports, also inside functions."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.append(node.module)
    return tuple(found)


@pytest.mark.parametrize("library", OWNERS)
def test_a_library_is_imported_only_by_its_owners(library: str) -> None:
    others = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if any(name.split(".")[0] == library for name in imported(path))
        and not path.relative_to(ROOT).as_posix().startswith(tuple(OWNERS[library]))
    ]
    assert others == []


def test_only_settings_read_the_environment() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if path.is_relative_to(ROOT / "server")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and isinstance(node.ctx, ast.Load)
    ]
    # server.process reads no setting: it sets the number of threads of NumPy's library, which has no other interface.
    assert set(readers) <= {"server/config.py", "server/process.py"}


def test_the_api_process_imports_neither_torch_nor_the_libraries_that_read_documents() -> None:
    program = f"import sys, {', '.join(API_SIDE)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"torch", "lxml", "markdown_it", "yaml"} & set(done.stdout.split())


def test_nothing_is_named_utils() -> None:
    assert [path for path in MODULES if path.stem in {"utils", "helpers", "common", "misc"}] == []
