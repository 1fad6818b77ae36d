"""Takes the picture of the explorer in the README from a running server.

attentive serve &
python docs/screenshot.py http://127.0.0.1:8000 docs/explorer.png
"""

from __future__ import annotations

import shutil
import sys
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

SENTENCE = "The cat sleeps on the table because it is tired."


def main(
    url: str, file: str, sentence: str = SENTENCE, source: str = "en", target: str = "de", theme: str = "light"
) -> None:
    """Translates the sentence, points at its second word, and takes the picture."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    fragment = urlencode({"q": sentence, "source": source, "target": target, "beam": 4})
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        size = {"width": 1240, "height": 1300}
        context = browser.new_context(viewport=size, device_scale_factor=1.5, color_scheme=theme)
        page = context.new_page()
        page.goto(f"{url}/attention#{fragment}")
        page.wait_for_selector("#panel-attention canvas")
        page.click("#go")  # again, because the first answer includes the start of the browser
        page.wait_for_timeout(1500)
        page.hover("#output .w >> nth=1")
        page.wait_for_timeout(500)
        bottom = page.locator("#panel-attention .split").bounding_box()
        page.screenshot(path=file, clip={"x": 0, "y": 0, "width": 1240, "height": bottom["y"] + bottom["height"] + 24})
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
