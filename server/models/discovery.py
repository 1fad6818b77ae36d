"""Finds the model folders under --weights and reads everything but their weights."""

from __future__ import annotations

import logging
from pathlib import Path

from model.analysis.attention_alignment import AlignmentLayer
from model.analysis.confidence import FILE, Confidence
from model.atomic_write import PART_SUFFIX
from model.model_folder import MAX_BEAM, FolderError, find_folders, read_folder
from model.symbols import FORMAL, INFORMAL
from model.weight_files import hash_of_files, weight_bytes
from server.config import Settings
from server.errors import InvalidRequest, SettingsError
from server.translation.catalog import ServedModel

log = logging.getLogger(__name__)
ENDS_BYTES, STEP_BYTES = 1_000_000, 131_072
"""Bytes at each end of a file that the fingerprint covers, and distance of the samples between. A
changed matrix of weights contains several samples."""
SETTING = "--weights (ATTENTIVE_WEIGHTS)"


def find_model(settings: Settings, name: str) -> ServedModel:
    """Returns the model of a server with this name. Raises InvalidRequest."""
    models, errors = find_served(settings)
    named = next((model for model in models if model.name == name), None)
    if named is None:
        names = ", ".join(model.name for model in models)
        raise InvalidRequest(errors.get(name, f"There is no model {name!r}; there are {names}."))
    return named


def find_served(settings: Settings) -> tuple[list[ServedModel], dict[str, str]]:
    """Returns the models of a server, and the reason for each unusable folder, by its name. Beams
    that no request chooses are at most `slots` wide, if that is not 0. Raises SettingsError if
    there is no usable model."""
    weights, pulled = settings.weights.absolute(), settings.pulled.absolute()  # for the messages
    try:
        folders = find_folders(pulled) if pulled.is_dir() else []
        folders += find_folders(weights)
    except (FolderError, OSError) as error:
        raise SettingsError(f"{SETTING}: {error}") from None
    models: dict[str, ServedModel] = {}
    errors: dict[str, str] = {}
    for folder in folders:
        try:
            model = read_model(folder, settings.slots)
            if model.name in models:
                raise FolderError(
                    f"Another folder already serves a model with the name {model.name!r}."
                )
            models[model.name] = model
        except (FolderError, OSError) as error:
            errors[folder.name] = str(error)
    if not models:
        reasons = "".join(f" {name}: {reason}" for name, reason in errors.items())
        raise SettingsError(f"{SETTING}: there is no usable model in {str(weights)!r}.{reasons}")
    return list(models.values()), errors


def read_model(folder: Path, slots: int = 0) -> ServedModel:
    """Reads one model folder. Raises FolderError if it cannot be used."""
    read = read_folder(folder)
    if not read.pairs:
        raise FolderError("config.json names no language pairs.")
    try:
        alignment = AlignmentLayer.load(folder, read.model.decoder_layers)
    except ValueError as error:
        raise FolderError(f"{error}.") from None
    tokenizer = read.load_tokenizer()
    knows_forms = tokenizer.has(FORMAL) and tokenizer.has(INFORMAL)
    return ServedModel(
        name=read.name or folder.name,
        folder=folder,
        pairs=read.pairs,
        license=read.license,
        # the first token has a position too
        max_length=read.model.max_length - (1 if read.first_tokens else 0),
        tokenizer=tokenizer,
        alignment=alignment,
        version=fingerprint(folder),
        formality=frozenset(read.formality if knows_forms else ()),
        beam_size=min(read.generation.beam_size or 1, slots or MAX_BEAM),
        widest_beam=min(slots or MAX_BEAM, MAX_BEAM),
        generation=read.generation,
        # before the confidence, whose log would name missing weights first
        bytes=weight_bytes(folder),
        confidence=read_confidence(folder),
        segment_length=read.segment_length,
        preference=read.preference,
        scores=read.scores,
        shape=(read.model.encoder_layers, read.model.decoder_layers, read.model.heads),
    )


def read_confidence(folder: Path) -> Confidence | None:
    """Returns the calibration of a model folder, None where it is missing, outdated or damaged; the
    log names the last two."""
    try:
        confidence = Confidence.load(folder)
    except ValueError as error:
        log.warning("%s", error)
        return None
    if confidence is None and (folder / FILE).is_file():
        log.warning(
            "%s: %s was fitted for other weights; run `attentive calibrate`", folder.name, FILE
        )
    return confidence


def fingerprint(folder: Path) -> str:
    """Returns a hash of a folder: names and sizes of its files, the first and last megabyte of each
    and samples between. Markdown files and unfinished files are ignored."""
    files = [
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and file.suffix not in (".md", PART_SUFFIX)
    ]
    return hash_of_files(files, ENDS_BYTES, STEP_BYTES)[:12]
