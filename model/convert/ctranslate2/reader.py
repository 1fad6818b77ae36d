"""Import of a CTranslate2 folder: model.bin, config.json, vocabularies and SentencePiece models."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from model.config import ConfigError, ModelConfig
from model.convert.ctranslate2.export import export_ctranslate2
from model.convert.ctranslate2.model_binary import BINARY, read_model_binary
from model.convert.huggingface.families import language_codes, offset_sinusoids
from model.convert.huggingface.tokenizer_files import (
    ADDED_TOKENS,
    TOKENIZER_JSON,
    matched,
    read_added,
    read_tokenizer_json,
)
from model.convert.languages import Languages
from model.convert.source_files import (
    MAX_VOCABULARY_BYTES,
    Export,
    Imported,
    Source,
    Tensors,
    check_tensors,
    check_vocabulary,
    read_optional,
    read_sentencepiece,
    read_text,
    take_tensors,
)
from model.convert.tensor_names import SIDES, ctranslate2_parts, is_norm
from model.model_folder import Generation, ImportRefused, TokenizerFiles
from model.positions import sinusoidal_table

_ACTIVATIONS = {0: "relu", 2: "swish", 3: "gelu"}
DEFAULTS = Generation(beam_size=2, length_penalty=1.0, normalization="average", early_stopping=True)
"""Those of ctranslate2.Translator.translate_batch."""
_LONGEST = 1024
"""Positions that are imported; converters store up to 5,000."""
_ONE_FILE = (
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
    "spm.model",
    "source.spm",
)
_PIECES = (("source.spm", "target.spm"), *((name, name) for name in (*_ONE_FILE, TOKENIZER_JSON)))
_IGNORED = (
    *("alignment_heads", "alignment_layer", "alibi_use_positive_positions", "scale_alibi"),
    *("embeddings_merge", "multi_query_attention"),  # they give arrays of other names or shapes
)


def read_ctranslate2(
    path: Path, languages: Languages = (None, None), pieces: Path | None = None
) -> Imported:
    """Reads a Transformer in CTranslate2's layout, in any precision. int8 and int16 weights become
    float32. `pieces` is a SentencePiece file outside the folder. Raises ImportRefused."""
    files = (pieces, pieces) if pieces is not None else _sentencepiece_files(path)
    saved = files[0].name == TOKENIZER_JSON
    read = (lambda file: read_tokenizer_json(file.parent)[0]) if saved else read_sentencepiece
    settings = read_optional(path / "config.json")
    stored = read_model_binary(path / BINARY)
    source, target = _vocabularies(path)
    config, tensors = _convert(path, stored, settings, len(source), len(target))
    source, target = (check_vocabulary(path, side, len(side)) for side in (source, target))
    config = _with_ids(path, config, settings, target, source)
    codes = language_codes(list(source))
    starts, added = bool(settings.get("add_source_bos")), matched(read_added(path), codes.values())
    marian = files[0].name == "source.spm"
    return Imported(
        config=config,
        tensors=tensors,
        source_pieces=read(files[0]),
        target_pieces=read(files[1]),
        vocabulary=source,
        target_vocabulary=None if source == target else target,
        languages=languages,
        generation=DEFAULTS,
        language_pieces=codes if len(codes) > 1 else {},
        tagged=not starts,
        tokenizer=TokenizerFiles(
            source_start=starts,
            # Converters of Marian and M2M100 models leave the end to the caller's tokenizer.
            source_end=bool(settings.get("add_source_eos")) or marian or len(codes) > 1,
            added={token: letters for token, letters in added.items() if token in source},
            trailing_space=saved,
        ),
    )


def _convert(
    path: Path, stored: Tensors, settings: dict[str, Any], source_size: int, target_size: int
) -> tuple[ModelConfig, Tensors]:
    """Returns shape and tensors. Raises ImportRefused for arrays that the architecture does not
    have."""
    file = path / BINARY
    shared = "encoder/embeddings/weight"
    names = {
        "embedding.weight": "decoder/embeddings/weight",
        "source_embedding.weight": shared if shared in stored else "encoder/embeddings_0/weight",
        "projection.weight": "decoder/projection/weight",
    }
    if "decoder/projection/bias" in stored:
        names["output_bias"] = "decoder/projection/bias"
    tensors = take_tensors(file, stored, names)
    width = tensors["embedding.weight"].size // max(1, target_size)
    target, source, output = (tensors[name] for name in list(names)[:3])
    tied = (
        source_size == target_size
        and np.array_equal(source, target)
        and np.array_equal(target, output)
    )
    if tied:
        del tensors["source_embedding.weight"], tensors["projection.weight"]
    positions, tables = _positions(file, stored, width)
    if positions.startswith("learned"):
        tensors |= dict(zip(("positions.weight", "decoder_positions.weight"), tables, strict=False))
    embedding_norm = "encoder/layernorm_embedding/gamma" in stored
    encoder_layers, decoder_layers = (_depth(stored, side) for side in SIDES)
    try:
        if _setting(stored, "alibi"):
            raise ValueError("it has ALiBi positions")
        pre = bool(_setting(stored, "pre_norm"))
        tensors |= _layers(file, stored, encoder_layers, decoder_layers, pre, embedding_norm)
        config = ModelConfig(
            vocab_size=target_size,
            source_vocab_size=None if source_size == target_size else source_size,
            d_model=width,
            heads=int(_setting(stored, "num_heads") or 8),
            d_ff=tensors["encoder.0.feed_forward.inner.weight"].shape[0],
            encoder_layers=encoder_layers,
            decoder_layers=decoder_layers,
            norm="pre" if pre else "post",
            embedding_norm=embedding_norm,
            activation=_ACTIVATIONS[int(_setting(stored, "activation") or 0)],  # type: ignore[arg-type]
            positions=positions,  # type: ignore[arg-type]
            tied_embeddings=tied,
            scale_embeddings=_scaled(stored, width),
            output_bias="output_bias" in tensors,
            max_length=tables[0].shape[0],
            norm_epsilon=settings.get("layer_norm_epsilon") or 1e-5,
            zero_start_embedding=bool(_setting(stored, "start_from_zero_embedding")),
        )
    except ImportRefused:
        raise
    except (ConfigError, KeyError, TypeError, ValueError, IndexError) as error:
        raise ImportRefused(
            path, [f"its shape is not that of a Transformer ({str(error).rstrip('.')})"]
        ) from None
    for side, option in product(SIDES, _IGNORED):
        stored.pop(f"{side}/{option}", None)
    check_tensors(file, config, tensors, stored)
    return config, tensors


def _setting(stored: Tensors, name: str) -> float | None:
    """Removes and returns the scalar `name` of both sides, or of the model in old files; None if
    absent."""
    keys = [
        key
        for key in (name, *(f"{side}/{name}" for side in SIDES))
        if key in stored and stored[key].size == 1
    ]
    values = {float(stored.pop(key).item()) for key in keys}
    if len(values) > 1:
        raise ValueError(f"encoder and decoder differ in {name}")
    return values.pop() if values else None


def _depth(stored: Tensors, side: str) -> int:
    layers = {name.split("/")[1] for name in stored if name.startswith(f"{side}/layer_")} - {
        "layer_norm"
    }
    return len(layers)


def _layers(file: Path, stored: Tensors, *shape: Any) -> Tensors:
    """Splits each matrix and its bias into our linear layers with the same input."""
    tensors: Tensors = {}
    for theirs, ours in ctranslate2_parts(*shape):
        weight, bias = ("gamma", "beta") if is_norm(theirs) else ("weight", "bias")
        both = take_tensors(
            file, stored, {"weight": f"{theirs}/{weight}", "bias": f"{theirs}/{bias}"}
        )
        for suffix, tensor in both.items():
            pieces = np.array_split(tensor, len(ours)) if tensor.ndim else ()
            tensors |= {
                f"{name}.{suffix}": piece for name, piece in zip(ours, pieces, strict=False)
            }
    return tensors


def _positions(file: Path, stored: Tensors, width: int) -> tuple[str, list[NDArray[Any]]]:
    """Returns the kind of positions and their table, or both tables if the sides differ. Without a
    table they are tensor2tensor's sinusoids."""
    names = {side: f"{side}/position_encodings/encodings" for side in SIDES}
    if not any(name in stored for name in names.values()):
        return "learned", [offset_sinusoids(_LONGEST, width, pad=0)]
    table, decoder = [words[:_LONGEST] for words in take_tensors(file, stored, names).values()]
    if not np.array_equal(table, decoder):
        return "learned_per_side", [table, decoder]
    for kind, half_first in (("sinusoidal", False), ("sinusoidal_half", True)):
        if table.shape != (len(table), width):
            break
        if np.allclose(table, sinusoidal_table(len(table), width, half=half_first), atol=1e-5):
            return kind, [table]
    return "learned", [table]


