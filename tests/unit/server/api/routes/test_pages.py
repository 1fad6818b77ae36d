"""The explorer's page and its static files."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import pytest

from server.web.assets import assets, source_hash

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


@pytest.mark.parametrize("path", ["/", "/attention", "/attention?id=anything&layer=nonsense"])
def test_a_browser_gets_the_page_and_other_clients_json(client, path):
    page = client.get(path, headers=BROWSER)
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert client.get(path).headers["content-type"] == "application/json"


def loaded(client, files):
    """Returns the files with all that they import."""
    found, waiting = set(), list(files)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += [urljoin(file, name) for name in re.findall(r' from "(\.[^"]+)"', client.get(file).text)]
    return found


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_the_pages_are_small_and_load_only_files_of_this_server(client, path):
    page = client.get(path, headers=BROWSER).text
    files = loaded(client, re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    sizes = [int(client.get(file).headers["content-length"]) for file in files]  # compressed
    assert len(page) + sum(sizes) < 100_000
    assert len(files) >= 5
    for name, asset in assets().items():
        foreign = set(re.findall(r"https?://[^\s\"'`)]+", asset.text)) - {"http://www.w3.org/2000/svg"}
        assert not foreign, name


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_a_page_is_painted_after_one_request(client, path):
    answer = client.get(path, headers=BROWSER)
    assert 'rel="stylesheet"' not in answer.text and "<script src" not in answer.text
    for kind in ("style", "script"):
        for text in re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL):
            assert source_hash(text) in answer.headers["content-security-policy"]


def test_the_translator_preloads_every_module(client):
    page = client.get("/", headers=BROWSER).text
    named = set(re.findall(r'(?:src|href)="(/static/[^"]+)"', page))
    assert loaded(client, named) == named


def test_only_known_static_files_are_served(client):
    first = client.get("/static/explorer/main.js")
    assert first.headers["content-type"].startswith("text/javascript")
    assert client.get("/static/explorer/main.js", headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    for name in ("explorer/index.html", "..%2f..%2fpyproject.toml", "../assets.py", "none.js"):
        assert client.get(f"/static/{name}").status_code == 404
