"""Imports measure the roles of heads on few sentences."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from model import head_roles
from model.analysis.encoder_study import SENTENCES


@pytest.fixture(scope="session", autouse=True)
def few_sentences() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(
            head_roles, "SENTENCES", {code: texts[:2] for code, texts in SENTENCES.items()}
        )
        yield