def _scaled(stored: Tensors, width: int) -> bool:
    """Returns whether embeddings are multiplied by sqrt(width): a flag or the factor, by default
    true."""
    stated = [stored[key] for side in SIDES if (key := f"{side}/scale_embeddings") in stored]
    value = _setting(stored, "scale_embeddings")
    if value is None:
        value = _setting(stored, "embeddings/multiply_by_sqrt_depth")
    is_flag = not any(array.dtype.kind == "f" for array in stated)
    factor = math.sqrt(width) if value is None or (is_flag and value == 1.0) else value or 1.0
    if factor != 1.0 and not math.isclose(factor, math.sqrt(width), rel_tol=1e-3):
        raise ValueError(f"its embeddings are multiplied by {factor:g}")
    return factor != 1.0


def _vocabularies(path: Path) -> tuple[dict[str, int], dict[str, int]]:
    shared = _vocabulary(path, "shared_vocabulary")
    source = shared or _vocabulary(path, "source_vocabulary")
    target = shared or _vocabulary(path, "target_vocabulary")
    if source is None or target is None:
        raise ImportRefused(
            path, ["it has no shared_vocabulary and no source_vocabulary with target_vocabulary"]
        )
    return source, target


def _vocabulary(path: Path, name: str) -> dict[str, int] | None:
    """Reads a list of pieces: JSON, or one piece a line."""
    listed: Any = None
    if (path / f"{name}.json").is_file():
        try:
            listed = json.loads(read_text(path / f"{name}.json", MAX_VOCABULARY_BYTES))
        except (ValueError, RecursionError):
            raise ImportRefused(path / f"{name}.json", ["the file is not well-formed"]) from None
    elif (path / f"{name}.txt").is_file():
        listed = (
            read_text(path / f"{name}.txt", MAX_VOCABULARY_BYTES).removesuffix("\n").split("\n")
        )
    if listed is None:
        return None
    if not isinstance(listed, list) or not all(isinstance(piece, str) for piece in listed):
        raise ImportRefused(path, [f"{name} is not a list of pieces"])
    vocabulary = {piece: i for i, piece in enumerate(listed)}
    if len(vocabulary) != len(listed):
        raise ImportRefused(path, [f"{name} lists a piece twice"])
    return vocabulary


