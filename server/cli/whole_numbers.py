"""Types of command-line flags: whole numbers from 0 or from 1. argparse refuses other values with one sentence and status 2."""

from __future__ import annotations

from argparse import ArgumentTypeError


def from_zero(text: str) -> int:
    """Returns the number. Raises ArgumentTypeError for anything but a whole number from 0."""
    return _whole_number(text, 0)


def from_one(text: str) -> int:
    """Returns the number. Raises ArgumentTypeError for anything but a whole number from 1."""
    return _whole_number(text, 1)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise ArgumentTypeError(f"must be a whole number from {least}, not {text!r}")
    return int(text)
