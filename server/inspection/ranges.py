"""The error for a number, counted from 0, that names nothing."""

from __future__ import annotations

from server.errors import InvalidRequest


def out_of_range(name: str, count: int, whole: str, noun: str = "") -> InvalidRequest:
    """Returns the error for parameter `name` where `whole`, such as "this translation", has `count` of them. `noun` says
    what the parameter counts, if not its own name."""
    noun = noun or name
    if count == 0:
        return InvalidRequest(f"{whole[:1].upper()}{whole[1:]} has no {noun}.")
    if count == 1:
        return InvalidRequest(f"{name} must be 0: {whole} has one {noun}.")
    return InvalidRequest(f"{name} must be between 0 and {count - 1} for {whole}.")
