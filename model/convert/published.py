"""Models that others publish, by name, as a list that needs no network (published.json).

A name is the prefix of a list and a pair, a model of the Hugging Face hub (owner/name), its
address, or a pair such as en-de, which stands for the best model of the list. Lists are in order of
preference. Those whose prefix ends with a slash are not on the hub: the server's `setting` has the
address of the newest list. `models` has pairs with the bytes of the weights, BLEU and COMET;
`targets` has the target languages of each source language.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from model.convert.languages import language_code
from model.model_folder import FolderError, read_folder

_LISTS: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PREFIXES = tuple(_LISTS)
"""What stands before the pair in names, the best list first."""
EXAMPLES = ", ".join(f"{prefix}en-de" for prefix in PREFIXES)
"""A full name of each list."""
LISTS: dict[str, tuple[str, str]] = {
    listed["setting"]: (listed["address"], f"Address of {listed['about']}.")
    for listed in _LISTS.values()
    if "setting" in listed
}
"""Setting -> address of its list, and its text in `--help`."""
_OWN = tuple(prefix for prefix in PREFIXES if prefix.endswith("/"))
_HUB_OWNER = next(prefix for prefix in PREFIXES if prefix not in _OWN).partition("/")[0] + "/"
_PAIR = re.compile(r"[A-Za-z]{2,3}(?:_[A-Za-z]{2,4})?-[A-Za-z]{2,3}(?:[_-][A-Za-z]{2,4})?")
_PART = r"[A-Za-z0-9][\w.-]*"
_HUB = re.compile(
    rf"(?:https?://(?:huggingface\.co|hf\.co)/)?({_PART}/{_PART})(?:/(?:tree/main/?)?)?"
)


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """A model for one pair in our codes. `bytes` is the size of its weights, 0 if unknown. `scores`
    are its publisher's on FLORES: "bleu" and "comet"."""

    name: str
    source: str
    target: str
    publisher: str
    license: str
    bytes: int = 0
    scores: dict[str, float] = field(default_factory=dict)


@cache
def published_models() -> tuple[PublishedModel, ...]:
    """Returns the models of published.json, those of the best publisher first."""
    models = []
    for prefix, listed in _LISTS.items():
        rows = [row.split() for row in listed.get("models", ())]
        rows += [
            [f"{source}-{target}"]
            for source, *targets in map(str.split, listed.get("targets", ()))
            for target in targets
        ]
        for pair, *numbers in rows:
            size, *scores = numbers or ("0",)
            known = dict(zip(("bleu", "comet"), map(float, scores), strict=False))
            who = listed["publisher"], listed["license"]
            models.append(PublishedModel(prefix + pair, *codes(pair), *who, int(size), known))
    return tuple(models)


def codes(pair: str) -> tuple[str, str]:
    """Returns our codes of a pair such as en-zh_hant."""
    source, _, target = pair.partition("-")
    return language_code(source), language_code(target)


def pair_of(name: str) -> tuple[str, str] | None:
    """Returns the pair in a full name in our codes; None for models of several languages."""
    rest = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), "")
    return codes(rest) if _PAIR.fullmatch(rest) else None


def full_name(name: str) -> str:
    """Returns a model's name without the hub's address; for a pair the name of its best model.
    Raises FolderError for an invalid name."""
    if _PAIR.fullmatch(name):
        best = (
            model.name
            for model in published_models()
            if (model.source, model.target) == codes(name)
        )
        return next(best, PREFIXES[0] + name)  # it may have been published since
    hub = _HUB.fullmatch(name)
    if not hub or (publisher_of(name) and pair_of(name) is None):
        raise FolderError(
            f"{name!r} is not the name of a model: en-de, {EXAMPLES}, or another model of the hub."
        )
    return hub[1]


def folder_of(name: str) -> str:
    """Returns the folder name for a full name: LIST-en-de, opus-mt-en-de, or team--opus-mt-en-de
    for an owner that has no list."""
    if publisher_of(name):
        return name.replace("/", "-").replace("_", "-")
    return name.removeprefix(_HUB_OWNER).replace("/", "--")


def folder_in(weights: Path, name: str) -> str:
    """Returns `folder_of`, or the name without the owner if an earlier version wrote that
    folder."""
    short = name.rpartition("/")[2]
    try:
        origin = read_folder(weights / short).origin
    except (FolderError, OSError):
        return folder_of(name)
    return short if origin.startswith(f"https://huggingface.co/{name}/") else folder_of(name)


def publisher_of(name: str) -> str:
    """Returns the prefix of a list, "" for the hub."""
    return next((prefix for prefix in _OWN if name.startswith(prefix)), "")
