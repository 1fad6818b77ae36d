"""The least of LibreTranslate's dialect that a measurement needs: which directions there are, and translate."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx

_PATIENCE_SECONDS = 120.0


class DialectError(RuntimeError):
    """The server did not answer as LibreTranslate would; the message holds the status and its error."""


class Client:
    """A blocking client of one server. Waits and asks again when told to slow down (429)."""

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
        """All `source-target` that GET /languages lists."""
        languages = _body(self._http.get("/languages"))
        return tuple(f"{item['code']}-{target}" for item in languages for target in item["targets"])

    def translate(
        self, texts: Sequence[str], source: str, target: str, fields: dict[str, Any] | None = None
    ) -> list[str]:
        """Translations of the texts in their order, asked for as one list. Raises DialectError."""
        body = {"q": list(texts), "source": source, "target": target, "format": "text", **self._key, **(fields or {})}
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            answer = self._http.post("/translate", json=body)
            if answer.status_code != 429 or time.monotonic() > deadline:
                break
            time.sleep(min(10.0, float(answer.headers.get("Retry-After", 1))))
        found = _body(answer)["translatedText"]
        if not isinstance(found, list) or len(found) != len(texts):
            raise DialectError(f"{len(texts)} texts were sent and {found!r:.200} came back.")
        return [str(text) for text in found]


def _body(answer: httpx.Response) -> Any:
    if answer.status_code != 200:
        raise DialectError(f"{answer.request.url} answered {answer.status_code}: {answer.text[:300]}")
    return answer.json()
