"""Every family of imported models beside its own engine: targets, scores, int8, speed, maps and independence of the batch.

npm pack @browsermt/bergamot-translator@0.4.9 && tar xzf browsermt-bergamot-translator-0.4.9.tgz
python -m benchmarks.engine.families --model weights/NAME --data DATA --package package --marian PYTHON --json families.json

A trained model is exported to Hugging Face, CTranslate2 and Argos and imported again; M2M100 and NLLB have random weights, and
Firefox's model is trained for some seconds on made-up text; its int8 weights are those of its int8 file. Targets and n-best
scores are compared in float32 under the same search settings; `int8 chrF` is the chrF of int8 targets less that of float32
targets against references, and for made-up text the chrF against the float32 targets. Speed is in tokens (for Firefox's models
characters) per second of processor time, ours in int8, greedy.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import report
from benchmarks.common.development_sets import choose, read_sets
from benchmarks.common.model_loader import OpenModel, open_model
from benchmarks.engine.family_engines import (
    Bergamot,
    CTranslate2,
    FamilyEngine,
    Marian,
    Transformers,
    tokens_per_second,
)
from benchmarks.engine.independence import compare
from model.convert.argos.export import export_argos
from model.convert.argos.package import PACKAGE_SUFFIX
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.huggingface.export import export_huggingface
from model.convert.importer import ImportOptions, import_model
from model.convert.vocabulary import folder_pieces
from model.model_folder import ModelFolder, read_folder
from model.search.driver import translate
from model.search.options import DecodingOptions, Hypothesis
from model.training.loop.evaluate import score
from tests.support.firefox_samples import SHAPES, Sample, trained_sample
from tests.support.marian_models import made_up_text
from tests.support.multilingual_models import random_multilingual

FAMILIES = ("opus-mt", "m2m100", "nllb", "ctranslate2", "argos", "firefox", "marian")
_NEEDED = {
    **dict.fromkeys(("opus-mt", "ctranslate2", "argos"), ("model", "data")), "firefox": ("package",), "marian": ("marian",),
}  # fmt: skip
"""Options without which a family cannot be measured."""
HEADER = (
    "family", "engine", "greedy equal", "beam 4 equal", "n-best equal", "n-best scores", "int8 chrF", "maps", "batch",
    "tokens/s", "its engine", "ratio", "differ by batch",
)  # fmt: skip
_LIMIT, _LONGEST, _CLOSE = 48, 24, 1e-3
_TRANSFORMERS = {"normalization": "average", "length_penalty": 1.0}
_CTRANSLATE2 = {**_TRANSFORMERS, "early_stopping": True}
_MARIAN = {**_TRANSFORMERS, "shrinking_beam": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """An imported model and its own engine on the same `texts`. `search` has the options of the same search; `text`
    returns what is compared of a target, `units` what is counted of it for the speed. `int8` is the model of an int8 file."""

    folder: ModelFolder
    engine: FamilyEngine
    texts: list[str]
    references: list[str] | None
    text: Callable[[Hypothesis], str]
    search: dict[str, Any]
    units: Callable[[Hypothesis], int] = lambda target: len(target.tokens)
    languages: tuple[str, str] = ("en", "de")
    times_source: int | None = None
    random: bool = False
    int8: ModelFolder | None = None
    independent: list[str] = field(default_factory=lambda: made_up_text(7, 1000))

    def sources(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Returns the ids of texts."""
        tokenizer = self.folder.load_tokenizer()
        return [tuple(tokenizer.encode_ids(text, self.languages[1], self.languages[0])) for text in texts]

    def decode(
        self, opened: OpenModel, sources: Sequence[Sequence[int]], **options: Any
    ) -> list[tuple[Hypothesis, ...]]:
        """Returns our hypotheses."""
        config, first = opened.config, self.folder.load_tokenizer().first_token(self.languages[1])
        each = [
            DecodingOptions(
                max_length=self.times_source * len(source) if self.times_source else _LIMIT,
                first_token=first,
                **options,
            )
            for source in sources
        ]
        return translate(
            opened.backend, sources, each, start=config.decoder_start_id, end=config.eos_id, max_length=config.max_length,
            generation=self.folder.generation,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.families:
        for option in _NEEDED.get(name, ()):
            if getattr(options, option) is None:
                parser.error(f"The family {name} needs --{option}.")
    torch.set_num_threads(1)
    rows: list[tuple[Any, ...]] = []
    for name in options.families:
        with tempfile.TemporaryDirectory() as scratch:
            rows += measure(name, prepare(name, Path(scratch), options), options)
        print(report.table(HEADER, rows[-len(options.batches) :]), flush=True)
    print(report.table(HEADER, rows))
    if options.json:
        results = [dict(zip(HEADER, row, strict=True)) for row in rows]
        report.write(options.json, {"benchmark": "families", "sentences": options.sentences, "rows": results})
    return 0


def measure(name: str, family: Family, options: argparse.Namespace) -> list[tuple[Any, ...]]:
    """Returns a row for each batch size."""
    slots = max(options.batches) * 4
    exact = open_model(family.folder.path, engine="native", precision="float32", slots=slots, threads=1)
    fast = open_model((family.int8 or family.folder).path, engine="native", precision="int8", slots=slots, threads=1)
    sources = family.sources(family.texts)
    equal = _equal(family, exact, sources)
    drop = _int8_difference(family, exact, fast, sources)
    batched, shuffled = compare(fast, family.sources(family.independent[: options.independent]), 1, _LONGEST)
    maps = _maps(family, exact, sources[0])
    rows = []
    for batch in options.batches:
        theirs = family.engine.speed(batch, options.turns)
        ours = _speed(family, fast, sources, batch, options.turns)
        rows.append((
            name, f"{family.engine.name} {family.engine.precision}", *equal, drop, maps, batch, round(ours), round(theirs),
            round(ours / theirs, 2), f"{max(batched, shuffled)} of {options.independent}",
        ))  # fmt: skip
    return rows


def _equal(family: Family, opened: OpenModel, sources: Sequence[Sequence[int]]) -> tuple[str, str, str, str]:
    """Returns the equal greedy and beam-4 targets, the equal n-best lists, and the largest difference of their scores."""
    greedy = family.decode(opened, sources, **{**family.search, "shrinking_beam": False})
    same = [family.text(mine[0]) == other[0].text for mine, other in zip(greedy, family.engine.targets(1), strict=True)]
    ours, theirs = family.decode(opened, sources, beam_size=4, hypotheses=4, **family.search), family.engine.targets(4)
    best = [family.text(mine[0]) == other[0].text for mine, other in zip(ours, theirs, strict=True)]
    if len(theirs[0]) == 1:
        return _of(same), _of(best), "not stated", "not stated"
    lists = [
        [family.text(one) for one in mine] == [one.text for one in other]
        for mine, other in zip(ours, theirs, strict=True)
    ]
    gaps = [
        abs(one.score - (other.score or 0.0))
        for mine, listed, equal in zip(ours, theirs, lists, strict=True) if equal
        for one, other in zip(mine, listed, strict=True)
    ]  # fmt: skip
    return _of(same), _of(best), _of(lists), f"within {max(gaps, default=0.0):.0e}"


def _of(same: Sequence[bool]) -> str:
    return f"{sum(same)} of {len(same)}"


def _int8_difference(family: Family, exact: OpenModel, fast: OpenModel, sources: Sequence[Sequence[int]]) -> str:
    if family.random:
        return "random weights"
    tokenizer = family.folder.load_tokenizer()
    before, after = (
        [tokenizer.decode(best[0].tokens) for best in family.decode(one, sources)] for one in (exact, fast)
    )
    target = family.languages[1]
    if family.references is None:
        return f"{score(after, before, target).chrf:.1f} (same)"
    return f"{score(after, family.references, target).chrf - score(before, family.references, target).chrf:+.2f}"


def _maps(family: Family, opened: OpenModel, source: Sequence[int]) -> str:
    """Returns the kinds of attention maps of a target."""
    maps = opened.backend.attention_maps(source, [family.folder.model.unk_id])  # type: ignore[attr-defined]
    return "encoder, cross, " + ("decoder" if maps.forget_gates is None else "forget gates")


def _speed(family: Family, opened: OpenModel, sources: list[tuple[int, ...]], batch: int, turns: int) -> float:
    def run() -> int:
        parts = [family.decode(opened, sources[i : i + batch]) for i in range(0, len(sources), batch)]
        return sum(family.units(best[0]) for part in parts for best in part)

    return tokens_per_second(run, turns)


def prepare(name: str, scratch: Path, options: argparse.Namespace) -> Family:
    """Writes a model of the family to `scratch` and imports it."""
    if name in ("m2m100", "nllb"):
        return _multilingual(name, scratch, options)
    if name in ("firefox", "marian"):
        return _firefox(name, scratch, options)
    return _exported(name, scratch, options)


def _exported(name: str, scratch: Path, options: argparse.Namespace) -> Family:
    """Returns the trained model in the layout of the family."""
    [chosen] = choose(read_sets(options.data, [options.set], options.sentences), ["en-de"])
    texts, references = list(chosen.sources), list(chosen.references)
    own, wanted = read_folder(options.model), ImportOptions(name="imported", sources=["en"], targets=["de"])
    pieces = folder_pieces(own)
    encoded = [[pieces[0][i] for i in own.load_tokenizer().encode_ids(text, "de", "en")[:-1]] for text in texts]
    text: Callable[[Hypothesis], str] = lambda target: " ".join(pieces[1][i] for i in target.tokens)  # noqa: E731
    if name == "opus-mt":
        import transformers

        export_huggingface(own, scratch / "theirs")
        folder = import_model(scratch / "theirs", scratch / "weights", wanted)
        tokenizer = folder.load_tokenizer()
        sources = [tokenizer.encode_ids(text, "de", "en") for text in texts]
        model = transformers.MarianMTModel.from_pretrained(scratch / "theirs", dtype=torch.float32).eval()  # type: ignore[no-untyped-call]
        return Family(
            folder=folder, engine=Transformers(model, sources, _LIMIT, None), texts=texts, references=references,
            text=lambda target: " ".join(map(str, target.tokens)), search=_TRANSFORMERS,
        )  # fmt: skip
    if name == "ctranslate2":
        export_ctranslate2(own, scratch / "theirs")
        folder, engine = import_model(scratch / "theirs", scratch / "weights", wanted), scratch / "theirs"
    else:
        import zipfile

        package = scratch / f"en_de{PACKAGE_SUFFIX}"
        export_argos(own, package, "en", "de")
        folder = import_model(package, scratch / "weights", wanted)
        with zipfile.ZipFile(package) as archive:
            archive.extractall(scratch)
        [metadata] = scratch.glob("*/metadata.json")
        engine, encoded = metadata.parent / "model", [listed[1:] for listed in encoded]  # its engine adds the tag
    return Family(
        folder=folder, engine=CTranslate2(engine, encoded, _LIMIT), texts=texts, references=references, text=text,
        search=_CTRANSLATE2,
    )  # fmt: skip


def _multilingual(name: str, scratch: Path, options: argparse.Namespace) -> Family:
    """Returns a random model of many languages."""
    model = random_multilingual(scratch / name, name, seed=3, d_model=64, encoder_ffn_dim=128, decoder_ffn_dim=128)
    folder, texts = import_model(scratch / name, scratch / "weights"), made_up_text(31, options.sentences)
    tokenizer = folder.load_tokenizer()
    sources = [tokenizer.encode_ids(text, "de", "en") for text in texts]
    first = tokenizer.first_token("de")
    return Family(
        folder=folder, engine=Transformers(model, sources, _LIMIT, first), texts=texts, references=None,
        text=lambda target: " ".join(map(str, target.tokens)), search=_TRANSFORMERS, random=True,
    )  # fmt: skip


def _firefox(name: str, scratch: Path, options: argparse.Namespace) -> Family:
    """Returns a small trained model with an SSRU decoder."""
    sample = trained_sample(scratch, next(iter(SHAPES)))
    texts, int8 = sample.texts[: options.sentences], None
    engine: FamilyEngine
    if name == "firefox":
        int8 = _int8_file(sample, scratch / "int8")
        engine = Bergamot(options.package, sample.model, sample.path / "other.bin", sample.vocabularies, texts)
    else:
        engine = Marian(options.marian, sample.model, sample.vocabularies, texts)
    decode = sample.folder.load_tokenizer().decode
    return Family(
        folder=sample.folder, engine=engine, texts=texts, references=None, text=lambda target: decode(target.tokens),
        search=_MARIAN, units=lambda target: len(decode(target.tokens)), times_source=2 if name == "firefox" else 3,
        int8=int8,
    )  # fmt: skip


def _int8_file(sample: Sample, path: Path) -> ModelFolder:
    """Imports the int8 file of a sample."""
    path.mkdir()
    for vocabulary in sample.vocabularies:
        shutil.copy(vocabulary, path)
    shutil.copyfile(sample.path / "other.bin", path / sample.model.name)
    return import_model(path, path.parent / "weights")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.families", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--model", type=Path, help="folder of a trained model that translates English into German")
    parser.add_argument("--data", type=Path, help="folder of development sets SET.en-XX.tsv")
    parser.add_argument("--set", default="flores-dev", help="development set")
    parser.add_argument("--package", type=Path, help="unpacked @browsermt/bergamot-translator")
    parser.add_argument("--marian", type=Path, help="a Python that has pymarian")
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--independent", type=int, default=1000, help="sentences decoded alone, together and shuffled")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--turns", type=int, default=3, help="counted turns of each engine, after one warm-up turn")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
