"""Documents are read in another process that is bounded in memory and time, and replaced when it
ends."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from server.access.admission import Admission, Permit
from server.documents import service
from server.documents.document import Workspace
from server.documents.formats import format_of
from server.documents.service import DocumentTranslator, ReceivedDocument
from server.engine.client.lease import Backlog
from server.errors import InvalidRequest, PayloadTooLarge, TextTooLong
from tests.support.texts.document_files import pdf, word_file

pytestmark = pytest.mark.slow


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)


def document(workspace: Workspace, name: str, caller: str, order: int) -> ReceivedDocument:
    permit = Permit(lambda _: None)
    return ReceivedDocument(workspace, permit, caller, order, name, "de", format_of(name))


def run(
    workspace: Workspace, *names: str, action="read", characters=1_000, after=lambda reader: None
) -> list:
    """Reads the upload as a file of each name. Returns the result or the error of each."""

    async def all_of_them() -> list:
        documents = DocumentTranslator(None, None, Admission(Backlog(1)), characters, 1)
        results = []
        for order, name in enumerate(names):
            task = documents.run(action, document(workspace, name, "x", order))
            results += await asyncio.gather(task, return_exceptions=True)
            after(documents.readers.processes[-1])
        await documents.readers.close()
        return results

    return asyncio.run(all_of_them())


def test_the_kernel_ends_the_process_first_where_memory_is_used_up(workspace):
    scores = []
    workspace.upload.write_bytes(word_file())
    run(workspace, "a.docx", after=lambda reader: scores.append(oom_score(reader._process.pid)))
    assert scores == [min(oom_score("self") + 300, 1000)]


def oom_score(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text(encoding="ascii"))


@pytest.mark.parametrize("name", ["a.pdf", "a.md", "a.yml"])
def test_native_libraries_work_within_the_limits(workspace, name):
    workspace.upload.write_bytes(pdf("Hello world.") if name == "a.pdf" else b"Hello world.")
    [result] = run(workspace, name)
    assert result["characters"] == len("Hello world.")


def test_errors_of_a_document_are_raised_and_the_process_goes_on(workspace):
    workspace.upload.write_bytes(b"x" * 2_000)
    damaged, read = run(workspace, "a.docx", "a.txt", characters=2_000)
    assert type(damaged) is InvalidRequest and read["characters"] == 2_000
    assert type(run(workspace, "a.txt")[0]) is TextTooLong


def test_a_process_that_ends_during_a_task_is_replaced(workspace):
    workspace.upload.write_bytes(b"x")
    kill = iter([True, False, False])
    first, second, third = run(
        workspace,
        *["a.txt"] * 3,
        after=lambda reader: next(kill) and os.kill(reader._process.pid, signal.SIGKILL),
    )
    assert first["characters"] == third["characters"] == 1
    assert isinstance(second, PayloadTooLarge)


def test_a_document_that_takes_too_long_is_refused(workspace, monkeypatch):
    workspace.upload.write_bytes(b"x")
    monkeypatch.setattr(service, "READER_SECONDS", 0.0)
    assert isinstance(run(workspace, "a.txt")[0], PayloadTooLarge)


def test_memory_is_bounded(workspace):
    workspace.upload.write_bytes(b"ab\n" * 8_000_000)
    [result] = run(workspace, "a.srt", characters=10**9)
    assert isinstance(result, PayloadTooLarge) and "memory" in result.message


def test_a_slow_file_delays_no_other(workspace, tmp_path):
    """One caller has two files that take forever."""

    async def go() -> dict:
        documents = DocumentTranslator(None, None, Admission(Backlog(1)), 1_000, 1)
        slow, quick = Workspace(tmp_path / "slow"), workspace
        slow.folder.mkdir()
        os.mkfifo(slow.upload)  # reading it waits for a writer
        quick.upload.write_bytes(b"Hello world.")
        waiting = [
            asyncio.create_task(documents.run("read", document(slow, "a.txt", "x", i)))
            for i in range(2)
        ]
        async with asyncio.timeout(30):
            result = await documents.run("read", document(quick, "a.txt", "y", 9))
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        result["again"] = await documents.run("read", document(quick, "a.txt", "x", 10))
        await documents.readers.close()
        return result

    result = asyncio.run(go())
    assert result["characters"] == result["again"]["characters"] == 12
