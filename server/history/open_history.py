"""Opens the history that the settings select: in memory, in the data folder, or in Redis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from server.config import Settings
from server.errors import SettingsError
from server.history.memory import History
from server.history.persistent import PersistentHistory
from server.history.sqlite import MIN_BYTES, SQLiteStore
from server.state.setting import state_kind

if TYPE_CHECKING:
    from server.state.redis import RedisState


def open_history(settings: Settings, state: RedisState | None = None) -> History | None:
    """Returns the history, or None where it is switched off. With `state` it is in Redis. Raises SettingsError where it
    cannot be opened."""
    if not settings.history:
        return None
    bounds = (settings.history_size, settings.history_bytes, settings.history_seconds)
    if state is not None:
        from server.history.redis import RedisHistory

        return RedisHistory(state, *bounds)
    if settings.data is not None and state_kind(settings) == "sqlite":
        return PersistentHistory(_sqlite_store(settings, settings.data), *bounds)
    return History(*bounds)


def _sqlite_store(settings: Settings, folder: Path) -> SQLiteStore:
    """Returns a store that opens its database later, so that a damaged one does not prevent the start."""
    if settings.history_bytes < MIN_BYTES:
        raise SettingsError(
            f"--history-bytes (ATTENTIVE_HISTORY_BYTES) must be at least {MIN_BYTES:,} with --data, because even an "
            "empty database occupies some bytes."
        )
    try:
        return SQLiteStore(folder, settings.history_size, settings.history_bytes, settings.history_seconds)
    except OSError as error:
        raise SettingsError(
            f"--data (ATTENTIVE_DATA): the history in {str(folder)!r} cannot be opened: {error.strerror}."
        ) from None
