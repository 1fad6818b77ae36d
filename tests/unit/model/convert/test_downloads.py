"""Folders of downloads, and which failures are final."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.convert.downloads import NotPublished, Refused, discard_pull, pull_folder
from model.convert.source_files import ImportRefused
from model.model_folder import FolderError


def test_what_a_download_has_left_is_removed_unless_it_goes_on(tmp_path: Path) -> None:
    left = tmp_path / ".pull"
    for name in ("firefox-en-de--0123", "firefox-en-de--4567", "opus-mt-en-de", "firefox-en-de-x--0123"):
        (left / name).mkdir(parents=True)
        (left / name / "model.bin.part").write_bytes(b"some")
    with pull_folder(tmp_path, "firefox-en-de--4567"):
        discard_pull(tmp_path, "firefox-en-de")
        assert sorted(folder.name for folder in left.iterdir()) == [
            "firefox-en-de--4567",
            "firefox-en-de-x--0123",
            "opus-mt-en-de",
        ]
    discard_pull(tmp_path, "firefox-en-de")
    discard_pull(tmp_path, "opus-mt-en-de")
    discard_pull(tmp_path, "firefox-en-de-x")
    assert not left.exists()
    discard_pull(tmp_path / "nowhere", "opus-mt-en-de")


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (NotPublished("It is not there."), True),
        (ImportRefused(Path("x"), ["it is of another architecture"]), True),
        (FolderError("The disk is full."), False),
        *[(Refused("It is refused.", status, ""), True) for status in (400, 401, 403, 404, 410, 451)],
        *[(Refused("It is refused.", status, ""), False) for status in (408, 425, 429, 500, 502, 503, 301)],
    ],
)
def test_only_what_another_try_cannot_change_is_final(error: FolderError, final: bool) -> None:
    assert error.final is final
