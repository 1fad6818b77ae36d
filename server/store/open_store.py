"""The setting `--state`: opens the store that it selects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from server.config import Settings, flag_and_variable
from server.errors import SettingsError
from server.store.sqlite import SQLiteStore, holds_data

if TYPE_CHECKING:
    from server.store.interface import Store
    from server.store.redis import RedisStore

SCHEMES = ("redis://", "rediss://")


def open_shared(settings: Settings) -> RedisStore | None:
    """Returns the store in Redis, which connects at its first use, or None without `--state`. Raises
    SettingsError, whose message does not quote the setting: it may contain a password."""
    if not settings.state:
        return None
    if not settings.state.startswith(SCHEMES):
        raise SettingsError(f"{flag_and_variable('state')} must be redis://host:port.")
    try:
        from server.store.redis import RedisStore, connect

        return RedisStore(connect(settings.state))
    except ImportError:
        raise SettingsError(
            f"{flag_and_variable('state')} redis:// needs the extra attentive-server[redis]."
        ) from None
    except (ValueError, TypeError):  # the original message may contain the password
        raise SettingsError(
            f"{flag_and_variable('state')} is not a valid address of Redis."
        ) from None


@asynccontextmanager
async def store_of_command(settings: Settings, create: bool = False) -> AsyncIterator[Store]:
    """Yields the store of a server for a command, and closes it. Without `create` a missing data
    folder, perhaps mistyped, counts as empty. Raises SettingsError without a data folder and
    Redis."""
    store: Store | None = open_shared(settings)
    if store is None and settings.data is None:
        raise SettingsError(
            "--data (ATTENTIVE_DATA) must name the data folder of the server, or --state "
            "(ATTENTIVE_STATE) the Redis that all "
            "servers share; a server without both has no keys and no glossaries that last."
        )
    if store is None:
        folder = settings.data
        store = SQLiteStore(folder if folder and (create or holds_data(folder)) else None)
    try:
        yield store
    finally:
        await store.stop()
