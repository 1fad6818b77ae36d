"""What importers and exports share: families, the imported model, reading of untrusted files."""

from __future__ import annotations

import contextlib
import fnmatch
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
import yaml
from numpy.typing import NDArray

from model.config import ModelConfig
from model.convert.downloads import Progress
from model.convert.languages import Languages
from model.convert.published import PublishedModel
from model.convert.tensor_names import shapes
from model.model_folder import FolderError, Generation, ImportRefused, TokenizerFiles
from model.shortlist import Shortlist

MAX_TEXT_BYTES = 1_000_000
MAX_VOCABULARY_BYTES = 64_000_000
_MISSING = 0.25
"""Largest share of a SentencePiece model's pieces that its vocabulary may lack."""
SUPPRESSED = -60_000.0
"""Output bias of a forbidden token: far below any logit, and finite in float16."""


Tensors = dict[str, NDArray[Any]]
"""Arrays by name: float32 or float16, where they are those of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A model that was read. `tensors` have the names of our Transformer's state_dict,
    `source_pieces` and `target_pieces` are SentencePiece files, and vocabularies map pieces to ids.
    `language_pieces` maps the languages of a many-language model to the pieces that stand before
    the source and first in the target; with `tagged_by_target` only the target's piece stands
    before the source. With `tagged` False, tags in the vocabulary are not used. Every target begins
    with `first_piece` if it is set. `tokenizer` states all but file names."""

    config: ModelConfig
    tensors: Tensors
    source_pieces: bytes
    target_pieces: bytes
    vocabulary: dict[str, int]
    target_vocabulary: dict[str, int] | None = None
    languages: Languages = (None, None)
    license: str = ""
    generation: Generation = Generation()
    language_pieces: dict[str, str] = field(default_factory=dict)
    tagged_by_target: bool = False
    first_piece: str | None = None
    tagged: bool = True
    tokenizer: TokenizerFiles = TokenizerFiles()
    shortlist: Shortlist | None = None
    scores: dict[str, float] = field(default_factory=dict)


def few(reasons: list[str]) -> list[str]:
    """Returns at most five reasons and the number of the others."""
    return (
        reasons if len(reasons) <= 5 else [*reasons[:5], f"and {len(reasons) - 5} more like these"]
    )


def unreadable(path: Path, error: OSError) -> ImportRefused:
    """Returns the refusal of a file that cannot be read."""
    return ImportRefused(path, [f"the file cannot be read ({error.strerror or error})"])


def read_bytes(path: Path, most: int) -> bytes:
    """Reads a file of at most `most` bytes. Raises ImportRefused."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise unreadable(path, error) from None
    if len(data) > most:
        raise ImportRefused(path, [f"the file is larger than {most} bytes"])
    return data


def read_text(path: Path, most: int = MAX_TEXT_BYTES) -> str:
    """Reads a UTF-8 file. Raises ImportRefused."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError:
        raise ImportRefused(path, ["the file is not UTF-8 text"]) from None


def read_object(
    path: Path, parse: Callable[[str], Any] = json.loads, most: int = MAX_TEXT_BYTES
) -> dict[str, Any]:
    """Reads an object from a JSON file, or from YAML with yaml.safe_load. Raises ImportRefused."""
    text = read_text(path, most)
    try:
        fields = parse(text)
    except (ValueError, RecursionError, yaml.YAMLError):
        raise ImportRefused(path, ["the file is not well-formed"]) from None
    if not isinstance(fields, dict):
        raise ImportRefused(path, ["the file does not hold an object"])
    return fields


def read_optional(path: Path) -> dict[str, Any]:
    """Reads a JSON object; an empty one if there is no file. Raises ImportRefused."""
    return read_object(path) if path.is_file() else {}


def read_sentencepiece(path: Path) -> bytes:
    """Reads a SentencePiece model and checks that it loads. Raises ImportRefused."""
    data = read_bytes(path, MAX_VOCABULARY_BYTES)
    try:
        sentencepiece.SentencePieceProcessor().LoadFromSerializedProto(data)
    except (RuntimeError, ValueError, TypeError):
        raise ImportRefused(path, ["the file is not a SentencePiece model"]) from None
    return data


def check_pieces(path: Path, imported: Imported) -> None:
    """Raises ImportRefused if a vocabulary lacks many pieces of its SentencePiece model: they
    belong to different models."""
    target = imported.target_vocabulary or imported.vocabulary
    for side, data, vocabulary in (
        ("source", imported.source_pieces, imported.vocabulary),
        ("target", imported.target_pieces, target),
    ):
        processor = sentencepiece.SentencePieceProcessor(model_proto=data)
        numbers = range(processor.get_piece_size())
        pieces = [
            processor.id_to_piece(i)
            for i in numbers
            if not processor.is_control(i) and not processor.is_byte(i)
        ]
        missing = sum(piece not in vocabulary for piece in pieces)
        if missing > _MISSING * len(pieces):
            share = f"{missing / len(pieces):.0%}"
            raise ImportRefused(
                path,
                [f"its vocabulary lacks {share} of the pieces of the {side}'s SentencePiece model"],
            )


def check_vocabulary(path: Path, vocabulary: dict[str, Any], size: int) -> dict[str, int]:
    """Returns piece -> id, sorted by id. Raises ImportRefused unless ids are below `size` and
    distinct."""
    ids = list(vocabulary.values())
    if not all(type(i) is int and 0 <= i < size for i in ids):
        raise ImportRefused(
            path,
            [f"the vocabulary has an id that is not an integer below the model's {size} tokens"],
        )
    if len(set(ids)) != len(ids):
        raise ImportRefused(path, ["the vocabulary gives one id to two pieces"])
    for piece in ("</s>", "<unk>"):
        if piece not in vocabulary:
            raise ImportRefused(path, [f"the vocabulary lacks {piece}"])
    return dict(sorted(vocabulary.items(), key=lambda entry: int(entry[1])))


