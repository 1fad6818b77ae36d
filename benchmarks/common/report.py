"""Writes results with machine, versions, date and commit, and formats plain text tables."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_LIBRARIES = ("attentive-server", "torch", "ctranslate2", "transformers", "sacrebleu")


def environment() -> dict[str, Any]:
    """Returns the machine and the software versions of a result."""
    versions: dict[str, str | None] = {}
    for library in _LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = None
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "versions": versions,
    }


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Returns a Markdown table with padded columns: text left-aligned, numbers right-aligned,
    floats with one decimal."""
    cells = [
        [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row] for row in rows
    ]
    right = [
        bool(rows) and isinstance(rows[0][column], int | float) for column in range(len(header))
    ]
    widths = [
        max(len(row[column]) for row in [list(header), *cells]) for column in range(len(header))
    ]
    lines = [
        "| "
        + " | ".join(
            c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)
        )
        + " |"
        for row in [list(header), *cells]
    ]
    rule = (
        "|"
        + "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
        + "|"
    )
    return "\n".join([lines[0], rule, *lines[1:]])


def write(path: Path, results: dict[str, Any]) -> None:
    """Writes the results with their environment as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"environment": environment(), **results}, indent=2, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def _commit() -> str | None:
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return run.stdout.strip() or None


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
