"""Settings: the only reader of environment and command line.

Every field of `Settings` is one flag (`--queue-tokens`) and one variable (`ATTENTIVE_QUEUE_TOKENS`); a flag wins over a
variable, a variable over the default. Everything is validated before anything starts.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

from model.backends.cpu.isa import Isa
from server.errors import SettingsError

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
LogFormat = Literal["json", "text"]
LogLevel = Literal["debug", "info", "warning", "error"]

PREFIX = "ATTENTIVE_"
MAX_INT = 2**53


def setting(default: Any, help: str, low: float | None = None, high: float | None = None) -> Any:
    """A dataclass field with the sentence that `--help` prints and the bounds that are checked at start."""
    return field(default=default, metadata={"help": help, "low": low, "high": high})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Behaviour of one server. Sizes are in characters, tokens, bytes or seconds, as each name says."""

    host: str = setting("127.0.0.1", "address to listen on; 0.0.0.0 for every interface")
    port: int = setting(8000, "TCP port to listen on; 0 picks a free one", 0, 65535)
    weights: Path = setting(Path("weights"), "folder that holds one sub-folder per model (or is itself a model folder)")
    data: Path | None = setting(None, "folder for what must survive a restart (history, keys); none keeps it in memory")

    model_bytes: int = setting(
        0, "weight files in memory; beyond it the model unused for longest is unloaded; 0 keeps all", 0, MAX_INT
    )
    admin_key: str = setting("", "secret that POST /admin/reload asks for; empty switches it off (SIGHUP reloads too)")

    device: Device = setting("auto", "where the model runs")
    dtype: Dtype = setting("auto", "arithmetic of the model; auto is int8 on a CPU and bfloat16 on a GPU")
    isa: Isa = setting("auto", "instruction set of the CPU engine; auto is the best of the processor")
    threads: int = setting(0, "CPU threads of the worker; 0 uses every core", 0, 1024)
    slots: int = setting(0, "sequences that decode together, a beam of k taking k; 0 suits the device", 0, 4096)
    prefill_tokens: int = setting(4096, "padded source tokens that are encoded as one batch", 16, 1_000_000)

    beam_size: int = setting(1, "beam width when a request does not choose; 1 is greedy", 1, 32)
    char_limit: int = setting(100_000, "characters in one request, over all its texts", 1, MAX_INT)
    list_limit: int = setting(1_000, "texts in one request", 1, 1_000_000)
    alternatives_limit: int = setting(10, "alternatives that one request may ask for", 0, 31)
    body_bytes: int = setting(10_000_000, "size of a request body", 1024, MAX_INT)
    queue_tokens: int = setting(
        200_000, "source tokens, times beam, accepted and not yet answered; beyond it 429", 1, MAX_INT
    )
    queue_seconds: float = setting(
        5.0, "time that a short request should wait at most; what would wait longer gets 429", 0.1, 3_600
    )
    attention_jobs: int = setting(8, "attention requests accepted and not yet answered; beyond it 429", 1, 10_000)
    attention_tokens: int = setting(512, "source or target tokens of one attention request", 1, 1_000_000)
    timeout_seconds: float = setting(
        120.0, "time after which a request is given up; X-Request-Timeout may ask for less", 0.1, 86_400
    )
    grace_seconds: float = setting(30.0, "time that accepted requests get to finish after SIGTERM", 0.0, 3_600)

    history: bool = setting(True, "remember recent translations, so that /attention can be asked about them by id")
    history_size: int = setting(10_000, "translations remembered", 1, 100_000_000)
    history_bytes: int = setting(64_000_000, "approximate size of what is remembered in memory", 1, MAX_INT)
    history_seconds: float = setting(3_600.0, "time a translation is remembered", 1.0, 10 * 365 * 86_400)
    history_storage: str = setting(
        "", "redis://host:port shares the history between servers; empty keeps it in the data folder, or in memory"
    )

    file_characters: int = setting(1_000_000, "characters in one file; its bytes are bounded by body-bytes", 1, MAX_INT)
    file_jobs: int = setting(4, "files that are translated at the same time; beyond it 429", 1, 1_000)
    file_timeout_seconds: float = setting(
        1_800.0, "time after which the translation of a file is given up", 1.0, 86_400
    )
    file_keep_seconds: float = setting(1_800.0, "time that a translated file can be fetched", 1.0, 30 * 86_400)
    file_keep_bytes: int = setting(100_000_000, "size of all translated files that wait to be fetched", 1, MAX_INT)
    suggestions: bool = setting(False, "take better translations at /suggest and keep them in the data folder")

    key_required: bool = setting(False, "refuse requests without an API key (see `attentive keys`)")
    requests_per_minute: int = setting(0, "requests per key, or per address without one; 0 is unlimited", 0, MAX_INT)
    characters_per_minute: int = setting(
        0, "characters per key, or per address without one; 0 is unlimited", 0, MAX_INT
    )
    limits_storage: str = setting("memory://", "where these are counted; redis://host:port shares them between servers")
    trusted_proxies: str = setting(
        "", "addresses of proxies, separated by commas, whose X-Forwarded-For names the caller; * trusts everybody"
    )

    cors_origins: str = setting("*", "origins that browsers may call from, separated by commas")
    otlp_endpoint: str = setting("", "OTLP/HTTP address that traces go to, as http://localhost:4318; empty sends none")
    log_format: LogFormat = setting("json", "form of the log lines on standard error")
    log_level: LogLevel = setting("info", "least severe log line that is written")

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            choices = get_args(hints[item.name]) if isinstance(value, str) else ()
            if choices and value not in choices:
                raise SettingsError(f"{named(item.name)} must be one of {', '.join(choices)}, not {value!r}.")
            low, high = item.metadata["low"], item.metadata["high"]
            if low is not None and not low <= value <= high:
                raise SettingsError(f"{named(item.name)} must be between {low:,} and {high:,}, not {value!r}.")
        if self.data is not None and self.data.exists() and not self.data.is_dir():
            raise SettingsError(f"{named('data')} must be a folder, and {str(self.data)!r} is a file.")

    @classmethod
    def read(cls, arguments: argparse.Namespace | None = None, environment: Mapping[str, str] = os.environ) -> Self:
        """Settings from parsed flags and the environment. Raises SettingsError for a value that cannot be used."""
        hints = get_type_hints(cls)
        values: dict[str, Any] = {}
        for item in dataclasses.fields(cls):
            text = getattr(arguments, item.name, None)
            if text is None:
                text = environment.get(PREFIX + item.name.upper())
            if text is not None and text != "":
                values[item.name] = parse(item.name, text, hints[item.name])
        return cls(**values)


