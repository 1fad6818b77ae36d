"""Everyday sentences in four languages, written for this project: the corpus on which an import measures the roles of heads."""

from __future__ import annotations

from pathlib import Path

_ROWS = Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines()
SENTENCES = {code: sentences for code, *sentences in zip(*(row.split("\t") for row in _ROWS), strict=True)}
"""Sentences by language code. Those of one number are translations of each other."""
