"""Random and trained Transformers in the files of Firefox's models, with lexical shortlists, and
texts for comparisons with other engines."""

from __future__ import annotations

import itertools
import random
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sentencepiece
import torch
from numpy.typing import NDArray
from torch.nn import functional

from model.config import ModelConfig
from model.convert.importer import import_model
from model.convert.marian.reader import marian_sinusoids
from model.model_folder import ModelFolder
from model.search.backend_interface import Backend
from model.search.options import Hypothesis
from model.transformer import Transformer
from tests.support.models.folders import hypotheses
from tests.support.models.marian_models import (
    made_up_text,
    marian_arrays,
    marian_options,
    sharpened,
    train_sentencepiece,
)

Precision = Literal["float32", "int8"]
_TYPES = {"float32": 0x404, "int8": 0x4101, "bytes": 0x101}
_ALIGNMENT = 256
MAGIC = 0xF11A48D5013417F5
SHAPES: dict[str, dict[str, Any]] = {
    "one vocabulary, 2 decoder layers": {},
    "two vocabularies, 4 decoder layers": {"vocabularies": 2, "decoder_layers": 4},
}


def random_firefox(
    folder: Path,
    seed: int = 0,
    *,
    precision: Precision = "int8",
    vocabularies: int = 1,
    size: int = 200,
    **changes: Any,
) -> Transformer:
    """Returns a random Transformer with SSRU decoder layers and saves it as Firefox's files of
    English and German."""
    folder.mkdir(parents=True, exist_ok=True)
    special = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    names = ["vocab.ende.spm"] if vocabularies == 1 else ["srcvocab.ende.spm", "trgvocab.ende.spm"]
    sizes = [
        len(train_sentencepiece(folder / name, seed + i, size - 7 * i, **special)) + 2
        for i, name in enumerate(names)
    ]
    torch.manual_seed(seed)
    shape = {
        "d_model": 32,
        "heads": 4,
        "d_ff": 64,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "max_length": 512,
    }
    config = ModelConfig(
        **{**shape, **changes}, vocab_size=sizes[-1], source_vocab_size=None if vocabularies == 1 else sizes[0],
        tied_embeddings=vocabularies == 1, recurrence="ssru", positions="learned", norm_epsilon=1e-6, output_bias=True,
        zero_start_embedding=True, pad_id=0, eos_id=0, bos_id=0, unk_id=1, decoder_start_id=0,
    )  # fmt: skip
    transformer = sharpened(Transformer(config).eval())
    if vocabularies == 2:
        transformer.projection.weight = transformer.embedding.weight
    write_firefox(folder / "model.ende.intgemm.alphas.bin", transformer, precision)
    return transformer


def write_firefox(
    file: Path, transformer: Transformer, precision: Precision, **options: Any
) -> None:
    """Writes the weights to a model file of Marian's binary format, with the training options of
    Mozilla's models."""
    items: list[tuple[str, str, tuple[int, ...], bytes]] = []
    for name, array in marian_arrays(transformer).items():
        if precision == "int8" and min(array.shape) > 1:
            items.append(
                (name, "int8", array.shape, _quantized(array, transposed="Wemb" not in name))
            )
            alpha = np.float32(127 / 6)  # of activations: Marian measures it on text
            items.append((f"{name}_QuantMultA", "float32", (1, 1), alpha.tobytes()))
        else:
            items.append((name, "float32", array.shape, array.tobytes()))
    text = marian_options(
        transformer, **{"tied-embeddings": not transformer.config.tied_embeddings}, **options
    )
    items.append(("special:model.yml", "bytes", (len(text),), text))
    file.write_bytes(binary_file(items))


def _quantized(matrix: NDArray[np.float32], *, transposed: bool) -> bytes:
    multiplier = np.float32(127) / np.abs(matrix).max()
    integers = (
        np.rint((matrix.T if transposed else matrix) * multiplier).clip(-127, 127).astype(np.int8)
    )
    return integers.tobytes() + np.float32(multiplier).tobytes()


def binary_file(items: list[tuple[str, str, tuple[int, ...], bytes]]) -> bytes:
    """Returns a file of Marian's binary format with items (name, type, shape, data), padded to 256
    bytes each."""
    padded = [data + bytes(-len(data) % _ALIGNMENT) for *_, data in items]
    head = struct.pack("<QQ", 1, len(items))
    for (name, kind, shape, _), data in zip(items, padded, strict=True):
        head += struct.pack("<QQQQ", len(name) + 1, _TYPES[kind], len(shape), len(data))
    head += b"".join(name.encode() + b"\0" for name, *_ in items)
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    offset = -(len(head) + 8) % _ALIGNMENT
    return head + struct.pack("<Q", offset) + bytes(offset) + b"".join(padded)


