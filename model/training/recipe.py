"""The recipe of one training: a small TOML file that is kept beside the model it made."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any


class RecipeError(ValueError):
    """The recipe cannot be used; the message says which key to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRecipe:
    """What is read. `files` are `source TAB english TAB other` .tsv or .tsv.xz files named NAME.en-XX or en-XX[.more];
    `weights` is how often a pair of a source is seen per epoch ("source" or "source:language", `default_weight` for the rest);
    `directions` scales each direction ("en-de"), `temperature` brings small directions up (see `sampling`); `augment` holds
    rates of the robustness variants (see `augment`); pairs of the sources in `formality` always carry their form of address
    where it is sure. `domains` names groups of sources for the table of `plan`."""

    files: tuple[str, ...] = ()
    development: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: float = 1.0
    directions: dict[str, float] = field(default_factory=dict)
    temperature: float = 1.0
    max_tokens: int = 100
    max_ratio: float = 2.5
    augment: dict[str, float] = field(default_factory=dict)
    formality: tuple[str, ...] = ()
    domains: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyRecipe:
    """Joint SentencePiece vocabulary with byte fallback and `model.symbols`; `sentences` bounds the sample it is trained
    on. `start` is a model folder whose vocabulary is taken instead, with the symbols that it lacks added at its end."""

    start: str | None = None
    size: int = 8000
    sentences: int = 1_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRecipe:
    """How it is trained. `start` is a model folder to start from instead of random weights. `schedule` "noam" is the
    paper's (equation 3), "wsd" warms up, stays and decays to zero over the last `decay` share of `steps` (or of `minutes`
    where that ends earlier). `rate` is the peak rate of "wsd" for Adam, `matrix_rate` Muon's. `batch_tokens` counts padded
    target tokens of one optimiser step over all its `accumulate` parts. `minutes` counts everything from the first step
    on, validation included. Widths of batches are multiples of `align`, which suits a GPU's kernels; 0 takes divisors of
    the part's tokens, so that a CPU multiplies matrices of one shape only.

    `fresh` names parameters, by the beginnings of their names, that are not taken from `start`. `query_key_rate` is the
    rate at which Adam updates the projections of queries and keys beside "muon"; None leaves them to Muon. `logit_bound`
    bounds attention logits every `logit_steps` steps (see `qk_clip`), 0 does not. `attention_dropout` is the share of
    attention weights that are dropped in training. `hidden_ends` is the share of sentences whose first token (the language
    tag) the encoder's heads do not see in training, and likewise their last (the end of the sentence): heads that learn
    nothing else settle there."""

    start: str | None = None
    fresh: tuple[str, ...] = ()
    optimizer: str = "adam"
    schedule: str = "noam"
    rate: float = 1e-3
    matrix_rate: float = 0.02
    query_key_rate: float | None = None
    logit_bound: float = 0.0
    logit_steps: int = 8
    attention_dropout: float = 0.0
    hidden_ends: float = 0.0
    weight_decay: float = 0.0
    warmup: int = 4000
    decay: float = 0.2
    steps: int = 100_000
    minutes: float | None = None
    batch_tokens: int = 25_000
    accumulate: int = 1
    align: int = 0
    label_smoothing: float = 0.1
    clip: float = 1.0
    checkpoint_minutes: float = 10.0
    keep: int = 5
    validate_minutes: float = 30.0
    validate_sentences: int = 200
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """All of it; `model` holds ModelConfig's fields on top of a `preset`."""

    name: str
    languages: tuple[str, ...]
    preset: str
    model: dict[str, Any]
    data: DataRecipe
    vocabulary: VocabularyRecipe
    train: TrainRecipe

    @property
    def directions(self) -> list[tuple[str, str]]:
        """All directions between English and each other language."""
        others = [language for language in self.languages if language != "en"]
        return [pair for other in others for pair in (("en", other), (other, "en"))]


def load_recipe(path: Path, data: Path | None = None) -> Recipe:
    """Read and validate a recipe; its file names are relative to `data` (the current folder if None).

    Raises RecipeError naming the wrong key.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path.name} is not TOML: {error}.") from None
    known = {"name", "languages", "preset", "model", "data", "vocabulary", "train"}
    if unknown := sorted(set(table) - known):
        raise RecipeError(f"{path.name} has unknown keys: {', '.join(unknown)}.")
    for key in ("name", "languages"):
        if key not in table:
            raise RecipeError(f"{path.name} lacks {key}.")
    return Recipe(
        name=str(table["name"]),
        languages=tuple(table["languages"]),
        preset=str(table.get("preset", "base")),
        model=dict(table.get("model", {})),
        data=_located(_section(DataRecipe, table.get("data", {}), "data"), data or Path()),
        vocabulary=_section(VocabularyRecipe, table.get("vocabulary", {}), "vocabulary"),
        train=_section(TrainRecipe, table.get("train", {}), "train"),
    )


def _located(recipe: DataRecipe, data: Path) -> DataRecipe:
    files, development = (tuple(str(data / name) for name in names) for names in (recipe.files, recipe.development))
    return replace(recipe, files=files, development=development)


def _section(kind: Any, table: dict[str, Any], name: str) -> Any:
    known = {item.name for item in fields(kind)}
    if unknown := sorted(set(table) - known):
        raise RecipeError(f"[{name}] has unknown keys: {', '.join(unknown)}.")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})
