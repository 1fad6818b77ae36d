"""A Chromium browser and a live server. The tests are skipped where Chromium is not installed."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import quote, unquote

import pytest

from tests.support.servers.live import LiveServer, live_server, tiny_model

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
SENTENCE = "the cat sleeps in a house"
INTERFACES = ("en", "de", "fr", "es")
"""Languages of the translator's page."""
TIMEOUT = 60_000
"""Milliseconds of a wait; the machine may be busy."""
MARK_STYLES = """() => {
  const backgrounds = new Map([[null, ""]]), seen = new Set();
  const background = (node) => {
    if (!backgrounds.has(node)) {
      const { backgroundColor, backgroundImage, opacity, position } = getComputedStyle(node);
      const own = [backgroundColor, backgroundImage, opacity].join();
      const alone = ["absolute", "fixed", "sticky"].includes(position) ? backgrounds.size : "";
      const plain = own === "rgba(0, 0, 0, 0),none,1" ? "" : own;
      backgrounds.set(node, `${background(node.parentElement)}${plain}${alone}`);
    }
    return backgrounds.get(node);
  };
  for (const node of document.querySelectorAll("body *")) {
    node.removeAttribute("data-style");
    const hasText = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!node.checkVisibility() || !(hasText || node.matches("input, select, textarea"))) continue;
    const { color, fontSize, fontWeight } = getComputedStyle(node);
    const style = [color, fontSize, fontWeight, background(node)].join();
    if (!seen.has(style)) node.setAttribute("data-style", "");
    seen.add(style);
  }
}"""
"""Marks the first element of each style of text: colours, size, weight and what is behind it, which
for elements that are positioned may be any other element."""
OpenPage = Callable[..., Any]
Violations = Callable[..., list[tuple[str, str]]]


@dataclass
class PageLog:
    """Console messages of the pages without those that contain `expected`, and their requests to
    other servers."""

    messages: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)
    expected: str | None = None

    def unexpected(self) -> list[str]:
        return [
            message
            for message in self.messages
            if self.expected is None or self.expected not in message
        ]


def speaking_model(
    path: Path, pairs: tuple[tuple[str, str], ...] = (("en", "de"), ("en", "fr")), **changes: Any
) -> None:
    """Saves the tiny model with embeddings of byte pieces so small that they are never chosen.
    `changes` are other values of its configuration."""
    import torch

    from model.checkpoint import load_model, save_model
    from model.model_folder import read_folder

    folder = read_folder(tiny_model(path, **changes))
    tags = {
        language: tag
        for language, tag in folder.tags.items()
        if language in dict(map(reversed, pairs))
    }
    folder = dataclasses.replace(
        folder, model=folder.model.replace(max_length=192), pairs=pairs, tags=tags
    )
    transformer = load_model(folder)
    with torch.no_grad():
        transformer.embedding.weight[:262] *= 0.01
    save_model(folder, transformer)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of Chromium."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"no Chromium on this machine (looked for {', '.join(NAMES)})")
    return program


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """Closed after each module, because the event loop of Playwright runs in this thread while it
    is open."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    playwright.expect.set_options(timeout=TIMEOUT)
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


class FramePage(BaseHTTPRequestHandler):
    """Answers /?ADDRESS with a page that has the address in a frame."""

    def do_GET(self) -> None:
        body = f'<iframe width=700 height=500 src="{escape(unquote(self.path[2:]))}"></iframe>'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Writes nothing."""


@pytest.fixture(scope="session")
def course() -> Iterator[str]:
    """The origin of another server, whose pages may have a view of the live server in a frame."""
    with ThreadingHTTPServer(("127.0.0.1", 0), FramePage) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="session")
def live(
    chromium: str, course: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveServer]:
    """A server with two models of random weights that produce words. They translate English to
    German and French, and German to English. All modules share it: a test removes what it stores
    there."""
    folder = tmp_path_factory.mktemp("models")
    speaking_model(folder / "tiny")
    speaking_model(folder / "back", pairs=(("de", "en"),))
    flags = ("--dtype", "float32", "--frame-ancestors", course)
    with live_server(folder, folder / "server.log", flags) as server:
        yield server


@pytest.fixture
def page_log() -> PageLog:
    return PageLog()


@pytest.fixture
def open_page(browser: Any, live: LiveServer, page_log: PageLog) -> Iterator[OpenPage]:
    """Opens a page without stored data, which prefers reduced motion. After the test, the pages
    must have logged nothing and sent no foreign request."""
    contexts = []

    def start(**options: Any) -> Any:
        context = browser.new_context(
            **{"accept_downloads": True, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(TIMEOUT)
        page.on(
            "console", lambda message: page_log.messages.append(f"{message.type}: {message.text}")
        )
        page.on("pageerror", lambda error: page_log.messages.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((live.url, "blob:", "data:", "file:"))
                else page_log.foreign_requests.append(request.url)
            ),
        )
        return page

    yield start
    for context in contexts:
        context.close()
    assert page_log.unexpected() == []
    assert page_log.foreign_requests == []


@pytest.fixture
def explorer(open_page: OpenPage, live: LiveServer) -> Any:
    """The explorer after it translated `SENTENCE`."""
    return explored(open_page(viewport={"width": 1280, "height": 900}), live)


@pytest.fixture
def page(open_page: OpenPage, live: LiveServer) -> Any:
    """The translator, from English to German."""
    page = open_page(
        viewport={"width": 1280, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    return opened(page, live)


def opened(page: Any, live: LiveServer) -> Any:
    """Opens the translator from English to German."""
    page.goto(live.url + "/#source=en&target=de")
    page.wait_for_selector("#to option", state="attached")
    return page


def explored(page: Any, live: LiveServer, text: str = SENTENCE) -> Any:
    """Opens the explorer with a text, and waits for its words and its map."""
    page.goto(f"{live.url}/attention#source=en&target=de&q={quote(text)}")
    shown(page)
    return page


def translate(page: Any, text: str) -> None:
    """Types a text, translates it and waits for its words and its map."""
    page.fill("#text", text)
    page.click("#go")
    shown(page)


def shown(page: Any) -> None:
    page.wait_for_selector("#inside:not(.busy) #panel-attention canvas")
    page.wait_for_selector("#output:not(.busy) .w")


@pytest.fixture
def violations() -> Violations:
    """Returns a function that lists the findings of axe-core on a page: the rule and its first
    element. The size of targets is a rule of WCAG 2.2 that axe-core leaves out by default. With
    `contrast` only colours are compared, of one element for each style of text."""
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )

    def found(page: Any, contrast: bool = False) -> list[tuple[str, str]]:
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        context = None
        if contrast:
            page.evaluate(MARK_STYLES)
            options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
            context = {"include": [["[data-style]"]]}
        else:
            options["rules"] = {"target-size": {"enabled": True}}
        answer = axe.Axe().run(page, context, options).response
        return [(rule["id"], rule["nodes"][0]["html"]) for rule in answer["violations"]]

    return found
