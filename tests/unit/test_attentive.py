"""The Python client, and the cells of docs/notebook.ipynb, against a server with the fake
engine."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest

from attentive import AsyncClient, Client, ServerError
from tests.support.engine.fake_engine import FakeEngine
from tests.support.notebook import run_cells
from tests.support.servers.in_process import running

PAIRS = [("the cat", "tac eht")] * 120
NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def url():
    with running(FakeEngine(), root_path="/t") as (url, _):
        yield url + "/t/"


def test_the_notebook_runs(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_cells(NOTEBOOK, url, monkeypatch, "toy")
    assert set(names["translations"]) == {".speels ehT cat", "?noitats eht si erehW"}
    assert len(names["translations"]) == 200
    assert Path("brief.txt").read_text() == ",sdneirf raeD\n.speels tac eht\n"
    attention = names["attention"]
    assert [len(attention[name]) for name in ("cross_queries", "cross_keys")] == list(
        attention["cross"].shape[2:]
    )
    assert np.allclose(attention["cross"].sum(axis=-1), 1)
    assert attention._repr_html_().startswith("<svg")
    assert {title for _, title in names["drawn"]} == set(names["FIGURES"]) == set(names["by_name"])


def test_both_clients_do_the_same(url, tmp_path):
    (tmp_path / "a b.txt").write_text("Hello")
    asked = (["Hello"] * 5, "en", "de")

    async def answers() -> tuple:
        async with AsyncClient(url) as client:
            file = await client.translate_document(tmp_path / "a b.txt", "en", "de")
            aligned = await client.align(PAIRS, "en", "de", tokenized=True)
            return (
                aligned,
                await client.translate(*asked, batch=2),
                await client.languages(),
                file,
                file.read_text(),
            )

    with Client(url) as client:
        file = client.translate_document(tmp_path / "a b.txt", "en", "de")
        aligned = client.align(PAIRS, "en", "de", tokenized=True)
        assert {pair["pharaoh"] for pair in aligned} == {"0-1 1-0"} and len(aligned) == len(PAIRS)
        both = (
            aligned,
            client.translate(*asked, batch=2),
            client.languages(),
            file,
            file.read_text(),
        )
        assert both == asyncio.run(answers())
        assert (file.name, both[-1]) == ("a b.de.txt", "olleH")
        assert client.translate([], "en", "de") == []
        with pytest.raises(ServerError, match="xx is not supported") as refused:
            client.translate("Hello", "en", "xx")
        assert refused.value.status == 400


@pytest.mark.parametrize("limits", [{"list_limit": 7}, {"char_limit": 40}])
def test_a_server_gets_as_many_texts_as_it_takes(limits):
    pairs = [(f"the {i}", f"{i} eht") for i in range(30)]
    with running(FakeEngine(), **limits) as (url, _), Client(url) as client:
        assert [pair["source"][1]["text"] for pair in client.align(pairs, "en", "de")] == [
            str(i) for i in range(30)
        ]
        assert len(client.translate([source for source, _ in pairs], "en", "de")) == 30
        with pytest.raises(ServerError, match="exceeds text limit"):
            client.translate("a" * 200_000, "en", "de")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "waits"),
    [("7", [7, 7]), ("", [1, 1]), ("Thu, 26 Nov 2026 12:00:00 GMT", [1, 1]), ("86400", None)],
)
def test_a_busy_server_is_asked_again_when_it_says(monkeypatch, status, header, waits):
    busy = httpx.Response(status, headers={"Retry-After": header} if header else {})
    answers = iter([busy, busy, httpx.Response(200, json={"translatedText": ["x"]})])
    seen, waited = [], []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return next(answers)

    monkeypatch.setattr(
        Client, "_open", partial(httpx.Client, transport=httpx.MockTransport(answer))
    )
    monkeypatch.setattr(Client, "_sleep", waited.append)
    with (
        Client("http://x", "secret") as client,
        nullcontext() if waits else pytest.raises(ServerError),
    ):
        assert client.translate("Hello", "en", "de") == "x"
    assert waited == (waits or [])
    assert set(seen) == {"Bearer secret"}
