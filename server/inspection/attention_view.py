"""Selects and transforms attention maps for display. NumPy only."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictStr

from model.analysis.attention_alignment import Weights, to_words
from model.analysis.contributions import Rollout, head_contributions, layer_contributions, rollout
from model.analysis.types import KINDS, SCORES, Kind, MapChoice
from model.search.options import DecodingOptions
from server.access.authentication import Caller
from server.engine.client.batch import gather_or_cancel
from server.errors import InvalidRequest, NotFound
from server.inspection.inspector import ANYBODY, Inspector, charged_to
from server.inspection.pictures.svg import ThemeName
from server.inspection.types import InspectionResult, out_of_range

Scale = Literal["none", "row", "max"]
View = Literal["map", "grid", "lines", "alignment", "card"]
WEIGHTS_LIMIT = 8_000_000
"""Largest number of weights in one answer: about 100 MB of JSON."""
WIDTHS = (100, 4_000)
DPIS = (36, 600)
TITLE_LIMIT = 300
RECURRENT = (
    "This model has no decoder maps: its decoder has a recurrence (SSRU) in place of "
    "self-attention, which keeps one state instead of attending to earlier words."
)


REDUCED = ("mean", "max", "sum")
"""Reductions of all heads to one map: the names of NumPy's methods."""
HEADS = re.compile(r"all|mean|max|sum|[0-9]{1,3}(,[0-9]{1,3}){1,63}", re.ASCII)


def heads(value: int | str) -> int | str:
    """Returns a valid choice of heads. Raises ValueError."""
    if isinstance(value, str) and not HEADS.fullmatch(value):
        raise ValueError("must be a number, several such as 0,3, or one of all, mean, max, sum")
    return value


def number_or_word(value: Any) -> Any:
    """Returns digits as an int and other text in lower case, for `head=3` and `head=mean`."""
    if not isinstance(value, str):
        return value
    return (
        int(value)
        if value.isascii() and value.isdigit() and len(value) < 10
        else value.strip().lower()
    )


class ViewOptions(BaseModel):
    """Selection of maps, and options of their picture."""

    model_config = ConfigDict(frozen=True)

    kind: Literal["cross", "encoder", "decoder", "all"] = Field(
        default="all", description="Attention maps to return."
    )
    layer: Annotated[int | Literal["all"], BeforeValidator(number_or_word)] = Field(
        default="all", description="One layer, counted from 0, or `all`."
    )
    head: Annotated[int | StrictStr, BeforeValidator(number_or_word), AfterValidator(heads)] = (
        Field(
            default="all",
            description="One head, counted from 0, several (`0,3`), the `mean`, `max` or `sum` "
            "over the heads, or `all`.",
        )
    )
    measure: Literal["weights", "contributions", "effect"] = Field(
        default="weights",
        description="Cross-attention: the `weights`, or `contributions`, the length of the vector "
        "that a source token adds; `head=sum` is that of the sum over the heads. Lengths have no "
        "limit: pictures and `uint16` show them divided by the largest of a map. `effect` is by "
        "how much the log-probability of a target word falls when a source word is hidden.",
    )
    level: Literal["piece", "word"] = Field(
        default="piece",
        description="`word` sums weights over a key's pieces and averages them over a query's.",
    )
    rollout: bool = Field(
        default=False, description="Attention rollout instead of heads: one map per layer."
    )
    normalize: Literal["none", "row", "max"] = Field(
        default="none",
        description="`row`: the weights of each query sum to 1; `max`: the largest weight of a map "
        "is 1.",
    )
    view: View | None = Field(
        default=None,
        description="Pictures: `map` is one map, `grid` several, `lines` the heads of one layer in "
        "colours, `alignment` the words with ribbons, `card` the same in 1200 x 630 pixels for "
        "sharing. By default `map` or `grid`.",
    )
    width: Annotated[int, Field(ge=WIDTHS[0], le=WIDTHS[1])] | None = Field(
        default=None,
        description="Pictures: width in pixels of 1/96 inch. The default depends on the sentence.",
    )
    dpi: Annotated[int, Field(ge=DPIS[0], le=DPIS[1])] | None = Field(
        default=None,
        description="PNG: pixels per inch. The default is 144, less for large pictures, and 96 for "
        "a card.",
    )
    theme: ThemeName = Field(
        default="light", description="Pictures: colours; `print` is for black-and-white printing."
    )
    title: Annotated[StrictStr, Field(max_length=TITLE_LIMIT)] | None = Field(
        default=None,
        description="Pictures: title; empty for none. The default is the sentence and its "
        "translation.",
    )
    special: bool = Field(
        default=True,
        description="Pictures: `0` leaves out the language tag and the start and end of sentence.",
    )
    query: Annotated[int, Field(ge=0)] | Annotated[StrictStr, Field(max_length=100)] | None = Field(
        default=None,
        union_mode="left_to_right",
        description="Pictures of lines, alignment or card: the row, by number or text, whose lines "
        "are shown or stand out, such as `making`.",
    )


