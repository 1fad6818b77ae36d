"""Import from Hugging Face's layout: config.json, weights, source.spm, target.spm, vocab.json."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from model.config import ConfigError, ModelConfig
from model.marian.keys import parts
from model.marian.layout import to_interleaved
from model.marian.reading import (
    MAX_VOCABULARY_BYTES,
    SUPPRESSED,
    Imported,
    ImportRefused,
    Languages,
    check_vocabulary,
    read_card,
    read_object,
    read_sentencepiece,
)
from model.positions import sinusoidal_table

_ACTIVATIONS = {"relu": "relu", "swish": "swish", "silu": "swish", "gelu": "gelu"}
_SHARED = "model.shared.weight"
_SOURCE = "model.encoder.embed_tokens.weight"
_TARGET = "model.decoder.embed_tokens.weight"
_HEAD = "lm_head.weight"
_BIAS = "final_logits_bias"
_POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
_FLOATING = (torch.float32, torch.float16, torch.bfloat16)


def read_huggingface(path: Path) -> Imported:
    """Read a MarianMTModel as Hugging Face stores it. Raises ImportRefused with every reason found.

    Weights come from model.safetensors, else from pytorch_model.bin without executing anything in it. A single token
    that the files forbid (`bad_words_ids`) can never be written here either: its output bias is SUPPRESSED.
    """
    fields = read_object(path / "config.json")
    forbidden = _forbidden(path, fields)
    exported = fields.get("attentive")
    if exported is not None and not isinstance(exported, dict):
        raise ImportRefused(path, ["`attentive` in config.json is not an object"])
    config = read_config(path, fields)
    raw = _read_weights(path, config)
    unknown_id, vocabulary, target_vocabulary = _vocabularies(path, config)
    config, tensors = _translate(path, config, fields, raw, forbidden)
    config = config.replace(unk_id=unknown_id)
    if exported is not None:
        config, tensors = _as_exported(path, config, tensors, exported)
        vocabulary = _below(vocabulary, config.source_vocab_size or config.vocab_size)
        target_vocabulary = None if target_vocabulary is None else _below(target_vocabulary, config.vocab_size)
    license_, listed = read_card(path)
    names = read_object(path / "tokenizer_config.json") if (path / "tokenizer_config.json").is_file() else {}
    source, target = (names.get(key) if isinstance(names.get(key), str) else None for key in ("source_lang", "target_lang"))
    return Imported(
        config=config,
        tensors=tensors,
        source_pieces=read_sentencepiece(path / "source.spm"),
        target_pieces=read_sentencepiece(path / "target.spm"),
        vocabulary=vocabulary,
        target_vocabulary=target_vocabulary,
        languages=Languages(source, target, listed),
        license=license_,
        exported=exported,
    )


def read_config(path: Path, fields: dict[str, Any]) -> ModelConfig:
    """Hugging Face's MarianConfig as ours. Raises ImportRefused with every reason why it cannot be."""
    reasons = _unrepresentable(fields)
    try:
        shared = fields.get("share_encoder_decoder_embeddings", True)
        vocab_size = fields["vocab_size"]
        target_size = vocab_size if shared else fields.get("decoder_vocab_size") or vocab_size
        pad, eos = fields["pad_token_id"], fields["eos_token_id"]
        start = fields.get("decoder_start_token_id", pad)
        if reasons:
            raise ImportRefused(path, reasons)
        return ModelConfig(
            vocab_size=target_size,
            source_vocab_size=None if shared or target_size == vocab_size else vocab_size,
            d_model=fields["d_model"],
            heads=fields["encoder_attention_heads"],
            d_ff=fields["encoder_ffn_dim"],
            encoder_layers=fields["encoder_layers"],
            decoder_layers=fields["decoder_layers"],
            dropout=fields.get("dropout", 0.1),
            activation=_ACTIVATIONS[fields["activation_function"]],  # type: ignore[arg-type]
            positions="sinusoidal_half",
            tied_embeddings=shared and fields.get("tie_word_embeddings", True),
            scale_embeddings=fields.get("scale_embedding", False),
            max_length=fields.get("max_position_embeddings", 512),
            pad_id=pad if pad < min(vocab_size, target_size) else eos,
            unk_id=eos,
            bos_id=start,
            eos_id=eos,
            decoder_start_id=start,
        )
    except KeyError as error:
        raise ImportRefused(path, [*reasons, f"config.json lacks {error.args[0]}"]) from None
    except (ConfigError, TypeError) as error:
        raise ImportRefused(path, [*reasons, f"config.json is invalid ({str(error).rstrip('.')})"]) from None


