"""Tests of the import of lexical shortlists."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from model.convert.importer import import_model
from model.shortlist import read_shortlist
from tests.support.models.firefox_models import random_firefox
from tests.support.models.shortlists import binary_shortlist, random_lists

NAME = "lex.50.50.ende.s2t.bin"


@pytest.mark.parametrize("vocabularies", [1, 2])
def test_a_shortlist_is_imported(vocabularies: int, tmp_path: Path) -> None:
    config = random_firefox(tmp_path / "ende", vocabularies=vocabularies).config
    sources = config.source_vocab_size or config.vocab_size
    lists = random_lists(sources, config.vocab_size, 3)
    (tmp_path / "ende" / NAME).write_bytes(binary_shortlist(lists, 16))
    found = read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights"))
    assert found is not None
    assert (found.first, found.shared, found.vocabulary) == (16, vocabularies == 1, config.vocab_size)
    assert [found.targets[a:b].tolist() for a, b in zip(found.offsets, found.offsets[1:], strict=False)] == lists
    assert np.array_equal(found.offsets, np.arange(sources + 1) * 3)


def damaged() -> dict[str, tuple[bytes, str]]:
    whole = binary_shortlist(random_lists(500, 100, 3), 16)
    descending = bytearray(whole)
    descending[48 + 8 : 48 + 16] = (1400).to_bytes(8, "little")
    return {
        "empty": (b"", "too short"),
        "another format": (binary_shortlist([[1]], 16, magic=7), "not a binary shortlist"),
        "truncated": (whole[:-4], "size that its header states"),
        "unknown targets": (binary_shortlist([[100_000]] * 500, 16), "outside the vocabulary"),
        "descending offsets": (bytes(descending), "do not ascend"),
    }


@pytest.mark.parametrize("case", damaged())
def test_a_damaged_shortlist_costs_the_shortlist_and_not_the_model(case: str, tmp_path: Path, caplog) -> None:
    data, message = damaged()[case]
    random_firefox(tmp_path / "ende")
    (tmp_path / "ende" / NAME).write_bytes(data)
    assert read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights")) is None
    assert message in caplog.text


def test_marian_leaves_out_the_offsets_of_the_last_sources_without_targets(tmp_path: Path) -> None:
    """Mozilla's files have as many offsets as the vocabulary has pieces: one too few."""
    config = random_firefox(tmp_path / "ende").config
    lists = random_lists(config.vocab_size - 1, config.vocab_size, 3)
    (tmp_path / "ende" / NAME).write_bytes(binary_shortlist(lists, 16))
    found = read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights"))
    assert found is not None and found.sources == config.vocab_size
    assert [found.targets[a:b].tolist() for a, b in pairwise(found.offsets)] == [*lists, []]


def test_two_shortlists_are_not_used(tmp_path: Path, caplog) -> None:
    random_firefox(tmp_path / "ende")
    for name in (NAME, "lex.ende.bin"):
        (tmp_path / "ende" / name).write_bytes(b"")
    assert read_shortlist(import_model(tmp_path / "ende", tmp_path / "weights")) is None
    assert "2 shortlists" in caplog.text
