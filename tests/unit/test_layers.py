"""Import rules that the contracts of import-linter (pyproject.toml) do not cover."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    path for room in ("model", "server", "training") for path in ROOT.glob(f"{room}/**/*.py")
)

API_SIDE = [
    "server.api.app",
    "server.cli.serve",
    "server.services",
    "server.translation.translator",
    "server.engine.client.worker_pool",
]


def test_only_settings_read_the_environment() -> None:
    readers = [
        path.relative_to(ROOT).as_posix()
        for path in MODULES
        if path.is_relative_to(ROOT / "server")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in {"environ", "getenv"}
        and isinstance(node.ctx, ast.Load)
    ]
    # server/__init__.py reads no setting: it sets the number of threads of NumPy's library, which
    # has no other interface. NO_COLOR and TERM are of the terminal.
    assert set(readers) <= {"server/config.py", "server/__init__.py", "server/cli/terminal.py"}


def test_the_api_process_imports_neither_torch_nor_the_libraries_that_read_documents() -> None:
    program = f"import sys, {', '.join(API_SIDE)}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert not {"torch", "lxml", "markdown_it", "yaml"} & set(done.stdout.split())
