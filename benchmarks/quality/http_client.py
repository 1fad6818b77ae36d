"""A client for LibreTranslate-compatible servers: available directions and translation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

_RETRY_SECONDS = 120.0


class ServerError(RuntimeError):
    """There was no answer, or not the one that LibreTranslate gives. The message contains the status and the error."""


class Client:
    """A blocking client of one server. After 429 it waits and retries."""

    def __init__(self, url: str, *, api_key: str | None = None, timeout: float = 300.0) -> None:
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=timeout)
        self._key = {} if api_key is None else {"api_key": api_key}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def directions(self) -> tuple[str, ...]:
        """Returns all directions of GET /languages as `source-target`. Raises ServerError."""
        languages = _body(self._request("GET", "/languages"))
        return tuple(f"{item['code']}-{target}" for item in languages for target in item["targets"])

    def translate(
        self, texts: Sequence[str], source: str, target: str, fields: dict[str, Any] | None = None
    ) -> list[str]:
        """Returns the translations of the texts in order, requested as one list. Raises ServerError."""
        body = {"q": list(texts), "source": source, "target": target, "format": "text", **self._key, **(fields or {})}
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            answer = self._request("POST", "/translate", body)
            if answer.status_code != 429 or time.monotonic() > deadline:
                break
            time.sleep(min(10.0, float(answer.headers.get("Retry-After", 1))))
        found = _body(answer)["translatedText"]
        if not isinstance(found, list) or len(found) != len(texts):
            raise ServerError(f"{len(texts)} texts were sent, and the answer was {found!r:.200}.")
        return [str(text) for text in found]

    def translate_all(
        self, texts: Sequence[str], source: str, target: str, batch: int, fields: dict[str, Any] | None = None
    ) -> Iterator[str]:
        """Yields the translations of the texts in order, requested in lists of `batch` texts. Raises ServerError."""
        for start in range(0, len(texts), batch):
            yield from self.translate(texts[start : start + batch], source, target, fields)

    def _request(self, method: str, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=body)
        except httpx.HTTPError as error:
            raise ServerError(f"{self._http.base_url} did not answer: {error}") from error


def _body(answer: httpx.Response) -> Any:
    if answer.status_code != 200:
        raise ServerError(f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}")
    return answer.json()
