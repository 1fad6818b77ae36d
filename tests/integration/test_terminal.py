"""`attentive` on a pseudo-terminal: text log and Ctrl-C."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.live import ROOT, WORDS

pytestmark = pytest.mark.slow
CTRL_C = b"\x03"
ON_A_TERMINAL = """import os, pty, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests that run in the background of a script ignore it
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"""


def run_until(text: str, *arguments: str) -> tuple[int, str]:
    """Runs a command on a terminal, presses Ctrl-C when it prints `text`, and returns its status
    and its output."""
    command = [
        sys.executable,
        "-c",
        ON_A_TERMINAL,
        "sh",
        "-c",
        'stty cols 100 rows 30; exec "$@"',
        "sh",
    ]
    command += [sys.executable, "-m", "server", *arguments]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        output, pressed = b"", False
        while read := os.read(process.stdout.fileno(), 4096):
            output += read
            if not pressed and text.encode() in output:
                process.stdin.write(CTRL_C)
                process.stdin.flush()
                pressed = True
        return process.wait(60), output.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("moment", ["listening", "ready"])
def test_ctrl_c_ends_the_server_quietly(tiny_weights: Path, moment: str) -> None:
    status, output = run_until(moment, "serve", "--port", "0", "--weights", str(tiny_weights))
    assert status == 130
    assert "listening on http://localhost:" in output and "stopped" in output
    assert not any(word in output for word in ("Traceback", "error", "warning", "{"))


def test_translating_a_long_file_shows_progress(tiny_weights: Path, tmp_path: Path) -> None:
    """Ctrl-C leaves the lines that are done."""
    lines, output = tmp_path / "lines", tmp_path / "output"
    lines.write_text(
        "".join(f"{word} {' '.join(random.sample(WORDS, 9))}\n" for word in WORDS * 1_000)
    )
    command = ["translate", "--from", "en", "--to", "de", "--weights", str(tiny_weights)]
    status, shown = run_until(" 1/20000 ", *command, "-o", str(output), str(lines))
    assert status == 130
    assert "/20000 " in shown and "Traceback" not in shown and "busy" not in shown
    assert output.read_text().endswith("\n")
