"""The form of address is detected only from unambiguous pronouns; its symbol comes first in the source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.symbols import FORMAL, INFORMAL, SYMBOLS, form_of_address
from tests.support.models.tiny_training import small_vocabulary
from training.data.augment import Augmenter, kind_number


@pytest.mark.parametrize(
    ("language", "text", "form"),
    [
        ("de", "Können Sie mir bitte helfen?", FORMAL),
        ("de", "Ich danke Ihnen für Ihren Brief.", FORMAL),
        ("de", "Sie kommt heute.", None),  # she, they or you
        ("de", "Ja. Sie kommt.", None),
        ("de", "Kannst du mir helfen?", INFORMAL),
        ("de", "Dein Hund ist hier.", INFORMAL),
        ("de", "Er sagte: du und Sie.", None),
        ("de", "Es regnet.", None),
        ("fr", "Pouvez-vous m'aider ?", FORMAL),
        ("fr", "Je t'aime.", INFORMAL),
        ("fr", "Où est ton chien ?", INFORMAL),
        ("fr", "Il pleut.", None),
        ("es", "¿Puede usted ayudarme?", FORMAL),
        ("es", "¿Tú vienes?", INFORMAL),
        ("es", "Su perro está aquí.", None),
        ("de-AT", "Haben Sie deinen Hund?", None),
        ("de-AT", "Wie geht es Ihnen?", FORMAL),
        ("de", "Sie schläft. Ihre Katze auch.", None),
        ("fr", "Je t’aime.", INFORMAL),
        ("fr", "Où allez-vous ?", FORMAL),
        ("es", "¿Tienes tu llave?", INFORMAL),
        ("en", "Can you help me?", None),
    ],
)
def test_form_of_address(language: str, text: str, form: str | None) -> None:
    assert form_of_address(text, language) == form


def test_the_symbol_comes_first_in_the_source(tmp_path: Path) -> None:
    text = ["can you help me kannst du mir helfen es regnet"] * 5
    processor = small_vocabulary(tmp_path / "t.model", text, 340, user_defined_symbols=list(SYMBOLS))
    augmenter = Augmenter(processor, {"formality": 1.0})
    random, kind = np.random.default_rng(1), kind_number("formality")
    source, german = (np.array(processor.encode(text)) for text in ("can you help me", "kannst du mir helfen"))
    left, right = augmenter.rewrite(kind, source, german, random, "de")
    assert left.tolist() == [processor.piece_to_id(INFORMAL), *source.tolist()]
    assert right.tolist() == german.tolist()
    same, _ = augmenter.rewrite(kind, german, source, random, "en")
    assert same.tolist() == german.tolist()
    lengths = augmenter.reserved_lengths(np.array([kind, 0]), np.array([9, 9]), np.array([9, 9]), 40)
    assert [side.tolist() for side in lengths] == [[10, 9], [9, 9]]
