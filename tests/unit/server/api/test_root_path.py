"""A server under a prefix of a proxy that removes the prefix from requests, and of one that keeps it."""

from __future__ import annotations

import re

import pytest

HELLO = {"q": "Hello", "source": "en", "target": "de"}
BROWSER = {"Accept": "text/html"}


class Proxied:
    """A client of the proxy: each path is one under the prefix, as a browser asks for it."""

    def __init__(self, client, prefix: str, keeps: bool) -> None:
        self.client, self.prefix, self.keeps = client, prefix, keeps

    def send(self, method: str, address: str, **options):
        assert address.startswith(self.prefix), f"{address} is outside of the prefix"
        path = address if self.keeps else address.removeprefix(self.prefix) or "/"
        return self.client.request(method, path, follow_redirects=False, **options)


@pytest.fixture(params=["kept", "removed"])
def keeps(request) -> bool:
    return request.param == "kept"


@pytest.mark.parametrize("prefix", ["/translator", "/a/b-c", "/translate"])
def test_every_address_is_under_the_prefix(serve, prefix, keeps):
    proxy = Proxied(serve(root_path=prefix, char_limit=10), prefix, keeps)
    assert proxy.send("POST", f"{prefix}/translate", json=HELLO).json()["translatedText"] == "olleH"
    for page in ("/", "/attention", "/docs"):
        answer = proxy.send("GET", prefix + page, headers=BROWSER)
        assert answer.status_code == 200
        links = [
            link for link in re.findall(r'(?:href|src)="([^"]+)"', answer.text) if not link.startswith(("#", "data:"))
        ]
        assert links
        for link in links:
            assert not link.startswith("/")
            assert proxy.send("GET", f"{prefix}/{link.removeprefix('./')}", headers=BROWSER).status_code == 200, link
    assert proxy.send("GET", f"{prefix}/openapi.json").json()["servers"] == [{"url": prefix}]
    links = proxy.send("GET", f"{prefix}/").json()
    assert links["languages"] == f"{prefix}/languages"
    assert proxy.send("GET", links["openapi"]).status_code == 200


def test_redirects_and_errors_know_the_prefix(serve, keeps):
    client = serve(root_path="/x", body_bytes=1_024)
    proxy = Proxied(client, "/x", keeps)
    for address, target in (("/x/docs/", "/x/docs"), ("/x/languages/", "/x/languages")):
        assert proxy.send("GET", address).headers["location"] == f"http://testserver{target}"
    if keeps:
        assert proxy.send("GET", "/x", headers=BROWSER).headers["location"] == "http://testserver/x/"
    deepl = proxy.send("POST", "/x/v2/translate", json={})
    assert set(deepl.json()) == {"message"} and "x-trace-id" in deepl.headers
    large = proxy.send("POST", "/x/v2/translate", content=b"x" * 2_000)
    assert large.status_code == 413 and set(large.json()) == {"message"}
    file = proxy.send("POST", "/x/translate_file", files={"file": ("a.txt", b"Hello")}, data=HELLO).json()
    assert "/x/download_file/" in file["translatedFileUrl"]
    assert client.get("/health").status_code == 200  # of a monitor that asks the server itself


@pytest.mark.parametrize("wrong", ["translator", "/translator/", "/", "//x", "/a b", "http://x"])
def test_a_prefix_that_cannot_be_one_is_refused(serve, wrong):
    with pytest.raises(ValueError, match=r"--root-path \(ATTENTIVE_ROOT_PATH\) must look like /translator"):
        serve(root_path=wrong)
