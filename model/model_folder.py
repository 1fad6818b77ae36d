"""Model folders on disk: config.json and tokenizer files. Imports no torch."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from model.config import ConfigError, ModelConfig
from model.tokenizer import Tokenizer, load_vocabulary

FORMAT = 1
SHORTLIST = "shortlist.safetensors"
"""The file of `model.shortlist`, which has no weights."""
MAX_BEAM = 32
MAX_LENGTH_PENALTY = 5
"""Largest values of a model and of a request."""
MAX_FORBIDDEN = 256
_MAX_CONFIG_BYTES = 1_000_000
LengthNormalization = Literal["gnmt", "average"]


def let_others_read(file: Path) -> None:
    """Makes a file readable for all users: safetensors writes files that only their owner can read,
    and the server in a container is another user."""
    file.chmod(0o644)


class FolderError(ValueError):
    """A model folder cannot be used. The message is one sentence with the reason. A `final` error
    would recur at another try."""

    final = False


class ImportRefused(FolderError):
    """A model cannot be imported. `reasons` lists why; the message is one sentence."""

    final = True

    def __init__(self, path: Path, reasons: Sequence[str]) -> None:
        super().__init__(f"{path} cannot be imported: {'; '.join(reasons)}.")
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class AllPairs(Collection[tuple[str, str]]):
    """Every pair of a source and another target: 200 languages make 39,800 pairs."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __contains__(self, pair: object) -> bool:
        if not isinstance(pair, tuple) or len(pair) != 2:
            return False
        source, target = pair
        return source != target and source in self.sources and target in self.targets

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return (
            (source, target)
            for source in self.sources
            for target in self.targets
            if source != target
        )

    def __len__(self) -> int:
        return len(self.sources) * len(self.targets) - len(set(self.sources) & set(self.targets))


Pairs = tuple[tuple[str, str], ...] | AllPairs


