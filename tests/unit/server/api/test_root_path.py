"""A server under a prefix of a proxy that removes the prefix from requests, and of one that keeps it."""

from __future__ import annotations

import re

import pytest

HELLO = {"q": "Hello", "source": "en", "target": "de"}
BROWSER = {"Accept": "text/html"}


@pytest.fixture(params=["/translator", "/a/b-c", "/translate"])
def prefix(request) -> str:
    return request.param


@pytest.fixture(params=["kept", "removed"])
def send(request, serve, prefix):
    """Sends a request to an address of the proxy."""
    client = serve(root_path=prefix, body_bytes=1_024)

    def send(method: str, address: str, **options):
        assert address.startswith(prefix), f"{address} is outside of the prefix"
        path = address if request.param == "kept" else address.removeprefix(prefix) or "/"
        return client.request(method, path, follow_redirects=False, **options)

    send.keeps = request.param == "kept"
    return send


def test_every_address_is_under_the_prefix(send, prefix):
    assert send("POST", f"{prefix}/translate", json=HELLO).json()["translatedText"] == "olleH"
    for page in ("/", "/attention", "/docs"):
        html = send("GET", prefix + page, headers=BROWSER).text
        for link in [*re.findall(r'(?:href|src)="([^"#]+)"', html), "static/icon.svg"]:
            assert not link.startswith("/")
            assert send("GET", f"{prefix}/{link.removeprefix('./')}", headers=BROWSER).status_code == 200, link
    links = send("GET", f"{prefix}/").json()
    assert links["languages"] == f"{prefix}/languages"
    assert send("GET", links["openapi"]).json()["servers"] == [{"url": prefix}]


def test_redirects_and_errors_know_the_prefix(send, prefix):
    for path in ["/docs/", "/languages/", *([""] if send.keeps else [])]:
        location = send("GET", prefix + path, headers=BROWSER).headers["location"]
        assert location == f"http://testserver{prefix}{path.rstrip('/') or '/'}"
    for body, status in ((b"{}", 400), (b"x" * 2_000, 413)):
        deepl = send("POST", f"{prefix}/v2/translate", content=body)
        assert (deepl.status_code, set(deepl.json()), "x-trace-id" in deepl.headers) == (status, {"message"}, True)
    file = send("POST", f"{prefix}/translate_file", files={"file": ("a.txt", b"Hello")}, data=HELLO).json()
    assert f"{prefix}/download_file/" in file["translatedFileUrl"]


@pytest.mark.parametrize("wrong", ["translator", "/translator/", "/", "//x", "/a b", "http://x"])
def test_a_prefix_that_cannot_be_one_is_refused(serve, wrong):
    with pytest.raises(ValueError, match=r"--root-path \(ATTENTIVE_ROOT_PATH\) must look like /translator"):
        serve(root_path=wrong)
