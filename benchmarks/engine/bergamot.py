"""Speed beside Bergamot, the WebAssembly engine of Firefox, in node: random weights in the shapes of Firefox's models.

npm pack @browsermt/bergamot-translator@0.4.9 && tar xzf browsermt-bergamot-translator-0.4.9.tgz
python -m benchmarks.engine.bergamot --package package --json bergamot.json

Both translate the same sentences of 30 pieces in int8 on one thread, greedily, to targets of the same length: the end of
sentence has a low bias. Both run without and with a lexical shortlist: ours is that of each sentence, Bergamot's that of each
batch. With `--marian PYTHON`, a Python that has pymarian, Marian itself translates too, in float32 without a shortlist. Tokens
per second of processor time, so that other processes hardly matter; the first turn of each engine is not counted.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from benchmarks.common import report
from benchmarks.engine.family_engines import ask, tokens_per_second
from model.backends.cpu.backend import CpuBackend, open_backend
from model.backends.cpu.build import build
from model.config import ModelConfig
from model.convert.importer import ImportOptions, import_model
from model.model_folder import ModelFolder
from model.search.driver import translate
from model.search.options import DecodingOptions
from model.transformer import Transformer
from tests.support.firefox_models import BASE_MEMORY, TINY, sharpened, write_firefox
from tests.support.shortlists import binary_shortlist, random_lists

SHAPES = {"tiny": TINY, "base-memory": BASE_MEMORY}
HEADER = (
    "shape", "batch", "Attentive", "Bergamot", "ratio", "with a shortlist: Attentive", "Bergamot", "ratio", "Marian float32",
    "ratio",
)  # fmt: skip
_PIECES, _LENGTH, _BEST = 32_000, 30, 100
_MODEL, _VOCABULARY, _SHORTLIST = "model.ende.intgemm.alphas.bin", "vocab.ende.spm", "lex.50.50.ende.s2t.bin"
_FLOAT32 = "float32.bin"
_SCRIPT = Path(__file__).with_name("bergamot.mjs")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line."""
    options = _parser().parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        prepared = {shape: _prepare(Path(scratch) / shape, shape) for shape in options.shapes}
        for shape, folder in prepared.items():
            backends = [
                open_backend(
                    folder, build(), slots=max(options.batches), threads=1, precision="int8", shortlist=shortlist
                )
                for shortlist in ("off", "on")
            ]
            for batch in options.batches:
                rows.append(_compare(options, shape, Path(scratch) / shape, folder, backends, batch))
                print(report.table(HEADER, rows[-1:]), flush=True)
    print(report.table(HEADER, rows))
    if options.json:
        results = [list(zip(HEADER, row, strict=True)) for row in rows]
        report.write(options.json, {"benchmark": "bergamot", "turns": options.turns, "rows": results})
    return 0


def _prepare(path: Path, shape: str) -> ModelFolder:
    """Writes a random model of Firefox with a vocabulary of whole words and a shortlist, and imports it."""
    path.mkdir()
    words = [f"w{number}" for number in range(_PIECES)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(words), model_prefix=str(path / "vocab"), vocab_size=_PIECES, model_type="word",
        eos_id=0, unk_id=1, bos_id=-1, pad_id=-1, minloglevel=2,
    )  # fmt: skip
    (path / "vocab.model").rename(path / _VOCABULARY)
    (path / "vocab.vocab").unlink()
    torch.manual_seed(1)
    config = ModelConfig(
        **SHAPES[shape], heads=8, d_ff=1536, vocab_size=_PIECES, recurrence="ssru", positions="learned",
        norm_epsilon=1e-6, output_bias=True, zero_start_embedding=True, pad_id=0, eos_id=0, bos_id=0, decoder_start_id=0,
    )  # fmt: skip
    transformer = sharpened(Transformer(config).eval())
    with torch.no_grad():
        transformer.output_bias[config.eos_id] = -1000.0
    write_firefox(path / _MODEL, transformer, "int8")
    write_firefox(path / _FLOAT32, transformer, "float32")
    (path / _SHORTLIST).write_bytes(binary_shortlist(random_lists(_PIECES, _PIECES, _BEST), _BEST))
    return import_model(path, path.parent / "weights", ImportOptions(name=shape))


