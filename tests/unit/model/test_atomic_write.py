"""Tests that a file has its old or its new contents, and that no temporary file remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.atomic_write import atomic_write


def test_the_file_changes_at_the_end_of_the_block(tmp_path: Path) -> None:
    file = tmp_path / "alignment.json"
    file.write_text("old")
    with atomic_write(file) as part:
        part.write_text("new")
        assert file.read_text() == "old"
    assert file.read_text() == "new"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("before", ["old", None])
def test_an_exception_leaves_the_file_as_it_was(before: str | None, tmp_path: Path) -> None:
    file = tmp_path / "alignment.json"
    if before is not None:
        file.write_text(before)
    with pytest.raises(OSError, match="full"), atomic_write(file) as part:
        part.write_text("ne")
        raise OSError("The disk is full.")
    assert (file.read_text() if file.exists() else None) == before
    assert not list(tmp_path.glob("*.part"))
