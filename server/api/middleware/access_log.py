"""Log and metrics of ended requests. Refusals are many under load: of those of one kind in a second the first is a line of
its own, and a second line has the number of the others."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextvars import Context

from server.observability.logging import request_id
from server.observability.metrics import Metrics

log = logging.getLogger("server.access")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Routes that monitoring requests every few seconds."""
REFUSED = 429
SECONDS = 1.0
"""Time in which refusals of one kind are counted together."""
Kind = tuple[tuple[str, object], ...]
"""Route, key, reason and detail of a refusal, by name."""


RECORDS = {
    level: vars(logging.LogRecord(log.name, level, __file__, 0, "request", (), None))
    for level in (logging.DEBUG, logging.INFO)
}
"""What all records of a level have; to make each anew takes half of the time of a line."""


def record(level: int, fields: Mapping[str, object]) -> logging.LogRecord:
    """Returns the record of a request."""
    now = time.time()
    made = logging.LogRecord.__new__(logging.LogRecord)
    vars(made).update(RECORDS[level], created=now, msecs=now % 1 * 1_000, **fields)
    return made


class AccessLog:
    """Counts ended requests in the metrics, and logs them. Belongs to one event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._refused: Counter[Kind] = Counter()
        """The refusals of the present second by kind, without the first of each."""

    def add(self, route: str, method: str, status: int, seconds: float, fields: Mapping[str, object]) -> None:
        """Adds a request that took so many seconds. `fields` are further ones of its line."""
        method = method if method in METHODS else "other"
        self._metrics.http(route, method, status, seconds)
        if status == REFUSED and self._is_counted(("route", route), *fields.items()):
            return
        level = logging.DEBUG if route in QUIET and status < 400 else logging.INFO
        if log.isEnabledFor(level):
            line = {"route": route, "method": method, "status": status, "seconds": round(seconds, 6)}
            log.handle(record(level, {**line, "request_id": request_id.get(), **fields}))

    def _is_counted(self, *kind: tuple[str, object]) -> bool:
        if kind in self._refused:
            self._refused[kind] += 1
            return True
        if not self._refused:
            asyncio.get_running_loop().call_later(SECONDS, self.flush, context=Context())  # of no request
        self._refused[kind] = 0
        return False

    def flush(self) -> None:
        """Logs how many refusals were counted."""
        refused, self._refused = self._refused, Counter()
        for kind, number in refused.items():
            if number:
                log.info("requests refused", extra={**dict(kind), "status": REFUSED, "requests": number})
