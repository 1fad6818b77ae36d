"""The dictionary forms that an inflected noun may have: batteries, battery; Häuser, Haus; chevaux,
cheval; luces, luz."""

from __future__ import annotations

from server.text.languages import primary_subtag

_LEAST = 3
"""Letters of the shortest dictionary form."""
_ENDINGS = {
    "en": "s: | es: | ies:y | ves:f | ves:fe | men:man | children:child | people:person | "
    "mice:mouse | feet:foot | teeth:tooth",
    "de": "s: | es: | e: | n: | en: | er: | ern: | nen: | se: | sen: | en:um | en:a",
    "fr": "s: | x: | aux:al | aux:ail",
    "es": "s: | es: | ces:z | anes:án | eses:és | ines:ín | ones:ón | unes:ún",
    "it": "i:o | i:e | i:a | e:a | chi:co | ghi:go | che:ca | ghe:ga",
    "pt": "s: | es: | ões:ão | ães:ão | ais:al | eis:el | óis:ol | ns:m",
    "nl": "s: | n: | en: | ën:",
}
"""Endings of plurals and cases with the ending of the dictionary form, by language."""
_RULES = {
    language: tuple(
        [
            (ending, form)
            for ending, _, form in [rule.strip().partition(":") for rule in rules.split("|")]
        ]
    )
    for language, rules in _ENDINGS.items()
}
_OF_ADJECTIVES = {"de": "m", "fr": "e"}
_LETTERS = {
    language: frozenset("".join([ending for ending, _ in rules]) + _OF_ADJECTIVES.get(language, ""))
    for language, rules in _RULES.items()
}
_UMLAUTS = (("äu", "au"), ("ä", "a"), ("ö", "o"), ("ü", "u"))


def dictionary_forms(word: str, language: str) -> list[str]:
    """Returns the forms that a word in small letters may be an inflection of, without itself.
    Languages without rules have none."""
    code = primary_subtag(language)
    forms = [
        word.removesuffix(ending) + form
        for ending, form in _RULES.get(code, ())
        if word.endswith(ending)
    ]
    if code == "de":
        forms += [
            form[:at] + plain + form[at + len(umlaut) :]
            for form in (word, *forms)
            for umlaut, plain in _UMLAUTS
            if (at := form.rfind(umlaut)) >= 0
        ]
    return [form for form in dict.fromkeys(forms) if len(form) >= _LEAST and form != word]


def may_end(word: str, term: str, language: str) -> bool:
    """Returns whether the letters at the end of a word in which it differs from a term are those of
    endings of a language: "Apparats" is a form of "Apparat", "Apparatik" is not. In a language
    without rules any letters are."""
    letters = _LETTERS.get(primary_subtag(language))
    if letters is None:
        return True
    same = next(
        (i for i, (one, other) in enumerate(zip(word, term, strict=False)) if one != other),
        len(term),
    )
    return letters.issuperset(word[same:])
