"""Import from Marian's layout: decoder.yml, model .npz or .bin, vocab.yml, source.spm and
target.spm."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from model.config import ConfigError, ModelConfig
from model.convert.marian.archives import read_archive
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Imported,
    Source,
    Tensors,
    check_tensors,
    check_vocabulary,
    plain_name,
    read_object,
    read_sentencepiece,
    read_text,
    take_tensors,
)
from model.convert.tensor_names import parts
from model.convert.vocabulary import sentencepiece_vocabulary
from model.model_folder import Generation, ImportRefused
from model.weight_files import Float32

log = logging.getLogger(__name__)
COSTLY_BEAM = 6
_ACTIVATIONS = ("relu", "swish")
_MAX_LENGTH = 512
"""Marian states no maximum length; OPUS-MT trains on sentences of at most 500 pieces."""
_EPSILON = 1e-6
_DOUBLE_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_IGNORED = {
    **dict.fromkeys(("word-penalty", "max-length-factor", "n-best-feature", "best-deep"), (0,)),
    **dict.fromkeys(
        ("output-sampling", "right-left", "force-decode", "tsv", "output-approx-knn"), ()
    ),
    **dict.fromkeys(("output-omit-bias", "xml-input", "factors-combine", "no-spm-decode"), ()),
}
"""Settings of decoder.yml that are not applied, with the values besides null and false that change
no target."""
_NORMS = {
    ("", "dan", ""): "post",
    ("n", "da", "n"): "pre",
}
"""(transformer-preprocess, transformer-postprocess, transformer-postprocess-top) -> norm."""


def read_marian(path: Path) -> Imported:
    """Reads a model in Marian's layout, without pickle. Raises ImportRefused with all reasons."""
    decoder = read_object(path / "decoder.yml", yaml.safe_load)
    models, vocabularies = decoder.get("models"), decoder.get("vocabs")
    if not isinstance(models, list) or len(models) != 1:
        raise ImportRefused(
            path, ["decoder.yml does not name exactly one model (ensembles are not supported)"]
        )
    if not isinstance(vocabularies, list) or len(vocabularies) != 2:
        raise ImportRefused(path, ["decoder.yml does not name two vocabularies"])
    file, *named = (
        path / plain_name(path / "decoder.yml", name) for name in (models[0], *vocabularies)
    )
    model = read_model(file, named)
    # The SentencePiece model of a side is its vocabulary if that is one, else the file that OPUS-MT
    # has.
    pieces = [
        vocabulary if vocabulary.suffix == ".spm" else path / otherwise
        for vocabulary, otherwise in zip(named, ("source.spm", "target.spm"), strict=True)
    ]
    return Imported(
        **model,
        source_pieces=read_sentencepiece(pieces[0]),
        target_pieces=read_sentencepiece(pieces[1]),
        license=_license(path),
        generation=_generation(
            path, decoder, (model["target_vocabulary"] or model["vocabulary"])["<unk>"]
        ),
    )


def _generation(path: Path, settings: dict[str, Any], unknown: int) -> Generation:
    """Returns how decoder.yml decodes, with Marian's defaults: a beam of 12 that shrinks, no length
    normalization, never the unknown piece. Warns about settings that are not applied. Raises
    ImportRefused."""
    ignored = [
        name
        for name, same in _IGNORED.items()
        if settings.get(name) not in (None, False, [], *same)
    ]
    if ignored:
        shown = ", ".join(f"{name} {settings[name]!r:.40}" for name in ignored)
        log.warning(
            "%s is imported without these settings of its decoder.yml: %s.", path.name, shown
        )
    beam = settings.get("beam-size", 12)
    if isinstance(beam, int) and beam >= COSTLY_BEAM:
        log.warning(
            "%s is decoded with a beam of %d, as its decoder.yml states; --beam-size 1 is several "
            "times as fast.",
            path.name,
            beam,
        )
    try:
        return Generation(
            beam_size=beam,
            length_penalty=float(settings.get("normalize", 0)),
            normalization="average",
            shrinking_beam=True,
            forbidden=() if settings.get("allow-unk") else (unknown,),
        )
    except (TypeError, ValueError) as error:
        raise ImportRefused(path / "decoder.yml", [str(error).rstrip(".")]) from None