def _unrepresentable(fields: dict[str, Any]) -> list[str]:
    reasons = []
    if fields.get("model_type") != "marian":
        reasons.append(f"model_type is {fields.get('model_type')!r}, not 'marian'")
    if fields.get("activation_function") not in _ACTIVATIONS:
        reasons.append(f"activation_function {fields.get('activation_function')!r} is not one of {', '.join(_ACTIVATIONS)}")
    for name in ("attention_heads", "ffn_dim"):
        if fields.get(f"encoder_{name}") != fields.get(f"decoder_{name}"):
            reasons.append(f"encoder_{name} and decoder_{name} differ")
    for name in ("normalize_before", "normalize_embedding", "add_final_layer_norm"):
        if fields.get(name):
            reasons.append(f"{name} is not supported")
    if isinstance(fields.get("eos_token_id"), list):
        reasons.append("it has several end-of-sentence tokens")
    if "quantization_config" in fields:
        reasons.append("its weights are quantized")
    return reasons


def _forbidden(path: Path, fields: dict[str, Any]) -> list[int]:
    """Single tokens that the generation settings forbid."""
    file = path / "generation_config.json"
    settings = read_object(file) if file.is_file() else {}
    words = settings.get("bad_words_ids") or fields.get("bad_words_ids") or []
    if not isinstance(words, list) or not all(isinstance(word, list) and all(type(i) is int for i in word) for word in words):
        raise ImportRefused(path, ["bad_words_ids is not a list of lists of ids"])
    if any(len(word) != 1 for word in words):
        raise ImportRefused(path, ["bad_words_ids forbids a sequence of several tokens"])
    return [word[0] for word in words]


def _read_weights(path: Path, config: ModelConfig) -> dict[str, Tensor]:
    """Tensors under Hugging Face's names with the shapes that `config` asks for."""
    shapes = _shapes(config)
    if (path / "model.safetensors").is_file():
        raw = _read_safetensors(path / "model.safetensors", shapes)
    elif (path / "pytorch_model.bin").is_file():
        raw = _read_pickle(path / "pytorch_model.bin")
    else:
        raise ImportRefused(path, ["it holds neither model.safetensors nor pytorch_model.bin"])
    reasons = []
    for name, tensor in raw.items():
        if name not in shapes:
            reasons.append(f"{name} is not a tensor of this architecture")
        elif tuple(tensor.shape) not in shapes[name]:
            reasons.append(f"{name} has shape {tuple(tensor.shape)}, config.json asks for {shapes[name][0]}")
        elif tensor.dtype not in _FLOATING:
            reasons.append(f"{name} is {str(tensor.dtype).removeprefix('torch.')}, not float32, float16 or bfloat16")
        elif not torch.isfinite(tensor).all():
            reasons.append(f"{name} holds numbers that are not finite")
    if reasons:
        raise ImportRefused(path, _few(reasons))
    return raw


