"""`attentive translate` on the fake engine: order, line ends, errors, and output while input is
still open."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import io
import string
import sys
import threading

import pytest
from tqdm import tqdm

from server.cli.local_services import local_services
from server.cli.terminal import open_text, utf8_lines
from server.cli.translate import (
    FLAGS,
    LINES_AT_ONCE,
    add_arguments,
    request_template,
    translate,
    translate_document,
)
from server.config import Settings
from server.engine.client.status import WorkerFailure
from server.engine.ipc.options import WorkerOptions
from server.errors import InvalidRequest, TranslationFailed
from server.translation.types import TranslationRequest
from tests.support.engine.fake_engine import FakeEngine, fake_catalog
from tests.support.texts.document_files import part, pdf, word_file

REQUEST = TranslationRequest(texts=(), source="en", target="de")


def run(engine: FakeEngine, lines, settings: Settings = Settings()) -> list[str]:  # noqa: B008  it is frozen
    written: list[str] = []
    services = local_services(settings, engine, fake_catalog())
    asyncio.run(translate(services, iter(lines), written.append, REQUEST))
    return written


def test_lines_are_written_in_order_with_their_line_ends():
    lines = ["One two\n", "\n", "  42\r\n", "last"]
    assert run(FakeEngine(), lines) == ["owt enO\n", "\n", "  42\r\n", "tsal"]


@pytest.mark.parametrize("value", ["mark", "retry", "source"])
def test_on_flag(value):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    request = request_template(
        parser.parse_args(["--from", "en", "--to", "de", "--on-flag", value]), Settings()
    )
    assert (request.on_flag, request.thorough) == (value, value != "mark")


def test_a_long_file_is_never_too_much_for_the_queue():
    numbers = range(3 * LINES_AT_ONCE)
    letters = string.ascii_lowercase
    lines = [
        f"{letters[i % 26]}x{letters[i // 26 % 26]}{letters[i // 676]} ".ljust(60, "x") + "\n"
        for i in numbers
    ]
    settings = Settings(queue_seconds=0.1, queue_tokens=1)
    assert run(FakeEngine(delay=0.01), lines, settings) == [f"{line[-2::-1]}\n" for line in lines]


def test_the_flags_are_those_of_the_worker_and_of_the_log():
    worker = {field.name for field in dataclasses.fields(WorkerOptions)} & {
        field.name for field in dataclasses.fields(Settings)
    }
    assert worker | {"log_format", "log_level", "weights", "model_bytes", "beam_size"} <= set(FLAGS)


def test_the_first_failure_stops_the_command():
    engine = FakeEngine()
    engine.failures["bad"] = WorkerFailure("poison", "No.")
    with pytest.raises(TranslationFailed, match=r"No\."):
        run(engine, ["good\n", "bad\n", *["more\n"] * 1_000])
    assert engine.stopped


def test_a_file_that_is_not_utf8_is_rejected(tmp_path):
    file = tmp_path / "picture"
    file.write_bytes(b"fine\n\xff\xfe\n")
    with open_text(str(file), "r") as lines, pytest.raises(InvalidRequest, match="UTF-8"):
        run(FakeEngine(), utf8_lines(lines))


async def test_a_translation_is_written_before_the_next_line_is_read():
    answered, written = threading.Event(), []

    def typing():
        yield "first\n"
        assert answered.wait(60)
        yield "second\n"

    def write(line: str) -> None:
        written.append(line)
        answered.set()

    await translate(
        local_services(Settings(), FakeEngine(), fake_catalog()), typing(), write, REQUEST
    )
    assert written == ["tsrif\n", "dnoces\n"]


@pytest.mark.parametrize(
    ("name", "content", "output", "expected"),
    [
        ("a.md", b"# One two\n\nThree *four*\n", "b.md", "# owt enO"),
        ("a.DOCX", word_file(), "b.docx", "eltit ehT"),
        ("a.pdf", pdf("One two"), "b.html", "owt enO"),
        ("a.json", b'{"a": "One two"}', "-", '{"a": "owt enO"}'),
    ],
)
def test_a_document_is_translated_whole(tmp_path, capfdbinary, name, content, output, expected):
    (tmp_path / name).write_bytes(content)
    written = output if output == "-" else str(tmp_path / output)
    services = local_services(Settings(), FakeEngine(), fake_catalog())
    with tqdm(file=io.StringIO()) as bar:
        asyncio.run(translate_document(services, str(tmp_path / name), written, REQUEST, bar))
        assert bar.n == bar.total > 0
    sys.stdout.flush()
    made = capfdbinary.readouterr().out if output == "-" else (tmp_path / output).read_bytes()
    assert expected in (
        part(made, "word/document.xml") if made.startswith(b"PK") else made.decode()
    )