def _compare(
    options: argparse.Namespace, shape: str, path: Path, folder: ModelFolder, backends: list[CpuBackend], batch: int
) -> tuple[Any, ...]:
    """Returns a row: tokens per second of the engines in turn, and their ratios."""
    draw = random.Random(batch)
    count = options.sentences * (1 if batch == 1 else 4)
    texts = [" ".join(f"w{draw.randrange(2, _PIECES - 10)}" for _ in range(_LENGTH)) for _ in range(count)]
    theirs, length = _bergamot(options, path, texts, batch, None)
    ours, limited = (_attentive(options, folder, backend, texts, batch, length) for backend in backends)
    shortlisted, _ = _bergamot(options, path, texts, batch, path / _SHORTLIST)
    marian = _marian(options, path, texts, batch) if options.marian else 0.0
    return (
        shape, batch, round(ours), round(theirs), round(ours / theirs, 2), round(limited), round(shortlisted),
        round(limited / shortlisted, 2), round(marian), round(ours / marian, 2) if marian else "",
    )  # fmt: skip


def _bergamot(
    options: argparse.Namespace, path: Path, texts: list[str], batch: int, shortlist: Path | None
) -> tuple[float, int]:
    """Returns tokens per second and the length of the targets."""
    request = {
        "package": str(options.package.resolve()), "model": str(path / _MODEL), "vocabs": [str(path / _VOCABULARY)],
        "shortlist": shortlist and str(shortlist), "texts": texts, "html": False, "batch": batch,
        "repeat": options.turns + 1, "config": {"gemm-precision": "int8shiftAlphaAll"},
    }  # fmt: skip
    answer = ask(["node", str(_SCRIPT)], request)
    lengths = [len(target.split()) for target in answer["targets"]]
    return sum(lengths) / statistics.median(answer["seconds"][1:]), max(lengths)


def _marian(options: argparse.Namespace, path: Path, texts: list[str], batch: int) -> float:
    """Returns tokens per second of Marian on the same weights in float32."""
    request = {"texts": texts, "batch": batch, "repeat": options.turns + 1, "options": {
        "models": [str(path / _FLOAT32)], "vocabs": [str(path / _VOCABULARY)] * 2, "beam-size": 1, "cpu-threads": 1,
        "mini-batch": batch, "max-length-factor": 2, "quiet": True, "quiet-translation": True,
    }}  # fmt: skip
    answer = ask([options.marian, str(_SCRIPT.with_name("marian_process.py"))], request)
    return float(sum(len(line.split()) for line in answer["lines"]) / statistics.median(answer["seconds"][1:]))


def _attentive(
    options: argparse.Namespace, folder: ModelFolder, backend: CpuBackend, texts: list[str], batch: int, length: int
) -> float:
    """Returns tokens per second, tokenization included as in Bergamot."""
    config, tokenizer = folder.model, folder.load_tokenizer()

    def run() -> int:
        tokens = 0
        for first in range(0, len(texts), batch):
            found = translate(
                backend, [tokenizer.encode_ids(text) for text in texts[first : first + batch]],
                DecodingOptions(beam_size=1, max_length=length), start=config.decoder_start_id, end=config.eos_id,
                max_length=config.max_length, generation=folder.generation,
            )  # fmt: skip
            tokens += sum(len(tokenizer.decode(best[0].tokens).split()) for best in found)
        return tokens

    return tokens_per_second(run, options.turns)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine.bergamot", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--package", type=Path, required=True, help="unpacked @browsermt/bergamot-translator")
    parser.add_argument("--marian", help="a Python that has pymarian")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--sentences", type=int, default=16, help="at batch 1; four times as many at larger batches")
    parser.add_argument("--turns", type=int, default=3, help="counted turns of each engine, after one warm-up turn")
    parser.add_argument("--json", type=Path, help="write the results here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
