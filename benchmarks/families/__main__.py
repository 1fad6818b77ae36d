"""Families of imported models beside the engines that they come from: equal targets, their chrF,
and speed on one thread.

    python -m benchmarks.families --model weights/NAME --data DATA --json families.json
    python -m benchmarks.families --firefox FOLDER --package package --data DATA

`--model` is a trained model folder from English to German. It is exported, imported again and
compared with transformers and with CTranslate2. `--firefox` is a folder with the files of a Firefox
model (`model*.bin`, `vocab*.spm`, `lex*.bin`), compared with Bergamot in node (`npm pack
@browsermt/bergamot-translator@0.4.9`, unpacked in `--package`), a model in float32 also in int8.
Targets are compared in the precision of the table under the same search settings: how many texts
are equal, and the chrF of ours beside theirs, of ours and of theirs beside the reference. Speed is
in characters per second of processor time, greedy, ours in int8; without `--batches` it is not
measured.
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
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from sacrebleu import corpus_chrf

from benchmarks.common.command_line import new_parser, publish, run
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.model_loader import Engine, OpenModel, open_model
from model.backends.torch.inputs import pad_ids
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.huggingface.export import export_huggingface
from model.convert.importer import ImportOptions, import_model
from model.model_folder import ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions

HEADER = tuple(
    "family|engine|compared in|beam|equal|chrF of both|ours to the reference|theirs to the "
    "reference".split("|")
)
SPEED = ("batch", "Attentive", "its engine", "ratio")
Part = TypeVar("Part")
LONGEST = 200
"""Largest number of tokens of a target."""
AVERAGE = {"normalization": "average", "length_penalty": 1.0}
HALVES = ("bfloat16", "float16")


class Peer(Protocol):
    """The engine of a family in one precision."""

    name: str
    precision: str

    def targets(self, beam: int) -> list[str]:
        """Returns the best targets as texts."""

    def speed(self, batch: int, turns: int) -> float:
        """Returns characters per second of processor time, greedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An imported model and its own engine on the same `texts`. `search` has the options of the
    same search."""

    name: str
    folder: ModelFolder
    peer: Peer
    texts: list[str]
    search: dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    torch.set_num_threads(1)
    header = HEADER + SPEED if options.batches else HEADER

    def measure_all() -> None:
        texts, references = _sentences(options)
        with tempfile.TemporaryDirectory() as scratch:
            rows = [
                dict(zip(header, row, strict=True))
                for family in _families(options, texts, Path(scratch))
                for row in measure(family, references, options.batches, options.turns)
            ]
        publish(options, header, rows, benchmark="families", sentences=len(texts))

    return run(measure_all)


def measure(
    family: Family, references: list[str], batches: Sequence[int], turns: int
) -> list[tuple[Any, ...]]:
    """Returns a row for each beam width, and of the first one for each batch size."""
    slots, rows = max([*batches, 8]) * 4, list[tuple[Any, ...]]()
    precision = family.peer.precision
    engine: Engine = "torch" if precision in HALVES else "native"
    compared = open_model(
        family.folder.path, engine=engine, precision=precision, slots=slots, threads=1
    )
    for beam in (1, 4):
        ours, theirs = _decode(family, compared, family.texts, beam), family.peer.targets(beam)
        scores = [_chrf(ours, theirs), _chrf(ours, references), _chrf(theirs, references)]
        equal = f"{sum(map(str.__eq__, ours, theirs))} of {len(ours)}"
        row = (family.name, family.peer.name, precision, beam, equal, *scores)
        speeds = [_speeds(family, slots, batch, turns) for batch in batches] if beam == 1 else []
        rows += [row + speed for speed in speeds] or [row + ("",) * (len(SPEED) if batches else 0)]
    return rows


def _chrf(texts: list[str], references: list[str]) -> float:
    return round(corpus_chrf(texts, [references]).score, 1)


def _speeds(family: Family, slots: int, batch: int, turns: int) -> tuple[Any, ...]:
    fast = open_model(family.folder.path, engine="native", precision="int8", slots=slots, threads=1)
    theirs = family.peer.speed(batch, turns)
    speed = _per_second(partial(_characters, family, fast, _parts(family.texts, batch)), turns)
    return batch, round(speed), round(theirs), round(speed / theirs, 2)


def _characters(family: Family, opened: OpenModel, parts: Sequence[Sequence[str]]) -> int:
    return sum(len(target) for part in parts for target in _decode(family, opened, part, 1))


def _decode(family: Family, opened: OpenModel, texts: Sequence[str], beam: int) -> list[str]:
    """Returns our best targets."""
    config, tokenizer = opened.config, opened.tokenizer
    sources = [tuple(tokenizer.encode_ids(text, "de", "en")) for text in texts]
    settings = family.search if beam > 1 else {**family.search, "shrinking_beam": False}
    options = DecodingOptions(beam_size=beam, max_length=LONGEST, **settings)
    found = translate(
        opened.backend, sources, options, config, replace(opened.generation, beam_threshold=None)
    )
    return [tokenizer.decode(best[0].tokens) for best in found]


def _sentences(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns sources and references without those that Bergamot cuts into several sentences."""
    [development] = choose(read_sets(options.data, [options.set], None), ["en-de"])
    pairs = zip(development.sources, development.references, strict=True)
    whole = [pair for pair in pairs if sum(map(pair[0].count, ".!?:;")) <= 1][: options.sentences]
    return [source for source, _ in whole], [reference for _, reference in whole]


