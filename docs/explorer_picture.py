"""Takes the picture of the explorer in the README from a running server.

attentive serve &
python docs/explorer_picture.py http://127.0.0.1:8000 docs/explorer.png
"""

from __future__ import annotations

import shutil
import sys
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

SENTENCE = "The children are playing in the garden because it is warm."


def main(
    url: str,
    file: str,
    sentence: str = SENTENCE,
    source: str = "en",
    target: str = "de",
    theme: str = "light",
) -> None:
    """Translates the sentence, stops the film at its third word, and takes the picture of the film
    and of the model."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    fragment = urlencode({"q": sentence, "source": source, "target": target, "beam": 4, "film": 2})
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        size = {"width": 1240, "height": 1440}
        context = browser.new_context(
            viewport=size, device_scale_factor=1.5, color_scheme=theme, reduced_motion="reduce"
        )
        page = context.new_page()
        page.goto(f"{url}/attention#{fragment}")
        page.wait_for_selector("#film .runners button")
        page.wait_for_selector("#opening svg")
        page.click("#go")  # again, because the first answer includes the start of the browser
        page.wait_for_selector("#film .play >> text=Play again")
        page.locator("#film .target .fw").nth(2).click()
        page.mouse.move(0, 0)
        bottom = page.locator("#opening").bounding_box()
        page.screenshot(
            path=file,
            clip={"x": 0, "y": 0, "width": 1240, "height": bottom["y"] + bottom["height"] + 20},
        )
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
