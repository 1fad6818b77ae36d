"""Families of imported models beside the engines that they come from: equal targets, and speed on one thread.

    python -m benchmarks.families --model weights/NAME --data DATA --json families.json
    python -m benchmarks.families --firefox FOLDER --package package --data DATA

`--model` is a trained model folder from English to German. It is exported to Hugging Face, imported again as an OPUS-MT model
and compared with transformers. `--firefox` is a folder with the files of a Firefox model (`model*.bin`,
`vocab*.spm`, `lex*.bin`), compared with Bergamot in node (`npm pack @browsermt/bergamot-translator@0.4.9`, unpacked in
`--package`). Targets are compared in the precision of the table under the same search settings. Speed is in tokens (with
Bergamot characters) per second of processor time, greedy, ours in int8.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from benchmarks.common import report
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.model_loader import OpenModel, open_model
from model.backends.torch.inputs import pad_ids
from model.convert.huggingface.export import export_huggingface
from model.convert.importer import ImportOptions, import_model
from model.model_folder import ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions

HEADER = tuple("family|engine|compared in|greedy equal|beam 4 equal|batch|Attentive|its engine|ratio".split("|"))
Part = TypeVar("Part")
LONGEST = 48
"""Largest number of tokens of a target."""
AVERAGE = {"normalization": "average", "length_penalty": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An imported model and its own engine on the same `texts`. `search` has the options of the same search; `text` returns
    what is compared of target tokens, `units` what is counted of it for the speed. `peer.targets(beam)` returns the best
    targets in the form of `text`, `peer.speed(batch, turns)` units per second of processor time."""

    name: str
    folder: ModelFolder
    peer: Transformers | Bergamot
    texts: list[str]
    text: Callable[[Sequence[int]], str]
    search: dict[str, Any]
    units: Callable[[str], int] = field(default=lambda text: len(text.split()))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    rows: list[tuple[Any, ...]] = []
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for family in _families(options, Path(scratch)):
                rows += measure(family, options.batches, options.turns)
                print(report.table(HEADER, rows[-len(options.batches) :]), flush=True)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if options.json:
        results = [dict(zip(HEADER, row, strict=True)) for row in rows]
        report.write(options.json, {"benchmark": "families", "sentences": options.sentences, "rows": results})
    return 0


def measure(family: Family, batches: Sequence[int], turns: int) -> list[tuple[Any, ...]]:
    """Returns a row for each batch size."""
    slots = max(batches) * 4
    compared, fast = (
        open_model(family.folder.path, engine="native", precision=precision, slots=slots, threads=1)
        for precision in (family.peer.precision, "int8")
    )
    equal = []
    for beam in (1, 4):
        ours, theirs = _decode(family, compared, family.texts, beam), family.peer.targets(beam)
        equal.append(f"{sum(map(str.__eq__, ours, theirs))} of {len(ours)}")
    rows = []
    for batch in batches:
        theirs_speed = family.peer.speed(batch, turns)
        parts = _parts(family.texts, batch)
        speed = _per_second(partial(_units, family, fast, parts), turns)
        row = (batch, round(speed), round(theirs_speed), round(speed / theirs_speed, 2))
        rows.append((family.name, family.peer.name, family.peer.precision, *equal, *row))
    return rows


def _units(family: Family, opened: OpenModel, parts: Sequence[Sequence[str]]) -> int:
    return sum(family.units(target) for part in parts for target in _decode(family, opened, part, 1))


def _decode(family: Family, opened: OpenModel, texts: Sequence[str], beam: int) -> list[str]:
    """Returns our best targets."""
    config, tokenizer = opened.config, opened.tokenizer
    sources = [tuple(tokenizer.encode_ids(text, "de", "en")) for text in texts]
    settings = family.search if beam > 1 else {**family.search, "shrinking_beam": False}
    options = DecodingOptions(beam_size=beam, max_length=LONGEST, **settings)
    found = translate(
        opened.backend,
        sources,
        options,
        start=config.decoder_start_id,
        end=config.eos_id,
        max_length=config.max_length,
        generation=replace(opened.generation, beam_threshold=None),
    )
    return [family.text(best[0].tokens) for best in found]


