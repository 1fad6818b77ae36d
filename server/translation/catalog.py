"""The served models and the routes between languages. Catalogs are immutable; a reload creates a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from model.tokenizer import Tokenizer
from server.errors import UnsupportedLanguage
from server.text.language_id import resolve_language_code

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model folder without its weights. `max_length` is in source tokens and `bytes` is the size of the weight files.
    `version` changes with the content of the folder, and `key` identifies this content for the workers and the history.
    """

    name: str
    folder: Path
    pairs: tuple[tuple[str, str], ...]
    license: str
    max_length: int
    tokenizer: Tokenizer
    version: str = ""
    bytes: int = 0
    beam_size: int = 1
    """Beam width of requests that set none, if the server sets none either."""
    key: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.name}@{self.version}")


@dataclass(frozen=True, slots=True)
class Leg:
    """One step of a route: a model, its source language and its target language."""

    model: ServedModel
    source: str
    target: str


class ModelCatalog:
    """Languages, pairs and routes of a set of models. If several models have a pair, the first by name is used.

    A pair without a model is translated through one pivot language, English if possible.
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
        """Returns the languages that a source can be translated to, directly or through a pivot. It includes the
        source."""
        return self._targets.get(source, ())

    def source(self, code: str) -> str:
        """Returns the served source language for a caller's code. Raises UnsupportedLanguage."""
        if code in self.sources:
            return code
        if (language := resolve_language_code(code, self.sources)) is None:
            raise UnsupportedLanguage(
                f"{printable_code(code)} is not supported as source language; served: {', '.join(self.sources)}."
            )
        return language

    def target(self, code: str) -> str:
        """Returns the served target language for a caller's code. Raises UnsupportedLanguage."""
        if code in self.languages:
            return code
        if (language := resolve_language_code(code, self.languages)) is None:
            raise UnsupportedLanguage(
                f"{printable_code(code)} is not supported as target language; served: {', '.join(self.languages)}."
            )
        return language

    def route(self, source: str, target: str) -> tuple[Leg, ...]:
        """Returns the legs from one served language to another: none for the same language, one, or two through a
        pivot.

        Raises UnsupportedLanguage if there is no route.
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

    def stated_beam(self, source: str, target: str) -> int:
        """Returns the beam width that the model between two codes states, or the widest one of all models if the codes
        need to be resolved or detected first."""
        direct = self._direct.get((source, target))
        return direct.beam_size if direct else max((model.beam_size for model in self.models), default=1)

    def model(self, key: str) -> ServedModel | None:
        """Returns the model with that key, or None if no served model has that name and content."""
        return next((model for model in self.models if model.key == key), None)

    def _reachable(self, source: str) -> tuple[str, ...]:
        near = {target for start, target in self._direct if start == source}
        far = {target for start, target in self._direct if start in near}
        return tuple(sorted(near | far | {source}))


def printable_code(code: str) -> str:
    """Returns a caller's language code for an error message: shortened, without control characters, quoted."""
    printable = "".join(character for character in code[:20] if character.isprintable())
    return repr(printable)
