"""Language codes of other programs and ours. Imports nothing that reads models."""

from __future__ import annotations

import re
from pathlib import Path

_ISO = dict(
    pair.split(":")
    for pair in Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").split()
)
"""ISO 639-3 codes (also bibliographic ones of 639-2, and those that models invented) -> ours."""


def language_code(marian: str) -> str:
    """Converts a code to ours: deu -> de, cmn_Hans -> zh-Hans, pt_br -> pt-BR, nds -> nds."""
    first, *rest = re.split(r"[-_]", marian)
    variants = [
        part.title() if len(part) == 4 else part.upper() if len(part) == 2 else part.lower()
        for part in rest
    ]
    return "-".join([_ISO.get(first.lower(), first.lower()), *variants])