def _families(options: argparse.Namespace, scratch: Path) -> Iterator[Family]:
    """Yields the families that the options name."""
    [development] = choose(read_sets(options.data, [options.set], options.sentences), ["en-de"])
    texts = list(development.sources)
    if options.model:
        own = read_folder(options.model)
        export_huggingface(own, scratch / "huggingface")
        folder = import_model(
            scratch / "huggingface", scratch / "weights", ImportOptions(name="opus-mt", sources=["en"], targets=["de"])
        )
        ids = [folder.load_tokenizer().encode_ids(text, "de", "en") for text in texts]
        yield Family(
            name="OPUS-MT",
            folder=folder,
            peer=Transformers(scratch / "huggingface", ids),
            texts=texts,
            text=lambda tokens: " ".join(map(str, tokens)),
            search=AVERAGE,
        )
    if options.firefox:
        folder = import_model(options.firefox, scratch / "weights", ImportOptions(name="firefox"))
        yield Family(
            name="Firefox",
            folder=folder,
            peer=Bergamot(options.package, options.firefox, texts),
            texts=texts,
            text=folder.load_tokenizer().decode,
            search={**AVERAGE, "shrinking_beam": True},
            units=len,
        )


class Transformers:
    """A Marian model of transformers. A target is the generated ids up to the end."""

    name, precision = "transformers", "float32"

    def __init__(self, path: Path, sources: Sequence[Sequence[int]]) -> None:
        from transformers import MarianMTModel

        self._model: Any = MarianMTModel.from_pretrained(path, dtype=torch.float32).eval()  # type: ignore[no-untyped-call]
        self._sources = sources

    def targets(self, beam: int) -> list[str]:
        return self._generate(self._sources, beam)

    def speed(self, batch: int, turns: int) -> float:
        parts = _parts(self._sources, batch)
        return _per_second(lambda: sum(len(t.split()) for part in parts for t in self._generate(part, 1)), turns)

    def _generate(self, sources: Sequence[Sequence[int]], beam: int) -> list[str]:
        config = self._model.config
        source, mask = pad_ids(sources, config.pad_token_id, torch.device("cpu"))
        found = self._model.generate(
            source,
            attention_mask=mask.long(),
            max_new_tokens=LONGEST,
            do_sample=False,
            num_beams=beam,
            length_penalty=1.0,
            early_stopping=False,
        )
        rows = [row[1:] for row in found.tolist()]
        end = config.eos_token_id
        return [" ".join(map(str, row[: row.index(end)] if end in row else row)) for row in rows]


class Bergamot:
    """Bergamot in node, which computes Firefox's int8 files in int8 only."""

    name, precision = "Bergamot, int8", "int8"

    def __init__(self, package: Path, folder: Path, texts: list[str]) -> None:
        [model], vocabularies = folder.glob("model*.bin"), sorted(folder.glob("*vocab*.spm"))
        self._request = {
            "package": str(package.resolve()),
            "model": str(model),
            "vocabs": [str(path) for path in vocabularies],
            "texts": texts,
            "html": False,
        }

    def targets(self, beam: int) -> list[str]:
        # By default Bergamot leaves out the softmax, with which only greedy search is right.
        config = {"beam-size": str(beam), "normalize": "1.0", "skip-cost": "false"}
        return [str(text) for text in self._run(1, 1, config)["targets"]]

    def speed(self, batch: int, turns: int) -> float:
        answer = self._run(batch, turns + 1, {})
        return float(sum(map(len, answer["targets"])) / statistics.median(answer["seconds"][1:]))

    def _run(self, batch: int, repeat: int, config: dict[str, str]) -> Any:
        config = {"gemm-precision": "int8shiftAlphaAll", **config}
        request = json.dumps({**self._request, "batch": batch, "repeat": repeat, "config": config})
        script = str(Path(__file__).with_name("bergamot.mjs"))
        done = subprocess.run(["node", script], input=request, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)


def _parts(values: Sequence[Part], size: int) -> list[Sequence[Part]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def _per_second(run: Callable[[], int], turns: int) -> float:
    """Returns the units that `run` returns per second of processor time: the median of `turns` after one more."""
    seconds, units = [], 0
    for _ in range(turns + 1):
        started = time.process_time()
        units = run()
        seconds.append(time.process_time() - started)
    return units / statistics.median(seconds[1:])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--model", type=Path, help="folder of a trained model that translates English into German")
    parser.add_argument("--firefox", type=Path, help="folder with the files of a Firefox model from English to German")
    parser.add_argument("--package", type=Path, help="unpacked @browsermt/bergamot-translator, for --firefox")
    parser.add_argument("--data", type=Path, required=True, help="folder of development sets SET.en-XX.tsv")
    parser.add_argument("--set", default="flores-dev", help="development set")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--turns", type=int, default=3, help="counted turns of each engine, after one warm-up turn")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
