"""Opens the storage of documents and their jobs: of this server, or in Redis for several servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from server.config import Settings, flag_and_variable
from server.documents.jobs import FileJobs, Jobs
from server.documents.service import FILES_PER_JOB, DocumentTranslator
from server.documents.store import FileStore, ResultStore
from server.errors import SettingsError

if TYPE_CHECKING:
    from server.store.redis import RedisStore


def open_store(settings: Settings, state: RedisStore | None) -> ResultStore:
    """Returns the store of translated files. Raises SettingsError for a shared folder that cannot be used."""
    bounds = (settings.file_keep_seconds, settings.file_keep_bytes)
    folder = settings.file_folder
    if folder is not None and (state is None or not folder.is_dir()):
        reason = (
            "needs --state redis://host:port" if state is None else f"must be a folder, and {str(folder)!r} is none"
        )
        raise SettingsError(f"{flag_and_variable('file_folder')} {reason}.")
    if state is None:
        return FileStore(*bounds)
    from server.documents.shared_files import SharedFiles  # the client of Redis is an extra
    from server.documents.shared_store import SharedFileStore

    return SharedFileStore(state, SharedFiles(state, folder), *bounds)


def open_jobs(
    settings: Settings, documents: DocumentTranslator, state: RedisStore | None, ready: Callable[[], bool]
) -> Jobs:
    """Returns the jobs of this server, or those of all servers. This one takes up jobs of others while it is `ready`."""
    seconds = settings.file_keep_seconds + settings.file_timeout_seconds
    if state is None:
        return FileJobs(documents, seconds)
    from server.documents.shared_files import SharedFiles
    from server.documents.shared_jobs import SharedFileJobs

    files = SharedFiles(state, settings.file_folder)
    most = FILES_PER_JOB * settings.file_jobs
    return SharedFileJobs(state, documents, files, seconds, settings.file_timeout_seconds, most, ready)