def _families(options: argparse.Namespace, texts: list[str], scratch: Path) -> Iterator[Family]:
    """Yields the families that the options name."""
    named = partial(ImportOptions, sources=["en"], targets=["de"])
    weights = scratch / "weights"
    if options.model:
        own = read_folder(options.model)
        export_huggingface(own, scratch / "huggingface")
        folder = import_model(scratch / "huggingface", weights, named(name="opus-mt"))
        for precision in ("float32", *HALVES):
            peer = Transformers(scratch / "huggingface", precision, folder, texts)
            yield Family(name="OPUS-MT", folder=folder, peer=peer, texts=texts, search=AVERAGE)
        for precision in ("float32", "int8"):
            path = scratch / f"ctranslate2-{precision}"
            export_ctranslate2(own, path, quantization=precision)
            folder = import_model(path, weights, named(name=path.name))
            search = {**AVERAGE, "early_stopping": True}
            found = CTranslate2(path, precision, folder, texts)
            yield Family(name="CTranslate2", folder=folder, peer=found, texts=texts, search=search)
    for firefox in options.firefox or ():
        folder = import_model(firefox, weights, named(name=f"firefox-{firefox.name}"))
        search = {**AVERAGE, "shrinking_beam": True}
        int8 = any(firefox.glob("*.intgemm*.bin"))
        for precision in ("int8",) if int8 else ("float32", "int8"):
            bergamot = Bergamot(options.package, firefox, precision, texts)
            yield Family(name="Firefox", folder=folder, peer=bergamot, texts=texts, search=search)


class Transformers:
    """A Marian model of transformers."""

    name = "transformers"

    def __init__(self, path: Path, precision: str, folder: ModelFolder, texts: list[str]) -> None:
        from transformers import MarianMTModel

        self.precision = precision
        self._model: Any = MarianMTModel.from_pretrained(
            path, dtype=getattr(torch, precision)
        ).eval()  # type: ignore[no-untyped-call]
        self._tokenizer = folder.load_tokenizer()
        self._sources = [self._tokenizer.encode_ids(text, "de", "en") for text in texts]

    def targets(self, beam: int) -> list[str]:
        return self._generate(self._sources, beam)

    def speed(self, batch: int, turns: int) -> float:
        parts = _parts(self._sources, batch)
        return _per_second(
            lambda: sum(len(t) for part in parts for t in self._generate(part, 1)), turns
        )

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
        return [
            self._tokenizer.decode(row[: row.index(end)] if end in row else row) for row in rows
        ]


class CTranslate2:
    """CTranslate2, whose int8 rounds weights and activations."""

    name = "CTranslate2"

    def __init__(self, path: Path, precision: str, folder: ModelFolder, texts: list[str]) -> None:
        import ctranslate2

        self.precision = precision
        self._translator = ctranslate2.Translator(
            str(path), intra_threads=1, compute_type=precision
        )
        self._tokenizer = folder.load_tokenizer()
        ids = [self._tokenizer.encode_ids(text, "de", "en") for text in texts]
        # CTranslate2 adds the end.
        self._sources = [[self._tokenizer.piece(token) for token in source[:-1]] for source in ids]

    def targets(self, beam: int) -> list[str]:
        return self._translate(self._sources, beam)

    def speed(self, batch: int, turns: int) -> float:
        parts = _parts(self._sources, batch)
        return _per_second(
            lambda: sum(len(t) for part in parts for t in self._translate(part, 1)), turns
        )

    def _translate(self, sources: Sequence[list[str]], beam: int) -> list[str]:
        found = self._translator.translate_batch(
            list(sources), beam_size=beam, max_decoding_length=LONGEST, min_decoding_length=0
        )
        return [
            self._tokenizer.decode(self._tokenizer.piece_ids(each.hypotheses[0])) for each in found
        ]


class Bergamot:
    """Bergamot in node, which computes Firefox's int8 files in int8 only, and files in float32 in
    both."""

    name = "Bergamot"

    def __init__(self, package: Path, folder: Path, precision: str, texts: list[str]) -> None:
        [model], vocabularies = folder.glob("model*.bin"), sorted(folder.glob("*vocab*.spm"))
        self.precision = precision
        int8 = "int8shiftAlphaAll" if any(folder.glob("*.intgemm*.bin")) else "int8shift"
        self._gemm = int8 if precision == "int8" else precision
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
        config = {"gemm-precision": self._gemm, **config}
        request = json.dumps({**self._request, "batch": batch, "repeat": repeat, "config": config})
        script = str(Path(__file__).with_name("bergamot.mjs"))
        done = subprocess.run(
            ["node", script], input=request, stdout=subprocess.PIPE, text=True, check=True
        )
        return json.loads(done.stdout)


def _parts(values: Sequence[Part], size: int) -> list[Sequence[Part]]:
    return [values[i : i + size] for i in range(0, len(values), size)]


def _per_second(run: Callable[[], int], turns: int) -> float:
    """Returns the units that `run` returns per second of processor time: the median of `turns`
    after one more."""
    seconds, units = [], 0
    for _ in range(turns + 1):
        started = time.process_time()
        units = run()
        seconds.append(time.process_time() - started)
    return units / statistics.median(seconds[1:])


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("families", __doc__, "--data", "--json")
    parser.add_argument("--model", type=Path, help="folder of a trained model for en-de")
    parser.add_argument("--firefox", type=Path, nargs="+", help="Firefox models for en-de")
    parser.add_argument("--package", type=Path, help="@browsermt/bergamot-translator, unpacked")
    parser.add_argument("--set", default="flores-dev", help="development set")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--batches", nargs="*", type=int, default=[1, 32])
    parser.add_argument("--turns", type=int, default=3, help="counted turns of each engine")
    return parser


if __name__ == "__main__":
    sys.exit(main())
