"""Opens the glossaries that the settings select: in memory, in the data folder, or in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from server.config import Settings
from server.glossaries.glossaries import GlossaryStore
from server.glossaries.sqlite import SQLiteGlossaries
from server.state.setting import state_kind

if TYPE_CHECKING:
    from server.state.redis import RedisState


def open_glossaries(settings: Settings, state: RedisState | None) -> GlossaryStore:
    """Returns the store. With `state` it is in Redis. Raises SettingsError where it cannot be opened."""
    if state is not None:
        from server.glossaries.redis import RedisGlossaries  # needs the extra `redis`

        return RedisGlossaries(state)
    return SQLiteGlossaries(settings.data if state_kind(settings) == "sqlite" else None)
