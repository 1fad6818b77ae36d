"""Log lines on standard error: one JSON object each, with the request's id, and never with a user's text."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from functools import lru_cache

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the HTTP request that the present task works for."""

PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}
ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


def tell(logger: logging.Logger, level: int, message: str, details: Mapping[str, object]) -> None:
    """`logger.log` with `extra`, for a line per request: it does not look up the stack for who called."""
    if logger.isEnabledFor(level):
        record = logging.LogRecord(logger.name, level, "", 0, message, None, None)
        vars(record).update(details)
        logger.handle(record)


class JsonFormatter(logging.Formatter):
    """Time, level, logger, message, request id, and whatever was given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{moment(int(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if identity := request_id.get():
            line["request_id"] = identity
        line |= {key: value for key, value in vars(record).items() if key not in PLAIN}
        if record.exc_info:
            line["exception"] = trace_of(record.exc_info[1])
        return ENCODER.encode(line)


class TextFormatter(logging.Formatter):
    """The same for people's eyes."""

    def format(self, record: logging.LogRecord) -> str:
        extra = "".join(f" {key}={value}" for key, value in vars(record).items() if key not in PLAIN)
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        trace = "".join("\n  " + line for line in trace_of(record.exc_info[1])) if record.exc_info else ""
        return f"{stamp} {record.levelname.lower():7} {record.getMessage()}{extra}{trace}"


@lru_cache(maxsize=1)
def moment(second: int) -> str:
    """A second since the epoch as text, universal time."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))


def trace_of(error: BaseException | None) -> list[str]:
    """Where an exception was raised: its type and frames. Its message is left out, as it may quote a user's text."""
    if error is None:
        return []
    frames = traceback.extract_tb(error.__traceback__)
    return [type(error).__name__, *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)]


def configure(level: str, form: str) -> None:
    """Sends every logger to standard error in one form ("json" or "text")."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it quotes bodies where they are broken
