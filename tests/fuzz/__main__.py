"""Long fuzzing runs.

    python -m tests.fuzz docx -max_total_time=300
    python -m tests.fuzz texts my-corpus -runs=1000000

The targets are fuzzed by atheris (extra `fuzz`), guided by code coverage; options that start with
`-` are libFuzzer's (`-help=1` lists them). The first fault ends the run, and its input is written
to the current folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def fuzz(name: str, arguments: list[str]) -> None:
    """Runs atheris on one target. It ends the process."""
    import atheris

    with atheris.instrument_imports(include=["server"]):
        from tests.fuzz.mutations import ELEMENTS, FRAGMENTS
        from tests.fuzz.targets import TARGETS
    if name not in TARGETS:
        sys.exit(
            f"usage: python -m tests.fuzz {{{','.join(TARGETS)}}} [corpus ...] "
            "[-libfuzzer_option=value ...]"
        )
    target = TARGETS[name]

    def check(data: bytes) -> None:
        target.check(data)

    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder, "seeds")
        seeds.mkdir()
        for number, seed in enumerate(target.seeds):
            (seeds / str(number)).write_bytes(seed)
        dictionary = Path(folder, "dictionary")
        escaped = ("".join(map(r"\x{:02x}".format, entry)) for entry in (*FRAGMENTS, *ELEMENTS))
        dictionary.write_text("".join(f'"{entry}"\n' for entry in escaped))
        options = [argument for argument in arguments if argument.startswith("-")]
        corpus = [argument for argument in arguments if not argument.startswith("-")] or [
            str(Path(folder, "corpus"))
        ]
        Path(corpus[0]).mkdir(
            exist_ok=True
        )  # libFuzzer writes new inputs to the first folder and only reads the others
        atheris.Setup([sys.argv[0], *corpus, str(seeds), f"-dict={dictionary}", *options], check)
        atheris.Fuzz()


if __name__ == "__main__":
    fuzz("".join(sys.argv[1:2]), sys.argv[2:])
