"""The named classes of characters that several modules look for."""

import re

WORD = re.compile(r"\w+")
LETTERS = re.compile(r"[^\W\d_]+")
SPACES = " \u00a0\u202f"
UNSPACED = "\u0e00-\u0eff\u0f00-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Scripts without spaces between words."""
NO_SPACES = re.compile(f"[{UNSPACED}]")
