"""Words of languages, and words of a translation that are none."""

from __future__ import annotations

import pytest

from server.text.lexicon import is_word, strange_words


@pytest.mark.parametrize(("language", "words", "others"), [
    ("en", "houses forgotten happily her", "fourty recipt worklessness"),
    ("de", "Häuser Regenschirm Donaudampfschiff vergessenen übersetzt", "Gläter Gesprächsche seitzig"),
    ("fr", "temps beaucoup récemment maisons cœur cahiers vraiment poliment bonus", "négotiations prompement déliverie élepte"),
    ("es", "casas llamarme gatitos rápidamente veintidós darte oírme abrirnos", "caminuta balconio submisións murte"),
])  # fmt: skip
def test_words_of_a_language(language, words, others):
    assert [word for word in words.split() if not is_word(word, language)] == []
    assert [word for word in others.split() if is_word(word, language)] == []


@pytest.mark.parametrize(("source", "target", "pair", "flags"), [
    ("The next ferry leaves soon.", "Die nächste ferry fährt bald.", "en-de", {"untranslated"}),
    ("Les usines ferment mardi.", "The usines close mardi.", "fr-en", {"untranslated"}),
    ("I ate a salad on the balcony.", "Comí una ensalada en el balconio.", "en-es", {"invented"}),
    ("The washing bill", "La note de washing et la facturure", "en-fr", {"untranslated", "invented"}),
    ("Peter Lindqvist met Anna in Uppsala.", "Peter Lindqvist traf Anna in Uppsala.", "en-de", set()),
    ("The Uyghurs live there.", "Die Uiguren leben dort.", "en-de", set()),  # a name in another spelling
    ("He said \"good morning\".", "Il a dit « good morning ».", "en-fr", set()),
    ("Run git rebase in a terminal.", "Exécutez git rebase dans un terminal.", "en-fr", set()),
    ("The Institute studies for you.", "L'Institute étudie for vous.", "en-fr", {"untranslated"}),
    ("The hotel has a sauna.", "Das Hotel hat eine Sauna.", "en-de", set()),
    ("The ferry", "Lautta ferry", "en-fi", set()), ("x" * 5000, "y" * 5000, "en-de", set()),
])  # fmt: skip
def test_strange_words(source, target, pair, flags):
    assert strange_words(source, target, *pair.split("-")) == flags
