"""The setting `--state`: where history, API keys, usage, rate limits and glossaries are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from server.config import Settings, flag_and_variable
from server.errors import SettingsError

if TYPE_CHECKING:
    from server.state.redis import RedisState

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


def open_state(settings: Settings) -> RedisState | None:
    """Returns the connection to Redis, or None for state of this server alone. It connects at its first use, as Redis
    may start after this server. Raises SettingsError for a setting that cannot be used."""
    if state_kind(settings) != "redis":
        return None
    try:
        from server.state.redis import RedisState, connect

        return RedisState(connect(settings.state))
    except ImportError:
        raise SettingsError(f"{flag_and_variable('state')} redis:// needs the extra attentive-server[redis].") from None
    except (ValueError, TypeError):  # the original message may contain the password
        raise SettingsError(f"{flag_and_variable('state')} is not a valid address of Redis.") from None