def _shapes(config: ModelConfig) -> dict[str, list[tuple[int, ...]]]:
    """Name -> shapes that it may have."""
    target, width = config.vocab_size, config.d_model
    source = config.source_vocab_size or target
    shapes: dict[str, list[tuple[int, ...]]] = {
        _SHARED: [(target, width)], _SOURCE: [(source, width)], _TARGET: [(target, width)], _HEAD: [(target, width)],
        _BIAS: [(1, target), (target,)],
        **{name: [(config.max_length, width)] for name in _POSITIONS},
    }
    inner = {"fc1": (config.d_ff, width), "fc2": (width, config.d_ff)}
    for part in parts(config):
        weight = inner.get(part.huggingface.rpartition(".")[2], (width, width)) if part.linear else (width,)
        shapes[f"{part.huggingface}.weight"] = [weight]
        shapes[f"{part.huggingface}.bias"] = [weight[:1]]
    return shapes


def _read_safetensors(file: Path, shapes: dict[str, list[tuple[int, ...]]]) -> dict[str, Tensor]:
    """All tensors; one of an unexpected shape is left unread, on the meta device, so that its size costs nothing."""
    raw: dict[str, Tensor] = {}
    try:
        with safe_open(str(file), framework="pt") as archive:
            for name in archive.keys():  # noqa: SIM118 - not a mapping
                shape = tuple(archive.get_slice(name).get_shape())
                expected = shape in shapes.get(name, [])
                raw[name] = archive.get_tensor(name) if expected else torch.empty(shape, device="meta")
    except (SafetensorError, OSError, RuntimeError, OverflowError):
        raise ImportRefused(file, ["the file is not readable as safetensors"]) from None
    return raw


def _read_pickle(file: Path) -> dict[str, Tensor]:
    """State of a torch checkpoint, read with `weights_only`: nothing in the file is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the age or oddity of a file that is refused right after
            raw = torch.load(file, map_location="cpu", weights_only=True, mmap=_is_zip(file))
    except pickle.UnpicklingError:
        raise ImportRefused(file, ["the file holds objects other than tensors, or is broken"]) from None
    except (RuntimeError, OSError, EOFError, ValueError, TypeError, KeyError, AttributeError, IndexError, MemoryError):
        raise ImportRefused(file, ["the file is not readable as a torch checkpoint"]) from None
    if not isinstance(raw, dict) or not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in raw.items()):
        raise ImportRefused(file, ["the file does not hold a dictionary of tensors"])
    return raw


def _is_zip(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(2) == b"PK"


def _vocabularies(path: Path, config: ModelConfig) -> tuple[int, dict[str, int], dict[str, int] | None]:
    """Id of <unk> on the target side, vocab.json and, where there is one, target_vocab.json."""
    source_size = config.source_vocab_size or config.vocab_size
    file, target_file = path / "vocab.json", path / "target_vocab.json"
    source = check_vocabulary(file, read_object(file, most=MAX_VOCABULARY_BYTES), source_size)
    target = None
    if target_file.is_file():
        target = check_vocabulary(target_file, read_object(target_file, most=MAX_VOCABULARY_BYTES), config.vocab_size)
    elif config.source_vocab_size is not None:
        raise ImportRefused(path, ["its vocabularies have different sizes, but there is no target_vocab.json"])
    written = target or source
    if written["</s>"] != config.eos_id:
        raise ImportRefused(path, [f"</s> is {written['</s>']} in the vocabulary and {config.eos_id} in config.json"])
    return written["<unk>"], source, target


def _translate(
    path: Path, config: ModelConfig, fields: dict[str, Any], raw: dict[str, Tensor], forbidden: list[int]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Our tensors from Hugging Face's, and what they tell about the shape."""
    tensors: dict[str, Tensor] = {}
    missing = []
    for part in parts(config):
        for suffix in ("weight", "bias"):
            name = f"{part.huggingface}.{suffix}"
            if name in raw:
                tensors[f"{part.ours}.{suffix}"] = raw[name]
            else:
                missing.append(f"{name} is missing")
    if missing:
        raise ImportRefused(path, _few(missing))
    tensors.update(_embeddings(path, config, fields, raw))
    if (table := _learned_positions(path, config, raw)) is not None:
        config = config.replace(positions="learned")
        tensors["positions.weight"] = table
    bias = raw.get(_BIAS, torch.zeros(config.vocab_size, dtype=tensors["embedding.weight"].dtype)).reshape(-1).clone()
    if any(not 0 <= token < config.vocab_size for token in forbidden):
        raise ImportRefused(path, ["bad_words_ids holds an id outside the vocabulary"])
    bias[forbidden] = SUPPRESSED
    if bias.any():
        config = config.replace(output_bias=True)
        tensors["output_bias"] = bias
    return config, tensors


