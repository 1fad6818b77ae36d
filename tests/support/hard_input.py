"""Hard input, and rules for its translation that hold for every model.

The rules: a translation is not empty, has the same line structure, is not many times longer, contains no loop, and is
in capitals if the source is. It contains all addresses, emoji, words in foreign scripts and numbers of the source, and
the strings in `kept`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from model.search.repetition import LONGEST_PERIOD, longest_loop
from server.text.numbers import same_numbers
from server.text.protection.copied import do_not_translate_spans, foreign_script_spans
from server.text.protection.mask import is_all_caps


@dataclass(frozen=True, slots=True)
class Case:
    """One text in language `source` and its target language; the strings in `kept` must occur unchanged in the
    translation."""

    name: str
    source: str
    target: str
    text: str
    kept: tuple[str, ...] = ()


LONG = " and ".join(
    f"the {what} {does}"
    for what in ("man", "woman", "teacher", "doctor", "child", "neighbour")
    for does in ("bought a book", "went home", "opened the door", "drank some water", "wrote a letter")
)
CASES = (
    Case("capitals", "en", "de", "WHERE IS THE STATION?"),
    Case("capitals, two sentences", "en", "fr", "PLEASE HELP ME. I LOST MY KEY!"),
    Case("capitals", "de", "en", "WO IST MEIN SCHLÜSSEL?"),
    Case("capitals and an address", "en", "de", "READ THIS FIRST: https://example.org/Path"),
    Case("lower case", "en", "de", "where is my father?"),
    Case("lower case", "de", "en", "ich habe heute keine zeit."),
    Case("lower case", "es", "en", "mañana voy a madrid."),
    Case("no full stop", "en", "de", "She is reading a book"),
    Case("no full stop", "fr", "en", "Je ne sais pas"),
    Case("three exclamation marks", "en", "fr", "Stop it!!!"),
    Case("a number", "en", "de", "The ticket costs 25 euros and 50 cents."),
    Case("a number", "en", "es", "There are 365 days in a year."),
    Case("a year", "en", "fr", "My grandfather was born in 1938."),
    Case("a large number", "en", "de", "The city has 1,250,000 inhabitants."),
    Case("a decimal", "de", "en", "Das Wasser ist 3,5 Meter tief."),
    Case("per cent and currency", "en", "de", "Prices rose by 12.5% to $1,999."),
    Case("a telephone number", "en", "fr", "Call me at 555-0134 tomorrow."),
    Case("a date", "en", "de", "The meeting is on 2024-03-15."),
    Case("a date", "de", "en", "Ich bin am 24.12.1999 geboren."),
    Case("a time", "fr", "en", "Le train part à 15:45."),
    Case("a time", "es", "en", "La reunión empieza a las 18:30."),
    Case("only numbers", "en", "de", "3.14159 2.71828"),
    Case("a web address", "en", "de", "Look at https://example.org/a?b=1&c=2#d now."),
    Case("a web address", "en", "es", "The menu is at www.example.org/menu."),
    Case("two addresses", "en", "fr", "Use https://example.org or http://example.com/x_y, please."),
    Case("only an address", "en", "de", "https://example.org/only"),
    Case("e-mail", "en", "de", "Write to anna.b+c@example.org, please."),
    Case("e-mail", "fr", "en", "Mon adresse est jean@example.fr."),
    Case("a handle", "en", "de", "Thanks @ada, see you tomorrow!"),
    Case("emoji", "en", "de", "I love you 😀!"),
    Case("emoji of many parts", "en", "fr", "My family 👩‍👩‍👧 lives here 🇫🇷."),
    Case("only emoji", "en", "de", "👍🏽🎉"),
    Case("an arrow", "en", "de", "Settings → Language"),
    Case("Chinese", "en", "de", "He said 你好 to me."),
    Case("Russian", "en", "fr", "The word спасибо means thank you."),
    Case("Arabic", "de", "en", "Das Wort سلام ist schön."),
    Case("only a foreign script", "en", "de", "こんにちは"),
    Case("already German", "en", "de", "Ich habe keine Zeit."),
    Case("already French", "en", "fr", "Je suis très content."),
    Case("one word", "en", "de", "Thanks!"),
    Case("one word", "en", "fr", "spoon"),
    Case("one letter", "en", "de", "a"),
    Case("one sign", "en", "de", "?"),
    Case("spaces around", "en", "de", "  Good morning!  ", ("  ",)),
    Case("several sentences", "en", "de", "I am tired. Where is my bed? Good night!"),
    Case("several sentences without spaces", "en", "de", "I am tired.Where is my bed?"),
    Case("line breaks", "en", "de", "Dear Anna,\n\nthank you for the letter.\nSee you soon!\n\nPeter"),
    Case("Windows line breaks", "en", "fr", "First line.\r\nSecond line.\r\n", ("\r\n",)),
    Case("a list", "en", "de", "- bread\n- milk\n- two apples", ("- ",)),
    Case("a dialogue", "es", "en", "— ¿Dónde estás?\n— Estoy aquí.", ("— ",)),
    Case("a heading and points", "en", "fr", "# My day\n\n• I got up.\n• I went to work.", ("# ", "• ")),
    Case("a numbered list", "en", "fr", "1. Open the door.\n2. Close the window.\n3. Go home.", ("1.", "2.", "3.")),
    Case("a table", "en", "de", "name\tage\nAnna\t31", ("\t", "31")),
    Case("quotes", "en", "de", '"I am here," she said.'),
    Case("brackets", "en", "de", "My brother (he is older) lives here."),
    Case("an apostrophe that is none", "en", "fr", "I don’t know what you’re doing."),
    Case("a hyphen at a line's end", "en", "de", "We visited a well-known park -\nit was nice."),
    Case("names", "en", "de", "Peter Müller lives in London."),
    Case("code", "en", "de", "Press Ctrl+C to copy."),
    Case(
        "things with numbers in their names", "en", "de", "Print it on A4 paper, not on the HP-4200.", ("A4", "HP-4200")
    ),
    Case("a file", "en", "fr", "Open report_v2.pdf before you leave.", ("report_v2.pdf",)),
    Case("a domain", "de", "en", "Mehr steht auf example.org.", ("example.org",)),
    Case("a very long sentence", "en", "de", f"Yesterday {LONG}."),
    Case(
        "a very long sentence",
        "es",
        "en",
        "Ayer " + " y ".join(["el niño comió pan", "la niña leyó un libro"] * 20) + ".",
    ),
    Case("a word again and again", "en", "de", "no no no no no no no no no no"),
    Case("a line of signs", "en", "de", "Chapter one\n==========\nIt was night.", ("==========",)),
    Case("a very long word", "en", "de", "He shouted " + "a" * 200 + " and left.", ("a" * 200,)),
    Case(
        "news",
        "en",
        "de",
        "The parliamentary committee postponed its decision on the controversial infrastructure bill.",
    ),
    Case(
        "news",
        "fr",
        "en",
        "Le gouvernement a présenté un projet de réforme contesté par plusieurs syndicats régionaux.",
    ),
)


def broken_rules(case: Case, answer: str) -> list[str]:
    """Returns the broken rules of a translation as phrases; an empty list if it keeps all."""
    text, found = case.text, []
    if text.strip() and not answer.strip():
        return ["empty"]
    if re.findall(r"[\n\t]", text) != re.findall(r"[\n\t]", answer):
        found.append("other lines or columns")
    if [not line.strip() for line in text.split("\n")] != [not line.strip() for line in answer.split("\n")]:
        found.append("lines empty or full that were not")
    solid = [
        text[start:end] for start, end in [*do_not_translate_spans(text), *foreign_script_spans(text, case.source)]
    ]
    found += [f"lost {part}" for part in (*case.kept, *solid) if answer.count(part) < text.count(part)]
    if not same_numbers(text, answer):
        found.append("lost a number")
    if len(answer) > 3 * len(text) + 30:
        found.append(f"{len(answer)} characters from {len(text)}")
    if _loop_characters(answer) > max(20, 3 * _loop_characters(text)):
        found.append("a loop")
    if is_all_caps(text) and any(word != word.upper() for word in re.findall(r"\w+", answer) if word not in text):
        found.append("not in capitals")
    return found


def _loop_characters(text: str) -> int:
    """Returns the characters of the longest loop of a text. A token has about four characters, and so has a period."""
    return longest_loop([ord(character) for character in text.lower()], 4 * LONGEST_PERIOD)
