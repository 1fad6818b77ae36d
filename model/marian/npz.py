"""Import from Marian's own layout: decoder.yml, model .npz, vocab.yml, source.spm and target.spm."""

from __future__ import annotations

import contextlib
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from numpy.lib import format as npy
from torch import Tensor

from model.config import ConfigError, ModelConfig
from model.marian.keys import Part, parts
from model.marian.reading import (
    MAX_TEXT_BYTES,
    MAX_VOCABULARY_BYTES,
    Imported,
    ImportRefused,
    Languages,
    check_vocabulary,
    plain_name,
    read_card,
    read_object,
    read_sentencepiece,
    read_text,
)
from model.marian.vocabulary import parse_vocab_yml

_OPTIONS = "special:model.yml"
_ACTIVATIONS = {"relu": "relu", "swish": "swish"}
_FLOATING = (np.dtype("float32"), np.dtype("float16"))
Shape = tuple[int | None, ...]
_MAX_LENGTH = 512
"""Marian's sinusoids have no end; OPUS-MT's models were trained on sentences of at most 500 pieces."""
_MAX_COMPRESSION = 4
"""Weights barely compress: an archive that unpacks to more than this many times its size is an attack."""
_NORMS = {
    ("", "dan", ""): "post",
    ("n", "da", "n"): "pre",
}
"""(transformer-preprocess, transformer-postprocess, transformer-postprocess-top) -> where the norm is."""


def read_npz(path: Path) -> Imported:
    """Read a model as Marian stores it. Raises ImportRefused with every reason found.

    The decoder starts from the zero embedding, so no padding token is needed. Nothing in the archive is unpickled.
    """
    decoder = read_object(path / "decoder.yml", yaml.safe_load)
    models, vocabularies = decoder.get("models"), decoder.get("vocabs")
    if not isinstance(models, list) or len(models) != 1:
        raise ImportRefused(path, ["decoder.yml does not name exactly one model (ensembles are not supported)"])
    if not isinstance(vocabularies, list) or len(vocabularies) != 2:
        raise ImportRefused(path, ["decoder.yml does not name two vocabularies"])
    file = path / plain_name(path / "decoder.yml", models[0])
    names = [plain_name(path / "decoder.yml", name) for name in vocabularies]
    source, target = (_vocabulary(path / name) for name in names)
    with contextlib.closing(_Archive(file)) as arrays:
        config = read_options(file, arrays.options(), len(source), len(target), source == target)
        source = check_vocabulary(path / names[0], source, config.source_vocab_size or config.vocab_size)
        target = check_vocabulary(path / names[1], target, config.vocab_size)
        end = target["</s>"]
        pad = min(end, (config.source_vocab_size or config.vocab_size) - 1)  # never read, but must be an id on both sides
        config = config.replace(eos_id=end, unk_id=target["<unk>"], pad_id=pad, bos_id=end, decoder_start_id=end)
        config, tensors = _translate(file, config, arrays)
    license_, listed = read_card(path)
    return Imported(
        config=config,
        tensors=tensors,
        source_pieces=read_sentencepiece(path / "source.spm"),
        target_pieces=read_sentencepiece(path / "target.spm"),
        vocabulary=source,
        target_vocabulary=None if source == target else target,
        languages=Languages(listed=listed),
        license=license_ or _license(path),
    )