@dataclass(frozen=True, slots=True)
class MapView:
    """Maps of one kind: `weights` (layers, heads, queries, keys). `layers` and `heads` number the
    first two axes, `queries` and `keys` label the other two."""

    kind: Kind
    weights: Weights
    layers: tuple[int, ...]
    heads: tuple[int | str, ...]
    queries: tuple[str, ...]
    keys: tuple[str, ...]


def map_choice(
    options: ViewOptions, shape: tuple[int, int, int] | None, sizes: tuple[int, int]
) -> MapChoice:
    """Returns the maps that a view needs of a forced pass. `shape` are the layers of encoder and
    decoder and the heads, None if unknown; `sizes` the tokens, or words, of source and target.
    Raises InvalidRequest for a layer or head that does not exist and for more weights than
    WEIGHTS_LIMIT."""
    if options.measure == "effect":
        return SCORES
    products = options.measure == "contributions"
    if options.rollout or shape is None:
        return MapChoice(products=products)
    encoder, decoder, count = shape
    named = options.head in REDUCED
    heads = tuple(range(count)) if named else _indices("head", options.head, count)
    rows = {"cross": sizes, "encoder": (sizes[0],) * 2, "decoder": (sizes[1],) * 2}
    chosen: dict[Kind, tuple[int, ...]] = {}
    size = 0
    for kind in KINDS:
        of_kind = options.kind in (kind, "all")
        chosen[kind] = (
            _indices("layer", options.layer, encoder if kind == "encoder" else decoder)
            if of_kind
            else ()
        )
        size += len(chosen[kind]) * (1 if named else len(heads)) * math.prod(rows[kind])
    if size > WEIGHTS_LIMIT:
        raise too_many_weights(size)
    return MapChoice(
        chosen["encoder"], chosen["decoder"], chosen["cross"], heads, products=products
    )


def too_many_weights(size: int) -> InvalidRequest:
    return InvalidRequest(
        f"{size:,} weights are over the limit of {WEIGHTS_LIMIT:,}; choose a kind, layer or head."
    )


def select_maps(result: InspectionResult, options: ViewOptions) -> list[MapView]:
    """Returns the selected maps, without `absent_kinds`. Raises InvalidRequest for a layer or head
    that does not exist, and NotFound if none of the kinds does."""
    absent = absent_kinds(result)
    kinds = [kind for kind in KINDS if options.kind in (kind, "all") and kind not in absent]
    if not kinds:
        raise NotFound(RECURRENT)
    if result.effects is not None:
        words = [tuple(word.text for word in side.words) for side in result.sides("cross")]
        return [MapView("cross", result.effects[None, None], (0,), ("effect",), *words)]
    if options.measure == "contributions" and (options.kind != "cross" or options.rollout):
        raise InvalidRequest(
            "Contributions are those of cross-attention: give kind=cross and no rollout with them."
        )
    if options.rollout and absent:
        raise InvalidRequest(f"{RECURRENT} Attention rollout needs them.")
    maps = result.attention.maps
    rolled = rollout(maps.encoder, maps.decoder, maps.cross) if options.rollout else None
    return [_view(result, kind, rolled, options) for kind in kinds]


def absent_kinds(result: InspectionResult) -> dict[Kind, str]:
    """Returns the kinds of maps that the model does not have, with the reason of each."""
    return {"decoder": RECURRENT} if result.maps("decoder").shape[1] == 0 else {}