def _embeddings(path: Path, config: ModelConfig, fields: dict[str, Any], raw: dict[str, Tensor]) -> dict[str, Tensor]:
    """Source and target embedding and output projection, found under any of the names that tied ones are stored under."""
    tied_head = fields.get("tie_word_embeddings", True)
    if fields.get("share_encoder_decoder_embeddings", True):
        source = target = _one_of(path, raw, [_SHARED, _SOURCE, _TARGET, *([_HEAD] if tied_head else [])])
    else:
        source = _one_of(path, raw, [_SOURCE])
        target = _one_of(path, raw, [_TARGET, *([_HEAD] if tied_head else [])])
    if config.tied_embeddings:
        return {"embedding.weight": target}
    head = target if tied_head else _one_of(path, raw, [_HEAD])
    return {"embedding.weight": target, "source_embedding.weight": source.clone(), "projection.weight": head.clone()}


def _one_of(path: Path, raw: dict[str, Tensor], names: list[str]) -> Tensor:
    """The tensor stored under these names, which must agree where it is stored more than once."""
    found = [name for name in names if name in raw]
    if not found:
        raise ImportRefused(path, [f"{names[0]} is missing"])
    for name in found[1:]:
        if not torch.equal(raw[found[0]], raw[name]):
            raise ImportRefused(path, [f"{name} differs from {found[0]}, to which config.json ties it"])
    return raw[found[0]]


def _learned_positions(path: Path, config: ModelConfig, raw: dict[str, Tensor]) -> Tensor | None:
    """The stored position table unless it is the sinusoidal one, which we compute."""
    found = [name for name in _POSITIONS if name in raw]
    if not found:
        return None
    table = _one_of(path, raw, found)
    sinusoids = sinusoidal_table(config.max_length, config.d_model, half=True)
    tolerance = 1e-5 if table.dtype == torch.float32 else 1e-2
    if torch.allclose(table.float(), sinusoids, atol=tolerance):
        return None
    return table


def _as_exported(
    path: Path, config: ModelConfig, tensors: dict[str, Tensor], exported: dict[str, Any]
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Undo what our own export had to add: the padding token, the order of features, the zero bias."""
    try:
        original = ModelConfig.from_dict(exported.get("model"))
    except (ConfigError, TypeError) as error:
        raise ImportRefused(path, [f"`attentive` in config.json is invalid ({str(error).rstrip('.')})"]) from None
    for name in ("embedding.weight", "source_embedding.weight", "projection.weight", "output_bias"):
        size = original.source_vocab_size if name.startswith("source") else original.vocab_size
        if name in tensors:
            tensors[name] = tensors[name][: size or original.vocab_size].clone()
    if original.output_bias and "output_bias" not in tensors:
        tensors["output_bias"] = torch.zeros(original.vocab_size, dtype=tensors["embedding.weight"].dtype)
    if not original.output_bias and "output_bias" in tensors and not tensors["output_bias"].any():
        del tensors["output_bias"]
    if original.positions == "sinusoidal":
        tensors = to_interleaved(original, tensors)
    if original.d_model != config.d_model or original.heads != config.heads:
        raise ImportRefused(path, ["`attentive` in config.json contradicts the rest of it"])
    return original, tensors


def _below(vocabulary: dict[str, int], size: int) -> dict[str, int]:
    return {piece: i for piece, i in vocabulary.items() if i < size}


def _few(reasons: list[str]) -> list[str]:
    return reasons if len(reasons) <= 5 else [*reasons[:5], f"and {len(reasons) - 5} more like these"]
