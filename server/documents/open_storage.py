"""Opens the storage of documents and their jobs: of this server, or in Redis for several servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config import Settings, flag_and_variable
from server.documents.jobs import FileJobs, OwnRecords, SharedRecords
from server.documents.service import DocumentTranslator
from server.documents.shared_store import SharedFileStore
from server.documents.store import FileStore, ResultStore
from server.errors import SettingsError

if TYPE_CHECKING:
    from server.store.redis import RedisStore


def open_store(settings: Settings, store: RedisStore | None) -> ResultStore:
    """Returns the store of translated files. Raises SettingsError for a shared folder that cannot be used."""
    bounds = (settings.file_keep_seconds, settings.file_keep_bytes)
    folder = settings.file_folder
    if folder is not None and (store is None or not folder.is_dir()):
        reason = (
            "needs --state redis://host:port" if store is None else f"must be a folder, and {str(folder)!r} is none"
        )
        raise SettingsError(f"{flag_and_variable('file_folder')} {reason}.")
    return FileStore(*bounds) if store is None else SharedFileStore(store, folder, *bounds)


def open_jobs(settings: Settings, documents: DocumentTranslator, store: RedisStore | None) -> FileJobs:
    """Returns the jobs of this server, whose states other servers find in Redis."""
    seconds = settings.file_keep_seconds + settings.file_timeout_seconds
    return FileJobs(documents, OwnRecords(seconds) if store is None else SharedRecords(store, seconds))
