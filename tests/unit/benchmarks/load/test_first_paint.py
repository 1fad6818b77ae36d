"""The first paint is counted from the navigation to the page, with the processor time of its thread only."""

from __future__ import annotations

from typing import Any

from benchmarks.load.first_paint import TASK, processor_time

URL = "http://localhost/"


def event(name: str, ts: int, thread: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "ts": ts, "pid": 7, "tid": thread, "args": {}, **more}


def test_the_tasks_between_navigation_and_paint_are_counted() -> None:
    events = [
        event("navigationStart", 0, args={"data": {"documentLoaderURL": "about:blank"}}),
        event("firstContentfulPaint", 500),
        event(TASK, 900, tdur=4_000),
        event("navigationStart", 1_000, args={"data": {"documentLoaderURL": URL}}),
        event(TASK, 1_100, tdur=7_000),
        event("Layout", 1_200, tdur=2_000),
        event(TASK, 2_000, thread=2, tdur=9_000),
        event(TASK, 3_000, tdur=6_000),
        event("firstContentfulPaint", 41_000),
        event(TASK, 42_000, tdur=90_000),
    ]
    assert processor_time(events, URL) == 13.0