def targets_by_source(pairs: Pairs) -> dict[str, frozenset[str]]:
    """Returns source -> targets. The sets of AllPairs are one object, and contain the source
    itself."""
    if isinstance(pairs, AllPairs):
        return dict.fromkeys(pairs.sources, frozenset(pairs.targets))
    by_source: dict[str, set[str]] = {}
    for source, target in pairs:
        by_source.setdefault(source, set()).add(target)
    return {source: frozenset(targets) for source, targets in by_source.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerFiles:
    """File names inside the folder, and what a source has around its pieces. `vocabulary` maps
    pieces to ids if they differ from SentencePiece's ids."""

    source: str = "tokenizer.model"
    target: str = "tokenizer.model"
    vocabulary: str | None = None
    target_vocabulary: str | None = None
    source_start: bool = False
    """The source begins with `bos_id`; such a model has no tags."""
    source_end: bool = True
    added: dict[str, str] = field(default_factory=dict)
    trailing_space: bool = False
    """`added` and `trailing_space` of `model.tokenizer.Tokenizer`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """How a model is meant to be decoded (generation_config.json of Hugging Face).

    `beam_size` is the width for requests that set none, 0 if the model states none; likewise
    `length_penalty`, None if it states none, with its `normalization`, `early_stopping`,
    `shrinking_beam` and `no_repeat_ngram_size` (all of `model.search.options`). `beam_threshold` is
    the pruning of `model.search.beam` in nats, None for none. `forbidden` tokens are never chosen,
    but keep their part of the distribution. With `forced_end` a target that reaches the maximum
    length ends there with the end of sentence, whose log-probability counts as 0.
    """

    beam_size: int = 0
    length_penalty: float | None = None
    beam_threshold: float | None = None
    forbidden: tuple[int, ...] = ()
    forced_end: bool = False
    normalization: LengthNormalization = "gnmt"
    early_stopping: bool = False
    no_repeat_ngram_size: int = 0
    shrinking_beam: bool = False

    def __post_init__(self) -> None:
        if type(self.beam_size) is not int or not 0 <= self.beam_size <= MAX_BEAM:
            raise ValueError(
                f"generation.beam_size must be an integer from 0 to {MAX_BEAM}, not "
                f"{self.beam_size!r}."
            )
        alpha = self.length_penalty
        if alpha is not None and (
            type(alpha) not in (int, float) or not 0 <= alpha <= MAX_LENGTH_PENALTY
        ):
            raise ValueError(
                f"length_penalty must be a number from 0 to {MAX_LENGTH_PENALTY}, not {alpha!r}."
            )
        nats = self.beam_threshold
        if nats is not None and (type(nats) not in (int, float) or not nats >= 0):
            raise ValueError(f"beam_threshold must be a number of at least 0, not {nats!r}.")
        if len(self.forbidden) > MAX_FORBIDDEN or not all(
            type(i) is int and i >= 0 for i in self.forbidden
        ):
            raise ValueError(f"generation.forbidden must be a list of at most {MAX_FORBIDDEN} ids.")
        for flag in (self.forced_end, self.early_stopping, self.shrinking_beam):
            if type(flag) is not bool:
                raise ValueError(f"A flag of generation must be true or false, not {flag!r}.")
        size = self.no_repeat_ngram_size
        if self.normalization not in ("gnmt", "average") or type(size) is not int or size < 0:
            raise ValueError(
                f"generation has normalization {self.normalization!r} and no_repeat_ngram_size "
                f"{size!r}."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFolder:
    """Contents of config.json. `pairs` are (source, target) codes.

    Three mappings name the piece of each language. `tags` of the target language and `source_tags`
    of the source language stand before the source. `first_tokens` of the target language are forced
    at the beginning of the target; texts and scores leave them out.

    `formality` lists the target languages for which the model was trained with the symbols of the
    form of address. `segment_length` is the number of source tokens beyond which a sentence is
    divided, 0 for no limit but the model's.
    """

    path: Path
    name: str
    model: ModelConfig
    pairs: Pairs
    tags: dict[str, str]
    license: str
    origin: str
    tokenizer: TokenizerFiles
    generation: Generation = Generation()
    source_tags: dict[str, str] = field(default_factory=dict)
    first_tokens: dict[str, str] = field(default_factory=dict)
    formality: tuple[str, ...] = ()
    segment_length: int = 0
    preference: int = 0
    """Of several models with a language pair, the one with the largest number is used."""
    scores: dict[str, float] = field(default_factory=dict)
    """BLEU ("bleu") and COMET ("comet") on FLORES, as the publisher states them."""

    def __post_init__(self) -> None:
        check_segment_length(self.segment_length, self.model.max_length)

    @property
    def languages(self) -> tuple[str, ...]:
        """All language codes of the pairs, sorted."""
        if isinstance(self.pairs, AllPairs):
            return tuple(sorted({*self.pairs.sources, *self.pairs.targets}))
        return tuple(sorted({code for pair in self.pairs for code in pair}))

    def load_tokenizer(self) -> Tokenizer:
        """Raises FolderError if its files are missing or broken."""
        files = self.tokenizer
        try:
            return Tokenizer(
                self.path / files.source,
                self.path / files.target,
                vocabulary=None
                if files.vocabulary is None
                else load_vocabulary(self.path / files.vocabulary),
                target_vocabulary=(
                    None
                    if files.target_vocabulary is None
                    else load_vocabulary(self.path / files.target_vocabulary)
                ),
                tags=self.tags,
                source_tags=self.source_tags,
                first_tokens=self.first_tokens,
                unk_id=self.model.unk_id,
                eos_id=self.model.eos_id,
                prepend=(self.model.bos_id,) if files.source_start else (),
                append_end=files.source_end,
                added=files.added,
                trailing_space=files.trailing_space,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise FolderError(
                f"The tokenizer of {self.path.name} cannot be read: {error}"
            ) from None

    def to_json(self) -> str:
        """Returns the text of config.json."""
        fields = {
            "format": FORMAT,
            "name": self.name,
            "license": self.license,
            "origin": self.origin,
            "pairs": pairs_to_json(self.pairs),
            "tags": self.tags,
            **({"source_tags": self.source_tags} if self.source_tags else {}),
            **({"first_tokens": self.first_tokens} if self.first_tokens else {}),
            **({"formality": list(self.formality)} if self.formality else {}),
            **({"segment_length": self.segment_length} if self.segment_length else {}),
            **({"preference": self.preference} if self.preference else {}),
            **({"scores": self.scores} if self.scores else {}),
            "tokenizer": asdict(self.tokenizer),
            **({"generation": asdict(self.generation)} if self.generation != Generation() else {}),
            "model": asdict(self.model),
        }
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def read_folder(path: Path) -> ModelFolder:
    """Reads and validates config.json of a model folder. Raises FolderError."""
    file = path / "config.json"
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise FolderError(f"{file} cannot be read: {error.strerror or error}.") from None
    if len(data) > _MAX_CONFIG_BYTES:
        raise FolderError(f"{file} is larger than {_MAX_CONFIG_BYTES} bytes.")
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FolderError(f"{file} is not JSON: {error}.") from None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise FolderError(
            f"{file} is not a model folder of format {FORMAT}; import it with `attentive import`."
        )
    try:
        return ModelFolder(
            path=path,
            name=_text(fields, "name"),
            model=ModelConfig.from_dict(fields.get("model")),
            pairs=pairs_from_json(fields["pairs"]),
            tags=_pieces(fields, "tags"),
            source_tags=_pieces(fields, "source_tags"),
            first_tokens=_pieces(fields, "first_tokens"),
            formality=tuple([str(language) for language in fields.get("formality", ())]),
            segment_length=fields.get("segment_length", 0),
            preference=int(fields.get("preference", 0)),
            scores={str(name): float(score) for name, score in fields.get("scores", {}).items()},
            license=_text(fields, "license"),
            origin=_text(fields, "origin"),
            tokenizer=read_tokenizer_files(fields.get("tokenizer", {})),
            generation=read_generation(fields.get("generation", {})),
        )
    except (ConfigError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise FolderError(f"{file} is invalid: {error}") from None


def check_segment_length(length: object, max_length: int) -> None:
    """Raises ValueError for a `segment_length` that a model of this `max_length` cannot have."""
    if type(length) is not int or not 0 <= length <= max_length:
        raise ValueError(
            f"segment_length must be an integer from 0 to {max_length}, not {length!r}."
        )


def find_folders(root: Path) -> list[Path]:
    """Returns the model folders directly under `root`, sorted by name, or `root` itself if it is
    one."""
    if (root / "config.json").is_file():
        return [root]
    if not root.is_dir():
        raise FolderError(
            f"The weights folder {root} {'is a file' if root.exists() else 'does not exist'}."
        )
    return sorted(path for path in root.iterdir() if (path / "config.json").is_file())


def pairs_to_json(pairs: Pairs) -> Any:
    """Returns the pairs as in config.json: a list, or the sources and targets of AllPairs."""
    if isinstance(pairs, AllPairs):
        return {"sources": list(pairs.sources), "targets": list(pairs.targets)}
    return [list(pair) for pair in pairs]


def pairs_from_json(value: Any) -> Pairs:
    """Inverse of `pairs_to_json`. Raises KeyError, TypeError or ValueError."""
    if isinstance(value, dict):
        return AllPairs(
            *(tuple(dict.fromkeys(map(str, value[side]))) for side in ("sources", "targets"))
        )
    return tuple((str(source), str(target)) for source, target in value)


def _pieces(fields: dict[str, Any], key: str) -> dict[str, str]:
    return {str(language): str(piece) for language, piece in fields.get(key, {}).items()}


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise FolderError(f"{key} must be a string.")
    return value


def read_generation(fields: dict[str, Any]) -> Generation:
    """Returns the section `generation` of config.json. Raises TypeError or ValueError."""
    return Generation(**{**fields, "forbidden": tuple(fields.get("forbidden", ()))})


def read_tokenizer_files(fields: dict[str, Any]) -> TokenizerFiles:
    """Returns the section `tokenizer` of config.json. Raises TypeError or FolderError."""
    files = TokenizerFiles(**fields)
    if not isinstance(files.added, dict) or not all(
        token and type(letters) is str and set(letters) <= set("lrws")
        for token, letters in files.added.items()
    ):
        raise FolderError(
            "The added tokens of the tokenizer must map tokens to letters of l, r, w and s."
        )
    for flag in (files.source_start, files.source_end, files.trailing_space):
        if type(flag) is not bool:
            raise FolderError(f"A flag of the tokenizer must be true or false, not {flag!r}.")
    for name in (files.source, files.target, files.vocabulary, files.target_vocabulary):
        # A name from a downloaded folder must not point outside it.
        if name is not None and (
            not isinstance(name, str) or Path(name).name != name or name in ("", ".", "..")
        ):
            raise FolderError(f"The tokenizer file name {name!r} must be a plain file name.")
    return files
