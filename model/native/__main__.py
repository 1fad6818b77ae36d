"""`python -m model.native build [FOLDER]` compiles the engine ahead of time, beside its sources unless told otherwise."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from model.native.build import SOURCES, NativeUnavailable, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m model.native", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.add_argument("folder", nargs="?", type=Path, default=SOURCES, help="where to put the library")
    arguments = parser.parse_args()
    try:
        sys.stdout.write(f"{build(arguments.folder)}\n")
    except NativeUnavailable as unavailable:
        sys.stderr.write(f"{unavailable}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
