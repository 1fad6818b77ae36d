"""Compiles the CPU backend: `python -m model.backends.cpu build [FOLDER]`.

The libraries go into FOLDER, by default that of the sources, where the server finds them. What is
there is not compiled again.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import get_args

from model.backends.cpu.build import SOURCES, build, build_all
from model.backends.cpu.isa import CpuBackendUnavailable, Isa


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m model.backends.cpu", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.add_argument(
        "folder", nargs="?", type=Path, default=SOURCES, help="folder for the libraries"
    )
    choices, text = (
        ("all", *get_args(Isa)),
        "instruction set; all are those of the machine, auto is the fastest here",
    )
    parser.add_argument("--isa", choices=choices, default="all", help=text)
    parser.add_argument(
        "--machine", default="", help="aarch64 or x86_64, where CXX names a cross compiler for it"
    )
    arguments = parser.parse_args()
    try:
        if arguments.isa == "auto" and not arguments.machine:
            built = [build(folder=arguments.folder)]
        else:
            isa: Isa = "auto" if arguments.isa == "all" else arguments.isa
            built = build_all(arguments.folder, isa, sys.stderr.write, arguments.machine)
        sys.stdout.writelines(f"{library}\n" for library in built)
    except CpuBackendUnavailable as unavailable:
        sys.stderr.write(f"{unavailable}\n")
        return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback
    sys.exit(main())