def trained_firefox(
    folder: Path,
    *,
    precision: Precision = "int8",
    vocabularies: int = 1,
    steps: int = 120,
    **changes: Any,
) -> Transformer:
    """Saves a model that was trained for some steps on made-up text (`made_up_text(4, 1000)`), in
    both precisions: the model file of the other one is `other.bin`."""
    shape = {"d_model": 64, "dropout": 0.0, **changes}
    made = random_firefox(folder, 4, vocabularies=vocabularies, size=400, **shape)
    torch.manual_seed(1)
    transformer = Transformer(made.config)
    with torch.no_grad():
        transformer.positions.weight.copy_(
            torch.from_numpy(marian_sinusoids(made.config.max_length, made.config.d_model))
        )
    if vocabularies == 2:
        transformer.projection.weight = transformer.embedding.weight
    processor = sentencepiece.SentencePieceProcessor(model_file=str(min(folder.glob("*.spm"))))
    train(transformer, [[*processor.encode(text)[:40], 0] for text in made_up_text(4, 1000)], steps)
    write_firefox(folder / "model.ende.intgemm.alphas.bin", transformer, precision)
    write_firefox(folder / "other.bin", transformer, "float32" if precision == "int8" else "int8")
    return transformer


def train(
    transformer: Transformer, sources: list[list[int]], steps: int, seed: int = 0
) -> Transformer:
    """Trains a model to write a fixed substitute for each source token, so that its targets end and
    depend on the sources. The substitutes are other tokens of the target vocabulary."""
    config = transformer.config
    chance = np.random.default_rng(seed)
    substitutes = torch.from_numpy(
        chance.integers(2, config.vocab_size, config.source_vocab_size or config.vocab_size)
    )
    substitutes[config.eos_id] = config.eos_id
    optimizer = torch.optim.Adam(
        [p for n, p in transformer.named_parameters() if n != "positions.weight"], lr=3e-3
    )
    transformer.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1.0, (step + 1) / 30) * (1 - step / (steps + 1))
        rows = [sources[i] for i in chance.integers(0, len(sources), 32)]
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[config.pad_id] * (width - len(row))] for row in rows])
        mask = torch.arange(width) < torch.tensor([len(row) for row in rows])[:, None]
        labels = substitutes[ids]
        inputs = torch.cat([torch.full((32, 1), config.decoder_start_id), labels[:, :-1]], dim=1)
        logits = transformer(ids, mask, inputs)
        loss = functional.cross_entropy(logits[mask], labels[mask], label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return transformer.eval()


def binary_shortlist(lists: Sequence[Sequence[int]], first: int, magic: int = MAGIC) -> bytes:
    """Returns a file with the targets of each source token, besides the `first` tokens that every
    source allows."""
    flat = [target for targets in lists for target in targets]
    offsets = [0, *itertools.accumulate(map(len, lists))]
    header = struct.pack(
        "<6Q", magic, 0, first, max(map(len, lists), default=0), len(offsets), len(flat)
    )
    return (
        header + struct.pack(f"<{len(offsets)}Q", *offsets) + struct.pack(f"<{len(flat)}I", *flat)
    )


def random_lists(sources: int, targets: int, best: int, seed: int = 1) -> list[list[int]]:
    """Returns `best` random target tokens for each source token."""
    draw = random.Random(seed)
    return [sorted(draw.sample(range(targets), best)) for _ in range(sources)]


@dataclass(frozen=True, slots=True)
class Sample:
    """A model in both formats, and the texts to translate."""

    path: Path
    folder: ModelFolder
    texts: list[str]

    @property
    def model(self) -> Path:
        """The model file of Marian, in float32."""
        return next(self.path.glob("model.*.bin"))

    @property
    def vocabularies(self) -> list[Path]:
        """One or two SentencePiece models."""
        return sorted(self.path.glob("*.spm"))


def trained_sample(path: Path, shape: str) -> Sample:
    """Trains a model of one of SHAPES for some seconds, because targets of random weights hardly
    depend on their sources."""
    trained_firefox(path / "ende", precision="float32", steps=200, **SHAPES[shape])
    folder = import_model(path / "ende", path / "weights")
    # Bergamot splits texts at sentence ends; these have none.
    return Sample(
        path / "ende",
        folder,
        [re.sub(r"\W+", " ", text).strip() for text in made_up_text(4, 1100)[1000:]],
    )


def targets(sample: Sample, backend: Backend, **options: Any) -> list[Hypothesis]:
    """Returns our targets. Bergamot's longest target has twice the tokens of the longest source in
    a batch."""
    tokenizer = sample.folder.load_tokenizer()
    sources = [tokenizer.encode_ids(text) for text in sample.texts]
    longest = 2 * max(map(len, sources))
    return [
        best
        for best, *_ in hypotheses(sample.folder, sources, backend, max_length=longest, **options)
    ]
