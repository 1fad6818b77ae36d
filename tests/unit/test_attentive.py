"""The Python client, and the lines of docs/notebook.md, against a server with the fake engine."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import httpx
import numpy as np
import pytest

from attentive import AsyncClient, Client, ServerError
from tests.support.engine.fake_engine import FakeEngine
from tests.support.servers.in_process import running
from tests.support.servers.keys import KeyFile

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.md"


@pytest.fixture(scope="module")
def url():
    with running(FakeEngine(), root_path="/t") as (url, _):
        yield url + "/t/"


def test_the_notebook_runs(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for lines in re.findall(r"```python\n(.*?)```", NOTEBOOK.read_text("utf-8"), re.DOTALL):
        exec(lines.replace("http://localhost:8000", url), names)
    names["client"].__exit__()
    assert set(names["translations"]) == {".speels ehT cat", "?noitats eht si erehW"}
    assert len(names["translations"]) == 200
    assert Path("brief.txt").read_text() == ",sdneirf raeD\n.speels tac eht\n"
    attention = names["attention"]
    assert [len(attention[name]) for name in ("cross_queries", "cross_keys")] == list(attention["cross"].shape[2:])
    assert np.allclose(attention["cross"].sum(axis=-1), 1)
    assert attention._repr_html_().startswith("<svg")


def test_both_clients_do_the_same(url, tmp_path):
    (tmp_path / "a b.txt").write_text("Hello")

    async def asked():
        async with AsyncClient(url) as client:
            file = await client.translate_document(tmp_path / "a b.txt", "en", "de")
            return (
                await client.translate(["Hello"] * 5, "en", "de", batch=2),
                await client.languages(),
                file.read_text(),
            )

    with Client(url) as client:
        file = client.translate_document(tmp_path / "a b.txt", "en", "de")
        assert (
            client.translate(["Hello"] * 5, "en", "de", batch=2),
            client.languages(),
            file.read_text(),
        ) == asyncio.run(asked())
        assert client.translate([], "en", "de") == []
        assert file.name == "a b.de.txt"
        with pytest.raises(ServerError, match="xx is not supported") as refused:
            client.translate("Hello", "en", "xx")
        assert refused.value.status == 400


@pytest.mark.parametrize(
    ("headers", "waits"), [({"Retry-After": "7"}, [7, 7]), ({}, [1, 1]), ({"Retry-After": "Thu, 26 Nov"}, [1, 1])]
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again_when_it_says(monkeypatch, status, headers, waits):
    answers = iter(
        [httpx.Response(status, headers=headers)] * 2 + [httpx.Response(200, json={"translatedText": ["x"]})]
    )
    transport, waited = httpx.MockTransport(lambda _: next(answers)), []
    monkeypatch.setattr(Client, "_open", lambda _, **options: httpx.Client(transport=transport, **options))
    monkeypatch.setattr(Client, "_sleep", lambda _, seconds: waited.append(seconds))
    with Client("http://x") as client:
        assert client.translate("Hello", "en", "de") == "x"
    assert waited == waits


def test_a_client_has_a_key_and_waits_for_no_quota(tmp_path):
    secret, _ = KeyFile(tmp_path).create("Ann", characters_per_month=5)
    with running(FakeEngine(), data=tmp_path, key_required=True) as (url, _), Client(url, secret) as client:
        assert client.translate("Hello", "en", "de") == "olleH"
        with pytest.raises(ServerError, match="per month") as refused:
            client.translate("Hello", "en", "de")
        assert refused.value.status == 429
