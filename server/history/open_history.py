"""Opens the history that the settings select: in memory, in the data folder, or in Redis."""

from __future__ import annotations

from pathlib import Path

from server.config import Settings
from server.errors import SettingsError
from server.history.memory import History
from server.history.persistent import PersistentHistory, Store
from server.history.sqlite import MIN_BYTES, SQLiteStore
from server.state.setting import state_kind


def open_history(settings: Settings) -> History | None:
    """Returns the history, or None where it is switched off. Raises SettingsError where it cannot be opened."""
    if not settings.history:
        return None
    bounds = (settings.history_size, settings.history_bytes, settings.history_seconds)
    match state_kind(settings):
        case "redis":
            return PersistentHistory(_redis_store(settings), *bounds)
        case "sqlite" if settings.data is not None:
            return PersistentHistory(_sqlite_store(settings, settings.data), *bounds)
    return History(*bounds)


def _sqlite_store(settings: Settings, folder: Path) -> Store:
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
            f"--data (ATTENTIVE_DATA): the history in {str(folder)!r} cannot be opened: {error}."
        ) from None


def _redis_store(settings: Settings) -> Store:
    """Returns a store that connects at its first use: Redis may start after this server."""
    try:
        from server.history.redis import RedisStore, connect

        client = connect(settings.state)
    except (ImportError, ValueError):  # the original message may contain a password
        raise SettingsError(
            "--state must be redis://host:port, which needs the extra: attentive-server[redis]."
        ) from None
    return RedisStore(client, settings.history_size, settings.history_bytes, settings.history_seconds)
