"""The options of a Ray Serve application, from the command line or from `args` of a Serve configuration file. Imports
no ray."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from server.config import Settings, flag_and_variable
from server.errors import SettingsError

ROUTERS = ("queue", "model")
NOT_FOR_REPLICAS = ("host", "port")
"""Settings of the listener, which is Ray's."""
_PASSWORD = re.compile(r"://[^/?]*@|[?&]password=")
"""Finds a user and a password in an address."""
STOP_SECONDS = 10.0
"""Time after the grace time in which a replica ends its worker and closes its stores."""


def option(default: float | str, help: str) -> Any:
    """Returns a dataclass field with its help text."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How many replicas there are, what each of them gets, and how requests are distributed.

    `settings` are the settings of every replica by name. Those that it does not name come from the variables of each
    node, as do all secrets, because Ray stores `settings`.
    """

    min_replicas: int = option(1, "Replicas that always run.")
    max_replicas: int = option(
        1, "Replicas at the highest load; above --min-replicas the number follows the waiting tokens."
    )
    cpus: float = option(1.0, "Cores of a replica.")
    gpus: float = option(0.0, "GPUs of a replica.")
    ongoing_requests: int = option(500, "Requests that a replica serves at the same time.")
    tokens_per_replica: float = option(4_000.0, "Waiting tokens of a replica beyond which another one is started.")
    upscale_seconds: float = option(30.0, "Seconds that the load must last before replicas are added.")
    downscale_seconds: float = option(600.0, "Seconds without that load before replicas are removed.")
    router: str = option(
        "queue", "queue: the replica with fewer requests in progress; model: among those that have the model loaded."
    )
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.min_replicas <= self.max_replicas:
            raise SettingsError("min_replicas must be at least 1 and at most max_replicas.")
        if self.router not in ROUTERS:
            raise SettingsError(f"router must be queue or model, not {self.router!r}.")
        for name in ("cpus", "ongoing_requests", "tokens_per_replica"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name} must be more than 0.")
        for name in ("gpus", "upscale_seconds", "downscale_seconds"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must be 0 or more.")
        self.replica_settings()

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """Returns the options of a configuration file. Raises SettingsError for an unknown name or a wrong value."""
        types: dict[str, type] = {name: type(item.default) for name, item in flags().items()}
        if unknown := sorted(values.keys() - types.keys() - {"settings"}):
            raise SettingsError(f"Unknown option {unknown[0]!r}; known are {', '.join([*types, 'settings'])}.")
        settings = values.get("settings") or {}
        if not isinstance(settings, Mapping):
            raise SettingsError("settings must be a mapping of names to values.")
        given = {}
        for name in types.keys() & values.keys():
            try:
                given[name] = types[name](values[name])
            except (TypeError, ValueError):
                kind = "a whole number" if types[name] is int else "a number"
                raise SettingsError(f"{name} must be {kind}, not {values[name]!r}.") from None
        texts = {
            name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in settings.items()
        }
        return cls(**given, settings=texts)

    def replica_settings(self) -> dict[str, str]:
        """Returns the settings of a replica. Raises SettingsError for one that does not exist, is invalid, is Ray's or
        contains a secret."""
        names = {item.name for item in dataclasses.fields(Settings)}
        for name, text in self.settings.items():
            if name in NOT_FOR_REPLICAS:
                raise SettingsError(f"{name} is not a setting of a replica; the HTTP options of Ray Serve have it.")
            if name not in names:
                raise SettingsError(f"There is no setting {name!r}; `attentive serve --help` lists all.")
            if (text and name == "admin_key") or _PASSWORD.search(text):
                raise SettingsError(
                    f"{flag_and_variable(name)} contains a secret, and Ray stores and shows the settings of replicas: set "
                    "the variable on every node before `ray start` instead."
                )
        Settings.read(argparse.Namespace(**self.settings), {})
        threads = {} if self.gpus else {"threads": str(math.ceil(self.cpus))}
        return {**threads, **self.settings}

    def stop_seconds(self) -> float:
        """Returns the time after which Ray ends a replica that is draining."""
        return Settings.read(argparse.Namespace(**self.settings)).grace_seconds + STOP_SECONDS


def flags() -> dict[str, dataclasses.Field[Any]]:
    """Returns the options that are flags of the command line, by name."""
    return {item.name: item for item in dataclasses.fields(Options) if "help" in item.metadata}