def take_tensors(file: Path, stored: Tensors, names: Mapping[str, str]) -> Tensors:
    """Removes tensors from `stored` and returns them; `names` maps our names to theirs. Raises
    ImportRefused if one is missing."""
    if missing := [f"{theirs} is missing" for theirs in names.values() if theirs not in stored]:
        raise ImportRefused(file, few(missing))
    return {ours: stored.pop(theirs) for ours, theirs in names.items()}


def check_tensors(
    file: Path, config: ModelConfig, tensors: Tensors, left: Iterable[str] = ()
) -> None:
    """Raises ImportRefused unless the tensors have the names and shapes of `config` and are finite
    floating-point numbers, and no tensor is `left` in the files."""
    expected = shapes(config)
    reasons = [
        f"{name} is not a tensor of this architecture"
        for name in [*left, *tensors]
        if name not in expected
    ]
    for name, shape in expected.items():
        tensor = tensors.get(name)
        if tensor is None:
            reasons.append(f"{name} is missing")
        elif tensor.shape != shape:
            reasons.append(f"{name} has shape {tensor.shape}, the settings ask for {shape}")
        elif tensor.dtype not in (np.float32, np.float16):
            reasons.append(f"{name} is {tensor.dtype}, not float32, float16 or bfloat16")
        elif not np.isfinite(tensor).all():
            reasons.append(f"{name} holds numbers that are not finite")
    if reasons:
        raise ImportRefused(file, few(reasons))


def plain_name(path: Path, name: Any) -> str:
    """Returns `name` if it is a plain file name without a path. Raises ImportRefused."""
    if (
        not isinstance(name, str)
        or Path(name).name != name
        or name in ("", ".", "..")
        or "\\" in name
        or "\0" in name
    ):
        raise ImportRefused(path, [f"it names {name!r}, which is not a plain file name"])
    return name


def read_card(path: Path) -> tuple[str, tuple[str, ...]]:
    """Returns licence and languages in the front matter of README.md, empty if not stated."""
    file = path / "README.md"
    if not file.is_file():
        return "", ()
    head, _, rest = read_text(file).partition("---\n")
    matter, closed, _ = rest.partition("\n---")
    fields = None
    if not head.strip() and closed:
        with contextlib.suppress(yaml.YAMLError, RecursionError, ValueError):
            fields = yaml.safe_load(matter)
    if not isinstance(fields, dict):
        return "", ()
    listed, stated = fields.get("language") or [], fields.get("license")
    codes = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    # YAML reads the code of Norwegian, no, as False
    spoken = ("no" if code is False else code for code in codes)
    return stated if isinstance(stated, str) else "", tuple(
        code for code in spoken if isinstance(code, str)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """A list of models outside the hub. `setting` is the server's setting with its address.
    `download` gets the pair, the folder of models and this address, `find_all` the address."""

    prefix: str
    setting: str
    download: Callable[[str, Path, str, Progress | None], AbstractContextManager[tuple[Path, str]]]
    find_all: Callable[[str], Sequence[PublishedModel]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A layout that a model folder can be written in. `write` gets the folder and the output and
    raises FolderError. With `quantizes` it also takes `quantization`, a number format. With
    `one_pair` the output is one file for one pair, and it takes `source`, `target` and
    `language_name`, which returns the name of a code."""

    name: str
    write: Callable[..., None]
    quantizes: bool = False
    one_pair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A family of models. `sign` is the file by which it is recognised, for readers. `read` raises
    ImportRefused with all reasons.

    Each of `needs` lists file names (patterns), the first of which that exists is read; `others`
    are read if they exist. `model_type` is that of Hugging Face's config.json; `models` names
    well-known models.
    """

    sign: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], Imported]
    needs: tuple[tuple[str, ...], ...] = ()
    others: tuple[str, ...] = ()
    model_type: str = ""
    models: str = ""
    publisher: Publisher | None = None
    export: Export | None = None

    def files(self, present: Collection[str]) -> tuple[list[str], list[str]]:
        """Returns the names of the `present` files to read, weights last, and what is missing."""
        needed = [
            next(filter(None, (fnmatch.filter(present, name) for name in names)), [])
            for names in self.needs
        ]
        missing = [
            " or ".join(name for name in names if "-*" not in name)
            for names, files in zip(self.needs, needed, strict=True)
            if not files
        ]
        more = [name for pattern in self.others for name in fnmatch.filter(present, pattern)]
        return list(dict.fromkeys(name for names in (more, *needed) for name in names)), missing


@contextlib.contextmanager
def new_output(output: Path) -> Iterator[None]:
    """Creates the folder `output` and removes it if the block fails. Raises FolderError if it
    exists."""
    try:
        output.mkdir(parents=True)
    except FileExistsError:
        raise FolderError(f"{output} exists already.") from None
    try:
        yield
    except BaseException:
        shutil.rmtree(output)
        raise


def unrepresentable(config: ModelConfig) -> list[str]:
    """Returns what CTranslate2 and Hugging Face's Marian cannot represent."""
    return (
        []
        if config.recurrence == "none"
        else ["a recurrence in place of the decoder's self-attention"]
    )
