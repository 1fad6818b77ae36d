"""Settings of the server, read from flags and environment variables.

Every field of `Settings` is one flag (`--queue-tokens`) and one variable
(`ATTENTIVE_QUEUE_TOKENS`), or the content of a file (`ATTENTIVE_QUEUE_TOKENS_FILE`). A flag
overrides a variable, and a variable overrides the default. All values are validated before the
server starts.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, get_args, get_type_hints

from model.backends.cpu.isa import Isa
from model.convert.published import EXAMPLES, LISTS
from server.errors import SettingsError
from server.process import available_cores

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16", "float16", "int8"]
ShortlistUse = Literal["auto", "on", "off"]
LogFormat = Literal["auto", "json", "text"]
Owner = TypeVar("Owner")
LogLevel = Literal["debug", "info", "warning", "error"]

PREFIX = "ATTENTIVE_"
MAX_INT = 2**53
MOST_PROCESSES = 64
CHECKOUT = Path(__file__).parents[1]
REMOVED = {"history_storage": "state", "limits_storage": "state"}
"""Removed settings and their successors."""
BOOLEANS = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
ORIGIN = re.compile(r"\*|null|[a-z][a-z0-9+.-]*://[^A-Z\s/?#@*\\]+")
"""An origin as browsers send it."""
FRAME_ANCESTOR = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?")
"""An origin that Content-Security-Policy can name: no wildcard, no end of the directive."""
PLACEHOLDERS = {int: "N", float: "X", bool: "BOOL"}
"""Names of values in `--help`, by type."""


def setting(default: Any, help: str, low: float | None = None, high: float = MAX_INT) -> Any:
    """Returns a dataclass field with a help text and inclusive bounds."""
    return field(default=default, metadata={"help": help, "bounds": (low, high)})


def default_weights() -> Path:
    """Returns the folder `weights` here, or that of the checkout if there is none."""
    here, checkout = Path("weights"), CHECKOUT / "weights"
    return checkout if checkout.is_dir() and not here.is_dir() else here


def with_lists(owner: type[Owner]) -> type[Owner]:
    """Adds a setting for the address of each list of published models, before @dataclass runs."""
    for name, (address, help) in LISTS.items():
        owner.__annotations__[name] = "str"
        setattr(owner, name, setting(address, help))
    return owner


@dataclass(frozen=True, slots=True, kw_only=True)
@with_lists
class Settings:
    """Settings of one server. The unit of a number is in its name or in its help text."""

    host: str = setting("127.0.0.1", "Address to listen on. 0.0.0.0 listens on every interface.")
    port: int = setting(8000, "TCP port to listen on. 0 selects a free port.", 0, 65535)
    api_processes: str = setting(
        "1",
        "Processes that serve requests before one pool of workers. auto is one for each four "
        "cores, at least four beside a GPU where there are cores, at most 16.",
    )
    public_url: str = setting(
        "",
        "Address of the server for its clients, such as https://translate.example.org, for the "
        "addresses of translated files. "
        "Without it they have the address that the client has connected to.",
    )
    root_path: str = setting(
        "",
        "Prefix of the server's addresses behind a proxy, such as /translator. The proxy may "
        "remove it from requests or keep it.",
    )
    weights: Path = setting(
        default_weights(), "Folder with one sub-folder per model, or a single model folder."
    )
    prefer: str = setting(
        "",
        "Names of models, separated by commas: where several models have a language pair, the "
        "first of them is used. The others "
        "follow by the `preference` in their config.json and by name.",
    )
    models: str = setting(
        "",
        "Models to download where they are missing, separated by commas, in the background: pairs "
        "such as en-de,de-en for the best model of `attentive models --available`, or names such "
        f"as {EXAMPLES}. They are kept in the folder `models` of --data, or of the user's cache. "
        "any also downloads the best model of a pair that no model serves when a request names the "
        "pair: every caller can fill the folder.",
    )
    require_models: bool = setting(
        False,
        "Whether GET /ready is 503 after a start until the models of --models are served. "
        "Otherwise it is 200 with the status degraded.",
    )
    data: Path | None = setting(
        None,
        "Folder that keeps history, API keys, usage and glossaries over a restart. Without it they "
        "are in memory, and there are no keys.",
    )
    state: str = setting(
        "",
        "Address of the state that several servers share, redis://host:port (Redis or Valkey, "
        "rediss:// with TLS). Without it "
        "the state is in the data folder, or in memory without --data.",
    )

    model_bytes: int = setting(
        0,
        "Maximum bytes of model weights in memory; the least recently used model is unloaded. 0 is "
        "no limit.",
        0,
    )
    model_idle_seconds: float = setting(
        0.0,
        "Seconds without a request after which a model is unloaded; the next request loads it "
        "again. 0 is never.",
        0,
        365 * 86_400,
    )
    admin_key: str = setting(
        "", "Secret that POST /admin/reload requires. Empty disables it; SIGHUP still works."
    )

    device: Device = setting("auto", "Device that runs the model. auto is a GPU if there is one.")
    dtype: Dtype = setting(
        "auto", "Number format of the weights. auto is int8 on a CPU and bfloat16 on a GPU."
    )
    isa: Isa = setting(
        "auto", "Instruction set of the CPU backend. auto is the fastest one in a trial."
    )
    shortlist: ShortlistUse = setting(
        "auto",
        "Write only tokens of the lexical shortlist of a sentence, for models that have one: "
        "faster. auto does so on a CPU for lists of models trained here, not for imported ones. "
        "true and false are on and off.",
    )
    threads: int = setting(0, "CPU threads of a worker. 0 uses every core.", 0, 1024)
    slots: int = setting(
        0,
        "Sequences decoded at the same time; a beam of k takes k slots. 0 is a number that suits "
        "the device.",
        0,
        4096,
    )
    prefill_tokens: int = setting(
        4096, "Maximum source tokens, padding included, encoded in one batch.", 16, 1_000_000
    )

    beam_size: int = setting(
        0,
        "Beam width of requests that set none. 1 is greedy search, 0 the width that the model "
        "states, else 1.",
        0,
        32,
    )
    rerank: bool = setting(
        False,
        "Rerank translations with the reverse direction, where the model has it. A request may say "
        "otherwise.",
    )
    char_limit: int = setting(100_000, "Maximum characters in one request, over all its texts.", 1)
    beam_char_limit: int = setting(
        400_000,
        "Maximum characters in one request times the beam width that it chooses; beyond it, 413.",
        1,
    )
    list_limit: int = setting(1_000, "Maximum texts in one request.", 1, 1_000_000)
    alternatives_limit: int = setting(10, "Maximum alternative translations of one text.", 0, 31)
    body_bytes: int = setting(10_000_000, "Maximum bytes of a request body.", 1024)
    queue_tokens: int = setting(
        200_000,
        "Maximum source tokens, times beam width, accepted and not yet answered. Further requests "
        "get 429.",
        1,
    )
    queue_seconds: float = setting(
        5.0,
        "Maximum seconds that a short request waits in the queue. One that would wait longer gets "
        "429.",
        0.1,
        3_600,
    )
    attention_jobs: int = setting(
        16,
        "Attention requests of the longest sentences that are accepted and not yet answered, half "
        "of them of one caller. Further ones get 429; requests count by their tokens.",
        1,
        10_000,
    )
    attention_tokens: int = setting(
        512,
        "Maximum tokens of the source, and of the target, of one attention request.",
        1,
        1_000_000,
    )
    timeout_seconds: float = setting(
        120.0,
        "Seconds after which a request is cancelled. X-Request-Timeout may set less.",
        0.1,
        86_400,
    )
    drain_seconds: float = setting(
        0.0,
        "Seconds after SIGTERM in which requests are accepted while GET /ready is 503 for load "
        "balancers.",
        0,
        3_600,
    )
    grace_seconds: float = setting(
        30.0,
        "Seconds that accepted requests have to finish after SIGTERM and --drain-seconds.",
        0,
        3_600,
    )

    history: bool = setting(
        True, "Keep recent translations, so that /attention can show them by id."
    )
    history_size: int = setting(10_000, "Maximum translations in the history.", 1, 100_000_000)
    history_bytes: int = setting(
        64_000_000,
        "Maximum bytes of the history: in memory, approximately, and of its files on disk.",
        1,
    )
    history_seconds: float = setting(
        3_600.0, "Seconds that a translation is kept.", 1, 10 * 365 * 86_400
    )

    cache_bytes: int = setting(
        32_000_000,
        "Maximum bytes of translations kept in memory to answer the same text again, "
        "approximately, and as many again in Redis with --state redis://. 0 keeps none.",
        0,
    )
    cache_seconds: float = setting(
        3_600.0,
        "Seconds that a translation is kept to answer the same text again.",
        1,
        365 * 86_400,
    )

    file_characters: int = setting(
        1_000_000, "Maximum characters in one document. --body-bytes limits its bytes.", 1
    )
    file_jobs: int = setting(
        4,
        "Maximum documents translated at the same time. 16 times as many are accepted; others get "
        "429.",
        1,
        1_000,
    )
    file_timeout_seconds: float = setting(
        1_800.0, "Seconds after which the translation of a document is cancelled.", 1, 86_400
    )
    file_keep_seconds: float = setting(
        900.0, "Seconds that a translated document can be fetched.", 1, 30 * 86_400
    )
    file_keep_bytes: int = setting(
        100_000_000,
        "Maximum bytes on disk of all uploads in progress, and of all translated documents not yet "
        "fetched.",
        1,
    )
    file_folder: Path | None = setting(
        None,
        "Folder that the servers of one --state redis:// share, for files over 5 MB. Without it "
        "they are refused.",
    )

    key_required: bool = setting(
        False, "Reject requests without an API key (see `attentive keys`)."
    )
    requests_per_minute: int = setting(
        0,
        "Maximum requests per minute of one API key, or of one address without a key. 0 is no "
        "limit.",
        0,
    )
    characters_per_minute: int = setting(
        0,
        "Maximum characters per minute of one API key, or of one address without a key. 0 is no "
        "limit.",
        0,
    )
    trusted_proxies: str = setting(
        "",
        "Addresses of proxies, separated by commas, whose X-Forwarded-For is used. * trusts every "
        "sender.",
    )

    cors_origins: str = setting(
        "*", "Origins, separated by commas, from which browsers may call the server."
    )
    frame_ancestors: str = setting(
        "",
        "Origins, separated by commas, whose pages may show one view of the explorer in a frame: "
        "/attention?...&embed=1. No other page is shown in a frame, and none where --key-required "
        "is set.",
    )
    otlp_endpoint: str = setting(
        "",
        "OTLP/HTTP address that receives traces, such as http://localhost:4318. Empty sends none.",
    )
    log_format: LogFormat = setting(
        "auto",
        "Format of the log lines on standard error. auto is text on a terminal and JSON otherwise.",
    )
    log_level: LogLevel = setting("info", "Least severe level of the log lines that are written.")

    def __post_init__(self) -> None:
        check_bounds(self, flag_and_variable)
        self.processes  # noqa: B018  raises SettingsError
        if self.public_url and not self.public_url.startswith(("http://", "https://")):
            raise SettingsError(
                f"{flag_and_variable('public_url')} must begin with http:// or https://."
            )
        if self.root_path and not re.fullmatch(r"(/[\w.~-]+)+", self.root_path, re.ASCII):
            raise SettingsError(
                f"{flag_and_variable('root_path')} must look like /translator, without a slash at "
                "the end."
            )
        origins(
            "cors_origins",
            self.cors_origins,
            ORIGIN,
            "*, or origins such as https://example.org:8443",
        )
        self.frame_origins  # noqa: B018  raises SettingsError
        # an IPv6 address as in a URL
        object.__setattr__(self, "host", re.sub(r"^\[(.*:.*)\]$", r"\1", self.host))
        if self.data is not None and self.data.exists() and not self.data.is_dir():
            raise SettingsError(
                f"{flag_and_variable('data')} must be a folder, and {str(self.data)!r} is a file."
            )

    @property
    def frame_origins(self) -> list[str]:
        """The origins of `frame_ancestors`. Raises SettingsError."""
        expected = "origins such as https://course.example.org"
        return origins("frame_ancestors", self.frame_ancestors, FRAME_ANCESTOR, expected)

    @property
    def processes(self) -> int:
        if self.api_processes == "auto":
            cores = available_cores()
            least = 4 if self.device != "cpu" and Path("/dev/nvidia0").exists() else 1
            return max(1, min(16, cores, max(least, cores // 4)))
        number = parse(flag_and_variable("api_processes"), self.api_processes, int)
        if not 1 <= number <= MOST_PROCESSES:
            raise SettingsError(
                f"{flag_and_variable('api_processes')} must be between 1 and {MOST_PROCESSES}, not "
                f"{number!r}."
            )
        return int(number)

    @property
    def pulled(self) -> Path:
        """The folder of downloaded models, which are served beside those of `weights`."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return (self.data or Path(cache, "attentive")) / "models"

    @property
    def pull_folder(self) -> Path:
        """The folder that `attentive pull` writes to: `pulled`, unless `weights` is set."""
        return self.pulled if self.weights == default_weights() else self.weights

    @classmethod
    def read(
        cls,
        arguments: argparse.Namespace | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> Self:
        """Returns the settings of parsed flags and the environment. Raises SettingsError."""

        def text_of(name: str) -> str:
            text: str | None = getattr(arguments, name, None)
            return variable(PREFIX + name.upper(), environment) if text is None else text

        for name, successor in REMOVED.items():
            if text_of(name):
                raise SettingsError(
                    f"{flag_and_variable(name)} was removed; use {flag_and_variable(successor)}."
                )
        kinds = get_type_hints(cls)
        texts = {item.name: text_of(item.name) for item in dataclasses.fields(cls)}
        return cls(
            **{
                name: parse(flag_and_variable(name), text, kinds[name])
                for name, text in texts.items()
                if text
            }
        )


def origins(name: str, text: str, pattern: re.Pattern[str], expected: str) -> list[str]:
    """Returns the origins of a setting. Raises SettingsError for one that is not of the pattern."""
    found = comma_separated(text)
    if wrong := [origin for origin in found if not pattern.fullmatch(origin)]:
        raise SettingsError(
            f"{flag_and_variable(name)} must be {expected} with commas between them, not {wrong[0]!r}."
        )
    return found


def variable(name: str, environment: Mapping[str, str]) -> str:
    """Returns a variable, or else the text of the file that NAME_FILE names (a mounted secret)."""
    file = environment.get(f"{name}_FILE")
    if environment.get(name) or not file:
        return environment.get(name, "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"{name}_FILE: {file!r} cannot be read: {reason}.") from None


def unknown_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns a sentence for each variable ATTENTIVE_* that is not a setting."""
    settings = [item.name.upper() for item in dataclasses.fields(Settings)]
    sentences = []
    for name in sorted(
        variable.removeprefix(PREFIX) for variable in environment if variable.startswith(PREFIX)
    ):
        if name.removesuffix("_FILE") not in settings:
            near = difflib.get_close_matches(name, settings, n=1)
            advice = (
                f"did you mean {PREFIX}{near[0]}?"
                if near
                else "`attentive serve --help` lists all settings."
            )
            sentences.append(f"{PREFIX}{name} is not a setting and has no effect; {advice}")
    return sentences


def flag_and_variable(name: str) -> str:
    """Returns the flag and the variable of a setting, for messages."""
    return f"--{name.replace('_', '-')} ({PREFIX}{name.upper()})"


def parse(name: str, text: str, kind: Any) -> Any:
    """Returns `text` as a value of type `kind`. Raises SettingsError, which begins with `name`."""
    switch = BOOLEANS.get(text.lower())
    if kind == ShortlistUse and switch is not None:  # it was a switch
        return "on" if switch else "off"
    if kind in (Path, Path | None):
        return Path(text).expanduser()
    if kind is bool and switch is not None:
        return switch
    if kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    elif kind is str or text in get_args(kind):
        return text
    expected = {bool: "true or false", int: "a whole number", float: "a number"}.get(kind)
    raise SettingsError(
        f"{name} must be {expected or 'one of ' + ', '.join(get_args(kind))}, not {text!r}."
    )


def check_bounds(options: Any, title: Callable[[str], str]) -> None:
    """Raises SettingsError for a field out of its bounds; `title` returns the name of a field."""
    for item in dataclasses.fields(options):
        value, (low, high) = getattr(options, item.name), item.metadata.get("bounds", (None, None))
        if low is not None and not low <= value <= high:
            raise SettingsError(
                f"{title(item.name)} must be between {low:,} and {high:,}, not {value!r}."
            )


def comma_separated(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def add_flags(parser: argparse.ArgumentParser, names: Collection[str] | None = None) -> None:
    """Adds the flags of all settings, or of those in `names`."""
    for name, successor in REMOVED.items():
        # without these, the error would not name the successor
        if names is None or successor in names:
            parser.add_argument("--" + name.replace("_", "-"), dest=name, help=argparse.SUPPRESS)
    for item in dataclasses.fields(Settings):
        if names is None or item.name in names:
            add_flag(parser, Settings, item, f"{PREFIX}{item.name.upper()}; ")


def add_flag(
    parser: argparse.ArgumentParser, owner: type, item: dataclasses.Field[Any], variable: str = ""
) -> None:
    """Adds the flag of a field that `setting` made. Its value stays a text."""
    kind = get_type_hints(owner)[item.name]
    choices = [choice for choice in get_args(kind) if isinstance(choice, str)]
    placeholder = (
        "{" + ",".join(choices) + "}" if choices else PLACEHOLDERS.get(kind, item.name.upper())
    )
    help = f"{item.metadata['help']} [{variable}default: {default_text(item.default)}]".replace(
        "%", "%%"
    )
    bare: dict[str, Any] = {"nargs": "?", "const": "true"} if kind is bool else {}
    parser.add_argument(
        "--" + item.name.replace("_", "-"), dest=item.name, metavar=placeholder, help=help, **bare
    )


def default_text(default: Any) -> str:
    return (
        str(default).lower()
        if isinstance(default, bool)
        else "none"
        if default in (None, "")
        else str(default)
    )
