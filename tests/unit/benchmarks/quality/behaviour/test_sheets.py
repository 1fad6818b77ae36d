"""Sheets for blind readings hide the systems, and grades are counted for the right one."""

from __future__ import annotations

import pytest

from benchmarks.quality.behaviour.sheets import agreement, count, mixed, read_grades, sheet

SOURCES = {f"s{number}": f"Sentence {number}." for number in range(40)}
ANSWERS = {name: {key: f"{name} {key}" for key in SOURCES} for name in ("old", "new")}


def test_every_translation_is_on_the_sheet_in_an_order_that_changes() -> None:
    rows = mixed(SOURCES, ANSWERS, seed=1)
    assert {row.systems for row in rows} == {("old", "new"), ("new", "old")}
    assert all(row.translations == tuple(f"{system} {row.id}" for system in row.systems) for row in rows)
    assert sheet(rows).splitlines()[0].split("\t") == ["s0", "Sentence 0.", *rows[0].translations]


def test_grades_are_counted_for_the_system_that_wrote_the_translation() -> None:
    rows = mixed(SOURCES, ANSWERS, seed=1)
    text = "".join(f"{row.id}\t{''.join('r' if s == 'new' else 'w' for s in row.systems)}\n" for row in rows)
    grades = read_grades(text, rows)
    assert count(rows, grades) == {"new": {"right": 40}, "old": {"wrong": 40}}
    other = read_grades(text.replace("r", "u"), rows)
    assert agreement(rows, grades, other) == 0.5


@pytest.mark.parametrize("text", ["", "s0\tr\n", "s0\trx\n"])
def test_missing_and_unknown_grades_are_refused(text: str) -> None:
    rows = mixed({"s0": "One."}, ANSWERS, seed=1)
    with pytest.raises(ValueError, match="s0 needs 2 letters"):
        read_grades(text, rows)
