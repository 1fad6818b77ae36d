"""Text and HTML as passages: what is to be translated, and how to put it back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A run of text that belongs together."""

    text: str

    def render(self, translated: str) -> str:
        """The passage with its text replaced."""
        return translated


def parse(text: str, format: str) -> tuple[Passage, ...]:
    """The passages of a document, in order; their renderings put one after the other are the document."""
    return (Passage(text),)
