"""Texts that the clients send: generated sentences, all different."""

from __future__ import annotations

import random

_WHO = ("The teacher", "My brother", "A friend of mine", "The old man", "Our neighbour", "The doctor", "Her sister")
_DOES = ("is waiting", "was sitting", "wants to stay", "has slept", "will work", "cannot eat", "is reading a book")
_WHERE = ("at the station", "in the garden", "near the river", "in front of the house", "at school", "in the kitchen")
_WHEN = ("today", "every morning", "since Monday", "until the evening", "when it rains", "after the concert", "again")


def made_texts(count: int, seed: int = 1) -> list[str]:
    """Returns `count` (at most 5,000) different English sentences of about ten words."""
    rng = random.Random(seed)
    parts = (_WHO, _DOES, _WHERE, _WHEN)
    found: dict[str, None] = {}
    while len(found) < count:
        found[" ".join(rng.choice(part) for part in parts) + rng.choice(".?!")] = None
    return list(found)


def documents(texts: list[str], sentences: int) -> list[str]:
    """Returns texts of `sentences` sentences, one per line; each text starts with a different sentence."""
    return ["\n".join(texts[(at + i) % len(texts)] for i in range(sentences)) for at in range(len(texts))]
