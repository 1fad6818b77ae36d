"""A client of the server: `Client`, and `AsyncClient` whose methods are coroutines. They raise
ServerError, and `httpx.TransportError` without an answer.

    with Client("http://localhost:8000") as client:
        client.translate(["The cat sleeps."], "en", "de")
"""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from inspect import isawaitable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
import numpy as np
from tqdm.auto import tqdm

DOWNLOAD = "/download_file/"
ALIGNED_AT_ONCE = 100
PICTURE = frozenset({"view", "width", "theme", "title", "special", "query"})
"""Parameters of pictures, which numbers do not have."""
Result = TypeVar("Result")
Texts = TypeVar("Texts", str, list[str])


class ServerError(Exception):
    """The server refused a request with the HTTP status `status`. The message contains its
    sentence."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(
            f"{response.url.path} answered {response.status_code}: {response.text[:300]}"
        )
        self.status = response.status_code


class Attention(dict[str, np.ndarray[Any, Any]]):
    """The attention of a translation. The arrays "cross", "encoder" and "decoder" have the `axes`;
    "cross_queries" and "cross_keys" are the tokens on the last two, and so on. "scores" are
    log-probabilities. A notebook shows `svg`."""

    axes = ("layer", "head", "query", "key")
    svg = ""

    def _repr_html_(self) -> str:
        return self.svg


class Methods:
    """What both clients do. While the server is busy (429, 503), a request is repeated when its
    Retry-After says, for `patience` seconds at most. Further arguments of methods are parameters of
    the interface, such as `alternatives`."""

    _open: Any
    _sleep: Any

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 300.0,
        patience: float = 120.0,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = self._open(base_url=url.rstrip("/"), timeout=timeout, headers=headers)
        self._patience = patience

    async def translate(
        self,
        texts: Texts,
        source: str,
        target: str,
        *,
        batch: int = 50,
        progress: bool = False,
        **parameters: Any,
    ) -> Texts:
        """Returns the translation of a text, or of a list, which is sent in parts of `batch` texts.
        `progress` shows a bar."""
        given = [texts] if isinstance(texts, str) else list(texts)
        fields = {"source": source, "target": target} | parameters
        translations: list[str] = await self._in_parts(
            "/translate", "q", given, batch, fields, "translatedText", progress
        )
        return translations[0] if isinstance(texts, str) else translations

    async def translate_document(
        self,
        file: str | Path,
        source: str,
        target: str,
        output: str | Path | None = None,
        **parameters: Any,
    ) -> Path:
        """Translates a file, and returns the path of the new one: `output`, or beside it with the
        name that the server gives."""
        file, fields = Path(file), {"source": source, "target": target} | parameters
        sent = {"file": (file.name, file.read_bytes())}
        address = (await self._request("POST", "/translate_file", files=sent, data=fields)).json()[
            "translatedFileUrl"
        ]
        answer = await self._request("GET", DOWNLOAD + address.partition(DOWNLOAD)[2])
        written = Path(output) if output else file.with_name(unquote(address.rpartition("/")[2]))
        written.write_bytes(answer.content)
        return written

    async def attention(self, text: str, source: str, target: str, **parameters: Any) -> Attention:
        """Returns the attention of a sentence's translation. `kind`, `layer` and `head` choose
        maps, `view` the picture."""
        query = {"q": text, "source": source, "target": target} | parameters
        numbers = {name: value for name, value in query.items() if name not in PICTURE}
        answer = await self._request("GET", "/attention", params=numbers | {"format": "npz"})
        picture = await self._request("GET", "/attention", params=query | {"format": "svg"})
        attention = Attention(np.load(io.BytesIO(answer.content)))
        attention.svg = picture.text[picture.text.index("<svg") :]
        return attention

    async def align(
        self,
        pairs: Iterable[tuple[str, str]],
        source: str,
        target: str,
        *,
        progress: bool = False,
        **parameters: Any,
    ) -> list[dict[str, Any]]:
        """Returns the words of sentences and their translations (`source`, `target`), and the links
        between them (`links`, `pharaoh`). `progress` shows a bar."""
        fields = {"source": source, "target": target} | parameters
        return await self._in_parts(
            "/align", "pairs", list(pairs), ALIGNED_AT_ONCE, fields, "pairs", progress
        )

    async def languages(self) -> Any:
        """Returns the languages: `code`, `name` and `targets` of each."""
        return (await self._request("GET", "/languages")).json()

    async def _in_parts(
        self,
        path: str,
        name: str,
        items: Sequence[Any],
        size: int,
        fields: dict[str, Any],
        answered: str,
        progress: bool,
    ) -> list[Any]:
        """Sends `size` items at once as the field `name`, fewer where the server takes fewer, and
        returns all that the answers have in the field `answered`."""
        found: list[Any] = []
        with tqdm(total=len(items), disable=not progress) as bar:
            while part := items[len(found) : len(found) + size]:
                try:
                    answer = await self._request("POST", path, json={name: part} | fields)
                except ServerError as error:
                    size = len(part) // 2
                    if not size or "exceeds text limit" not in str(error):
                        raise
                    continue
                found += answer.json()[answered]
                bar.update(len(part))
        return found

    async def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        deadline = time.monotonic() + self._patience
        while True:
            response: httpx.Response = await done(self._http.request(method, path, **options))
            if response.is_success:
                return response
            header = response.headers.get("Retry-After", "")
            wait = int(header) if header.isdecimal() else 1  # it may be a date
            if response.status_code not in (429, 503) or time.monotonic() + wait > deadline:
                raise ServerError(response)
            await done(self._sleep(wait))


async def done(value: Any) -> Any:
    """Returns the result of a blocking or of an asynchronous call."""
    return await value if isawaitable(value) else value


def blocking(method: Callable[..., Coroutine[Any, Any, Result]]) -> Callable[..., Result]:
    """Makes a plain method of a coroutine that never waits."""

    @wraps(method)
    def run(*arguments: Any, **options: Any) -> Result:
        try:
            method(*arguments, **options).send(None)
        except StopIteration as end:
            result: Result = end.value
        return result

    return run


class Client(Methods):
    _open, _sleep = httpx.Client, time.sleep
    translate: Any = blocking(Methods.translate)
    translate_document: Any = blocking(Methods.translate_document)
    attention: Any = blocking(Methods.attention)
    align: Any = blocking(Methods.align)
    languages: Any = blocking(Methods.languages)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()


class AsyncClient(Methods):
    _open, _sleep = httpx.AsyncClient, staticmethod(asyncio.sleep)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()
