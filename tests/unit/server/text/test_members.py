"""Classes of texts, each by generated members: labels, elements beside each other, exact tokens
with markup in them, names in foreign letters, and the words of what a reader sees of a code."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from model.tokenizer import Tokenizer
from server.inspection.types import tokens
from server.text.exact_tokens import exact_tokens, lost_tokens
from server.text.finishing import finish
from server.text.numbers import with_formats
from server.text.reading import CONJUNCTIONS, Reading, read
from server.text.segmentation import split_sentences
from server.text.sentences import split, with_codes
from server.text.spans import WORD
from server.text.syntax import html, plain
from server.text.tagged import MASKED, Code, Tagged
from server.text.vocabulary import with_unwritable
from server.translation.catalog import readable
from server.translation.preparation import segment_tagged
from tests.support.engine.fake_engine import fake_model
from tests.support.engine.hostile_engine import SYMBOLS
from tests.unit.server.text.test_every_script import embedded

SEED = 48
ITEMS = ("Buy milk", "Open the door", "The house is red", "Remove all files")
NAMES = ("Franklin was born here", "Reid has won", "Green was here", "Hill is old")
NUMBERS = ("1", "7", "12", "5a", "1.2", "3-4")
BRACKETS = (("(", ")"), ("", ")"), ("", ".)"))
SIGNS = ("§ ", "§", "§§ ", "Art. ", "No. ", "Nr. ", "Fig. ", "Kap. ", "N° ")
LABELS = [
    *[
        f"{opening}{core}{closing}"
        for core in ("a", "iv", "3", "12", "2.b")
        for opening, closing in BRACKETS
    ],
    *[f"{sign}{number}" for number in NUMBERS for sign in SIGNS],
    *"[1] [12] 1: 12: 1.2.3 1.1 A.1 B. IV. c. ii. #3 // /* ; TODO: ① 1.a Q:".split(),
    *["No. 7:", "§ 5:", "- [ ]"],
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return embedded(tmp_path_factory.mktemp("vocabulary"))


def texts_of(text: str, tokenizer: Tokenizer) -> list[str]:
    return [
        sentence.tagged.text
        for sentence in split(plain.scan(Tagged(text)), "en", "all", None, tokenizer)
    ]


@pytest.mark.parametrize("label", LABELS)
def test_a_label_is_no_part_of_its_item(label: str, tokenizer: Tokenizer) -> None:
    for item in ITEMS:
        assert texts_of(f"{label} {item}", tokenizer) == [item], (label, item)


def test_an_initial_is_no_label_but_in_a_list(tokenizer: Tokenizer) -> None:
    for letter in "ABCDEFGHJKLMNOP":
        for name in NAMES:
            assert texts_of(f"{letter}. {name}", tokenizer) == [f"{letter}. {name}"]
    lines = [f"{letter}. {name}" for letter, name in zip("ABCD", NAMES, strict=True)]
    assert texts_of("\n".join(lines), tokenizer) == list(NAMES)
    for text in (
        "§ 5 BGB regelt es",
        "§ 5 Absatz 2 gilt",
        "Art. 5 GG gilt",
        "No. 7 of the list is here",
    ):
        assert [text[a:b] for a, b in split_sentences(text, "de")] == [text]


def test_elements_beside_each_other_keep_their_words(tokenizer: Tokenizer) -> None:
    words, targets = ("red", "house", "milk"), ("rot", "Haus", "Milch")
    marks = [[f"<{kind} id={i}>" for i in range(3)] for kind in ("b", "span", "i")]
    for tags in marks:
        ends = [f"</{tag[1:].split()[0]}>" for tag in tags]
        source = "".join([f"{a}{word}{b}" for a, word, b in zip(tags, words, ends, strict=True)])
        [sentence] = split(html.scan(source, "en"), "en", "punctuation", None, tokenizer)
        reading = read(sentence.tagged, (), tokenizer, "en")
        assert reading.text == " ".join(words)
        for order in permutations(range(3)):
            target = " ".join([targets[i] for i in order])
            links = [(span(reading.text, words[i]), span(target, targets[i])) for i in order]
            written = finish(sentence.tagged, reading, target, links).tagged.write()
            assert written.replace("> <", "><") == "".join(
                [f"{tags[i]}{targets[i]}{ends[i]}" for i in order]
            )
        assert finish(sentence.tagged, reading, reading.text, ()).tagged.write().replace(
            " ", ""
        ) == source.replace(" ", "")


def span(text: str, part: str) -> tuple[int, int]:
    return text.index(part), text.index(part) + len(part)


def in_capitals(tagged: Tagged, reading: Reading) -> str:
    """Returns the translation of a model that writes capitals."""
    links = [(word.span(), word.span()) for word in WORD.finditer(reading.text)]
    return finish(tagged, reading, reading.text.upper(), links).tagged.write()


@pytest.mark.parametrize("mark", ".,;:!?")
def test_a_mark_at_an_element_ends_its_word(mark: str, tokenizer: Tokenizer) -> None:
    for first, second in (("Note", "This house"), ("Hello", "My friends"), ("Wait", "Two dogs")):
        for source in (
            f"<b>{first}{mark}</b>{second}",
            f"{first}{mark}<i>{second}</i>",
            f"<b>{first}{mark}</b><i>{second}</i>",
        ):
            tagged = html.scan(source, "en")
            reading = read(tagged, (), tokenizer, "en")
            assert reading.text == f"{first}{mark} {second}"
            links = [
                (span(reading.text, part), span(reading.text, part))
                for part in (first, mark, *second.split())
            ]
            target = reading.text.upper()
            assert finish(tagged, reading, target, links).tagged.write().lower() == source.lower()


def test_a_word_that_is_cut_into_elements_is_read_whole(tokenizer: Tokenizer) -> None:
    for word in ("Information", "children", "problem", "question"):
        for place in range(2, len(word) - 1):
            tagged = html.scan(f"<i>{word[:place]}</i><b>{word[place:]}</b>", "en")
            assert read(tagged, (), tokenizer, "en").text == word


def test_an_exact_token_has_the_markup_within_it() -> None:
    chance = random.Random(SEED)
    for token in ("10s", "H2O", "4x4", "12.50", "A4", "house[15]"):
        for start in range(len(token)):
            for end in range(start + 1, len(token) + 1):
                href = chance.randrange(100)
                source = (
                    f"see {token[:start]}<a href={href}>{token[start:end]}</a>{token[end:]} here"
                )
                tagged = html.scan(source, "en")
                code = Code(4, 4 + len(token), word="name", kind=MASKED, equiv=token)
                masked = with_codes(
                    tagged._replace(codes=tuple([c for c in tagged.codes if c.kind == "a"])), [code]
                )
                assert masked.write() == source
                assert len(masked.codes) == 1 or (start, end) == (0, len(token))


def test_equal_sentences_keep_the_markup_of_their_own_tokens() -> None:
    from server.text.syntax.match import Match
    from server.translation.catalog import Leg
    from server.translation.preparation import with_codes as with_masks

    leg = Leg(fake_model(), "en", "de")
    source = "<p>see 10<a href=1>s</a> here</p><p>see 10<a href=2>s</a> here</p>"
    segmented = segment_tagged(html.scan(source, "en"), leg, "punctuation")
    targets = []
    for segment in segmented.segments:
        masked = with_masks(segment, [Match(4, 7, "word")], leg)
        assert masked is not None
        targets.append(finish(masked.tagged, masked.reading, masked.read, ()))
    assert segmented.join(targets).write() == source


def identifiers(chance: random.Random, count: int, least: int, most: int) -> list[str]:
    """Returns words of `least` to `most` letters that are of no language."""
    return [
        "".join(chance.choices("abcdefgh", k=chance.randint(least, most))) for _ in range(count)
    ]


def is_one_code(token: str, *around: str) -> None:
    for text in [each.format(token) for each in around]:
        assert [code.equiv for code in plain.codes(text)] == [token], text


def test_what_a_program_writes_is_one_code() -> None:
    chance = random.Random(SEED)
    for _ in range(300):
        first, second, third = identifiers(chance, 3, 2, 6)
        number, large = chance.randrange(1, 99), chance.randrange(100, 999)
        for token in (
            f"{first[0]}[{second}]",
            f"{first}[{second[0]}][{third[0]}]",
            f"{first.title()}<{second.title()}, {third.title()}>",
            f"{first}.{second}({third}, 1)",
            f"{first}_{second}()",
            f"std::{first}({second}, {third})",
            f'{first.upper()}(@"{second} {third}", 1)',
            f'{first}(f"{second}")',
            *[f"{sign} {number}" for sign in ("No.", "n.º", "núm.")],
            f"art. {number}.2",
            *[f"{number},-", f"1.{large},--", f"{number},–"],
            *[rf"\"{{{first}}}\"", r"\'%s\'", f"C:\\{first}\\{second}.txt", rf"\\{first}\{second}"],
            f"#{first}-{chance.randrange(9999)}",
        ):
            is_one_code(token, "see {} here", "({})", '"{}", he said', "{}.")


def test_options_in_quotes_are_codes() -> None:
    chance = random.Random(SEED)
    for _ in range(300):
        first, second = identifiers(chance, 2, 1, 6)
        for token in (f"--{first}", f"--{first}-{second}={first}", f"--{first}[={second.upper()}]"):
            is_one_code(token, "({})", '"{}", he said', "use '{}'.", "« a “{}” »")


@pytest.mark.parametrize("opening", "\u202a\u202b\u202d\u202e\u2066\u2067\u2068")
def test_controls_of_direction_stay_around_their_words(opening: str) -> None:
    closing = "\u2069" if opening >= "\u2066" else "\u202c"
    tagged = plain.scan(Tagged(f"see {opening}Anna{closing} here"))
    assert [code.role for code in tagged.codes] == ["sc", "ec"]
    assert [code.role for code in plain.codes(f"see {opening}Anna here \u200e")] == ["ph", "ph"]


def test_a_raised_number_is_a_note_and_its_sentence_ends(tokenizer: Tokenizer) -> None:
    for number in ("¹", "²", "¹²"):
        assert texts_of(f"It rained twice.{number} We left.", tokenizer)[-1].endswith("We left.")
        assert len(texts_of(f"It rained twice.{number} We left.", tokenizer)) == 2
        assert [code.kind for code in plain.codes(f"the house{number} is red,{number} and")] == [
            "note",
            "note",
        ]
        assert not plain.codes(f"5 m{number} and 3 km{number}")


@pytest.mark.parametrize(
    "shown", ["สวัสดีชาวโลก", "नमस्ते", "`Ctrl + C`", "e\u0301te\u0301 {a b}", "👩‍👩‍👧"]
)
def test_a_code_is_one_word_of_the_page(shown: str) -> None:
    text = "see <ph1> here"
    pieces, offsets = ("▁see", "▁", "<ph1>", "▁here"), ((0, 3), (3, 4), (4, 9), (9, 14))
    found = tokens(text, pieces, offsets, {"<ph1>": shown})
    assert [found.text[word.start : word.end] for word in found.words if word.end > word.start] == [
        "see",
        shown,
        "here",
    ]


@pytest.mark.parametrize(
    "note",
    [
        "<sup>{}</sup>",
        '<a href="#n"><sup>{}</sup></a>',
        "<sup><a>{}</a></sup>",
        "<a><i><sup>{}</sup></i></a>",
    ],
)
def test_a_note_keeps_its_spaces(note: str, tokenizer: Tokenizer) -> None:
    for number in ("1", "[12]", "*"):
        for space in ("", " "):
            for after in (" is red", ". It is red", ", and red"):
                mark = note.format(number)
                [*_, tagged] = html.scan(f"the house{space}{mark}{after}").passages()
                assert [code.data for code in tagged.codes] == [mark]
                reading = read(tagged, (), tokenizer, "en")
                assert in_capitals(tagged, reading) == f"THE HOUSE{space}{mark}{after.upper()}"


def test_an_alert_is_apart_from_its_title(tokenizer: Tokenizer) -> None:
    for name in ("[!NOTE]", "[!WARNING]", "[!tip]+", "[!caution]-"):
        for item in ITEMS:
            for gap in (" ", "\n> "):
                assert texts_of(f"> {name}{gap}{item}", tokenizer)[-1] == item


def test_a_tie_is_read_as_a_space_and_an_override_stays_first() -> None:
    for text, word, written in (
        ("See Figure~\\ref{a} here", "Figure ", "Figure~\\ref{a}"),
        ("a house~\\cite{b} and a garden", "house ", "house~\\cite{b}"),
        ("{\\an8}Come here", "Come", "{\\an8}"),
    ):
        tagged = plain.scan(Tagged(text))
        reading = read(tagged, (), SYMBOLS, "en")
        assert word in reading.text
        target = f"¡{reading.text}!"
        links = [
            (each.span(), (each.start() + 1, each.end() + 1))
            for each in WORD.finditer(reading.text)
        ]
        finished = finish(tagged, reading, target, links).tagged.write()
        assert written in finished
        assert finished.startswith("{\\an8}") or text[0] != "{"


def test_a_sign_between_shortened_words_is_alone(tokenizer: Tokenizer) -> None:
    for first, second in permutations(("T's", "don't", "C’s", "l'eau", "aujourd'hui"), 2):
        tagged = with_unwritable(Tagged(f"read our {first} ☃ {second} here"), tokenizer, readable)
        assert [code.equiv for code in tagged.codes] == ["☃"]
    tagged = with_unwritable(Tagged("if a ☃ b then"), tokenizer, readable)
    assert [code.equiv for code in tagged.codes] == ["a ☃ b"]


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_a_sign_between_words_is_read_as_and(language: str, tokenizer: Tokenizer) -> None:
    """It is written where the translation has the word, other such words stay."""
    conjunction = CONJUNCTIONS[language]
    for count in (1, 2):
        for around in ("{}", "the {} are here.", "{} " + conjunction + " more", "<b>{}</b> now"):
            source = around.format(" & ".join(["Salt", "Milk", "Bread"][: count + 1]))
            [sentence] = split(html.scan(source, "en"), language, "none", None, tokenizer)
            tagged = with_unwritable(sentence.tagged, tokenizer, readable)
            reading = read(tagged, (), tokenizer, language)
            assert reading.text.count(f" {conjunction} ") == source.count("&") + (
                f" {conjunction} " in source
            )
            for goal, word in CONJUNCTIONS.items():
                target = reading.text.replace(f" {conjunction} ", f" {word} ")
                sides = [
                    [each.span() for each in WORD.finditer(side)] for side in (reading.text, target)
                ]
                links = list(zip(*sides, strict=True))
                done = finish(tagged, reading, target, links, conjunction=word)
                assert done.tagged.write().count(" &amp; ") == count, (goal, done.text)
                assert done.text.replace(" & ", f" {word} ") == target
                assert not done.restored
            lacking = finish(tagged, reading, "Salz Milch", ())
            assert lacking.text.count("&") == count


def test_the_sign_of_an_access_key_is_a_code_before_its_word(tokenizer: Tokenizer) -> None:
    chance = random.Random(SEED)
    for _ in range(100):
        first, second = identifiers(chance, 2, 2, 9)
        for text in (f"{first} &{second}", f"&{first} {second}", f"{first} &{second.title()}..."):
            tagged = with_unwritable(Tagged(text), tokenizer, readable)
            assert [code.equiv for code in tagged.codes] == ["&"]
            assert read(tagged, (), tokenizer, "en").text == text.replace("&", "")


def test_arrows_and_quotes_of_angles(tokenizer: Tokenizer) -> None:
    for first, second in permutations(("Next page", "Previous", "Home"), 2):
        for text in (
            f"{first} »",
            f"{first} » « {second}",
            f"{first} » {second}",
            f"‹ {first}",
        ):
            assert {each.strip("« »") for each in texts_of(text, tokenizer)} <= {first, second}
        for text in (f"He said « {first} » and left", f"»{first}!«, he said"):
            assert texts_of(text, tokenizer) == [text]


def test_an_address_without_a_scheme_is_one_code() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        first, second = identifiers(chance, 2, 1, 9)
        for host in (f"{first}.com", f"www2.{second}.co.uk", f"{first}-{second}.museum"):
            for path in (f"/{second}", f"/{first}/{second}/?a=1&b=2#c", f"/{second}_(a)", "/1.2"):
                is_one_code(host + path, "see {} here", "({})", "{}.", '"{}", he said')


def test_a_ruler_at_words_is_kept(tokenizer: Tokenizer) -> None:
    for item in ITEMS:
        for ruler in ("----", "=====", "--------"):
            for text in (
                f"{ruler}{item}{ruler}",
                f"{ruler} {item} {ruler}",
                f"{ruler}{item}",
                f"{item}{ruler}",
            ):
                assert texts_of(text, tokenizer) == [item], text
        assert texts_of(f"{item}---and {item}", tokenizer) == [f"{item}---and {item}"]


def test_no_sentence_begins_with_a_mark(tokenizer: Tokenizer) -> None:
    for item in ITEMS:
        for text in (
            f"feat!: {item}",
            f"Tel.: {item}",
            f'Yes!", {item}',
            f"C++; .NET {item}",
            f"Was?: {item}",
        ):
            assert texts_of(text, tokenizer) == [text]


@pytest.mark.parametrize("mark", ".,;:!?")
def test_a_sign_after_a_mark_stays_behind_it(mark: str, tokenizer: Tokenizer) -> None:
    for item in ITEMS:
        tagged = with_unwritable(Tagged(f"Hello{mark} ☃ {item}"), tokenizer, readable)
        reading = read(tagged, (), tokenizer, "en")
        assert in_capitals(tagged, reading) == tagged.text.upper()


def test_parameters_count_without_a_gap() -> None:
    chance = random.Random(SEED)
    for count in range(1, 10):
        numbers = chance.sample(range(1, count + 1), count)
        text = " and ".join([f"${number} has written" for number in numbers])
        assert [text[code.start : code.end] for code in plain.codes(text)] == [
            f"${number}" for number in numbers
        ]
        for amount in (f"${count + 2}", "$1.50", "$1,000", "$1 million", "$1-a-day", "$1bn"):
            assert plain.codes(f"{text} for {amount}") == ()


def test_fields_of_records_are_texts_of_their_own(tokenizer: Tokenizer) -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        fields = [chance.choice(ITEMS) + f" {n}" for n in range(chance.randint(2, 5))]
        sign, space = chance.choice(",;|\t:"), chance.choice(["", " "])
        record = f"{sign}{space}".join([f'"{field}"' for field in fields])
        for line in (
            record,
            f"[{record}],",
            f"{record}{sign}",
            f"7{sign}{record}{sign}5" if sign in ",;" else record,
        ):
            assert [text for text in texts_of(line, tokenizer) if len(text) > 2] == fields, line
        for prose in (
            f'He said "{fields[0]}" and "{fields[1]}", and left.',
            f'"{fields[0]}", "{fields[1]}", "I" and "You" are songs',
            f'The songs ("{fields[0]}", "{fields[1]}", "I") are old.',
        ):
            assert plain.codes(prose) == ()


def test_lines_of_dumps_are_codes_and_telephone_numbers_are_not() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        content = [*chance.randbytes(chance.randint(7, 15)), 0xAF]
        shown = "".join([chr(byte) if 32 < byte < 127 else "." for byte in content])
        pairs = [f"{byte:02x}" for byte in content]
        words = [a + b for a, b in zip(pairs[::2], pairs[1::2], strict=False)]
        offset = f"{chance.randrange(1 << 20):08x}"
        for line in (
            f"{offset}  {' '.join(pairs)}  |{shown}|", f"{offset}: {' '.join(words)}  {shown}",
            f"0x{offset[4:]}:  {' '.join(words)}", f"{offset[4:]}   {' '.join(pairs).upper()}   "
                                                   f"{shown}",
        ):  # fmt: skip
            text = f"The file begins so:\n{line}\nIt is empty."
            assert [text[code.start : code.end] for code in plain.codes(text)] == [line]
        number = (
            f"+{chance.randrange(10, 99)} 1 "
            f"{' '.join([str(chance.randrange(10, 99)) for _ in range(4)])}"
        )
        assert plain.codes(f"Call {number} today") == ()
        assert [(each.start, each.end) for each in exact_tokens(f"Call {number} today")] == [
            (5, 5 + len(number))
        ]


def test_a_verse_is_no_time() -> None:
    for value in ("3:16", "12:30", "21:17", "10:05"):
        hour, minute = value.split(":")
        for written in (f"{hour} h {minute}", f"{hour}h{minute}"):
            assert lost_tokens(f"See John {value}.", f"Voir Jean {written}.", "fr")
            assert lost_tokens(f"Come at {value}.", f"Venez à {written}.", "fr") is None
            assert (
                lost_tokens(
                    f"Come at {value} or {value}.", f"Venez à {written} ou {written}.", "fr"
                )
                is None
            )


def test_groups_of_digits_are_those_of_a_number() -> None:
    for value in (1_250_000, 7_000_000, 12_345_678, 150_000_000, 1_000_000_000, 20_010_000_200):
        english = f"{value:,}"
        first, _, rest = english.partition(",")
        german = english.replace(",", ".")
        assert lost_tokens(f"It has {english} books.", f"Es hat {german} Bücher.", "de") is None
        assert lost_tokens(
            f"It has {english} books.", f"Es hat {first}{rest.replace(',', '.')} Bücher.", "de"
        )
        thousands = value // 1000
        written = f"It has {german} books."
        assert with_formats(f"Es hat {german} Bücher.", written, "de", "en") == (
            f"It has {english} books."
        )
        given, written = f"It has {thousands} books.", f"Es hat {thousands:,} Bücher."
        assert with_formats(given, written, "en", "de") == written.replace(",", ".")


def test_a_word_for_both_genders_is_read_as_one(tokenizer: Tokenizer) -> None:
    """Of the same length, so that places stay; codes, emphasis and prose are not such words."""
    german = [
        f"{word}{sign}{end}"
        for word in ("Schüler", "Bürger", "Nutzer", "Kolleg", "Mitarbeiter")
        for sign in "*:_·"
        for end in ("in", "innen")
    ]
    french = [
        f"{word}{form}"
        for word in ("ami", "étudiant", "arrivé", "salarié")
        for form in ("·e", "·e·s", "(e)", "(e)s", "•e•s")
    ]
    contexts = {"de": "Die {} sind da, {}.", "fr": "Les {} sont là, {}."}
    for language, words in (("de", [*german, "jede*r", "eine:n", "ein*e"]), ("fr", french)):
        for word in words:
            text = contexts[language].format(word, word)
            (sentence,) = split(Tagged(text), language, "all", None, tokenizer)
            read = sentence.tagged.text
            assert len(read) == len(text) and read.count("\u00ad") in (2, 4, 6), word
            assert all(a == b or b == "\u00ad" for a, b in zip(text, read, strict=True)), word
            coded = Tagged(text, (Code(4, 4 + len(word), kind="code", equiv="x"),))
            (sentence,) = split(coded, language, "all", None, tokenizer)
            assert sentence.tagged.text[4 : 4 + len(word)] == word
    for prose in ("Anmeldung: innen und außen", "um 9:30 in Berlin", "*Schüler*innen lernen*",
                  "Attribut: in", "a*b und f(e)", "l'eau (e)"):  # fmt: skip
        for language in ("de", "fr", "en"):
            (sentence,) = split(Tagged(prose), language, "all", None, tokenizer)
            assert sentence.tagged.text == prose


def test_labels_with_a_slash_are_texts_of_their_own(tokenizer: Tokenizer) -> None:
    labels = ("Yes", "No", "Monday", "Überschrift", "Save")
    for first, second in permutations(labels, 2):
        for sign in ("/", " / "):
            assert texts_of(f"{first}{sign}{second}", tokenizer) == [first, second]
        for prose in (f"Choose {first}/{second}", f"{first}/{second} is here."):
            assert texts_of(prose, tokenizer) == [prose]
    for name in ("AC/DC", "km/h", "he/she", "/Yes/No", "Src/main.py"):
        assert len(texts_of(name, tokenizer)) <= 1


def test_an_amount_keeps_its_currency() -> None:
    for amount in ("$20", "US$40", "$5.99", "$2M"):
        digits = amount.lstrip("US$")
        assert lost_tokens(f"It costs {amount} today.", f"Es kostet heute {digits}.", "de")
        for said in (f"{digits} $", f"{digits} Dollar", amount):
            assert (
                lost_tokens(f"It costs {amount} today.", f"Es kostet heute {said}.", "de") is None
            )


def test_an_ordinal_in_digits_ends_no_sentence(tokenizer: Tokenizer) -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        number = chance.randint(1, 130)
        before = chance.choice(
            ("Das", "Er wohnt im", "Es war ihr", "Sie kam auf den", "Nach dem", "Es ist sein", "Am")
        )
        noun = chance.choice(
            ("Kapitel war gut", "Stock", "Jahrhundert", "Geburtstag", "Platz", "Weltkrieg war lang")
        )
        between = chance.choice(("", f"{max(1, number - 1)}. und ", f"{max(1, number - 1)}. bis "))
        text = f"{before} {between}{number}. {noun}."
        assert [text[a:b] for a, b in split_sentences(text, "de")] == [text]
        for language, end in (
            ("de", "Sie wurde {}. Dann ging sie."),
            ("en", "I am {}. Then I left."),
        ):
            text = end.format(number)
            assert [text[a:b] for a, b in split_sentences(text, language)] == [
                f"{text.split('. ')[0]}.",
                text.split(". ")[1],
            ], text
        for sign in ".º .ª º ª".split():
            text = f"Vive en la {number}{sign} planta."
            assert [text[a:b] for a, b in split_sentences(text, "es")] == [text]


def test_a_measure_keeps_all_its_primes() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        number, sign = (
            chance.choice(("55", "6.7", "1/2", "12", "5'10")),
            chance.choice(("''", '"', "″", "'")),
        )
        sign = '"' if number == "5'10" else sign
        text = f"It is {number}{sign} wide."
        assert lost_tokens(text, f"Es ist {number}{sign} breit.", "de") is None
        for wrong in (number, f"{number}{sign}s", *[f"{number}'"] * (sign == "''")):
            lost = lost_tokens(text, f"Es ist {wrong} breit.", "de") or ()
            assert [text[each.start : each.end] for each in lost] == [f"{number}{sign}"], (
                text,
                wrong,
            )


def test_a_small_roman_numeral_is_the_label_of_a_page() -> None:
    for numeral in "ii iii iv vii viii ix xi xii xiii xiv xviii xix xxiii xxxix".split():
        text = f"See page {numeral} of it."
        assert lost_tokens(text, f"Siehe Seite {numeral} davon.", "de") is None
        for wrong in (f"Seite{numeral}", "Seite", f"Seite {numeral}i", f"Seite {numeral[:-1]}"):
            lost = lost_tokens(text, f"Siehe {wrong} davon.", "de") or ()
            assert [text[each.start : each.end] for each in lost] == [numeral], wrong
    assert not exact_tokens("Ayer vi a mi madre, y dix mil de ellos")
