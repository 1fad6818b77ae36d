"""Compiles the CPU backend ahead of time: `python -m model.backends.cpu build [FOLDER]`.

The libraries go into FOLDER, by default the folder of the sources, one for each instruction set.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import get_args

from model.backends.cpu.build import SOURCES, build_ahead
from model.backends.cpu.isa import CpuBackendUnavailable, Isa


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m model.backends.cpu", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCES, help="folder for the libraries")
    parser.add_argument("--isa", choices=get_args(Isa), default="auto", help="instruction set; auto compiles all")
    parser.add_argument("--machine", default="", help="aarch64 or x86_64, where CXX names a cross compiler for it")
    arguments = parser.parse_args()
    try:
        for library in build_ahead(arguments.folder, arguments.isa, sys.stderr.write, arguments.machine):
            sys.stdout.write(f"{library}\n")
    except CpuBackendUnavailable as unavailable:
        sys.stderr.write(f"{unavailable}\n")
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    sys.exit(main())
