"""Export of a model folder to CTranslate2."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from model.attention import MultiHeadAttention
from model.checkpoint import load_model
from model.config import ModelConfig
from model.convert.extra_files import extra_files
from model.convert.source_files import SUPPRESSED
from model.convert.vocabulary import folder_pieces
from model.layers import DecoderLayer, EncoderLayer, FeedForward, Sublayer
from model.model_folder import FolderError, ModelFolder
from model.transformer import Transformer

_ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU"}
_DEFAULT_EPSILON = 1e-5


def export_ctranslate2(folder: ModelFolder, output: Path, *, quantization: str | None = None) -> list[str]:
    """Writes `folder` as a CTranslate2 model to the new folder `output`.

    The exported model reads the pieces of a sentence, language tag first, without `</s>`, which CTranslate2 adds.
    `quantization` is one of CTranslate2's ("int8", "float16", ...); None keeps float32. The SentencePiece models are
    copied too. Returns the names of files that are not exported. Raises FolderError if the model cannot be represented,
    `output` exists, `quantization` is unknown, or ctranslate2 is missing.
    """
    _refuse(folder.model)
    if output.exists():
        raise FolderError(f"{output} exists already.")
    try:
        import ctranslate2.specs
    except ImportError:
        raise FolderError('This export needs CTranslate2: pip install "attentive-server[export]".') from None
    spec = _build(ctranslate2.specs, load_model(folder), folder)
    spec.validate()
    try:
        spec.optimize(quantization=quantization)
    except ValueError as error:
        raise FolderError(f"{error}.") from None
    output.mkdir(parents=True)
    try:
        spec.save(str(output))
        for name in {folder.tokenizer.source, folder.tokenizer.target}:
            shutil.copyfile(folder.path / name, output / name)
    except BaseException:
        shutil.rmtree(output)
        raise
    carried, dropped = extra_files(folder)
    return [*(file.name for file in carried), *dropped]


def _refuse(config: ModelConfig) -> None:
    reasons = []
    if config.positions in ("rotary", "alibi"):
        reasons.append(f"{config.positions} positions in the encoder")
    if config.recurrence != "none":
        reasons.append("a recurrence in place of the decoder's self-attention")
    if config.window is not None:
        reasons.append("an attention window")
    if reasons:
        raise FolderError(f"CTranslate2 cannot represent this model: {', '.join(reasons)}.")


def _build(specs: ModuleType, transformer: Transformer, folder: ModelFolder) -> Any:
    config, forbidden = folder.model, folder.generation.forbidden
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        activation=getattr(specs.common_spec.Activation, _ACTIVATIONS[config.activation]),
    )
    source = transformer.embedding if config.tied_embeddings else transformer.source_embedding
    _sides(spec, transformer, source.weight)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = config.scale_embeddings
        side.position_encodings.encodings = _positions(transformer)
    projection = transformer.embedding if config.tied_embeddings else transformer.projection
    spec.decoder.projection.weight = _array(projection.weight)
    if config.output_bias or forbidden:
        bias = transformer.output_bias if config.output_bias else torch.zeros(config.vocab_size)
        spec.decoder.projection.bias = _array(bias.index_fill(0, torch.tensor(forbidden, dtype=torch.long), SUPPRESSED))
    spec.decoder.start_from_zero_embedding = config.zero_start_embedding or _starts_at_zero(transformer)
    _vocabulary(spec, folder)
    return spec


def _sides(spec: Any, transformer: Transformer, source: torch.Tensor) -> None:
    """Copies embeddings and layers of encoder and decoder."""
    spec.encoder.embeddings[0].weight = _array(source)
    spec.decoder.embeddings.weight = _array(transformer.embedding.weight)
    encoder = cast("Iterable[EncoderLayer]", transformer.encoder)
    decoder = cast("Iterable[DecoderLayer]", transformer.decoder)
    for part, encoder_layer in zip(spec.encoder.layer, encoder, strict=True):
        _self_attention(part.self_attention, encoder_layer.self_attention, encoder_layer.attention_residual)
        _feed_forward(part.ffn, encoder_layer.feed_forward, encoder_layer.feed_forward_residual)
    for part, decoder_layer in zip(spec.decoder.layer, decoder, strict=True):
        _self_attention(part.self_attention, decoder_layer.self_attention, decoder_layer.self_residual)
        _cross_attention(part.attention, decoder_layer.cross_attention, decoder_layer.cross_residual)
        _feed_forward(part.ffn, decoder_layer.feed_forward, decoder_layer.feed_forward_residual)
    if transformer.config.norm == "pre":
        _norm(spec.encoder.layer_norm, transformer.encoder_norm)
        _norm(spec.decoder.layer_norm, transformer.decoder_norm)


def _vocabulary(spec: Any, folder: ModelFolder) -> None:
    config = folder.model
    source, target = folder_pieces(folder)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.eos_token = target[config.unk_id], target[config.eos_id]
    spec.config.bos_token, spec.config.decoder_start_token = target[config.bos_id], target[config.decoder_start_id]
    spec.config.add_source_eos = folder.tokenizer.source_end
    spec.config.add_source_bos = folder.tokenizer.source_start
    if config.norm_epsilon != _DEFAULT_EPSILON:
        spec.config.add_attribute("layer_norm_epsilon", config.norm_epsilon)


def _starts_at_zero(transformer: Transformer) -> bool:
    """Returns True if the start token has a zero embedding, as in OPUS-MT's converted models."""
    return not bool(transformer.embedding.weight[transformer.config.decoder_start_id].any())


def _positions(transformer: Transformer) -> NDArray[np.float32]:
    if transformer.config.positions == "learned":
        return _array(transformer.positions.weight)
    return _array(transformer.get_buffer("position_table"))


def _self_attention(part: Any, attention: MultiHeadAttention, residual: Sublayer) -> None:
    _fused(part.linear[0], attention.query, attention.key, attention.value)
    _fused(part.linear[1], attention.output)
    _norm(part.layer_norm, residual.norm)


def _cross_attention(part: Any, attention: MultiHeadAttention, residual: Sublayer) -> None:
    _fused(part.linear[0], attention.query)
    _fused(part.linear[1], attention.key, attention.value)
    _fused(part.linear[2], attention.output)
    _norm(part.layer_norm, residual.norm)


def _feed_forward(part: Any, feed_forward: FeedForward, residual: Sublayer) -> None:
    _fused(part.linear_0, feed_forward.inner)
    _fused(part.linear_1, feed_forward.outer)
    _norm(part.layer_norm, residual.norm)


def _fused(part: Any, *linears: torch.nn.Linear) -> None:
    """Concatenates the matrices of linears with the same input."""
    part.weight = np.concatenate([_array(linear.weight) for linear in linears])
    part.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _norm(part: Any, norm: torch.nn.LayerNorm) -> None:
    part.gamma, part.beta = _array(norm.weight), _array(norm.bias)


def _array(tensor: torch.Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().float().contiguous().numpy()
    return array
