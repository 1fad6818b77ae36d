"""Memory of a server with 1, 10 and 40 models of one shape, idle and after a sentence to each.

    python -m benchmarks.load.model_memory --firefox FOLDER
    python -m benchmarks.load.model_memory --firefox FOLDER --pairs 40 -- --model-idle-seconds 10

FOLDER has the files of a Firefox model; its copies serve English to and from other languages.
Figures are megabytes of all processes together, where a page that several share counts once (PSS).
`later` is after --model-idle-seconds and 5 s more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path

import psutil

from benchmarks.common.http_connection import Connection
from benchmarks.robustness.server import Served, serving
from model.convert.importer import ImportOptions, import_model

LANGUAGES = "de fr es it pt pl nl cs ru bg uk et hu fi da sv ro el tr ca".split()
PAIRS = [pair for language in LANGUAGES for pair in (("en", language), (language, "en"))]
SENTENCE = {"q": "The house is small, but it has a garden.", "beam_size": 1}


def copies(folder: Path, weights: Path, number: int) -> None:
    """Writes `number` models of other pairs to `weights`, with the numbers of the model in
    `folder`."""
    made = import_model(
        folder, weights, ImportOptions(name="made", sources=["en"], targets=["de"])
    ).path
    config = json.loads((made / "config.json").read_text())
    for source, target in PAIRS[:number]:
        name = f"firefox-{source}-{target}"
        shutil.copytree(made, weights / name)
        text = json.dumps({**config, "name": name, "pairs": [[source, target]]})
        (weights / name / "config.json").write_text(text)
    shutil.rmtree(made)


def megabytes(served: Served) -> dict[str, int]:
    """Returns the memory of the API process, and of all its child processes."""
    process = psutil.Process(served.process.pid)
    children = [child.memory_full_info().pss for child in process.children(recursive=True)]
    sizes = {"API": process.memory_full_info().pss, "worker": sum(children)}
    return {name: round(size / 1e6) for name, size in sizes.items()}


async def measure(
    folder: Path, number: int, idle: float, flags: list[str], scratch: Path
) -> dict[str, object]:
    """Returns the memory of a server with `number` models after its start, after a sentence to
    each, and `idle` later."""
    copies(folder, scratch / "weights", number)
    row: dict[str, object] = {"pairs": number}
    async with serving(["--weights", str(scratch / "weights"), *flags], scratch) as served:
        await asyncio.sleep(5)
        row["idle"] = megabytes(served)
        connection = Connection(served.address)
        for source, target in PAIRS[:number]:
            body = json.dumps({**SENTENCE, "source": source, "target": target}).encode()
            status, _, answer = await connection.exchange("POST", "/translate", body)
            if status != 200:
                raise RuntimeError(answer.decode())
        row["after a sentence to each"] = megabytes(served)
        if idle:
            await asyncio.sleep(idle + 5)
            row["later"] = megabytes(served)
        connection.close()
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--firefox", type=Path, required=True, help="folder with the files of a Firefox model"
    )
    parser.add_argument(
        "--pairs", type=int, nargs="+", default=[1, 10, 40], help="numbers of models, at most 40"
    )
    parser.add_argument("flags", nargs="*", help="flags of the server, after --")
    options = parser.parse_args()
    flags = options.flags
    idle = (
        float(flags[flags.index("--model-idle-seconds") + 1])
        if "--model-idle-seconds" in flags
        else 0.0
    )
    for number in options.pairs:
        with tempfile.TemporaryDirectory() as folder:
            print(
                asyncio.run(measure(options.firefox, number, idle, flags, Path(folder))), flush=True
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
