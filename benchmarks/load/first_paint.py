"""First contentful paint of pages of a running server, and processor time of the page's main thread until then.

Chromium reports the paint to the page: milliseconds since the navigation. A second load with a trace, which slows the page
down, gives the processor time. Other work on the machine changes it less. The pages take turns, each in a new profile. A
static file as plain text shows what a page costs at least.

python -m benchmarks.load.first_paint http://localhost:8000 / /attention /static/docs.js --repeats 21
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
CATEGORIES = ["toplevel", "blink.user_timing", "loading", "devtools.timeline"]
PAINTED = """new Promise((done) => new PerformanceObserver((entries) => {
    const [paint] = entries.getEntriesByName("first-contentful-paint");
    if (paint) requestAnimationFrame(() => setTimeout(done, 0, paint.startTime));
}).observe({ type: "paint", buffered: true }))"""
TASK = "ThreadControllerImpl::RunTask"
"""Event of one task of a thread; all other events of the thread lie within tasks."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status."""
    options = _parser().parse_args(arguments)
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        print("There is no Chromium on this machine.", file=sys.stderr)
        return 2
    urls = [options.server.rstrip("/") + path for path in options.paths]
    found: dict[str, list[tuple[float, float]]] = {url: [] for url in urls}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(options.repeats + 1):
            for url in urls:
                found[url].append((_paint(browser, url), processor_time(_trace(browser, url), url)))
        browser.close()
    for url, results in found.items():
        walls, times = zip(*results[1:], strict=True)  # the first load starts the renderer
        print(
            f"{url}: first contentful paint: median {statistics.median(walls):.0f} ms, least {min(walls):.0f} ms; "
            f"processor time until then: median {statistics.median(times):.1f} ms, least {min(times):.1f} ms"
        )
    return 0


def _paint(browser: Any, url: str) -> float:
    """Returns the milliseconds from the navigation until the first contentful paint."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url, wait_until="load")
    milliseconds = float(page.evaluate(PAINTED))
    context.close()
    return milliseconds


def _trace(browser: Any, url: str) -> list[dict[str, Any]]:
    """Returns the events of one load, which ends after the first paint."""
    context = browser.new_context()
    page = context.new_page()
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.goto(url, wait_until="load")
    page.evaluate(PAINTED)
    events: list[dict[str, Any]] = json.loads(browser.stop_tracing())["traceEvents"]
    context.close()
    return events


def processor_time(events: Sequence[dict[str, Any]], url: str) -> float:
    """Returns the milliseconds of processor time of the page's main thread between the navigation to `url` and the first
    contentful paint."""
    started = next(
        event
        for event in events
        if event["name"] == "navigationStart" and event["args"].get("data", {}).get("documentLoaderURL") == url
    )
    thread = (started["pid"], started["tid"])
    painted = next(
        event["ts"]
        for event in events
        if event["name"] == "firstContentfulPaint" and event["pid"] == started["pid"] and event["ts"] > started["ts"]
    )
    spent: float = sum(
        event.get("tdur", 0)
        for event in events
        if event["name"] == TASK and (event["pid"], event["tid"]) == thread and started["ts"] <= event["ts"] <= painted
    )
    return spent / 1000


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.load.first_paint", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("server", help="address of the server")
    parser.add_argument("paths", nargs="+", help="paths of pages, as the browser writes them, such as / and /attention")
    parser.add_argument("--repeats", type=int, default=21)
    return parser


if __name__ == "__main__":
    sys.exit(main())