def _view(
    result: InspectionResult, kind: Kind, rolled: Rollout | None, options: ViewOptions
) -> MapView:
    queries, keys = result.sides(kind)
    raw, products = result.maps(kind), result.attention.maps.value_products
    if options.measure == "contributions":
        summed = options.head == "sum"
        raw = (
            layer_contributions(raw, products)[:, None]
            if summed
            else head_contributions(raw, products)
        )
    layers = _indices("layer", options.layer, raw.shape[0])
    maps, heads = _select_heads(kind, raw[list(layers)], rolled, layers, options)
    if options.level == "word":
        maps = to_words(maps, queries.words, keys.words)
        labels = tuple(word.text for word in queries.words), tuple(word.text for word in keys.words)
    else:
        labels = queries.pieces, keys.pieces
    return MapView(kind, _normalize(maps, options.normalize), layers, heads, *labels)


def _select_heads(
    kind: Kind, raw: Weights, rolled: Rollout | None, layers: tuple[int, ...], options: ViewOptions
) -> tuple[Weights, tuple[int | str, ...]]:
    if rolled is not None:
        stack: Weights = getattr(rolled, kind)
        return stack[list(layers)][:, None], ("rollout",)
    if options.head in REDUCED:
        return getattr(raw, str(options.head))(axis=1, keepdims=True), (options.head,)
    heads = _indices("head", options.head, raw.shape[1])
    return raw[:, list(heads)], heads


def _indices(name: str, choice: int | str, count: int) -> tuple[int, ...]:
    if choice == "all":
        return tuple(range(count))
    chosen = (
        (choice,) if isinstance(choice, int) else tuple(dict.fromkeys(map(int, choice.split(","))))
    )
    if not all(0 <= number < count for number in chosen):
        raise out_of_range(name, count, "this model")
    return chosen


def _normalize(maps: Weights, scale: Scale) -> Weights:
    if scale == "none":
        return np.ascontiguousarray(maps)
    total = (
        maps.sum(axis=-1, keepdims=True)
        if scale == "row"
        else maps.max(axis=(-2, -1), keepdims=True)
    )
    return np.ascontiguousarray(np.divide(maps, total, out=np.zeros_like(maps), where=total > 0))


HIDDEN_LIMIT = 64
"""Largest number of source words whose effects are measured."""


async def with_effects(
    inspector: Inspector,
    result: InspectionResult,
    deadline: float | None = None,
    *,
    caller: Caller = ANYBODY,
) -> InspectionResult:
    """Returns the result with the effects of hiding each source word: the target is scored without
    its pieces. Counts as an attention request. Raises InvalidRequest, Overloaded, TimeoutError."""
    leg, pair = result.subject.leg, result.subject.pair
    hidden = [
        number
        for number, word in enumerate(result.source.words)
        if not word.special and word.text.strip()
    ]
    if not 0 < len(hidden) <= HIDDEN_LIMIT:
        raise InvalidRequest(
            f"Effects are those of 1 to {HIDDEN_LIMIT} words; this sentence has {len(hidden)}."
        )
    options = DecodingOptions(
        target=pair.target,
        masked_heads=result.masked_heads,
        first_token=leg.first_token,
        shortlist=result.subject.shortlist,
    )
    sources = []
    for number in hidden:
        pieces = set(result.source.words[number].pieces)
        sources.append(tuple(id for place, id in enumerate(pair.source) if place not in pieces))
    engine, starts = inspector.translator.engine, [word.pieces[0] for word in result.target.words]
    effects = np.zeros((len(result.target.words), len(result.source.words)), dtype=np.float32)
    async with asyncio.timeout_at(deadline):
        with inspector.admit(caller, deadline, len(pair.source) + len(pair.target)):
            charged = charged_to(caller, len(sources) * len(pair.source_text))
            answers = await gather_or_cancel(
                [engine.answer(leg.model, source, options, charged=charged) for source in sources]
            )
    for number, answer in zip(hidden, answers, strict=True):
        lost = np.subtract(result.attention.maps.token_scores, answer.hypotheses[0].token_scores)
        effects[:, number] = np.add.reduceat(lost, starts)
    return dataclasses.replace(result, effects=effects)
