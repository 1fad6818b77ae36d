"""The recipe of a training: a TOML file, which is also packaged with the model."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from model.config import PRESETS, ConfigError, ModelConfig
from model.model_folder import Generation, check_segment_length

FROM_VOCABULARY = {"vocab_size", "pad_id", "unk_id", "bos_id", "eos_id", "decoder_start_id"}
"""Fields of ModelConfig that the vocabulary sets."""


class RecipeError(ValueError):
    """The recipe or its folder cannot be used. The message names the key, file or folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRecipe:
    """Section [data]: the sentence pairs.

    - `files`: .tsv or .tsv.xz files of lines `source TAB english TAB other`, named NAME.en-XX or
      en-XX[.more].
    - `development`: files for validation, which may have lines `english TAB other`.
    - `weights`: how often a pair of a source is used per epoch; `default_weight` for other sources.
    - `temperature`: above 1, small directions are repeated more often (`sampling_rates`).
    - `max_tokens`: longer pairs are left out, and those of very unequal lengths.
    - `augment`: the share of pairs for each kind of `Augmenter`.
    - `formality`: sources whose pairs always get the symbol of a certain form of address.
    - `back_translated`: sources with texts that a model wrote, and their only direction, such as
      "en-de". Their inputs begin with BACK_TRANSLATED.
    - `one_way`: further sources with their only direction, such as dictionaries.
    """

    files: tuple[str, ...] = ()
    development: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: float = 1.0
    temperature: float = 1.0
    max_tokens: int = 100
    augment: dict[str, float] = field(default_factory=dict)
    formality: tuple[str, ...] = ()
    back_translated: dict[str, str] = field(default_factory=dict)
    one_way: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyRecipe:
    """Section [vocabulary]: a joint SentencePiece vocabulary with byte fallback and
    `model.symbols`. `size` is the number of pieces, `sentences` the largest number of sentences it
    is trained on. With `start`, a model folder, its vocabulary is used instead."""

    start: str | None = None
    size: int = 8000
    sentences: int = 1_500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainRecipe:
    """Section [train]: optimisation, budget, checkpoints and validation (docs/training.md).

    - `start`: a model folder with the initial weights; random weights without it.
    - `optimizer`: "adam" or "muon" (`build_optimizers`).
    - `schedule`: "noam" is the paper's equation 3. "wsd" warms up for `warmup` steps, stays
      constant, and decays to zero over the last `decay` share of the budget. "linear" warms up, and
      falls linearly to zero over the whole budget.
    - `rate`: Adam's peak rate in "wsd" and "linear"; `matrix_rate`: Muon's.
    - `query_key_rate`: with "muon", Adam's rate for query and key projections; without it Muon
      updates them.
    - `logit_bound`: limit of attention logits (`QKClip`), applied every `logit_steps` steps; 0 for
      none.
    - `hidden_ends`: the share of sentences whose first token the encoder's heads cannot attend to,
      and likewise the last. Heads that learn nothing else attend to these.
    - `steps`, `minutes`: the budget, which ends with either. Minutes include validation.
    - `batch_tokens`: padded target tokens of one optimiser step.
    - `align`: batch widths are multiples of it; 8 suits a GPU.
    - `checkpoint_minutes`, `validate_minutes`: intervals; `keep`: number of checkpoints kept.
    - `validate_sentences`: sentences per development file and direction.
    """

    start: str | None = None
    optimizer: str = "adam"
    schedule: str = "noam"
    rate: float = 1e-3
    matrix_rate: float = 0.02
    query_key_rate: float | None = None
    logit_bound: float = 0.0
    logit_steps: int = 8
    hidden_ends: float = 0.0
    weight_decay: float = 0.0
    warmup: int = 4000
    decay: float = 0.2
    steps: int = 100_000
    minutes: float | None = None
    batch_tokens: int = 25_000
    align: int = 2
    label_smoothing: float = 0.1
    checkpoint_minutes: float = 10.0
    keep: int = 5
    validate_minutes: float = 30.0
    validate_sentences: int = 200
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A whole recipe. `model` has fields of ModelConfig that replace those of `preset`.
    `segment_length` and `generation` are those of the packaged model folder."""

    name: str
    languages: tuple[str, ...]
    preset: str
    model: dict[str, Any]
    data: DataRecipe
    vocabulary: VocabularyRecipe
    train: TrainRecipe
    segment_length: int = 0
    preference: int = 0
    generation: Generation = Generation()

    @property
    def directions(self) -> list[tuple[str, str]]:
        """All directions between English and each other language."""
        others = [language for language in self.languages if language != "en"]
        return [pair for other in others for pair in (("en", other), (other, "en"))]

    def model_config(self, processor: Any) -> ModelConfig:
        """Returns the model's shape with the sizes and ids of a SentencePiece vocabulary."""
        return PRESETS[self.preset](
            processor.get_piece_size(),
            **self.model,
            pad_id=processor.pad_id(),
            unk_id=processor.unk_id(),
            bos_id=processor.bos_id(),
            eos_id=processor.eos_id(),
            decoder_start_id=processor.bos_id(),
        )


