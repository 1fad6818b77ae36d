"""Log lines on standard error: one JSON object per line, with the id of the request and without
user text."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from contextlib import nullcontext
from contextvars import ContextVar
from functools import lru_cache
from itertools import filterfalse
from typing import TextIO

import orjson

request_id: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the HTTP request that the current task handles."""
trace_id: ContextVar[str] = ContextVar("trace_id", default="")
"""Id of the W3C trace of this request in hexadecimal; empty without one."""

STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {
    "message",
    "asctime",
    "color_message",
}
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object, with the ids of request and trace and the fields of
    `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": f"{utc_time(int(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name, id in (("request_id", request_id.get()), ("trace_id", trace_id.get())):
            if id:
                line[name] = id
        line |= further_fields(record)
        if record.exc_info:
            line["exception"] = stack_frames(record.exc_info[1])
        try:
            return orjson.dumps(line, str).decode()
        except TypeError:
            # A number of more than 64 bits, or text that is not UTF-8, such as the name of a file.
            return ENCODER.encode(line)


@lru_cache(1)
def utc_time(seconds: int) -> str:
    """Returns date and time of a whole second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class TextFormatter(logging.Formatter):
    """Formats a record as one readable line, with the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = further_fields(record) | ({"trace_id": trace_id.get()} if trace_id.get() else {})
        extra = "".join(f" {key}={value}" for key, value in fields.items())
        stamp = time.strftime("%H:%M:%S", time.localtime(record.created))
        trace = (
            "".join("\n  " + line for line in stack_frames(record.exc_info[1]))
            if record.exc_info
            else ""
        )
        return f"{stamp} {record.levelname.lower():7} {record.getMessage()}{extra}{trace}"


def further_fields(record: logging.LogRecord) -> dict[str, object]:
    """Returns the fields of `extra` in their order."""
    values = vars(record)
    return {name: values[name] for name in filterfalse(STANDARD_FIELDS.__contains__, values)}


def stack_frames(error: BaseException | None) -> list[str]:
    """Returns the type and the frames of an exception, but not its message, which may quote user
    text."""
    if error is None:
        return []
    frames = traceback.extract_tb(error.__traceback__)
    return [
        type(error).__name__,
        *(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames),
    ]


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes each record as one line, which standard error does not keep back."""

    def handle(self, record: logging.LogRecord) -> bool:
        try:
            line = self.format(record) + self.terminator
            with self.lock or nullcontext():
                self.stream.write(line)
        except Exception:  # noqa: BLE001  a line must not end the work that it tells of
            self.handleError(record)
        return True


def configure_logging(level: str, format: str) -> None:
    """Logs to standard error. `format` is "json", "text", or "auto": text on a terminal."""
    # no formatter shows these
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # nor the line of code that logs
    text = format == "text" or (format == "auto" and sys.stderr.isatty())
    handler = LineHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if text else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # its warnings quote malformed request bodies
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
