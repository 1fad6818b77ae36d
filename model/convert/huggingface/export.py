"""Export of a model folder for Hugging Face's MarianMTModel and MarianTokenizer."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from model.config import ModelConfig
from model.convert.source_files import SUPPRESSED, Tensors, new_output, unrepresentable
from model.convert.tensor_names import parts, shapes
from model.convert.vocabulary import by_id, folder_vocabularies
from model.model_folder import FolderError, ModelFolder, let_others_read
from model.positions import sinusoidal_table
from model.weight_files import SafetensorFiles, weight_files

_EPSILON = 1e-5


def export_huggingface(folder: ModelFolder, output: Path) -> None:
    """Writes `folder` as a MarianMTModel to the new folder `output`: config, safetensors, tokenizer
    files, model card.

    A decoder that starts from the zero embedding gets a padding token with this embedding, as in
    OPUS-MT's converted models. Raises FolderError if the model cannot be represented or `output`
    exists.
    """
    config = folder.model
    _refuse(folder)
    stored = SafetensorFiles(weight_files(folder.path))
    stored.check(shapes(config))
    tensors = {name: stored.stored(name) for name in stored}
    source, target = folder_vocabularies(folder)
    forbidden = [*_suppressed(tensors), *folder.generation.forbidden]
    if config.zero_start_embedding:
        pad, source, target = _add_start(config, tensors, source, target)
        forbidden = [*forbidden, pad]
    else:
        pad = config.decoder_start_id if config.decoder_start_id in forbidden else config.pad_id
    with new_output(output):
        save_file(_named(config, tensors), output / "model.safetensors", metadata={"format": "pt"})
        let_others_read(output / "model.safetensors")
        _write_json(output / "config.json", _config(folder, tensors, pad))
        _write_json(output / "generation_config.json", _generation(folder, pad, forbidden))
        _write_tokenizer(folder, output, pad, source, target)
        if (folder.path / "README.md").is_file():
            shutil.copyfile(folder.path / "README.md", output / "README.md")


def _refuse(folder: ModelFolder) -> None:
    config, reasons = folder.model, unrepresentable(folder.model)
    if folder.tokenizer.source_start or not folder.tokenizer.source_end:
        reasons.append("sources with a start token or without an end")
    if config.norm != "post":
        reasons.append("pre-norm layers")
    if config.embedding_norm or config.positions == "learned_per_side":
        reasons.append("normalised embeddings or positions of each side")
    # as transformers' own conversion of Marian's models, which have a smaller one
    if config.norm_epsilon > _EPSILON:
        reasons.append(f"a LayerNorm epsilon of {config.norm_epsilon}")
    if reasons:
        raise FolderError(
            f"Hugging Face's Marian cannot represent this model: {', '.join(reasons)}."
        )


def _suppressed(tensors: Tensors) -> list[int]:
    if "output_bias" not in tensors:
        return []
    return [int(i) for i in np.flatnonzero(tensors["output_bias"] <= SUPPRESSED * 0.99)]


def _add_start(
    config: ModelConfig, tensors: Tensors, source: dict[str, int], target: dict[str, int]
) -> tuple[int, dict[str, int], dict[str, int]]:
    """Adds a token with a zero embedding on both sides, from which the decoder starts."""
    tensors.setdefault(
        "output_bias", np.zeros(config.vocab_size, tensors["embedding.weight"].dtype)
    )
    for name in ("embedding.weight", "source_embedding.weight", "projection.weight", "output_bias"):
        if name in tensors:
            tensor = tensors[name]
            new = np.full_like(tensor[:1], SUPPRESSED if name == "output_bias" else 0.0)
            tensors[name] = np.concatenate([tensor, new])
    source = {**source, "<pad>": config.source_vocab_size or config.vocab_size}
    return config.vocab_size, source, {**target, "<pad>": config.vocab_size}


def _named(config: ModelConfig, tensors: Tensors) -> Tensors:
    """Returns the tensors with Hugging Face's names. Positions that its Marian does not compute are
    stored."""
    named = {}
    for part in parts(config):
        for suffix in ("weight", "bias"):
            named[f"{part.huggingface}.{suffix}"] = tensors[f"{part.ours}.{suffix}"]
    embedding = tensors["embedding.weight"]
    if config.tied_embeddings:
        named["model.shared.weight"] = embedding
    else:
        named["model.encoder.embed_tokens.weight"] = tensors["source_embedding.weight"]
        named["model.decoder.embed_tokens.weight"] = embedding
        if not np.array_equal(embedding, tensors["projection.weight"]):
            named["lm_head.weight"] = tensors["projection.weight"]
    if "output_bias" in tensors:
        named["final_logits_bias"] = tensors["output_bias"][None]
    else:
        named["final_logits_bias"] = np.zeros((1, len(embedding)), embedding.dtype)
    if config.positions != "sinusoidal_half":
        learned = config.positions == "learned"
        table = (
            tensors["positions.weight"]
            if learned
            else sinusoidal_table(config.max_length, config.d_model)
        )
        for side in ("encoder", "decoder"):
            named[f"model.{side}.embed_positions.weight"] = table
    return {name: np.ascontiguousarray(tensor) for name, tensor in named.items()}


def _config(folder: ModelFolder, tensors: Tensors, pad: int) -> dict[str, Any]:
    config = folder.model
    target_size = tensors["embedding.weight"].shape[0]
    source_size = (
        target_size if config.tied_embeddings else tensors["source_embedding.weight"].shape[0]
    )
    tied_head = config.tied_embeddings or np.array_equal(
        tensors["embedding.weight"], tensors["projection.weight"]
    )
    return {
        "architectures": ["MarianMTModel"],
        "model_type": "marian",
        "is_encoder_decoder": True,
        "vocab_size": source_size,
        "decoder_vocab_size": target_size,
        "share_encoder_decoder_embeddings": config.tied_embeddings,
        "tie_word_embeddings": tied_head,
        "d_model": config.d_model,
        "max_position_embeddings": config.max_length,
        "encoder_layers": config.encoder_layers,
        "decoder_layers": config.decoder_layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.d_ff,
        "decoder_ffn_dim": config.d_ff,
        "activation_function": config.activation,
        "scale_embedding": config.scale_embeddings,
        "dropout": config.dropout,
        "static_position_embeddings": config.positions == "sinusoidal_half",
        "pad_token_id": pad,
        "eos_token_id": config.eos_id,
        "bos_token_id": None,
        "forced_eos_token_id": config.eos_id if folder.generation.forced_end else None,
        "decoder_start_token_id": pad if config.zero_start_embedding else config.decoder_start_id,
    }


def _generation(folder: ModelFolder, pad: int, forbidden: list[int]) -> dict[str, Any]:
    config, generation = folder.model, folder.generation
    return {
        "num_beams": generation.beam_size or 4,
        "max_length": config.max_length,
        "pad_token_id": pad,
        "eos_token_id": config.eos_id,
        "decoder_start_token_id": pad if config.zero_start_embedding else config.decoder_start_id,
        "forced_eos_token_id": config.eos_id if generation.forced_end else None,
        **({"bad_words_ids": [[token] for token in forbidden]} if forbidden else {}),
        "renormalize_logits": not generation.forbidden,
    }


def _write_tokenizer(
    folder: ModelFolder, output: Path, pad: int, source: dict[str, int], target: dict[str, int]
) -> None:
    config = folder.model
    shutil.copyfile(folder.path / folder.tokenizer.source, output / "source.spm")
    shutil.copyfile(folder.path / folder.tokenizer.target, output / "target.spm")
    separate = target != source
    _write_json(output / "vocab.json", source)
    if separate:
        _write_json(output / "target_vocab.json", target)
    pieces = by_id(target, max(target.values()) + 1)
    languages = [sorted({pair[side] for pair in folder.pairs}) for side in (0, 1)]
    _write_json(
        output / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "separate_vocabs": separate,
            "model_max_length": config.max_length,
            "source_lang": languages[0][0] if len(languages[0]) == 1 else None,
            "target_lang": languages[1][0] if len(languages[1]) == 1 else None,
            "unk_token": pieces[config.unk_id],
            "eos_token": pieces[config.eos_id],
            "pad_token": pieces[pad] if pad < len(pieces) else "<pad>",
        },
    )


def _write_json(file: Path, fields: dict[str, Any]) -> None:
    file.write_text(json.dumps(fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
