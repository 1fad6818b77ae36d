"""A command whose file cannot be written ends with one sentence, and one whose reader has gone ends
without a word."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from server.__main__ import BROKEN_PIPE, main


def test_a_folder_that_cannot_be_made(tiny_weights, tmp_path, capsys):
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "x"
    assert (
        main(["export", "--to", "huggingface", "tiny", str(folder), "--weights", str(tiny_weights)])
        == 1
    )
    assert capsys.readouterr().err == f"attentive: {folder}: Not a directory.\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_that_nobody_reads(tiny_weights, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "server", "models", "--weights", str(tiny_weights)],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (BROKEN_PIPE, b"")