def load_recipe(path: Path, data: Path | None = None) -> Recipe:
    """Reads and checks a recipe. Its file names are relative to `data`, by default the current
    folder. Raises RecipeError or another ValueError, which names the wrong key, and OSError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise RecipeError(f"{path.name} is not TOML: {error}.") from None
    _check_keys(table, {item.name for item in fields(Recipe)}, path.name)
    for key in ("name", "languages"):
        if key not in table:
            raise RecipeError(f"{path.name} lacks {key}.")
    pairs, folder = _section(DataRecipe, table.get("data", {}), "data"), data or Path()
    recipe = Recipe(
        name=str(table["name"]),
        languages=tuple(table["languages"]),
        preset=str(table.get("preset", "base")),
        model=dict(table.get("model", {})),
        data=replace(
            pairs,
            files=tuple(str(folder / name) for name in pairs.files),
            development=tuple(str(folder / name) for name in pairs.development),
        ),
        vocabulary=_section(VocabularyRecipe, table.get("vocabulary", {}), "vocabulary"),
        train=_section(TrainRecipe, table.get("train", {}), "train"),
        segment_length=table.get("segment_length", 0),
        preference=table.get("preference", 0),
        generation=_section(Generation, table.get("generation", {}), "generation"),
    )
    _check_shape(recipe)
    _check_directions(recipe)
    return recipe


def _check_shape(recipe: Recipe) -> None:
    if recipe.preset not in PRESETS:
        raise RecipeError(f"preset must be one of {', '.join(PRESETS)}, not {recipe.preset!r}.")
    _check_keys(
        recipe.model, {item.name for item in fields(ModelConfig)} - FROM_VOCABULARY, "[model]"
    )
    try:
        shape = PRESETS[recipe.preset](recipe.vocabulary.size, **recipe.model)
    except ConfigError as error:
        raise RecipeError(f"[model]: {error}") from None
    for key in ("align", "logit_steps"):
        if (value := getattr(recipe.train, key)) < 1:
            raise RecipeError(f"[train] {key} must be at least 1, not {value}.")
    check_segment_length(recipe.segment_length, shape.max_length)


def _check_directions(recipe: Recipe) -> None:
    """Raises RecipeError for an unknown direction, and for a source that has two."""
    directions = ["-".join(pair) for pair in recipe.directions]
    data = recipe.data
    for key, sources in (("one_way", data.one_way), ("back_translated", data.back_translated)):
        if unknown := sorted(set(map(str, sources.values())) - set(directions)):
            raise RecipeError(
                f"[data.{key}] has {unknown[0]!r}, which is none of the directions "
                f"{', '.join(directions)}."
            )
    if both := sorted(data.one_way.keys() & data.back_translated.keys()):
        raise RecipeError(
            f"{both[0]} is in [data.one_way] and in [data.back_translated]; leave one out."
        )


def _section(kind: Any, table: dict[str, Any], name: str) -> Any:
    _check_keys(table, {item.name for item in fields(kind)}, f"[{name}]")
    return kind(
        **{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    )


def _check_keys(table: dict[str, Any], names: set[str], where: str) -> None:
    if unknown := sorted(set(table) - names):
        raise RecipeError(f"{where} has unknown keys: {', '.join(unknown)}.")
