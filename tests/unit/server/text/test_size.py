"""The size of what handles text, which may only fall: denser lines are not smaller."""

from __future__ import annotations

from pathlib import Path

SERVER = Path(__file__).parents[4] / "server"
FOLDERS = ("text", "translation", "documents")
LIMIT, TEXT_LIMIT = 541_753, 243_204
"""Bytes of Python and tables, in lines of 100 columns: of all folders, and of the first."""


def test_the_size_of_what_handles_text() -> None:
    sizes = {
        name: sum(
            path.stat().st_size
            for path in (SERVER / name).rglob("*")
            if path.suffix in (".py", ".txt")
        )
        for name in FOLDERS
    }
    print(sizes, sum(sizes.values()))  # noqa: T201
    assert sizes["text"] <= TEXT_LIMIT
    assert sum(sizes.values()) <= LIMIT
