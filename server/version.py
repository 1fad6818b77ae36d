"""Which version this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def server_version() -> str:
    """Version of the installed distribution; "development" for a source tree that is not installed."""
    try:
        return version("attentive-server")
    except PackageNotFoundError:
        return "development"
