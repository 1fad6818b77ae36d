"""The version of the server."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def server_version() -> str:
    """Returns the version of the installed distribution, or "development" for a source tree that is
    not installed."""
    try:
        return version("attentive-server")
    except PackageNotFoundError:
        return "development"
