"""What heads are worth is measured at the first look at a model, once, and never by an import."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from pathlib import Path

import pytest

from model.analysis.head_roles import HeadRoles
from model.head_roles import measure, open_exact
from model.model_folder import read_folder
from server.inspection import head_worth
from server.inspection.head_worth import HeadWorth
from server.models.discovery import fingerprint, read_model
from tests.support.servers.live import tiny_model


async def test_the_first_look_begins_to_measure_and_a_later_one_has_the_losses(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "tiny")
    folder = read_folder(path)
    measure(folder, open_exact(folder))
    version, roles = fingerprint(path), HeadRoles.read(path)
    served, heads = read_model(path), HeadWorth()
    assert roles is not None and roles.losses is None
    assert heads.with_losses(served, roles) == roles, "it does not wait"
    end = time.monotonic() + 120
    while (found := heads.with_losses(served, roles)) == roles and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    assert found is not None and found.losses is not None and found.losses.sentences >= 5
    assert fingerprint(path) == version, "the model is the same for history and caches"
    await heads.close()


@pytest.mark.parametrize("error", [MemoryError(), TimeoutError()])
async def test_what_cannot_be_measured_is_tried_once(error: Exception, tmp_path: Path, monkeypatch) -> None:
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