def _with_ids(
    path: Path,
    config: ModelConfig,
    settings: dict[str, Any],
    target: dict[str, int],
    source: dict[str, int],
) -> ModelConfig:
    """Returns the config with the ids of the special pieces that config.json names."""
    bos = settings.get("bos_token") or "<s>"
    start = settings.get("decoder_start_token") or bos
    if start not in target and (
        config.zero_start_embedding or not settings.get("decoder_start_token")
    ):
        start = "</s>"
    for role, default in (("unk_token", "<unk>"), ("eos_token", "</s>")):
        if (settings.get(role) or default) != default:
            raise ImportRefused(path, [f"its {role} is {settings[role]!r}, not {default}"])
    if settings.get("add_source_bos") and (bos not in source or source[bos] != target.get(bos)):
        raise ImportRefused(
            path, [f"its sources begin with {bos!r}, which has no common id in both vocabularies"]
        )
    if start not in target:
        raise ImportRefused(
            path, [f"its decoder starts from {start!r}, which is not in the vocabulary"]
        )
    end = target["</s>"]
    pad = next(
        (
            target[piece]
            for piece in ("<pad>", "<blank>")
            if target.get(piece) == source.get(piece, -1)
        ),
        end,
    )
    ids = {
        "bos_id": target.get(bos, target[start]),
        "decoder_start_id": target[start],
        "pad_id": min(pad, len(source) - 1),
    }
    return config.replace(unk_id=target["<unk>"], eos_id=end, **ids)


def _sentencepiece_files(path: Path) -> tuple[Path, Path]:
    for source, target in _PIECES:
        if (path / source).is_file() and (path / target).is_file():
            return path / source, path / target
    raise ImportRefused(
        path,
        [
            "it has no SentencePiece model: copy it there as source.spm and target.spm, or "
            "sentencepiece.model"
        ],
    )


SOURCE = Source(
    sign=f"{BINARY} (CTranslate2)",
    recognises=lambda path: (path / BINARY).is_file(),
    read=read_ctranslate2,
    needs=(("*vocabulary.json", "*vocabulary.txt"), (BINARY,)),
    export=Export(name="ctranslate2", write=export_ctranslate2, quantizes=True),
    others=("config.json", "*.spm", "*.model", "README.md", *ADDED_TOKENS),
)
