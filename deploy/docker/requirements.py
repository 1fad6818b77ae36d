"""Prints the requirements in pyproject.toml for `pip install -r`: python requirements.py EXTRAS
[LEFT-OUT ...]

EXTRAS is a comma-separated list and may be empty. A LEFT-OUT is the name of a distribution that is
not installed.
"""

import re
import sys
import tomllib
from pathlib import Path

extras, left_out = sys.argv[1].split(","), sys.argv[2:]
project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
chosen = [project["optional-dependencies"][extra.strip()] for extra in extras if extra.strip()]
for requirement in sum(chosen, project["dependencies"]):
    if re.split(r"[^A-Za-z0-9._-]", requirement)[0] not in left_out:
        sys.stdout.write(requirement + "\n")
