"""Translated files open in LibreOffice, which CI does not install: `make conformance` runs these
tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import requests

from tests.support.servers.live import LiveServer
from tests.support.texts import document_files

pytestmark = pytest.mark.programs


def program(name: str) -> str:
    """Returns the path of a program, or skips the test."""
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


def convert(file: Path, *targets: str) -> None:
    """Writes a file in other formats of LibreOffice into its folder."""
    for target in targets:
        profile = f"-env:UserInstallation=file://{file.parent}/profile"
        command = [
            program("soffice"),
            profile,
            "--headless",
            "--convert-to",
            target,
            "--outdir",
            str(file.parent),
        ]
        subprocess.run([*command, str(file)], check=True, timeout=300)


@pytest.mark.parametrize("kind", ["docx", "odt"])
def test_translated_files_open_in_libreoffice(live: LiveServer, kind: str, tmp_path: Path) -> None:
    """The translation is a document with as many paragraphs as the original."""
    original, translated = tmp_path / f"original.{kind}", tmp_path / f"translated.{kind}"
    original.with_suffix(".docx").write_bytes(document_files.word_file())
    if kind == "odt":
        convert(original.with_suffix(".docx"), "odt")
    with original.open("rb") as file:
        fields = {"source": "en", "target": "de"}
        answer = requests.post(
            live.url + "/translate_file", files={"file": file}, data=fields, timeout=60
        )
    translated.write_bytes(requests.get(answer.json()["translatedFileUrl"], timeout=60).content)
    lines = []
    for document in (original, translated):
        convert(document, "pdf", "txt:Text")
        assert document.with_suffix(".pdf").read_bytes().startswith(b"%PDF")
        lines.append(len(document.with_suffix(".txt").read_text(encoding="utf-8-sig").splitlines()))
    assert lines[0] == lines[1] > 0
