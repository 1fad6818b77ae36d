"""POST /score and /trace, GET /model, /positions and /encoder: forced scores, the steps of a
search, what a model is and does."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field, StrictStr
from starlette.requests import Request
from starlette.responses import Response

from model.analysis.attention_alignment import AlignmentLayer
from model.analysis.head_roles import HeadRoles
from model.analysis.position_schemes import schemes
from model.analysis.types import SCORES
from model.model_folder import FolderError, ModelFolder, read_folder
from model.search.options import DecodingOptions, Hypothesis, TraceStep
from model.tokenizer import Tokenizer
from server.access.authentication import Caller
from server.api.attention_formats import text_pieces
from server.api.dependencies import (
    admit,
    check_texts,
    deadline,
    enter,
    json_response,
    services_of,
    translation_request,
)
from server.api.openapi import WORK, errors
from server.api.parameters import ParameterRoute
from server.api.schemas.attention import Candidate, ScoredPieces, TextPieces
from server.api.schemas.base import Answer, BeamSize, Code, HeadMask, Key, LengthPenalty, Parameters
from server.engine.ipc.messages import JobResult
from server.errors import NotFound, TextTooLong, Unavailable
from server.inspection.encoder_study import study_encoder
from server.inspection.inspector import trace_search
from server.inspection.types import InspectedSentence, InspectionResult
from server.translation.catalog import Leg
from server.translation.translator import Translator

SCORED_LIMIT = 16
"""Largest number of translations in one request for scores."""


class ScoreParameters(Parameters):
    q: StrictStr = Field(description="One sentence.", examples=["A cat"])
    translation: StrictStr | list[StrictStr] = Field(
        description=f"A translation of `q`, or up to {SCORED_LIMIT}.", examples=["Eine Katze"]
    )
    source: Code = Field(description="Language of `q`.", examples=["en"])
    target: Code = Field(description="Language of the translations.", examples=["de"])
    masked_heads: HeadMask = None
    api_key: Key = None


class ScoredTranslation(ScoredPieces):
    score: float = Field(description="Sum of `scores`.")
    average: float = Field(description="Mean of `scores`.")
    perplexity: float


class ScoreAnswer(Answer):
    model: str
    source: TextPieces
    scores: ScoredTranslation | list[ScoredTranslation] = Field(
        description="A list if `translation` is a list."
    )


class TraceParameters(Parameters):
    q: StrictStr = Field(description="Text to translate.", examples=["A cat"])
    source: Code = Field(description="Language of `q`, or `auto`.", examples=["en"])
    target: Code = Field(description="Language to translate into.", examples=["de"])
    sentence: int = Field(default=0, ge=0, description="Sentence of the text, counted from 0.")
    beam_size: BeamSize = None
    length_penalty: LengthPenalty = None
    masked_heads: HeadMask = None
    api_key: Key = None


class SearchStep(Answer):
    """One step of the search. Rows are numbered from 0 within a step."""

    rows: list[list[Candidate]] = Field(
        description="Best continuations of each row with natural log-probabilities."
    )
    chosen: list[dict[str, Any]] = Field(
        description="Hypotheses that continue: the row of the step before (`parent`), the `piece`, "
        "and the sum of the natural log-probabilities so far (`total`)."
    )
    finished: list[dict[str, Any]] = Field(
        description="Hypotheses that ended in this step: `parent` and `total`."
    )


class TracedHypothesis(Answer):
    text: str
    pieces: list[str]
    scores: list[float]
    score: float = Field(description="Score that ranks the hypotheses.")
    finish_reason: str = Field(description="`stop` or `length`.")


class TraceAnswer(Answer):
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    sentence: int
    sentences: int = Field(description="Number of sentences in the text.")
    source: TextPieces
    steps: list[SearchStep]
    hypotheses: list[TracedHypothesis] = Field(description="Best first.")


class ModelParameters(Parameters):
    source: StrictStr = Field(max_length=32, description="Source language.", examples=["en"])
    target: StrictStr = Field(max_length=32, description="Target language.", examples=["de"])
    api_key: Key = None


class ModelLeg(Answer):
    name: str
    source: str
    target: str
    license: str
    config: dict[str, Any] = Field(description="Fields of the model's config.json and `head_dim`.")
    alignment: AlignmentLayer
    roles: dict[str, Any] | None = Field(
        description="Roles of the heads over `sentences` in `directions`, on which the import "
        "measured them: `heads` has, by kind of attention, layer and head, the `role` and the "
        "`share` of the queries that look there. Roles: `previous`, `before_previous`, `next`, "
        "`same`, `diagonal`, `start`, `delimiter` (punctuation and the end of sentence), `rare` "
        "(the rarest token of the sentence), `mixed`. `losses`, null where they were not measured "
        "yet: nats per target token with all heads (`loss`), and the rise when one of the `heads` "
        "is off, all of one of the `layers`, or all `others` but the layer that is worth most. "
        "Null for a model without measured roles."
    )


class ModelAnswer(Answer):
    legs: list[ModelLeg] = Field(
        description="One model, or two for a route through a pivot language."
    )


class PositionsParameters(ModelParameters):
    n: int = Field(default=24, ge=2, le=64, description="Number of positions.")
    r: int = Field(default=5, ge=1, le=64, description="Size of the restricted neighbourhood.")


class PositionNumbers(Answer):
    columns: list[int] = Field(
        description="The features of a table, or the positions that each position is compared with."
    )
    cells: list[list[float]] = Field(
        description="A row for each position. Of the tables the vectors, of `rope` the product of "
        "a query and the same key, of "
        "`alibi` the bias of the first head, of `restricted` the weights of equal products."
    )
    curves: list[list[float]] = Field(
        description="Over the positions: of tables the products with the middle one, of `rope` "
        "those with the first, of `alibi` for each head the weights of equal products in the first "
        "row, of `restricted` those in the middle row."
    )


class PositionsAnswer(Answer):
    n: int
    r: int
    own: str = Field(description="How the model tells positions apart.", examples=["sinusoidal"])
    schemes: dict[str, PositionNumbers] = Field(
        description="`sinusoidal`, `learned` (random, as before the training), `rope`, `alibi` and "
        "`restricted`."
    )


class EncoderParameters(ModelParameters):
    q: StrictStr = Field(description="One sentence.", examples=["Cat eats fish."])


class EncoderAnswer(Answer):
    model: str
    language: dict[str, str] = Field(description="`source` and `target`.")
    source: TextPieces
    layers: list[dict[str, list[float]]] = Field(
        description="For each piece the lengths of what the residual connections carry "
        "(`carried_past_attention`, `carried_past_feed_forward`) and of what is added "
        "(`attention`, `feed_forward`); the share of `active` units, above 0."
    )
    order: dict[str, list[float]] = Field(
        description="The `pieces` with the words in reverse order, and how much the encoder's "
        "output for each piece of `source` "
        "then changes (`moved`, `moved_without_positions`), relative to its length."
    )
    position_fit: dict[str, int | list[float]] | None = Field(
        description="R² of the place of a piece, read by a linear regression from the embedding "
        "and the output of each layer, on "
        "`sentences` that it has not seen. Null for a language without sample sentences."
    )


router = APIRouter(tags=["attention"], route_class=ParameterRoute, responses=errors(*WORK))


@router.post("/score", summary="Log-probability of given translations", response_model=ScoreAnswer)
async def score(request: Request, parameters: ScoreParameters) -> Response:
    services = services_of(request)
    given = parameters.translation
    translations = [given] if isinstance(given, str) else given
    if len(translations) > SCORED_LIMIT:
        raise TextTooLong(f"At most {SCORED_LIMIT} translations are scored at once.")
    check_texts((parameters.q,), services.settings)
    check_texts(tuple(translations), services.settings, name="translation")
    caller = await enter(request, len(parameters.q), parameters.api_key)
    limit = deadline(request)
    inspector, heads = services.inspector, parameters.masked_heads or ()
    pairs = [
        inspector.given(parameters.q, text, parameters.source, parameters.target)
        for text in translations
    ]
    results = [
        await inspector.attend(
            pair, limit, caller=caller, masked_heads=heads, choice=SCORES, method=None
        )
        for pair in pairs
    ]
    scores = [scored(result) for result in results]
    body = {
        "model": results[0].subject.leg.model.name,
        "source": text_pieces(results[0].source),
        "scores": scores if isinstance(given, list) else scores[0],
    }
    return json_response(body)


@router.post(
    "/trace",
    summary="Steps of the search for the translation of one sentence",
    response_model=TraceAnswer,
)
async def traced(request: Request, parameters: TraceParameters) -> Response:
    services = services_of(request)
    options = DecodingOptions(
        beam_size=parameters.beam_size or services.settings.beam_size,
        length_penalty=parameters.length_penalty,
        masked_heads=parameters.masked_heads or (),
        loop_guard=True,
    )
    check_texts((parameters.q,), services.settings, parameters.beam_size or 1)
    caller = await enter(request, len(parameters.q), parameters.api_key)
    work = translation_request(
        request,
        caller,
        texts=(parameters.q,),
        source=parameters.source,
        target=parameters.target,
        options=options,
    )
    subject, answer = await trace_search(services.inspector, work, parameters.sentence, caller)
    return json_response(traced_answer(subject, answer))


@router.get(
    "/model",
    summary="Shape of the model between two languages",
    response_model=ModelAnswer,
    responses=errors(404),
)
async def model(request: Request, parameters: Annotated[ModelParameters, Query()]) -> Response:
    caller = await enter(request, 0, parameters.api_key)
    translator, heads = services_of(request).translator, services_of(request).inspector.heads
    route = translator.catalog.route(parameters.source, parameters.target)
    folders = await read_folders(translator, caller, route)
    roles = [
        heads.with_losses(
            leg.model,
            await translator.threads.run(caller.name, 0, HeadRoles.read, leg.model.folder),
        )
        for leg in route
    ]
    models = [described(*parts) for parts in zip(folders, route, roles, strict=True)]
    return json_response({"legs": models})


@router.get(
    "/positions",
    summary="How models tell positions apart",
    response_model=PositionsAnswer,
    responses=errors(404),
)
async def positions(
    request: Request, parameters: Annotated[PositionsParameters, Query()]
) -> Response:
    """Sinusoids, learned vectors before the training, rotary positions, ALiBi and a restricted
    neighbourhood, in the shape of the model between two languages."""
    caller = await enter(request, 0, parameters.api_key)
    translator = services_of(request).translator
    route = translator.catalog.route(parameters.source, parameters.target)
    [folder, *_] = await read_folders(translator, caller, route)
    shown = schemes(folder.model, parameters.n, parameters.r)
    body = {"n": parameters.n, "r": parameters.r, "own": folder.model.positions}
    return json_response(
        body | {"schemes": {name: scheme._asdict() for name, scheme in shown.items()}}
    )


async def read_folders(
    translator: Translator, caller: Caller, route: Sequence[Leg]
) -> list[ModelFolder]:
    """Returns the model folders of a route. Raises NotFound if it has none, Unavailable."""
    if not route:
        raise NotFound("Source and target language are the same; no model is needed.")
    try:
        return [
            await translator.threads.run(caller.name, 0, read_folder, leg.model.folder)
            for leg in route
        ]
    except FolderError:
        raise Unavailable("The model's folder cannot be read.") from None


@router.get(
    "/encoder",
    summary="What the layers of an encoder do with a sentence",
    response_model=EncoderAnswer,
)
async def encoder(request: Request, parameters: Annotated[EncoderParameters, Query()]) -> Response:
    """Computed in float32 from the weights of the model, with positions and without."""
    caller = await admit(request, [parameters.q], parameters.api_key)
    limit = deadline(request)
    inspector = services_of(request).inspector
    study = await study_encoder(
        inspector, parameters.q, parameters.source, parameters.target, limit, caller
    )
    return json_response(study)


def scored(result: InspectionResult) -> dict[str, Any]:
    scores = result.scores
    total = math.fsum(scores)
    return text_pieces(result.target) | {
        "scores": scores,
        "score": total,
        "average": total / len(scores),
        "perplexity": math.exp(min(700.0, -total / len(scores))),
        "candidates": result.candidates,
        "outside": result.attention.maps.outside,
    }


def traced_answer(subject: InspectedSentence, answer: JobResult) -> dict[str, Any]:
    """Returns the search step by step as in TraceAnswer."""
    leg, text = subject.leg, subject.pair.source_text
    encoding, tokenizer = leg.encode(text), leg.model.tokenizer
    return {
        "model": leg.model.name,
        "language": {"source": leg.source, "target": leg.target},
        "sentence": subject.sentence,
        "sentences": subject.sentences,
        "source": {"text": text, "pieces": encoding.pieces, "offsets": encoding.offsets},
        "steps": [step_answer(tokenizer, step) for step in answer.trace],
        "hypotheses": [
            hypothesis_answer(tokenizer, hypothesis) for hypothesis in answer.hypotheses
        ],
    }


def step_answer(tokenizer: Tokenizer, step: TraceStep) -> dict[str, Any]:
    return {
        "rows": [[(tokenizer.piece(token), score) for token, score in row] for row in step.beams],
        "chosen": [
            {"parent": parent, "piece": tokenizer.piece(token), "total": total}
            for parent, token, total in step.chosen
        ],
        "finished": [{"parent": parent, "total": total} for parent, _, total in step.finished],
    }


def hypothesis_answer(tokenizer: Tokenizer, hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "text": tokenizer.decode(hypothesis.tokens),
        "pieces": [tokenizer.piece(token) for token in hypothesis.tokens],
        "scores": hypothesis.token_scores,
        "score": hypothesis.score,
        "finish_reason": hypothesis.finish_reason,
    }


def described(folder: ModelFolder, leg: Leg, roles: HeadRoles | None) -> dict[str, Any]:
    """Returns a model's configuration and its use as in ModelLeg."""
    return {
        "name": folder.name,
        "source": leg.source,
        "target": leg.target,
        "license": folder.license,
        "config": dataclasses.asdict(folder.model) | {"head_dim": folder.model.head_dim},
        "alignment": dataclasses.asdict(leg.model.alignment),
        "roles": None
        if roles is None
        else {
            name: getattr(roles, name) for name in ("sentences", "directions", "heads", "losses")
        },
    }