def named(name: str) -> str:
    """How messages call a setting."""
    return f"--{name.replace('_', '-')} ({PREFIX}{name.upper()})"


def parse(name: str, text: str, kind: Any) -> Any:
    """One value from its text. Raises SettingsError where the text is not of that kind."""
    if kind is bool:
        words = {
            "1": True,
            "true": True,
            "yes": True,
            "on": True,
            "0": False,
            "false": False,
            "no": False,
            "off": False,
        }
        if text.lower() not in words:
            raise SettingsError(f"{named(name)} must be true or false, not {text!r}.")
        return words[text.lower()]
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise SettingsError(f"{named(name)} must be {wanted}, not {text!r}.") from None
    return Path(text).expanduser() if kind in (Path, Path | None) else text


def add_flags(parser: argparse.ArgumentParser, names: tuple[str, ...] | None = None) -> None:
    """Adds the flags of all settings, or of those named, to a command."""
    hints = get_type_hints(Settings)
    for item in dataclasses.fields(Settings):
        if names is not None and item.name not in names:
            continue
        kind = hints[item.name]
        choices = get_args(kind) if all(isinstance(value, str) for value in get_args(kind)) and get_args(kind) else None
        metavar = (
            "{" + ",".join(choices) + "}"
            if choices
            else {int: "N", float: "X", bool: "BOOL"}.get(kind, item.name.upper())
        )
        parser.add_argument(
            "--" + item.name.replace("_", "-"),
            dest=item.name,
            metavar=metavar,
            help=f"{item.metadata['help']} [{PREFIX}{item.name.upper()}; default {shown(item.default)}]".replace(
                "%", "%%"
            ),
        )


def shown(default: Any) -> str:
    """A default as `--help` prints it."""
    return "none" if default is None else str(default).lower() if isinstance(default, bool) else str(default)
