"""Two whole servers on one Redis: jobs and files work through either, and nothing that was accepted
is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import redis as redis_client
from starlette.testclient import TestClient

from server.documents import store
from server.errors import StateUnreachable
from server.store.redis import name_of
from tests.support.servers.in_process import wait_for
from tests.support.servers.ports import free_port
from tests.unit.server.api.compat.test_deepl_documents import finished, send

JOB, FILES = name_of("jobs") + ":", name_of("files") + ":"
Two = tuple[TestClient, TestClient]


@pytest.fixture
def two(serve: Callable[..., TestClient], redis: str) -> Two:
    return serve(state=redis, cache_bytes=0), serve(state=redis, cache_bytes=0)


@pytest.fixture
def direct(redis: str) -> Iterator[redis_client.Redis]:
    with redis_client.Redis.from_url(redis) as client:
        yield client


def result(client: TestClient, sent: dict):
    return client.post(
        f"/v2/document/{sent['document_id']}/result", data={"document_key": sent["document_key"]}
    )


def test_a_job_of_one_server_is_polled_and_fetched_through_the_other(two, direct):
    first, second = two
    sent = send(first).json()
    assert finished(second, sent) == {
        "document_id": sent["document_id"],
        "status": "done",
        "billed_characters": 11,
    }
    response = result(second, sent)
    assert (response.status_code, response.content) == (200, b"dlrow olleH")
    assert "a.de.txt" in response.headers["content-disposition"]
    assert [result(client, sent).status_code for client in two] == [404, 404]
    assert not direct.keys(JOB + "*") and not direct.keys(FILES + "*")
    folder = first.app.services.documents.store._folder
    # the upload is deleted after the job is reported as done
    wait_for(lambda: not list(folder.iterdir()))


def test_a_result_is_fetched_exactly_once_by_many_clients(two):
    first, second = two
    sent = send(first).json()
    finished(first, sent)
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda client=client: statuses.append(result(client, sent).status_code)
        )
        for client in (first, second) * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(statuses) == 8 and statuses.count(200) == 1
    # 410: the file went between job and file
    assert set(statuses) == {200, 404} or set(statuses) == {200, 404, 410}


def test_a_result_that_cannot_be_read_is_not_lost(two, monkeypatch):
    first, second = two
    sent = send(first).json()
    finished(second, sent)
    records = second.app.services.store
    find = records.find

    async def unreachable(name: str, *rest):
        if name == "files":
            raise StateUnreachable
        return await find(name, *rest)

    with monkeypatch.context() as outage:
        outage.setattr(records, "find", unreachable)
        assert result(second, sent).status_code == 503
    assert result(second, sent).content == b"dlrow olleH"


def test_a_job_whose_server_was_killed_says_so(two, engine, direct):
    first, second = two
    engine.gate = threading.Event()
    sent = send(first).json()
    first.portal.call(first.app.services.store._tasks.clear)  # no heartbeat any more
    direct.delete(*direct.keys("attentive:servers:*"))
    answer = finished(second, sent)
    assert answer["status"] == "error" and "send it again" in answer["error_message"]
    engine.gate.set()


def test_a_job_whose_server_stops_says_so(two, engine):
    first, second = two
    engine.gate = threading.Event()
    sent = send(first).json()
    wait_for(lambda: engine.submitted)
    first.portal.call(first.app.services.file_jobs.close)
    engine.gate.set()
    answer = finished(second, sent)
    assert answer["status"] == "error" and "send it again" in answer["error_message"]


def test_a_translated_file_is_downloaded_from_either_server(two):
    first, second = two
    answer = first.post(
        "/translate_file",
        files={"file": ("a.txt", b"Hello")},
        data={"source": "en", "target": "de"},
    )
    path = answer.json()["translatedFileUrl"].removeprefix("http://testserver")
    for client in (second, first, second):
        response = client.get(path)
        assert (response.status_code, response.content) == (200, b"olleH")
    assert second.get("/download_file/" + "x" * 32 + "/a").status_code == 404


def test_a_file_that_is_no_longer_kept_is_gone_everywhere(two, direct):
    answer = two[0].post(
        "/translate_file",
        files={"file": ("a.txt", b"Hello")},
        data={"source": "en", "target": "de"},
    )
    path = answer.json()["translatedFileUrl"].removeprefix("http://testserver")
    direct.delete(FILES + path.split("/")[2])
    assert [client.get(path).status_code for client in two] == [410, 410]


def test_results_wait_for_redis_and_the_oldest_of_the_largest_holder_is_deleted(
    serve, redis, monkeypatch
):
    client = serve(state=redis, file_keep_bytes=1_000)
    records = client.app.services.store
    put, outages = records.put, iter([True, False, True, False])

    async def unreachable_at_first(name: str, *rest):
        if name == "files" and next(outages):
            raise StateUnreachable
        await put(name, *rest)

    monkeypatch.setattr(records, "put", unreachable_at_first)
    jobs = []
    for letter in (b"A", b"B"):
        jobs.append(send(client, content=letter * 600).json())
        assert finished(client, jobs[-1])["status"] == "done"
    assert [result(client, job).status_code for job in jobs] == [410, 200]


def test_large_files_are_in_the_shared_folder(serve, redis, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(store, "IN_REDIS", 100)
    folder = tmp_path / "files"
    folder.mkdir()
    abandoned = folder / ("0" * 8 + "x" * 32)  # by a server that was killed
    abandoned.touch()
    first, second = (serve(state=redis, file_folder=folder) for _ in range(2))
    sent = send(first, content=b"x" * 150).json()
    assert finished(second, sent)["status"] == "done"
    assert [path.stat().st_size for path in folder.iterdir()] == [150]
    assert result(second, sent).content == b"x" * 150
    assert not list(folder.iterdir())


def test_a_file_that_fits_nowhere_is_refused_at_the_upload(serve, redis, monkeypatch):
    monkeypatch.setattr(store, "IN_REDIS", 100)
    client = serve(state=redis)
    answer = send(client, content=b"x" * 150)
    assert answer.status_code == 413 and "over the limit of 100" in answer.json()["message"]


def test_without_redis_a_file_is_refused_with_a_reason(serve):
    client = serve(state=f"redis://127.0.0.1:{free_port()}")
    wait_for(lambda: not client.app.services.state.up)
    answer = send(client)
    assert answer.status_code == 503 and "shared state" in answer.json()["message"]
    assert client.app.services.documents.admission.requests == 0


def test_a_shared_folder_needs_redis_and_must_exist(tmp_path: Path):
    from server.config import Settings
    from server.documents.store import open_store
    from server.errors import SettingsError
    from server.store.sqlite import SQLiteStore

    with pytest.raises(SettingsError, match="needs --state"):
        open_store(Settings(file_folder=tmp_path), SQLiteStore(None))
    with pytest.raises(SettingsError, match="must be a folder"):
        open_store(Settings(file_folder=tmp_path / "none"), SimpleNamespace(shared=True))
