"""The families of models that can be imported. The first one that recognises a path reads it."""

from __future__ import annotations

from model.convert import argos
from model.convert.ctranslate2 import reader as ctranslate2
from model.convert.huggingface import families as huggingface
from model.convert.marian import firefox
from model.convert.marian import reader as marian
from model.convert.source_files import Export, Publisher, Source

SOURCES: tuple[Source, ...] = (
    firefox.SOURCE,
    argos.SOURCE,
    ctranslate2.SOURCE,
    huggingface.OPUS_MT,
    huggingface.M2M100,
    huggingface.MBART50,
    marian.SOURCE,
)


def publishers() -> list[Publisher]:
    """Returns the publishers outside the hub."""
    return [source.publisher for source in SOURCES if source.publisher is not None]


def exports() -> dict[str, Export]:
    """Returns the layouts that can be written, by name."""
    return {source.export.name: source.export for source in SOURCES if source.export is not None}


def signs() -> str:
    """Returns the files by which models are recognised, for readers."""
    return ", ".join(dict.fromkeys(source.sign for source in SOURCES))


def unsupported(model_type: object) -> str:
    """Returns why a model of transformers with an unknown type is rejected."""
    stated = (
        "without a model_type"
        if model_type is None
        else f"of the model_type {str(model_type)[:40]!r}"
    )
    known = [f"{source.model_type} ({source.models})" for source in SOURCES if source.model_type]
    return (
        f"it is a model {stated} in Hugging Face's layout, of which {'; '.join(known)} are "
        "supported; for many languages use "
        "facebook/m2m100_418M or facebook/nllb-200-distilled-600M in its place"
    )
