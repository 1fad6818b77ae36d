"""Export of a model folder to CTranslate2."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from model.config import ModelConfig
from model.convert.source_files import SUPPRESSED, Tensors, new_output, unrepresentable
from model.convert.tensor_names import ctranslate2_parts, is_norm, shapes
from model.convert.vocabulary import folder_pieces
from model.model_folder import FolderError, ModelFolder
from model.weight_files import SafetensorFiles, position_table, weight_files

_ACTIVATIONS = {"relu": "RELU", "swish": "SWISH", "gelu": "GELU"}
_DEFAULT_EPSILON = 1e-5


def export_ctranslate2(
    folder: ModelFolder,
    output: Path,
    *,
    quantization: str | None = None,
    source_start: str | None = None,
) -> None:
    """Writes `folder` as a CTranslate2 model to the new folder `output`, with the SentencePiece
    models.

    The exported model reads the pieces of a sentence, language tag first; CTranslate2 adds `</s>`,
    and `source_start` before every source. `quantization` is one of CTranslate2's ("int8",
    "float16", ...); None keeps float32. Raises FolderError if the model cannot be represented,
    `output` exists, `quantization` is unknown, or ctranslate2 is missing.
    """
    if reasons := unrepresentable(folder.model):
        raise FolderError(f"CTranslate2 cannot represent this model: {', '.join(reasons)}.")
    try:
        import ctranslate2.specs
    except ImportError:
        raise FolderError(
            'This export needs CTranslate2: pip install "attentive-server[export]".'
        ) from None
    stored = SafetensorFiles(weight_files(folder.path))
    stored.check(shapes(folder.model))
    spec = _build(ctranslate2.specs, dict(stored), folder)
    if source_start is not None:
        spec.config.add_source_bos, spec.config.bos_token = True, source_start
    spec.validate()
    try:
        spec.optimize(quantization=quantization)
    except ValueError as error:
        raise FolderError(f"{error}.") from None
    with new_output(output):
        spec.save(str(output))
        for name in {folder.tokenizer.source, folder.tokenizer.target}:
            shutil.copyfile(folder.path / name, output / name)


def _build(specs: ModuleType, tensors: Tensors, folder: ModelFolder) -> Any:
    config, forbidden = folder.model, folder.generation.forbidden
    spec = specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.heads,
        pre_norm=config.norm == "pre",
        layernorm_embedding=config.embedding_norm,
        activation=getattr(specs.common_spec.Activation, _ACTIVATIONS[config.activation]),
    )
    embedding = tensors["embedding.weight"]
    spec.encoder.embeddings[0].weight = tensors.get("source_embedding.weight", embedding)
    spec.decoder.embeddings.weight = embedding
    _layers(spec, config, tensors)
    for side in (spec.encoder, spec.decoder):
        side.scale_embeddings = config.scale_embeddings
        side.position_encodings.encodings = position_table(
            config, tensors, decoder=side is spec.decoder
        )
    spec.decoder.projection.weight = tensors.get("projection.weight", embedding)
    if config.output_bias or forbidden:
        bias = tensors.get("output_bias", np.zeros(config.vocab_size, np.float32)).copy()
        bias[list(forbidden)] = SUPPRESSED
        spec.decoder.projection.bias = bias
    starts_at_zero = not embedding[config.decoder_start_id].any()  # OPUS-MT's converted models
    spec.decoder.start_from_zero_embedding = config.zero_start_embedding or starts_at_zero
    _vocabulary(spec, folder)
    return spec


def _layers(spec: Any, config: ModelConfig, tensors: Tensors) -> None:
    """Copies the layers. A part stacks the matrices of linear layers with the same input."""
    shape = (
        config.encoder_layers,
        config.decoder_layers,
        config.norm == "pre",
        config.embedding_norm,
    )
    for theirs, ours in ctranslate2_parts(*shape):
        part = _part(spec, theirs)
        weight, bias = (
            np.concatenate([tensors[f"{name}.{field}"] for name in ours])
            for field in ("weight", "bias")
        )
        if is_norm(theirs):
            part.gamma, part.beta = weight, bias
        else:
            part.weight, part.bias = weight, bias


def _part(spec: Any, name: str) -> Any:
    """Returns the part of a specification, such as encoder/layer_0/self_attention/linear_1."""
    for step in name.split("/"):
        stem, _, number = step.rpartition("_")
        spec = (
            getattr(spec, stem)[int(number)]
            if number.isdecimal() and not hasattr(spec, step)
            else getattr(spec, step)
        )
    return spec


def _vocabulary(spec: Any, folder: ModelFolder) -> None:
    config = folder.model
    source, target = folder_pieces(folder)
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.eos_token = target[config.unk_id], target[config.eos_id]
    spec.config.bos_token, spec.config.decoder_start_token = (
        target[config.bos_id],
        target[config.decoder_start_id],
    )
    spec.config.add_source_eos = folder.tokenizer.source_end
    spec.config.add_source_bos = folder.tokenizer.source_start
    if config.norm_epsilon != _DEFAULT_EPSILON:
        spec.config.add_attribute("layer_norm_epsilon", config.norm_epsilon)
