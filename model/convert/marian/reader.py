"""Import from Marian's layout: decoder.yml, model .npz or .bin, vocab.yml, source.spm and target.spm."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
import yaml
from torch import Tensor

from model.config import ConfigError, ModelConfig
from model.convert.marian.binary_archive import SCALE_OF_INPUTS, BinaryArchive
from model.convert.marian.npz_archive import Archive
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Imported,
    ImportRefused,
    Languages,
    check_vocabulary,
    few,
    plain_name,
    read_card,
    read_object,
    read_sentencepiece,
    read_text,
)
from model.convert.tensor_names import Part, parts
from model.convert.vocabulary import parse_vocab_yml, sentencepiece_vocabulary

_ACTIVATIONS = {"relu": "relu", "swish": "swish"}
Arrays = Archive | BinaryArchive
_MAX_LENGTH = 512
"""Marian states no maximum length; OPUS-MT models were trained on sentences of at most 500 pieces."""
_RECURRENT: dict[str, Any] = {"recurrence": "ssru", "positions": "learned", "norm_epsilon": 1e-6}
"""Models with a recurrence follow Marian, the only other program that runs them, in its sinusoids and its epsilon too."""
_NORMS = {
    ("", "dan", ""): "post",
    ("n", "da", "n"): "pre",
}
"""(transformer-preprocess, transformer-postprocess, transformer-postprocess-top) -> position of the norm."""


def read_marian(path: Path) -> Imported:
    """Reads a model in Marian's layout. Raises ImportRefused with all reasons.

    The decoder starts from the zero embedding, so no padding token is needed. The archive is read without pickle.
    """
    decoder = read_object(path / "decoder.yml", yaml.safe_load)
    models, vocabularies = decoder.get("models"), decoder.get("vocabs")
    if not isinstance(models, list) or len(models) != 1:
        raise ImportRefused(path, ["decoder.yml does not name exactly one model (ensembles are not supported)"])
    if not isinstance(vocabularies, list) or len(vocabularies) != 2:
        raise ImportRefused(path, ["decoder.yml does not name two vocabularies"])
    file = path / plain_name(path / "decoder.yml", models[0])
    names = [plain_name(path / "decoder.yml", name) for name in vocabularies]
    model = read_model(file, [path / name for name in names], open_archive)
    license_, listed = read_card(path)
    return Imported(
        **model,
        source_pieces=read_sentencepiece(_sentencepiece(path, names[0], "source.spm")),
        target_pieces=read_sentencepiece(_sentencepiece(path, names[1], "target.spm")),
        languages=Languages(listed=listed),
        license=license_ or _license(path),
    )


def read_model(file: Path, vocabularies: Sequence[Path], open_file: Callable[[Path], Arrays]) -> dict[str, Any]:
    """Returns the fields of Imported that come from a model file and its source and target vocabulary. Raises
    ImportRefused with all reasons."""
    source, target = (vocabulary_of(file) for file in vocabularies)
    with contextlib.closing(open_file(file)) as arrays:
        config = read_options(file, arrays.options(), len(source), len(target), source == target)
        source_size = config.source_vocab_size or config.vocab_size
        source = check_vocabulary(vocabularies[0], source, source_size)
        target = check_vocabulary(vocabularies[1], target, config.vocab_size)
        end = target["</s>"]
        pad = min(end, source_size - 1)  # not used, but must be a valid id on both sides
        config = config.replace(eos_id=end, unk_id=target["<unk>"], pad_id=pad, bos_id=end, decoder_start_id=end)
        config, tensors = convert(file, config, arrays)
    return {
        "config": config,
        "tensors": tensors,
        "vocabulary": source,
        "target_vocabulary": None if source == target else target,
    }


def open_archive(file: Path) -> Arrays:
    """Opens a model file in one of Marian's two formats."""
    return BinaryArchive(file) if file.suffix == ".bin" else Archive(file)


