"""A client for LibreTranslate-compatible servers: available directions and translation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

_RETRY_SECONDS = 120.0


class ServerError(RuntimeError):
    """There was no answer, or not the one that LibreTranslate gives. The message contains the status and the error."""


class Client:
    """A blocking client of one server. After 429 it waits and retries."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        self._http = httpx.Client(base_url=url.rstrip("/"), timeout=300.0)
        self._key = {} if api_key is None else {"api_key": api_key}

    def directions(self) -> tuple[str, ...]:
        """Returns all directions of GET /languages as `source-target`. Raises ServerError."""
        languages = self._json("GET", "/languages")
        return tuple(f"{item['code']}-{target}" for item in languages for target in item["targets"])

    def translate_all(
        self, texts: Sequence[str], source: str, target: str, batch: int, fields: dict[str, Any] | None = None
    ) -> Iterator[str]:
        """Yields the translations of the texts in order, requested in lists of `batch` texts. Raises ServerError."""
        for start in range(0, len(texts), batch):
            part = list(texts[start : start + batch])
            body = {"q": part, "source": source, "target": target, "format": "text", **self._key, **(fields or {})}
            translations = self._json("POST", "/translate", body)["translatedText"]
            if not isinstance(translations, list) or len(translations) != len(part):
                raise ServerError(f"{len(part)} texts were sent, and the answer was {translations!r:.200}.")
            yield from map(str, translations)

    def _json(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                answer = self._http.request(method, path, json=body)
            except httpx.HTTPError as error:
                raise ServerError(f"{self._http.base_url} did not answer: {error}") from error
            if answer.status_code == 200:
                return answer.json()
            if answer.status_code != 429 or time.monotonic() > deadline:
                raise ServerError(f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}")
            time.sleep(min(10.0, float(answer.headers.get("Retry-After", 1))))
