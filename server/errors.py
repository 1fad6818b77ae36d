"""Everything that can go wrong with a request, as one tree; `server.api.errors` maps each class to a status.

    AttentiveError
    ├── InvalidRequest            the caller must change the request
    │   ├── UnsupportedLanguage
    │   └── TextTooLong
    ├── Forbidden                 a key is missing, unknown or revoked
    ├── NotFound
    │   └── UnknownTranslation    no such id
    ├── ExpiredTranslation        the id was good once
    ├── PayloadTooLarge
    ├── UnsupportedMediaType
    ├── Overloaded                come back after `retry_after` seconds
    ├── DeadlineExceeded          the caller's own time limit passed
    ├── Unavailable               no worker or model can take it now; come back after `retry_after` seconds
    └── TranslationFailed         the worker could not do it, through no fault of the caller

    SettingsError                 a setting that cannot be used, found at start

Every message is one sentence for the caller's eyes: it says what to change and holds no user text.
"""

from __future__ import annotations


class AttentiveError(Exception):
    """Root of all errors that are answered to a caller."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidRequest(AttentiveError):
    """A missing, unknown or unusable parameter."""


class UnsupportedLanguage(InvalidRequest):
    """A language, or a direction between two languages, that no model here serves."""


class TextTooLong(InvalidRequest):
    """More characters, texts or tokens than the server accepts in one request."""


class Forbidden(AttentiveError):
    """The caller may not do this."""


class NotFound(AttentiveError):
    """Nothing is known under that name."""


class UnknownTranslation(NotFound):
    """An id that this server did not give out, as far as it can tell."""


class ExpiredTranslation(AttentiveError):
    """An id of a translation that is no longer kept."""


class PayloadTooLarge(AttentiveError):
    """A body over the limit in bytes."""


class UnsupportedMediaType(AttentiveError):
    """A body in a form that the endpoint does not read."""


class RetryLater(AttentiveError):
    """Something that passes; `retry_after` is the number of whole seconds after which to try again."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = max(1, retry_after)


class Overloaded(RetryLater):
    """The queue is full, or the caller is over a rate limit; `reason` is a short word for the metrics."""

    def __init__(self, message: str, retry_after: int = 1, reason: str = "queue") -> None:
        super().__init__(message, retry_after)
        self.reason = reason


class Unavailable(RetryLater):
    """The worker or the model is not ready, or the server is shutting down."""


class DeadlineExceeded(AttentiveError):
    """The time that the caller allowed has passed; nothing of the request is running any more."""


class TranslationFailed(AttentiveError):
    """The worker gave up on a job."""


class SettingsError(ValueError):
    """A setting that cannot be used; the message names the flag and the variable."""