def read_options(file: Path, options: dict[str, Any], source_size: int, target_size: int, one_vocabulary: bool) -> ModelConfig:
    """Marian's training options as our shape. Raises ImportRefused with every reason why they cannot be."""
    reasons = _unrepresentable(options)
    before, after, top = (
        str(options.get(f"transformer-{place}") or "") for place in ("preprocess", "postprocess", "postprocess-top")
    )
    norm = _NORMS.get((before, after, top))
    if norm is None:
        reasons.append(
            f"its residual layout ({before!r}, {after!r}, {top!r}) is neither post-norm ('', 'dan', '') "
            "nor pre-norm ('n', 'da', 'n')"
        )
    if options.get("tied-embeddings-all") and not one_vocabulary:
        reasons.append("tied-embeddings-all needs one vocabulary, and the two files differ")
    if reasons:
        raise ImportRefused(file, reasons)
    try:
        sizes = options.get("dim-vocabs") or [source_size, target_size]
        source, target = sizes
        return ModelConfig(
            vocab_size=target or target_size,
            source_vocab_size=None if (source or source_size) == (target or target_size) else source or source_size,
            d_model=options["dim-emb"],
            heads=options["transformer-heads"],
            d_ff=options["transformer-dim-ffn"],
            encoder_layers=options["enc-depth"],
            decoder_layers=options["dec-depth"],
            dropout=options.get("transformer-dropout", 0.1),
            norm="pre" if norm == "pre" else "post",
            activation=_ACTIVATIONS[options["transformer-ffn-activation"]],  # type: ignore[arg-type]
            positions="sinusoidal_half",
            tied_embeddings=bool(options.get("tied-embeddings-all")),
            output_bias=not options.get("output-omit-bias", False),
            max_length=_MAX_LENGTH,
            zero_start_embedding=True,
        )
    except KeyError as error:
        raise ImportRefused(file, [f"its options lack {error.args[0]}"]) from None
    except (ConfigError, TypeError, ValueError) as error:
        raise ImportRefused(file, [f"its options are invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(options: dict[str, Any]) -> list[str]:
    """Options that change the computation in a way that we have no field for."""
    expected = {
        "type": "transformer", "transformer-decoder-autoreg": "self-attention", "transformer-no-projection": False,
        "transformer-postprocess-emb": ("d", ""), "transformer-aan-depth": None, "transformer-tied-layers": [],
        "transformer-depth-scaling": None, "factors-combine": None, "lemma-dim-emb": 0, "input-types": [], "ulr": False,
        "transformer-ffn-depth": 2, "transformer-no-bias": False, "transformer-rms": False,
        "transformer-no-affine": False, "transformer-disable-position": False,
    }
    ignored = ("transformer-aan-depth", "transformer-depth-scaling", "factors-combine")
    reasons = []
    for name, right in expected.items():
        value = options.get(name)
        if name in ignored or value is None or value == right or (isinstance(right, tuple) and value in right):
            continue
        reasons.append(f"option {name} is {value!r}")
    if options.get("transformer-ffn-activation") not in _ACTIVATIONS:
        reasons.append(f"option transformer-ffn-activation is {options.get('transformer-ffn-activation')!r}")
    dims = {"dec": options.get("transformer-decoder-dim-ffn"), "ffn": options.get("transformer-dim-ffn")}
    if dims["dec"] and dims["dec"] != dims["ffn"]:
        reasons.append("encoder and decoder have feed-forward layers of different width")
    return reasons


class _Archive:
    """An .npz, opened without trust: an array is read only when its header matches what is asked for."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
        except (OSError, zipfile.BadZipFile, ValueError):
            raise ImportRefused(file, ["the file is not readable as .npz"]) from None
        members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
        if sum(info.file_size for info in members.values()) > _MAX_COMPRESSION * max(1, file.stat().st_size):
            raise ImportRefused(file, ["the archive claims to hold far more than its size"])
        self.members = members

    def options(self) -> dict[str, Any]:
        """Marian's own options, stored as bytes of YAML."""
        if _OPTIONS not in self.members:
            raise ImportRefused(self._file, [f"it lacks {_OPTIONS}"])
        if self.members[_OPTIONS].file_size > MAX_TEXT_BYTES:
            raise ImportRefused(self._file, [f"{_OPTIONS} is larger than {MAX_TEXT_BYTES} bytes"])
        array = self._array(_OPTIONS, (None,), (np.dtype("int8"), np.dtype("uint8")))
        try:
            options = yaml.safe_load(array.tobytes().rstrip(b"\0").decode("utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError):
            raise ImportRefused(self._file, [f"{_OPTIONS} is not YAML"]) from None
        if not isinstance(options, dict):
            raise ImportRefused(self._file, [f"{_OPTIONS} does not hold an object"])
        return options

    def tensor(self, name: str, shape: Shape) -> Tensor:
        """The array `name`, finite, of `shape`, in which None fits any size."""
        tensor = torch.from_numpy(self._array(name, shape, _FLOATING))
        if not torch.isfinite(tensor).all():
            raise ImportRefused(self._file, [f"{name} holds numbers that are not finite"])
        return tensor

    def _array(self, name: str, shape: Shape, dtypes: tuple[np.dtype[Any], ...]) -> np.ndarray[Any, Any]:
        info = self.members[name]
        try:
            with self._zip.open(info) as member:
                version = npy.read_magic(member)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                found, fortran, dtype = read(member)
                if dtype not in dtypes or fortran:
                    raise ImportRefused(self._file, [f"{name} is {dtype}, not {' or '.join(map(str, dtypes))} in C order"])
                if len(found) != len(shape) or any(want not in (None, size) for size, want in zip(found, shape, strict=True)):
                    raise ImportRefused(self._file, [f"{name} has shape {found}, the options ask for {shape}"])
                data = member.read(info.file_size)
        except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
            if isinstance(error, ImportRefused):
                raise
            raise ImportRefused(self._file, [f"{name} is truncated or broken"]) from None
        if len(data) != int(np.prod(found, dtype=np.int64)) * dtype.itemsize:
            raise ImportRefused(self._file, [f"{name} is truncated"])
        return np.frombuffer(bytearray(data), dtype=dtype).reshape(found)

    def close(self) -> None:
        self._zip.close()


def _translate(file: Path, config: ModelConfig, arrays: _Archive) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Our tensors from Marian's, and what they tell about the shape."""
    wanted = _wanted(config, arrays)
    present = set(arrays.members)
    reasons = [f"{name} is missing" for name in wanted if name not in present]
    extra = present - set(wanted) - {"Wpos"}
    reasons += [f"{name} is not a tensor of this architecture" for name in sorted(extra) if not name.startswith("special:")]
    if reasons:
        raise ImportRefused(file, reasons if len(reasons) <= 5 else [*reasons[:5], f"and {len(reasons) - 5} more like these"])
    raw = {name: arrays.tensor(name, shape) for name, shape in wanted.items()}
    tensors: dict[str, Tensor] = {}
    for part in parts(config):
        weight, bias = raw[part.marian_weight], raw[part.marian_bias]
        tensors[f"{part.ours}.weight"] = weight.T.contiguous() if part.linear else weight.reshape(-1).clone()
        tensors[f"{part.ours}.bias"] = bias.reshape(-1).clone()
    tensors.update(_embeddings(config, raw))
    if "Wpos" in present:
        table = arrays.tensor("Wpos", (None, config.d_model))
        tensors["positions.weight"] = table
        config = config.replace(positions="learned", max_length=table.shape[0])
    return config, tensors


def _wanted(config: ModelConfig, arrays: _Archive) -> dict[str, tuple[int, ...]]:
    """Name -> shape of every array of this model, under the names that its kind of tying uses."""
    width, target = config.d_model, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {}
    if config.tied_embeddings:
        shapes["Wemb"] = (target, width)
    else:
        shapes["encoder_Wemb"] = (config.source_vocab_size or target, width)
        shapes["decoder_Wemb"] = (target, width)
        if "decoder_ff_logit_out_Wt" in arrays.members:
            shapes["decoder_ff_logit_out_Wt"] = (target, width)
        elif "decoder_ff_logit_out_W" in arrays.members:
            shapes["decoder_ff_logit_out_W"] = (width, target)
    if config.output_bias:
        shapes["decoder_ff_logit_out_b"] = (1, target)
    for part in parts(config):
        inputs, outputs = _sizes(part, config)
        shapes[part.marian_weight] = (inputs, outputs) if part.linear else (1, width)
        shapes[part.marian_bias] = (1, outputs)
    return shapes


def _sizes(part: Part, config: ModelConfig) -> tuple[int, int]:
    if part.ours.endswith("inner"):
        return config.d_model, config.d_ff
    return (config.d_ff if part.ours.endswith("outer") else config.d_model), config.d_model


def _embeddings(config: ModelConfig, raw: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {}
    if config.output_bias:
        tensors["output_bias"] = raw["decoder_ff_logit_out_b"].reshape(-1).clone()
    if config.tied_embeddings:
        return {**tensors, "embedding.weight": raw["Wemb"].clone()}
    target = raw["decoder_Wemb"]
    head = raw.get("decoder_ff_logit_out_Wt", target)
    if "decoder_ff_logit_out_W" in raw:
        head = raw["decoder_ff_logit_out_W"].T
    return {
        **tensors,
        "embedding.weight": target.clone(),
        "source_embedding.weight": raw["encoder_Wemb"].clone(),
        "projection.weight": head.clone().contiguous(),
    }


def _vocabulary(file: Path) -> dict[str, int]:
    text = read_text(file, MAX_VOCABULARY_BYTES)
    try:
        return parse_vocab_yml(text)
    except ValueError as error:
        raise ImportRefused(file, [str(error)]) from None


def _license(path: Path) -> str:
    """OPUS-MT's archives carry the licence as a text."""
    file = path / "LICENSE"
    if file.is_file() and "Attribution 4.0 International" in read_text(file)[:2000]:
        return "cc-by-4.0"
    return ""
