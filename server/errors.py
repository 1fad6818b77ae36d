"""The errors of a request, as one tree. `server.api.errors` maps each class to a status.

    AttentiveError
    ├── ClientError               the caller must change the request
    │   ├── InvalidRequest
    │   │   ├── UnsupportedLanguage
    │   │   └── TextTooLong
    │   ├── Forbidden             a key is missing, unknown or revoked
    │   ├── NotFound
    │   ├── ExpiredTranslation    the id was valid and is no longer kept
    │   ├── PayloadTooLarge
    │   └── UnsupportedMediaType
    ├── RetryLater                the caller may retry after `retry_after` seconds
    │   ├── Overloaded
    │   │   └── QuotaExceeded     the key has no characters left in this day or month
    │   └── Unavailable           no worker or model is ready
    │       ├── ModelFailed       a model cannot be loaded; another may have the pair
    │       └── StateUnreachable  the state that servers share cannot be reached
    └── TranslationFailed         the worker failed on a valid request

    SettingsError                 a setting is invalid; raised at the start
    TimeoutError (Python's)       the time limit of the request passed, and its work is cancelled

Every message is one sentence for the caller. It says what to change and contains no user text.
"""

from __future__ import annotations

import errno
from typing import NamedTuple

TIME_PASSED = "The time limit of the request has passed."
"""The message of a TimeoutError for the caller."""
ADD_TORCH = (
    "PyTorch is not installed; `make serve TORCH=1` adds it in a checkout, else `pip install "
    '"attentive-server[torch]"`.'
)
LONGEST_RETRY_AFTER = 120
"""Longest Retry-After in seconds."""


class AttentiveError(Exception):
    """Base class of the errors that are reported to a caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ClientError(AttentiveError):
    """The request fails until the caller changes it. Commands end with status 2."""


class InvalidRequest(ClientError):
    """A parameter is missing, unknown or unusable."""


class UnsupportedLanguage(InvalidRequest):
    """No model serves the language or the direction. `code` is the language as it was sent, and
    `role` "source" or "target"; both are empty for a direction. `reason` says why a requested model
    is missing."""

    def __init__(self, message: str, code: str = "", role: str = "", reason: str = "") -> None:
        super().__init__(f"{message} {reason}".rstrip())
        self.code = code
        self.role = role
        self.reason = reason


class TextTooLong(InvalidRequest):
    """The request has more characters, texts or tokens than the server accepts."""


class Forbidden(ClientError):
    """An API key is missing, unknown or revoked. `key` is the id of a revoked one."""

    def __init__(self, message: str, key: str = "") -> None:
        super().__init__(message)
        self.key = key


class NotFound(ClientError):
    """There is no resource with this name or id."""


class ExpiredTranslation(ClientError):
    """The id was issued, and its translation is no longer kept."""


class PayloadTooLarge(ClientError):
    """The request body has too many bytes, or the request is too much work."""


class UnsupportedMediaType(ClientError):
    """The endpoint does not accept the media type of the body."""


class RetryLater(AttentiveError):
    """A temporary condition. `retry_after` is in whole seconds, between 1 and LONGEST_RETRY_AFTER,
    except for QuotaExceeded."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = min(max(1, retry_after), LONGEST_RETRY_AFTER)


class Overloaded(RetryLater):
    """The queue is full, or the caller is over a rate limit. `reason` is the label of the
    metric."""

    def __init__(self, message: str, retry_after: int = 1, reason: str = "queue") -> None:
        super().__init__(message, retry_after)
        self.reason = reason


class QuotaExceeded(Overloaded):
    """The key has used the characters of a period. `retry_after` is the time until its end."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message, reason="quota")
        self.retry_after = retry_after


class Unavailable(RetryLater):
    """A worker or model is not ready, or the server is shutting down."""


class ModelFailed(Unavailable):
    """A model cannot be loaded."""


class StateUnreachable(Unavailable):
    """The state that servers share (Redis) cannot be reached."""

    def __init__(
        self, message: str = "The server's shared state cannot be reached; try again later."
    ) -> None:
        super().__init__(message)


class TranslationFailed(AttentiveError):
    """The worker failed on a job."""


class SettingsError(ValueError):
    """A setting is invalid. The message names the flag and the variable."""


class Resource(NamedTuple):
    """A resource that can run out, and how an operator provides more of it."""

    name: str
    remedy: str


FILES = Resource(
    "open files",
    "raise the limit (LimitNOFILE= of systemd, --ulimit nofile= of Docker, ulimit -n, or prlimit "
    "--nofile= without a restart)",
)
DISK = Resource("disk space", "free some on the disks of --data, --file-folder and TMPDIR")
MEMORY = Resource(
    "memory",
    "raise the limit of the container, or lower --cache-bytes, --model-bytes, --file-jobs or "
    "--queue-tokens",
)
THREADS = Resource(
    "processes and threads",
    "raise the limit (TasksMax= of systemd, --pids-limit of Docker, ulimit -u)",
)
RESOURCES = {
    errno.EMFILE: FILES,
    errno.ENFILE: FILES,
    errno.ENOSPC: DISK,
    errno.EDQUOT: DISK,
    errno.ENOMEM: MEMORY,
    errno.EAGAIN: THREADS,
}
_SQLITE_FULL = 13


def exhausted(error: BaseException) -> Resource | None:
    """Returns the resource whose lack caused the error, or None."""
    if isinstance(error, MemoryError):
        return MEMORY
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return THREADS
    if getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_FULL:
        return DISK
    return RESOURCES.get(error.errno or 0) if isinstance(error, OSError) else None


def remedy(error: BaseException) -> str:
    """Returns ": " and how to provide a resource that ran out, or nothing."""
    resource = exhausted(error)
    return f": {resource.remedy}" if resource else ""


def ending(code: int) -> str:
    """Returns how a process ended, and what to do where the kernel killed it."""
    if code >= 0:
        return f"ended with code {code}"
    killed = f"was ended by signal {-code}"
    return f"{killed} (by the kernel if memory is short: {MEMORY.remedy})" if code == -9 else killed
