"""Alternatives say something else than the best translation."""

from __future__ import annotations

import pytest

from server.translation.candidates import distinct_alternatives


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ("Guten Morgen", "Guten Morgen."),
        ("Guten Morgen", "Guten Morgen!"),
        ("Guten Morgen!", "guten Morgen"),
        ("Guten Morgen.", "Guten morgen"),
        ("Ja, gern.", "Ja gern!"),
        ("„Ja“", "\u00bbJa\u00ab"),
        ("Oui !", "Oui\u00a0!"),
        ("Speichern", "Speichern der Datei"),
        ("Das Haus ist rot", "Das Haus ist rot."),
        ("Das Haus ist rot.", "Das Haus ist rot und neu."),
        ("Das Haus ist rot", "das Haus ist Rot wie Blut"),
        ("Guten Morgen", "Guten Morgen dir"),
        ("¿Qué hora es?", "Qué hora es"),
        ("你好", "你好。"),
        ("你好", "你好吗"),
        ("<b>Ja</b>", "<b>Ja!</b>"),
        ("?!", "..."),
    ],
)
def test_what_differs_only_in_punctuation_or_only_goes_on_is_dropped(best, other):
    assert distinct_alternatives(best, [other]) == ()


@pytest.mark.parametrize(
    ("best", "other"),
    [
        ("Guten Morgen", "Guten Tag"),
        ("Guten Morgen", "Morgen"),
        ("Haben Sie Zeit", "Haben sie Zeit"),
        ("das Haus", "das Hausboot"),
        ("Speichern unter", "Speichern"),
        ("3,5 Meter", "3,6 Meter"),
        ("你好", "您好"),
        ("", "Ja"),
    ],
)
def test_other_words_are_kept(best, other):
    assert distinct_alternatives(best, [other, other + " !", other]) == (other,)
