"""Coverage-guided fuzzing of segmentation, markup and the file readers, with atheris (extra `fuzz`).

    python -m tests.fuzz docx -max_total_time=300
    python -m tests.fuzz texts my-corpus -runs=1000000

The first argument is a target, the others are libFuzzer's own (`-help=1` lists them). A finding ends the run, and its
input is written to the present folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["server"]):
    from tests.fuzz.targets import TARGETS, WORDS

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python -m tests.fuzz {{{','.join(TARGETS)}}} [corpus ...] [-libfuzzer_option=value ...]")
    target = TARGETS[sys.argv[1]]
    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder, "seeds")
        seeds.mkdir()
        for number, seed in enumerate(target.seeds):
            (seeds / str(number)).write_bytes(seed)
        words = Path(folder, "words")
        words.write_text("".join('"' + "".join(map(r"\x{:02x}".format, word)) + '"\n' for word in WORDS))
        own = [argument for argument in sys.argv[2:] if not argument.startswith("-")]
        options = [argument for argument in sys.argv[2:] if argument.startswith("-")]
        # New inputs go to the first folder named; the seeds are only read.
        corpus = own or [str(Path(folder, "found"))]
        Path(corpus[0]).mkdir(exist_ok=True)
        atheris.Setup([sys.argv[0], *corpus, str(seeds), f"-dict={words}", *options], target.check)
        atheris.Fuzz()
