"""Content negotiation by the header `Accept` (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence


def preferred(accept: str, offered: Sequence[str]) -> str:
    """Returns the media type of `offered` with the highest quality; the first of several, or if none is accepted."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()][:64]
    if not ranges:
        return offered[0]
    quality = {kind: _quality(kind, ranges) for kind in offered}
    best = max(quality.values())
    return next(kind for kind in offered if quality[kind] == best)


def _range(part: str) -> tuple[str, float]:
    kind, *fields = (field.strip().lower() for field in part.split(";"))
    quality = 1.0
    for field in fields:
        if field.startswith("q="):
            try:
                quality = min(1.0, max(0.0, float(field[2:])))
            except ValueError:
                quality = 0.0
    return kind, quality


def _quality(kind: str, ranges: list[tuple[str, float]]) -> float:
    """Returns the quality of the most specific range that matches the type."""
    for wanted in (kind, kind.split("/")[0] + "/*", "*/*"):
        found = [quality for range, quality in ranges if range == wanted]
        if found:
            return max(found)
    return 0.0
