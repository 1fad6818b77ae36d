"""The garbage collector leaves what is old alone, and still finds new cycles."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, weakref
from server.gc_tuning import tune_garbage_collector

class Node:
    pass

tune_garbage_collector()
assert gc.isenabled() and gc.get_freeze_count() > 1000
node = Node()
node.itself = node
known = weakref.ref(node)
del node
kept = [[] for _ in range(2 * gc.get_threshold()[0])]
assert known() is None
"""


def test_what_is_there_stays_and_new_cycles_are_found() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)
