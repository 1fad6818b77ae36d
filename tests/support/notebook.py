"""Runs the cells of a notebook without Jupyter."""

from __future__ import annotations

import ast
import asyncio
import builtins
import json
import sys
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest

HUB = "Helsinki-NLP/opus-mt-en-de"
"""The model that the notebook gets by its name."""


def run_cells(
    notebook: Path, url: str, monkeypatch: pytest.MonkeyPatch, model: str
) -> dict[str, Any]:
    """Runs the code of a notebook with the server at `url` and with `model` in place of the one
    that it downloads. Returns the names that it defines."""
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(HTML=str))
    names: dict[str, Any] = {"__builtins__": builtins}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = (
                "".join(cell["source"]).replace("http://localhost:8000", url).replace(HUB, model)
            )
            code = compile(source, str(notebook), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if coroutine := FunctionType(code, names)():
                asyncio.run(coroutine)
    for server in ("client", "hub"):
        names[server].__exit__()
    return names
