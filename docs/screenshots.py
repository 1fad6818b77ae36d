"""Takes pictures of the translator and the explorer in all their states from a running server, to
look at them.

attentive serve &
python docs/screenshots.py http://127.0.0.1:8000 FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

SENTENCE = "The children are playing in the garden because it is warm."
LONG = " and ".join(["the old dog walks to the small house near the station"] * 9) + "."
SIZES = {"wide": (1440, 1000), "narrow": (390, 844)}
ENGLISH = {"source": "en", "target": "de"}
PIVOT = {"q": "Le chat dort sur la table.", "source": "fr", "target": "de"}
ASKED = "Die Katze schläft auf dem Tisch, weil sie müde ist."
TABS = {
    "decoding": "#panel-decoding svg .node",
    "whynot": "#panel-whynot .split canvas",
    "heads": "#panel-heads .thumb",
    "works": "#panel-works canvas",
}
STATES: dict[str, tuple[str, dict[str, str], str]] = {
    "translator": ("/", {"q": SENTENCE, **ENGLISH}, "#output:not(.busy) .w"),
    "translator-pivot": ("/", PIVOT, "#route:has-text('via')"),
    "translator-long": ("/", {"q": LONG, **ENGLISH}, "#output:not(.busy) .w"),
    "explorer": ("/attention", {"q": SENTENCE, **ENGLISH}, "#panel-attention .heat canvas"),
    "explorer-grid": (
        "/attention",
        {"q": SENTENCE, **ENGLISH, "view": "model"},
        "#panel-attention .thumb",
    ),
    "explorer-long": ("/attention", {"q": LONG, **ENGLISH}, "#panel-attention .heat canvas"),
    "explorer-pivot": ("/attention", PIVOT, "#legs:not([hidden])"),
} | {
    f"explorer-{tab}": ("/attention", {"q": SENTENCE, **ENGLISH, "tab": tab, "asked": ASKED}, ready)
    for tab, ready in TABS.items()
}
"""Name -> (address, view, what the page shows when it is ready)."""
ERROR = {
    "status": 503,
    "content_type": "application/json",
    "body": json.dumps({"error": "The models are still loading."}),
}
ARABIC = "القطة تنام على الطاولة لأنها متعبة."


def main(url: str, folder: str) -> None:
    """Writes NAME-SIZE-THEME.png for every state."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    Path(folder).mkdir(parents=True, exist_ok=True)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for size, (width, height) in SIZES.items():
            for theme in ("light", "dark"):
                options = {"viewport": {"width": width, "height": height}, "color_scheme": theme}
                context = browser.new_context(**options, reduced_motion="reduce")
                for name, (path, view, ready) in STATES.items():
                    page = opened(context, f"{url}{path}#{urlencode(view)}")
                    page.wait_for_selector(ready)
                    save(page, folder, f"{name}-{size}-{theme}")
                special(context, url, folder, f"{size}-{theme}")
                context.close()
        browser.close()


def special(context: Any, url: str, folder: str, suffix: str) -> None:
    """Pictures of an error, and of a text from right to left, whose translation is the text
    itself."""
    for path in ("/", "/attention"):
        page = opened(context, f"{url}{path}#{urlencode(ENGLISH)}")
        page.wait_for_selector("#to option", state="attached")
        page.route("**/translate", lambda route: route.fulfill(**ERROR))
        page.fill("#text", SENTENCE)
        page.wait_for_selector("#error:not([hidden])")
        save(page, folder, f"{'translator' if path == '/' else 'explorer'}-error-{suffix}")
    page = opened(context, f"{url}/#{urlencode({'q': ARABIC, **ENGLISH})}")
    page.wait_for_selector("#output:not(.busy)")
    save(page, folder, f"translator-rtl-{suffix}")


def opened(context: Any, address: str) -> Any:
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.goto(address)
    return page


def save(page: Any, folder: str, name: str) -> None:
    page.mouse.move(0, 0)
    page.screenshot(path=f"{folder}/{name}.png", full_page=True)
    page.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
