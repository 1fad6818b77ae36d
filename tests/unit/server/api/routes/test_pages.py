"""The explorer's page and its static files."""

from __future__ import annotations

import gzip
import json
import re
from html import unescape
from urllib.parse import urljoin

import pytest

from server.inspection.attention_view import RECURRENT
from server.web.page import FOLDER, interface_texts, source_hash

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
            waiting += [
                urljoin(file, name)
                for name in re.findall(r' from "(\.[^"]+)"', client.get(file).text)
            ]
    return found


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_the_pages_are_small_and_load_only_files_of_this_server(client, path):
    page = client.get(path, headers=BROWSER).text
    files = loaded(client, re.findall(r'(?:src|href)="(static/[^"]+)"', page))
    sizes = [len(gzip.compress(client.get(file).content)) for file in files]
    assert len(gzip.compress(page.encode())) + sum(sizes) < 75_000  # as they are sent
    assert len(files) >= 5
    for file in (file for file in FOLDER.rglob("*") if file.is_file()):
        foreign = set(re.findall(r"https?://[^\s\"'`)]+", file.read_text("utf-8"))) - {
            "http://www.w3.org/2000/svg"
        }
        assert not foreign, file


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_a_page_is_painted_after_one_request(client, path):
    """Styles and the first script are inline and allowed by their hashes; everything else lies in a
    template, which a browser does not load before the script inserts it. A picture of known size
    does not delay the paint."""
    answer = client.get(path, headers=BROWSER)
    policy = answer.headers["content-security-policy"]
    first = re.sub(r"<template.*?</template>", "", answer.text, flags=re.DOTALL)
    assert re.findall(r"<(?:link|script|img|iframe|object|video|audio)\b[^>]*>", first) == [
        '<link rel="icon" href="static/icon.svg" type="image/svg+xml">',  # loaded after the page
        "<script>",
        "<script>",
        '<img src="static/icon.svg" alt="" width="26" height="26">',
    ]
    assert not re.search(r"@import|url\(", first) and not re.search(r"\s(?:style|on\w+)=", first)
    for kind in ("style", "script"):
        directive = next(part for part in policy.split("; ") if part.startswith(f"{kind}-src "))
        hashes = [
            source_hash(text)
            for text in re.findall(rf"<{kind}>(.*?)</{kind}>", answer.text, re.DOTALL)
        ]
        assert directive.split()[1:] == ["'self'", *hashes]


@pytest.mark.parametrize("path", ["/", "/attention"])
def test_a_page_names_every_module_so_that_they_load_at_once(client, path):
    page = client.get(path, headers=BROWSER).text
    template = re.findall(r"<template.*?</template>", page, re.DOTALL)[0]
    named = re.findall(r'(?:src|href)="(static/[^"]+)"', template)
    assert loaded(client, named) == set(named) and len(named) == len(set(named)) >= 11


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        ("pt-BR, es;q=0.9", "es"),
        ("FR", "fr"),
        ("ja", "en"),
        ("", "en"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/attention"])
def test_a_page_is_sent_in_a_language_of_the_reader(client, path, accepted, language):
    answer = client.get(path, headers=BROWSER | {"Accept-Language": accepted})
    texts = interface_texts()[language]
    assert (
        f'<html lang="{language}">' in answer.text
        and f'<option value="{language}" selected' in answer.text
    )
    if path == "/":
        assert (
            f">{texts['file']}</button>" in answer.text
            and f'placeholder="{texts["placeholder"]}"' in answer.text
        )
    assert f'aria-label="{texts["swap"]}"' in answer.text
    body = answer.text.partition("<body>")[2]
    assert not re.search(r"[{}]", body)
    assert "Accept-Language" in answer.headers["vary"]


def test_the_texts_of_the_page_are_the_same_in_every_language():
    texts = interface_texts()
    assert set(texts) == {"en", "de", "fr", "es"}
    for language in texts.values():
        assert language.keys() == texts["en"].keys()
        assert not any(re.search(r'[<>"]', text) for text in language.values())


def test_every_sentence_of_the_explorer_has_all_languages_and_is_used():
    rows = json.loads((FOLDER / "explorer/sentences.json").read_text("utf-8"))
    files = [
        file
        for name in ("explorer", "live", "common")
        for file in (FOLDER / name).rglob("*")
        if file.suffix in (".js", ".html")
    ]
    code = unescape("".join(file.read_text("utf-8") for file in files)) + RECURRENT
    said = set(re.findall(r'\b(?:say|parts|told|noted)\(\s*"([^"]+)"', code))
    assert said <= {row[0] for row in rows}
    assert len(rows) == len({row[0] for row in rows})
    for row in rows:
        assert len(row) == 4 and all(row) and row[0] in code, row
        assert len({tuple(sorted(re.findall(r"\{\d\}", text))) for text in row}) == 1, row


def test_only_known_static_files_are_served(client):
    first = client.get("/static/explorer/main.js")
    assert (first.headers["content-encoding"], first.headers["cache-control"]) == (
        "gzip",
        "no-cache",
    )
    assert first.headers["content-type"].startswith("text/javascript")
    assert (
        client.get(
            "/static/explorer/main.js", headers={"If-None-Match": first.headers["etag"]}
        ).status_code
        == 304
    )
    for name in ("explorer/index.html", "..%2f..%2fpyproject.toml", "../assets.py", "none.js"):
        assert client.get(f"/static/{name}").status_code == 404


FRAMES = "https://course.example,http://10.0.0.1:8080"


@pytest.mark.parametrize(
    ("path", "headers", "settings", "framed"),
    [
        ("/attention?q=a&embed=1", {}, {}, True),
        ("/attention?q=a&embed=1", {}, {"frame_ancestors": ""}, False),
        ("/attention?q=a&embed=1", {}, {"key_required": True}, False),
        ("/attention?q=a&embed=1&api_key=a", {}, {}, False),
        ("/attention?q=a&embed=1", {"Authorization": "Bearer a"}, {}, False),
        ("/attention?embed=1&format=html&q=a&source=en&target=de", {}, {}, False),
        *[
            (path, {}, {}, False)
            for path in (
                "/attention",
                "/attention?embed=0",
                "/?embed=1",
                "/live?embed=1",
                "/docs?embed=1",
                "/languages",
            )
        ],
    ],
)
def test_only_one_view_is_shown_in_a_frame_and_only_to_the_origins_of_the_setting(
    serve, keys, path, headers, settings, framed
):
    client = serve(**{"frame_ancestors": FRAMES, "data": keys.folder} | settings)
    answer = client.get(path, headers=BROWSER | headers).headers
    ancestors = re.findall("frame-ancestors [^;]*", answer["content-security-policy"])
    if framed:
        assert ancestors == ["frame-ancestors https://course.example http://10.0.0.1:8080"]
    else:
        assert set(ancestors) <= {"frame-ancestors 'none'"}
    assert answer.get_list("x-frame-options") == ([] if framed else ["DENY"])