def read_options(
    file: Path, options: dict[str, Any], source_size: int, target_size: int, one_vocabulary: bool
) -> ModelConfig:
    """Converts Marian's training options to a ModelConfig. Raises ImportRefused with all reasons."""
    reasons = _unrepresentable(options)
    tied = bool(
        options.get("tied-embeddings-all") or (options.get("tied-embeddings-src") and options.get("tied-embeddings"))
    )
    before, after, top = (
        str(options.get(f"transformer-{place}") or "") for place in ("preprocess", "postprocess", "postprocess-top")
    )
    norm = _NORMS.get((before, after, top))
    if norm is None:
        reasons.append(
            f"its residual layout ({before!r}, {after!r}, {top!r}) is neither post-norm ('', 'dan', '') "
            "nor pre-norm ('n', 'da', 'n')"
        )
    if tied and not one_vocabulary:
        reasons.append("its tied embeddings need one vocabulary, and the two files differ")
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
            tied_embeddings=tied,
            output_bias=not options.get("output-omit-bias", False),
            max_length=_MAX_LENGTH,
            zero_start_embedding=True,
        ).replace(**_RECURRENT if options.get("transformer-decoder-autoreg") == "rnn" else {})
    except KeyError as error:
        raise ImportRefused(file, [f"its options lack {error.args[0]}"]) from None
    except (ConfigError, TypeError, ValueError) as error:
        raise ImportRefused(file, [f"its options are invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(options: dict[str, Any]) -> list[str]:
    """Returns the options that change the computation and have no field in ModelConfig."""
    expected = {
        "type": "transformer",
        "transformer-decoder-autoreg": ("self-attention", "rnn"),
        "transformer-no-projection": False,
        "transformer-postprocess-emb": ("d", ""),
        "transformer-tied-layers": [],
        "lemma-dim-emb": 0,
        "input-types": [],
        "ulr": False,
        "transformer-ffn-depth": 2,
        "transformer-decoder-ffn-depth": (0, 2),
        "transformer-rnn-projection": False,
        "transformer-pool": False,
        "transformer-no-bias": False,
        "transformer-rms": False,
        "transformer-no-affine": False,
        "transformer-disable-position": False,
        "right-left": False,
        "skip": False,
        "layer-normalization": False,
    }
    reasons = []
    for name, right in expected.items():
        value = options.get(name)
        if value is None or value == right or (isinstance(right, tuple) and value in right):
            continue
        reasons.append(f"option {name} is {value!r}")
    if options.get("transformer-decoder-autoreg") == "rnn" and options.get("dec-cell") != "ssru":
        reasons.append(f"option dec-cell is {options.get('dec-cell')!r}")
    if options.get("transformer-ffn-activation") not in _ACTIVATIONS:
        reasons.append(f"option transformer-ffn-activation is {options.get('transformer-ffn-activation')!r}")
    dims = {"dec": options.get("transformer-decoder-dim-ffn"), "ffn": options.get("transformer-dim-ffn")}
    if dims["dec"] and dims["dec"] != dims["ffn"]:
        reasons.append("encoder and decoder have feed-forward layers of different width")
    return reasons


def convert(file: Path, config: ModelConfig, arrays: Arrays) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Converts Marian's tensors. Returns the config with learned positions if there are any, and our tensors."""
    expected_shapes = _expected(config, arrays)
    present = set(arrays.members)
    reasons = [f"{name} is missing" for name in expected_shapes if name not in present]
    extra = present - set(expected_shapes) - {"Wpos"}
    reasons += [
        f"{name} is not a tensor of this architecture"
        for name in sorted(extra)
        if not name.startswith("special:") and not name.endswith(SCALE_OF_INPUTS)
    ]
    if reasons:
        raise ImportRefused(file, few(reasons))
    raw = {name: arrays.tensor(name, shape) for name, shape in expected_shapes.items()}
    tensors: dict[str, Tensor] = {}
    for part in parts(config):
        weight = raw[part.marian_weight]
        tensors[f"{part.ours}.weight"] = weight.T.contiguous() if part.linear else weight.reshape(-1).clone()
        if part.marian_bias is not None:
            tensors[f"{part.ours}.bias"] = raw[part.marian_bias].reshape(-1).clone()
    tensors.update(_embeddings(config, raw))
    if config.positions == "learned":
        tensors["positions.weight"] = marian_sinusoids(config.max_length, config.d_model)
    if "Wpos" in present:
        table = arrays.tensor("Wpos", (None, config.d_model))
        tensors["positions.weight"] = table
        config = config.replace(positions="learned", max_length=table.shape[0])
    return config, tensors


def marian_sinusoids(length: int, width: int) -> Tensor:
    """Returns Marian's own sinusoids (length, width): sines, then cosines, of pos / 10000^(i / (width / 2 - 1))."""
    half = width // 2
    rates = torch.pow(10000.0, -torch.arange(half, dtype=torch.float64) / max(1, half - 1))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates.float().double()
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def _expected(config: ModelConfig, arrays: Arrays) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of all arrays of this model. The names depend on the tied embeddings."""
    width, target = config.d_model, config.vocab_size
    shapes: dict[str, tuple[int, ...]] = {}
    source, written = _embedding_names(arrays.members)
    shapes[source] = (config.source_vocab_size or target, width)
    shapes[written] = (target, width)
    if not config.tied_embeddings:
        for name, shape in (("decoder_ff_logit_out_Wt", (target, width)), ("decoder_ff_logit_out_W", (width, target))):
            if name in arrays.members:
                shapes[name] = shape
    if config.output_bias:
        shapes["decoder_ff_logit_out_b"] = (1, target)
    for part in parts(config):
        inputs, outputs = _sizes(part, config)
        shapes[part.marian_weight] = (inputs, outputs) if part.linear else (1, width)
        if part.marian_bias is not None:
            shapes[part.marian_bias] = (1, outputs)
    return shapes


def _embedding_names(names: Container[str]) -> tuple[str, str]:
    """Returns the names of source and target embedding, which are equal if there is one matrix for both."""
    return ("Wemb", "Wemb") if "Wemb" in names else ("encoder_Wemb", "decoder_Wemb")


def _sizes(part: Part, config: ModelConfig) -> tuple[int, int]:
    if part.ours.endswith("inner"):
        return config.d_model, config.d_ff
    return (config.d_ff if part.ours.endswith("outer") else config.d_model), config.d_model


def _embeddings(config: ModelConfig, raw: dict[str, Tensor]) -> dict[str, Tensor]:
    tensors = {}
    if config.output_bias:
        tensors["output_bias"] = raw["decoder_ff_logit_out_b"].reshape(-1).clone()
    source, written = _embedding_names(raw)
    target = raw[written]
    if config.tied_embeddings:
        return {**tensors, "embedding.weight": target.clone()}
    head = raw.get("decoder_ff_logit_out_Wt", target)
    if "decoder_ff_logit_out_W" in raw:
        head = raw["decoder_ff_logit_out_W"].T
    return {
        **tensors,
        "embedding.weight": target.clone(),
        "source_embedding.weight": raw[source].clone(),
        "projection.weight": head.clone().contiguous(),
    }


def vocabulary_of(file: Path) -> dict[str, int]:
    """Reads a vocabulary of Marian: a vocab.yml, or a SentencePiece model, whose ids are its own."""
    if file.suffix == ".spm":
        processor = sentencepiece.SentencePieceProcessor()
        processor.LoadFromSerializedProto(read_sentencepiece(file))
        return sentencepiece_vocabulary(processor)
    text = read_text(file, MAX_VOCABULARY_BYTES)
    try:
        return parse_vocab_yml(text)
    except ValueError as error:
        raise ImportRefused(file, [str(error)]) from None


def _sentencepiece(path: Path, vocabulary: str, otherwise: str) -> Path:
    """Returns the SentencePiece model of a side: its vocabulary if that is one, else the file that OPUS-MT has."""
    return path / (vocabulary if vocabulary.endswith(".spm") else otherwise)


def _license(path: Path) -> str:
    """Returns the licence of OPUS-MT's archives, which contain its text."""
    file = path / "LICENSE"
    if file.is_file() and "Attribution 4.0 International" in read_text(file)[:2000]:
        return "cc-by-4.0"
    return ""