def read_model(file: Path, vocabularies: Sequence[Path]) -> dict[str, Any]:
    """Returns the fields of Imported from a model file and its source and target vocabulary. Raises
    ImportRefused with all reasons."""
    source, target = (vocabulary_of(file) for file in vocabularies)
    options, arrays = read_archive(file)
    config = read_options(file, options, len(source), len(target), source == target)
    source_size = config.source_vocab_size or config.vocab_size
    source = check_vocabulary(vocabularies[0], source, source_size)
    target = check_vocabulary(vocabularies[1], target, config.vocab_size)
    end = target["</s>"]
    pad = min(end, source_size - 1)  # not used, but must be a valid id on both sides
    config = config.replace(
        eos_id=end, unk_id=target["<unk>"], pad_id=pad, bos_id=end, decoder_start_id=end
    )
    config, tensors = convert(file, config, arrays)
    return {
        "config": config,
        "tensors": tensors,
        "vocabulary": source,
        "target_vocabulary": None if source == target else target,
    }


def read_options(
    file: Path, options: dict[str, Any], source_size: int, target_size: int, one_vocabulary: bool
) -> ModelConfig:
    """Converts Marian's training options. Raises ImportRefused with all reasons."""
    if (kind := options.get("type")) not in (None, "transformer"):
        raise ImportRefused(
            file,
            [f"it is a model of Marian's type {kind!r:.40}, and only its Transformers can be run"],
        )
    reasons = _unrepresentable(options)
    tied = bool(
        options.get("tied-embeddings-all")
        or (options.get("tied-embeddings-src") and options.get("tied-embeddings"))
    )
    before, after, top = (
        str(options.get(f"transformer-{place}") or "")
        for place in ("preprocess", "postprocess", "postprocess-top")
    )
    norm = _NORMS.get((before, after, top))
    if norm is None:
        reasons.append(
            f"its residual layout ({before!r}, {after!r}, {top!r}) is neither post-norm ('', "
            "'dan', '') "
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
            source_vocab_size=None
            if (source or source_size) == (target or target_size)
            else source or source_size,
            d_model=options["dim-emb"],
            heads=options["transformer-heads"],
            d_ff=options["transformer-dim-ffn"],
            encoder_layers=options["enc-depth"],
            decoder_layers=options["dec-depth"],
            dropout=options.get("transformer-dropout", 0.1),
            norm=norm,  # type: ignore[arg-type]
            activation=options["transformer-ffn-activation"],
            positions="learned",  # Marian's own sinusoids
            norm_epsilon=_EPSILON,
            tied_embeddings=tied,
            output_bias=not options.get("output-omit-bias", False),
            max_length=_MAX_LENGTH,
            zero_start_embedding=True,
            recurrence="ssru" if options.get("transformer-decoder-autoreg") == "rnn" else "none",
        )
    except KeyError as error:
        raise ImportRefused(file, [f"its options lack {error.args[0]}"]) from None
    except (ConfigError, TypeError, ValueError) as error:
        raise ImportRefused(file, [f"its options are invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(options: dict[str, Any]) -> list[str]:
    """Returns the options that change the computation, but neither names nor shapes of tensors."""
    supported = {
        "transformer-decoder-autoreg": ("self-attention", "rnn"),
        "transformer-ffn-activation": _ACTIVATIONS,
        "transformer-disable-position": (False,),
        "transformer-pool": (False,),
        "right-left": (False,),
    }
    return [
        f"option {name} is {options[name]!r}"
        for name, values in supported.items()
        if options.get(name) is not None and options[name] not in values
    ]


def convert(file: Path, config: ModelConfig, stored: Tensors) -> tuple[ModelConfig, Tensors]:
    """Converts Marian's tensors. Returns the config with the length of learned positions, and our
    tensors."""
    names = {f"{part.ours}.weight": part.marian_weight for part in parts(config)}
    names |= {
        f"{part.ours}.bias": part.marian_bias
        for part in parts(config)
        if part.marian_bias is not None
    }
    shared = "Wemb" in stored
    names["embedding.weight"] = "Wemb" if shared else "decoder_Wemb"
    if not config.tied_embeddings and not shared:
        names["source_embedding.weight"] = "encoder_Wemb"
    if config.output_bias:
        names["output_bias"] = "decoder_ff_logit_out_b"
    if "Wpos" in stored:
        names["positions.weight"] = "Wpos"
        config = config.replace(max_length=max(1, stored["Wpos"].size // config.d_model))
    tensors = take_tensors(file, stored, names)
    for part in parts(config):
        weight = f"{part.ours}.weight"
        tensors[weight] = (
            np.ascontiguousarray(tensors[weight].T) if part.linear else tensors[weight].flatten()
        )
    for name in [name for name in tensors if name.endswith("bias")]:
        tensors[name] = tensors[name].flatten()
    if not config.tied_embeddings:
        target = tensors["embedding.weight"]
        tensors.setdefault("source_embedding.weight", target)
        head = stored.pop("decoder_ff_logit_out_Wt", target)
        head = (
            stored.pop("decoder_ff_logit_out_W").T if "decoder_ff_logit_out_W" in stored else head
        )
        tensors["projection.weight"] = np.ascontiguousarray(head)
    tensors.setdefault("positions.weight", marian_sinusoids(config.max_length, config.d_model))
    check_tensors(file, config, tensors, stored)
    return config, tensors


def marian_sinusoids(length: int, width: int) -> Float32:
    """Returns Marian's sinusoids (length, width): sines, then cosines, of pos / 10000^(i / (width /
    2 - 1))."""
    half = width // 2
    rates = (10_000.0 ** (-np.arange(half) / max(1, half - 1))).astype(np.float32)
    angles = np.arange(length)[:, None] * rates.astype(np.float64)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1, dtype=np.float32)


def vocabulary_of(file: Path) -> dict[str, int]:
    """Reads a vocabulary of Marian: vocab.yml, or a SentencePiece model with its own ids."""
    if file.suffix == ".spm":
        return sentencepiece_vocabulary(read_sentencepiece(file))
    text = read_text(file, MAX_VOCABULARY_BYTES)
    try:
        return parse_vocab_yml(text)
    except ValueError as error:
        raise ImportRefused(file, [str(error)]) from None


def parse_vocab_yml(text: str) -> dict[str, int]:
    """Parses vocab.yml: `piece: id` per line, the piece plain or quoted, or `? piece` and `: id` on
    two lines. Marian writes pieces that are not valid YAML keys. Raises ValueError with the
    line."""
    vocabulary: dict[str, int] = {}
    waiting: str | None = None
    for number, ended in enumerate(text.split("\n"), 1):
        line = ended.rstrip("\r")
        if not line or (waiting is None and line in ("---", "...")):
            continue
        if waiting is None and line.startswith("? "):
            waiting = line[2:]
            continue
        key, colon, value = (
            (waiting, ":", line[1:]) if waiting is not None else line.rpartition(":")
        )
        waiting = None
        if not colon or not value.strip().isdecimal():
            raise ValueError(f"line {number} is not `piece: id`")
        try:
            vocabulary[_unquote(key)] = int(value)
        except yaml.YAMLError:
            raise ValueError(f"line {number} has an unknown escape sequence") from None
    return vocabulary


def _unquote(key: str) -> str:
    if _DOUBLE_QUOTED.fullmatch(key):
        return str(yaml.safe_load(key)) if "\\" in key else key[1:-1]
    if len(key) >= 2 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key


def _license(path: Path) -> str:
    """OPUS-MT's archives contain the text of their licence."""
    file = path / "LICENSE"
    if file.is_file() and "Attribution 4.0 International" in read_text(file)[:2000]:
        return "cc-by-4.0"
    return ""


SOURCE = Source(
    sign="decoder.yml (Marian)",
    recognises=lambda path: (path / "decoder.yml").is_file(),
    read=read_marian,
)
