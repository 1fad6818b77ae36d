"""`attentive calibrate`: fits the confidence of a model folder on pairs of sentences."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tqdm import tqdm

from model.analysis.confidence import (
    FILE,
    GOOD_CHRF,
    Confidence,
    DirectionLimits,
    ScoredTranslation,
    fit_direction,
    weights_hash,
)
from model.atomic_write import atomic_write
from model.search.options import DecodingOptions
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.terminal import open_text, utf8_lines, whole_number
from server.config import add_flags
from server.errors import InvalidRequest
from server.models.discovery import find_model
from server.services import Services, default_options
from server.translation.catalog import Leg, ModelCatalog, ServedModel
from server.translation.checks import attention_gap
from server.translation.types import FAULTS, TranslationRequest

NAME = "calibrate"
HELP = (
    "Fit the confidence of a model's translations on pairs of sentences, and write confidence.json "
    "into its folder."
)
PAIRS_AT_ONCE = 256
MEASURED_GAPS = 500
"""Good translations of a direction whose attention is measured."""

Direction = tuple[str, str]
Pairs = dict[Direction, list[tuple[str, str]]]
"""Sentences with their references by direction."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="Name of the model, as `attentive models` prints it.")
    parser.add_argument(
        "--pairs",
        nargs="+",
        type=Path,
        required=True,
        metavar="FILE",
        help="Files NAME.SOURCE-TARGET.tsv, such as dev.en-de.tsv, with a sentence, a tab and its "
        "translation in each "
        "line. They are used in both directions. They should not be training text.",
    )
    parser.add_argument(
        "--limit", type=whole_number(1), metavar="N", help="Use the first N pairs of each file."
    )
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    settings = local_settings(arguments)
    model = find_model(settings, arguments.model)
    pairs = read_pairs(arguments.pairs, model, arguments.limit)
    model = dataclasses.replace(model, confidence=None)
    services = local_services(settings, catalog=ModelCatalog([model]))
    fitted = asyncio.run(calibrate(services, model, pairs))
    confidence = Confidence(weights_hash(model.folder), fitted)
    with atomic_write(model.folder / FILE) as part:
        part.write_text(confidence.to_json(), encoding="utf-8")
    print(
        f"{model.folder / FILE}: probability of a chrF of {GOOD_CHRF:.0f} or more. By "
        "cross-validation:"
    )
    for direction, quality in [(direction, limits.quality) for direction, limits in fitted.items()]:
        print(
            f"{direction}: {quality.sentences} sentences, correlation with chrF "
            f"{quality.pearson:.2f} (Pearson), {quality.spearman:.2f} (Spearman), calibration "
            f"error {quality.calibration_error:.3f}, area under the curve for a chrF below "
            f"{GOOD_CHRF:.0f} {quality.wrong:.2f}"
        )
    return 0


def read_pairs(files: Sequence[Path], model: ServedModel, limit: int | None = None) -> Pairs:
    """Returns the pairs of the files in each direction that the model has. Raises
    InvalidRequest."""
    pairs: Pairs = {}
    for file in files:
        direction = file_direction(file, model)
        with open_text(str(file), "r") as stream:
            lines = [line.rstrip("\r\n") for line in utf8_lines(stream, str(file)) if line.strip()][
                :limit
            ]
        rows = [line.split("\t") for line in lines]
        if wrong := next(
            (number for number, row in enumerate(rows, start=1) if len(row) != 2), None
        ):
            raise InvalidRequest(
                f"Pair {wrong} of {file} has {len(rows[wrong - 1])} columns; it needs two."
            )
        if direction in model.pairs:
            pairs.setdefault(direction, []).extend((source, target) for source, target in rows)
        if direction[::-1] in model.pairs:
            pairs.setdefault(direction[::-1], []).extend(
                (target, source) for source, target in rows
            )
    return pairs


def file_direction(file: Path, model: ServedModel) -> Direction:
    """Returns the direction that a file name ends with. Raises InvalidRequest if the model has
    neither it nor its reverse."""
    parts = file.stem.rpartition(".")[2].split("-")
    for at in range(1, len(parts)):
        direction = "-".join(parts[:at]), "-".join(parts[at:])
        if direction in model.pairs or direction[::-1] in model.pairs:
            return direction
    raise InvalidRequest(
        f"{file.name} does not end with a direction of {model.name}, as in dev.en-de.tsv."
    )


async def calibrate(
    services: Services, model: ServedModel, pairs: Pairs
) -> dict[str, DirectionLimits]:
    """Returns the fitted numbers of each direction. Raises InvalidRequest."""
    fitted = {}
    async with running(services):
        for (source, target), rows in pairs.items():
            scored = await scored_translations(services, Leg(model, source, target), rows)
            try:
                fitted[f"{source}-{target}"] = fit_direction(scored)
            except ValueError as error:
                raise InvalidRequest(f"{source}-{target}: {error}") from None
    return fitted


async def scored_translations(
    services: Services, leg: Leg, rows: Sequence[tuple[str, str]]
) -> list[ScoredTranslation]:
    """Translates the sources and compares them with their references. Texts of several sentences
    are left out."""
    try:
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise InvalidRequest(
            'This needs sacrebleu: pip install "attentive-server[train]".'
        ) from None
    chrf = CHRF()
    scored: list[ScoredTranslation] = []
    measured = 0
    with tqdm(
        total=len(rows), unit=" pairs", desc=f"{leg.source}-{leg.target}", disable=None, leave=False
    ) as bar:
        for start in range(0, len(rows), PAIRS_AT_ONCE):
            batch = rows[start : start + PAIRS_AT_ONCE]
            request = TranslationRequest(
                texts=tuple([source for source, _ in batch]),
                source=leg.source,
                target=leg.target,
                options=default_options(services.settings),
            )
            for translation, (_, reference) in zip(
                await services.translator.translate(request), batch, strict=True
            ):
                sentences = translation.legs[0].sentences
                if len(sentences) != 1 or sentences[0].copied:
                    continue
                sentence, best = sentences[0], sentences[0].hypotheses[0]
                score = chrf.sentence_score(translation.text, [reference]).score
                measure = score >= GOOD_CHRF and measured < MEASURED_GAPS
                measured += measure
                forced = DecodingOptions(target=best.tokens, first_token=leg.first_token)
                attend = partial(services.engine.answer, leg.model, sentence.ids, forced)
                gap = (
                    await attention_gap(leg, sentence.read, sentence.ids, best.tokens, attend)
                    if measure
                    else None
                )
                flagged = bool(sentence.flags & FAULTS)
                length = len(sentence.targets[0])
                scored.append(
                    ScoredTranslation(
                        best.token_scores, len(sentence.ids), length, score, flagged, gap
                    )
                )
            bar.update(len(batch))
    return scored
