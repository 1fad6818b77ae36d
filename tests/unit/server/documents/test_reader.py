"""Documents are read in another process that is bounded in memory and time, and replaced when it ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from server.documents import reader
from server.documents.reader import DocumentReader
from server.documents.workspace import Workspace, add_lines, read_lines
from server.errors import InvalidRequest, PayloadTooLarge, TextTooLong
from tests.support.texts.document_files import pdf, word_file

pytestmark = pytest.mark.slow


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def task(workspace: Workspace, action: str = "read", name: str = "a.docx", characters: int = 1_000) -> dict:
    return {"action": action, "folder": str(workspace.folder), "name": name, "target": "de", "characters": characters}


def run(*tasks: dict, before=lambda reader: None) -> list:
    """Returns the result or the error of each task."""

    async def all_of_them() -> list:
        documents = DocumentReader()
        results = []
        for order, each in enumerate(tasks):
            results.append((await asyncio.gather(documents.run(each, "x", order), return_exceptions=True))[0])
            before(documents)
        await documents.close()
        return results

    return asyncio.run(all_of_them())


def test_a_document_is_read_and_written(workspace):
    workspace.upload.write_bytes(word_file())
    [result] = run(task(workspace))
    assert (result["format"], result["characters"] > 50) == ("html", True)
    assert "The title" in result["sample"]
    texts = list(read_lines(workspace.texts))
    add_lines(workspace.translations, [text.replace("title", "Titel") for text in texts[:1]])
    add_lines(workspace.translations, texts[1:])
    run(task(workspace, "write"))
    assert b"word/document.xml" in workspace.result.read_bytes()


def test_the_kernel_ends_the_process_first_where_memory_is_used_up(workspace):
    scores = []
    workspace.upload.write_bytes(word_file())
    run(task(workspace), before=lambda documents: scores.append(oom_score(documents.process._process.pid)))
    assert scores == [min(oom_score("self") + 300, 1000)]


def oom_score(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", ["a.pdf", "a.md", "a.yml"])
def test_native_libraries_work_within_the_limits(workspace, name):
    workspace.upload.write_bytes(pdf("Hello world.") if name == "a.pdf" else b"Hello world.")
    [result] = run(task(workspace, name=name))
    assert result["characters"] == len("Hello world.")


def test_errors_of_a_document_are_raised_and_the_process_goes_on(workspace):
    workspace.upload.write_bytes(b"x" * 2_000)
    damaged, long, read = run(
        task(workspace), task(workspace, name="a.txt"), task(workspace, name="a.txt", characters=2_000)
    )
    assert (type(damaged), type(long)) == (InvalidRequest, TextTooLong)
    assert read["characters"] == 2_000


def test_a_process_that_ends_during_a_task_is_replaced(workspace):
    workspace.upload.write_bytes(b"x")
    read = task(workspace, name="a.txt")
    first, second, third = run(read, {"unknown": 1}, read)
    assert first["characters"] == third["characters"] == 1
    assert isinstance(second, PayloadTooLarge)


def test_a_document_that_takes_too_long_is_refused(workspace, monkeypatch):
    workspace.upload.write_bytes(b"x")
    monkeypatch.setattr(reader, "TASK_SECONDS", 0.0)
    assert isinstance(run(task(workspace, name="a.txt"))[0], PayloadTooLarge)


def test_memory_is_given_back(workspace, monkeypatch):
    workspace.upload.write_bytes(b"x")
    monkeypatch.setattr(reader, "KEPT_BYTES", 1)
    assert run(task(workspace, name="a.txt"), before=lambda documents: documents.process._process and pytest.fail())


def test_memory_is_bounded(workspace):
    workspace.upload.write_bytes(b"ab\n" * 8_000_000)
    [result] = run(task(workspace, name="a.srt", characters=10**9))
    assert isinstance(result, PayloadTooLarge) and "memory" in result.message
