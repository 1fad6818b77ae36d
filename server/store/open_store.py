"""The setting `--state`: opens the store that it selects."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal

from server.config import Settings, flag_and_variable
from server.errors import SettingsError
from server.store.sqlite import SQLiteStore, holds_data

if TYPE_CHECKING:
    from server.store.interface import Store
    from server.store.redis import RedisStore

log = logging.getLogger(__name__)
StateKind = Literal["sqlite", "memory", "redis"]
SCHEMES = ("redis://", "rediss://")


def state_kind(settings: Settings) -> StateKind:
    """Returns the kind of `--state`; without the setting, sqlite with a data folder and memory without one.

    Raises SettingsError for another value, and for sqlite without a data folder. The message does not quote the value,
    which may contain a password.
    """
    if settings.state.startswith(SCHEMES):
        return "redis"
    match settings.state:
        case "":
            return "memory" if settings.data is None else "sqlite"
        case "memory":
            return "memory"
        case "sqlite" if settings.data is not None:
            return "sqlite"
        case "sqlite":
            raise SettingsError(f"{flag_and_variable('state')} sqlite needs --data, the folder of its files.")
    raise SettingsError(f"{flag_and_variable('state')} must be sqlite, memory or redis://host:port.")


def open_shared(settings: Settings) -> RedisStore | None:
    """Returns the store in Redis, or None for state of this server alone. It connects at its first use, as Redis may
    start after this server. Raises SettingsError for a setting that cannot be used."""
    if state_kind(settings) != "redis":
        return None
    try:
        from server.store.redis import RedisStore
        from server.store.redis_connection import connect

        return RedisStore(connect(settings.state))
    except ImportError:
        raise SettingsError(f"{flag_and_variable('state')} redis:// needs the extra attentive-server[redis].") from None
    except (ValueError, TypeError):  # the original message may contain the password
        raise SettingsError(f"{flag_and_variable('state')} is not a valid address of Redis.") from None


def open_own(settings: Settings) -> SQLiteStore:
    """Returns the store of this server alone: in the data folder, or in memory. Raises SettingsError where the file
    cannot be opened."""
    return SQLiteStore(settings.data if state_kind(settings) == "sqlite" else None)


def open_keys(settings: Settings, store: Store) -> Store | None:
    """Returns the store of the API keys: the given one if it is permanent, else the file of the data folder, or None
    without a data folder."""
    if store.shared and settings.data is not None and holds_data(settings.data):
        log.warning("the API keys of the data folder are not used; `attentive keys import` copies them to Redis")
    if store.permanent or settings.data is None:
        return store if store.permanent else None
    return SQLiteStore(settings.data)


@asynccontextmanager
async def store_of_command(settings: Settings, create: bool = False) -> AsyncIterator[Store]:
    """Yields the store of a server for a command, and closes it. Without `create` a data folder that is missing, perhaps
    because it was mistyped, counts as empty. Raises SettingsError without data folder and Redis."""
    store: Store | None = open_shared(settings)
    if store is None and settings.data is None:
        raise SettingsError(
            "--data (ATTENTIVE_DATA) must name the data folder of the server, or --state (ATTENTIVE_STATE) the Redis that all "
            "servers share; a server without both has no keys and no glossaries that last."
        )
    if store is None:
        folder = settings.data
        store = SQLiteStore(folder if folder and (create or holds_data(folder)) else None)
    try:
        yield store
    finally:
        await store.stop()
