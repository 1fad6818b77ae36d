"""The comparison with LibreTranslate: ratios, and LibreTranslate's own environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.load.beside_libretranslate import SERVER, libretranslate, ratios


def test_ratios_say_how_many_times_as_much_ours_does() -> None:
    ours = {"clients": 8, "sentences/s": 300.0, "front us": 100.0, "workers us": 400.0, "errors": 0}
    theirs = {"clients": 8, "sentences/s": 50.0, "front us": 4000.0, "workers us": 0.0, "errors": 1}
    row = ratios("defaults", ours, theirs)
    assert (row["ratio"], row["ratio of processor time"], row["their errors"]) == (6.0, 8.0, 1)
    assert row["measured"] == [ours, theirs]


def test_the_server_needs_nothing_of_this_project() -> None:
    answer = subprocess.run([sys.executable, "-I", str(SERVER), "--help"], capture_output=True, text=True, check=False)
    assert answer.returncode == 0 and "--beam-size" in answer.stdout


def test_a_server_that_ends_is_an_error() -> None:
    with (
        pytest.raises(RuntimeError, match="did not start"),
        libretranslate(Path("/bin/false"), 1, "4", [Path("en_de.argosmodel")]),
    ):
        raise AssertionError
