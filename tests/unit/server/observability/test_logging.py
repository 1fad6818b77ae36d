"""Log lines: one JSON object each, with the request's id, and nothing that a user wrote."""

from __future__ import annotations

import json
import logging

import pytest

from server.observability.logging import JsonFormatter, TextFormatter, configure_logging, request_id


def record(message: str, **extra) -> logging.LogRecord:
    made = logging.LogRecord("server.test", logging.INFO, __file__, 1, message, (), None)
    vars(made).update(extra)
    return made


def failed(message: str) -> logging.LogRecord:
    try:
        raise ValueError("what the user wrote")
    except ValueError as error:
        return logging.LogRecord(
            "server.test", logging.ERROR, __file__, 1, message, (), (type(error), error, error.__traceback__)
        )


def test_a_line_is_json_with_its_extras():
    token = request_id.set("abc")
    line = json.loads(JsonFormatter().format(record("hello\nworld", status=200)))
    request_id.reset(token)
    assert line["message"] == "hello\nworld" and line["status"] == 200 and line["request_id"] == "abc"
    assert {"time", "level", "logger"} <= set(line)
    assert "request_id" not in json.loads(JsonFormatter().format(record("x")))


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_trace_has_frames_but_no_message_of_the_exception(formatter):
    text = formatter.format(failed("broken"))
    assert "ValueError" in text and "test_logging.py" in text and "failed" in text
    assert "what the user wrote" not in text


def test_text_for_people():
    assert TextFormatter().format(record("hello", status=200)).endswith("info    hello status=200")


def test_configuring_replaces_what_was_there(capsys):
    before = logging.getLogger().handlers[:]
    level = logging.getLogger().level
    try:
        configure_logging("warning", "json")
        logging.getLogger("server.test").info("quiet")
        logging.getLogger("server.test").warning("loud")
        [line] = capsys.readouterr().err.strip().splitlines()
        assert json.loads(line)["message"] == "loud"
    finally:
        logging.basicConfig(handlers=before, level=level, force=True)
        logging.captureWarnings(False)
