"""The models that are served and the ways from one language to another through them. Immutable: a reload makes a new
one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from model.tokenizer import Tokenizer
from server.errors import UnsupportedLanguage
from server.text.language_id import resolve_language_code

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model folder as the API process knows it: everything but the weights. `max_length` is in source tokens,
    `bytes` the size of the weight files; `version` changes with the folder's content."""

    name: str
    folder: Path
    pairs: tuple[tuple[str, str], ...]
    license: str
    max_length: int
    tokenizer: Tokenizer
    version: str = ""
    bytes: int = 0

    @property
    def key(self) -> str:
        """What the workers and the history call this content of the folder."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Leg:
    """One step of a route: a model and the two languages it is used between."""

    model: ServedModel
    source: str
    target: str


class ModelCatalog:
    """Languages, pairs and routes of a set of models. Where several serve a pair, the first by name does.

    A pair without a model goes over one language in between, English if it can.
    """

    def __init__(self, models: Iterable[ServedModel]) -> None:
        self.models = tuple(sorted(models, key=lambda model: model.name))
        self._direct: dict[tuple[str, str], ServedModel] = {}
        for model in self.models:
            for pair in model.pairs:
                self._direct.setdefault(pair, model)
        self.sources = tuple(sorted({source for source, _ in self._direct}))
        self.languages = tuple(sorted({language for pair in self._direct for language in pair}))
        self._targets = {source: self._reachable(source) for source in self.sources}

    def targets(self, source: str) -> tuple[str, ...]:
        """Languages that a source can be translated to, through a pivot or not; itself included."""
        return self._targets.get(source, ())

    def source(self, code: str) -> str:
        """The served source language that a caller's code means. Raises UnsupportedLanguage."""
        if (language := resolve_language_code(code, self.sources)) is None:
            raise UnsupportedLanguage(
                f"{printable_code(code)} is not supported as source language; served: {', '.join(self.sources)}."
            )
        return language

    def target(self, code: str) -> str:
        """The served target language that a caller's code means. Raises UnsupportedLanguage."""
        if (language := resolve_language_code(code, self.languages)) is None:
            raise UnsupportedLanguage(
                f"{printable_code(code)} is not supported as target language; served: {', '.join(self.languages)}."
            )
        return language

    def route(self, source: str, target: str) -> tuple[Leg, ...]:
        """The legs from one served language to another: none for the same, one, or two through a pivot.

        Raises UnsupportedLanguage where no way exists.
        """
        if source == target:
            return ()
        if model := self._direct.get((source, target)):
            return (Leg(model, source, target),)
        for pivot in sorted(self.languages, key=lambda language: (language != "en", language)):
            first, second = self._direct.get((source, pivot)), self._direct.get((pivot, target))
            if first and second:
                return Leg(first, source, pivot), Leg(second, pivot, target)
        goals = ", ".join(self.targets(source)) or "nothing"
        raise UnsupportedLanguage(f"There is no model for {source} to {target}; {source} goes to {goals}.")

    def model(self, key: str) -> ServedModel | None:
        """The model with that key, or None where it is not served, or no longer with that content."""
        return next((model for model in self.models if model.key == key), None)

    def _reachable(self, source: str) -> tuple[str, ...]:
        near = {target for start, target in self._direct if start == source}
        far = {target for start, target in self._direct if start in near}
        return tuple(sorted(near | far | {source}))


def printable_code(code: str) -> str:
    """A caller's language code as an error message repeats it: short and printable."""
    printable = "".join(character for character in code[:20] if character.isprintable())
    return repr(printable)
