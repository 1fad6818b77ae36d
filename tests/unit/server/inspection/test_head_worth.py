"""What heads are worth is measured at the first look at a model, once, and never by an import."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from model.analysis.head_roles import HeadRoles
from model.head_roles import measure, open_exact
from model.model_folder import read_folder
from server.inspection import head_worth
from server.inspection.head_worth import HeadWorth
from server.inspection.types import tokens
from server.models.discovery import fingerprint, read_model
from server.text.spans import edited
from tests.support.servers.live import tiny_model


async def test_the_first_look_begins_to_measure_and_a_later_one_has_the_losses(
    tmp_path: Path,
) -> None:
    path = tiny_model(tmp_path / "tiny")
    folder = read_folder(path)
    measure(folder, open_exact(folder))
    version, roles = fingerprint(path), HeadRoles.read(path)
    served, heads = read_model(path), HeadWorth()
    assert roles is not None and roles.losses is None
    assert heads.with_losses(served, roles) == roles, "it does not wait"
    async with asyncio.timeout(1_200):
        while (found := heads.with_losses(served, roles)) == roles:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert found is not None and found.losses is not None and found.losses.sentences >= 5
    assert fingerprint(path) == version, "the model is the same for history and caches"
    await heads.close()


@pytest.mark.parametrize("error", [MemoryError(), TimeoutError()])
async def test_what_cannot_be_measured_is_tried_once(
    error: Exception, tmp_path: Path, monkeypatch
) -> None:
    tries = []

    async def fails(self, task):
        tries.append(task)
        raise error

    monkeypatch.setattr(head_worth.TaskProcess, "run", fails)
    path = tiny_model(tmp_path / "tiny")
    folder = read_folder(path)
    measure(folder, open_exact(folder))
    roles, served, heads = HeadRoles.read(path), read_model(path), HeadWorth()
    for _ in range(3):
        assert heads.with_losses(served, roles) == roles
        await asyncio.sleep(0)
    assert len(tries) == 1
    large = dataclasses.replace(served, bytes=head_worth.BYTES_LIMIT + 1, version="2")
    assert heads.with_losses(large, roles) == roles and heads.with_losses(served, None) is None
    await heads.close()
    assert len(tries) == 1


@pytest.mark.parametrize(
    "source",
    [
        "since [2009] it",
        "[2009] is",
        "in [2009]",
        "[A], [BC] ran to [2009]",
        "GO [x]!",
        "plain",
        "a [  ] b",
    ],
)
def test_words_are_those_of_the_text(source):
    plain, edits = "", []
    for number, part in enumerate(source.replace("]", "[").split("[")):
        if number % 2 and part.strip():
            edits.append((len(plain), len(plain) + len(part), f"<ph{number}>"))
        plain += part
    read, _ = edited(plain, edits)
    originals = {word: plain[start:end] for start, end, word in edits}
    offsets = ((0, 0), *((i, j) for i, j in cut(read)), (len(read), len(read)))
    found = tokens(read, tuple(map(str, range(len(offsets)))), offsets, originals)
    assert found.text == plain
    assert [plain[start:end] for start, end in found.offsets] == [
        "", *(originals.get(read[i:j], read[i:j]) for i, j in cut(read)), ""
    ]  # fmt: skip
    assert all(
        word.text == plain[word.start : word.end] for word in found.words if not word.special
    )


def cut(text: str) -> list[tuple[int, int]]:
    """Returns the pieces of a text: symbols, and single characters."""
    places, at = [], 0
    while at < len(text):
        end = text.index(">", at) + 1 if text[at] == "<" else at + 1
        places.append((at, end))
        at = end
    return places
