"""The form of address of a text."""

from __future__ import annotations

import pytest

from server.text.address_forms import address_form


@pytest.mark.parametrize(
    ("text", "language", "form"),
    [
        ("Wie geht es Ihnen?", "de", "formal"),
        ("Kannst du mir helfen?", "de-AT", "informal"),
        ("Sie schläft. Ihre Katze auch.", "de", None),
        ("Haben Sie deinen Hund?", "de", None),
        ("Où allez-vous ?", "fr", "formal"),
        ("Je t’aime.", "fr", "informal"),
        ("¿Cómo está usted?", "es", "formal"),
        ("¿Tienes tu llave?", "es", "informal"),
        ("Das Haus ist alt.", "de", None),
        ("How are you?", "en", None),
    ],
)
def test_pronouns_show_the_form_of_address(text, language, form):
    assert address_form(text, language) == form
