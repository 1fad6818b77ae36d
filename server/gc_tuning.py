"""Python's search for cyclic garbage, set up for a process that answers requests for a long time."""

from __future__ import annotations

import gc

YOUNG_LIMIT = 20_000
"""New objects after which Python looks for cycles among them. Its own 700 suits a short script: every request in flight
holds some hundred objects, so that nearly all that a search looked at would be in use, again and again."""


def tune_garbage_collector() -> None:
    """What is there now stays for good and is never looked at again; what comes is looked at less often.

    To be called once, when everything is imported. Nearly all garbage is freed without a search, as it has no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_LIMIT, 10, 10)
