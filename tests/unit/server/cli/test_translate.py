"""`attentive translate` on the fake worker: order, line ends, errors, and answers while a person still types."""

from __future__ import annotations

import asyncio
import threading

import pytest

from server.cli.translate import LINES_AT_ONCE, decoded, opened, pump, translate
from server.config import Settings
from server.engine.client.supervisor import WorkerFailure
from server.errors import InvalidRequest, TranslationFailed
from server.services import Services
from server.translation.types import TranslationRequest
from tests.support.fake_engine import FakeEngine, fake_catalog

REQUEST = TranslationRequest(texts=(), source="en", target="de")


def run(engine: FakeEngine, lines) -> list[str]:
    written: list[str] = []
    services = Services(Settings(), engine, fake_catalog())
    asyncio.run(translate(services, iter(lines), written.append, REQUEST))
    return written


def test_lines_come_in_order_with_their_ends():
    lines = ["One two\n", "\n", "  42\r\n", "last"]
    assert run(FakeEngine(), lines) == ["owt enO\n", "\n", "  42\r\n", "tsal"]


def test_many_lines():
    lines = [f"line {chr(ord('a') + i % 26)}{chr(ord('a') + i // 26)}\n" for i in range(3 * LINES_AT_ONCE)]
    assert run(FakeEngine(delay=0.001), lines) == [f"{line[-2::-1]}\n" for line in lines]


def test_the_first_failure_ends_it():
    engine = FakeEngine()
    engine.failures["bad"] = WorkerFailure("poison", "No.")
    with pytest.raises(TranslationFailed, match=r"No\."):
        run(engine, ["good\n", "bad\n", *["more\n"] * 1_000])
    assert engine.stopped


def test_a_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "picture"
    file.write_bytes(b"fine\n\xff\xfe\n")
    with opened(str(file), "r") as lines, pytest.raises(InvalidRequest, match="UTF-8"):
        run(FakeEngine(), decoded(lines))


def test_an_answer_does_not_wait_for_the_next_line():
    async def scenario() -> None:
        answered, written = threading.Event(), []

        def typing():
            yield "first\n"
            assert answered.wait(20)
            yield "second\n"

        def write(line: str) -> None:
            written.append(line)
            answered.set()

        services = Services(Settings(), FakeEngine(), fake_catalog())
        await services.start()
        await pump(services.translator, typing(), write, REQUEST)
        await services.stop()
        assert written == ["tsrif\n", "dnoces\n"]

    asyncio.run(scenario())
