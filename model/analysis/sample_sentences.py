"""Everyday sentences in four languages, written for this project: the corpus on which an import measures the roles of heads."""

from __future__ import annotations

import json
from pathlib import Path

SENTENCES: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""Sentences by language code. Those of one number are translations of each other."""
