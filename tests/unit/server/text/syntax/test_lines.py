"""Lines and parts of lines that are no text, each class by generated members, and prose that only
looks like one."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from server.text.segmentation import split_sentences
from server.text.syntax import html, plain
from server.text.tagged import Tagged

SEED, MEMBERS = 4803, 60
WORDS = "house milk window garden letter train children summer bread water".split()
Make = Callable[[random.Random], tuple[str, list[str]]]


def texts(source: str) -> list[str]:
    """What a model may translate, without the codes, in the parts that these separate."""
    return [
        part for passage in plain.scan(Tagged(source)).passages() if (part := passage.bare.strip())
    ]


def words(chance: random.Random, most: int = 4) -> str:
    return " ".join(chance.sample(WORDS, chance.randint(2, most)))


def cue(chance: random.Random) -> tuple[str, list[str]]:
    start, text = chance.choice(("00:01:02,500", "01:02.500", "10:00:00.000")), words(chance)
    settings = chance.choice(("", " align:start", " line:0 position:20% size:60%"))
    return f"{start} --> {start}{settings}\n{text}", [text]


def event(chance: random.Random) -> tuple[str, list[str]]:
    first, second = words(chance), words(chance).capitalize()
    head = chance.choice(
        ("Dialogue: 0,0:00:01.00,0:00:02.00,Top,Ann,0,0,0,,", "Comment: 1,,,Default,,0,0,0,,")
    )
    return f"{head}{first}.\\N{second}", [f"{first}.", second]


def key(chance: random.Random) -> tuple[str, list[str]]:
    text, name = words(chance).capitalize(), chance.choice(WORDS)
    source = chance.choice(
        (
            f'msgid "{text}"',
            f'msgstr[1] "{text}"',
            f'"{name} {name}" = "{text}";',
            f"app.{name}.title={text}",
            f"{name}_{name} = {text}",
            f'{name}_text = "{text}"',
            f'"{name}": "{text}",',
            f"'{name}' => '{text}',",
            f"{name}={text}",
            f'{name}="{text}"',
            f"{name} = {text}",
            f"{name.upper()}:{text}",
            f"NOTE;LANGUAGE=en:{text}",
            f"[12:{chance.randint(10, 59)}] <{name}> {text}",
            f"-{text}",
            f"[*]{text}",
        )
    )
    return source, [text]


def definition(chance: random.Random) -> tuple[str, list[str]]:
    text, name = words(chance), chance.choice(WORDS)
    return chance.choice(
        (
            (f"[^{name}]: {text}", [text]),
            (f":::{name}\n{text}\n:::", [text]),
            (f'[{name}]: https://example.org/{name} "{text}"', []),
            (f"[{name} 2]: ../{name}.html", []),
            (f"\\item {text}", [text]),
            (f"> [!NOTE]\n{text}", [text]),
        )
    )


def record(chance: random.Random) -> tuple[str, list[str]]:
    fields, sign = [words(chance) for _ in range(3)], chance.choice(",;|")
    return sign.join([f'"{field}"' for field in fields]), fields


def badges(chance: random.Random) -> tuple[str, list[str]]:
    alts = [words(chance) for _ in range(chance.randint(2, 4))]
    form = chance.choice(("![{}](a.svg)", "[![{}](https://a.org/b.svg)](https://a.org/c)"))
    return " ".join([form.format(alt) for alt in alts]), alts


def statement(chance: random.Random) -> tuple[str, list[str]]:
    query = chance.choice(
        (
            "SELECT name FROM people WHERE id = 5",
            "SELECT a.name, COUNT(*) FROM people a JOIN name ON a.id = name.id GROUP BY name LIMIT "
            "5;",
            "SELECT *\nFROM people\nORDER BY name DESC",
            "INSERT INTO people (id, name) VALUES (5, 'red');",
            "UPDATE people SET name = 'x y' WHERE id < 5 AND name <> 'z'",
            "DELETE FROM people WHERE name IN (1, 5);",
            "CREATE TABLE people (id INT, name VARCHAR(5));",
            "DROP TABLE people;",
        )
    )
    query = query.replace("name", chance.choice(WORDS)).replace("people", chance.choice(WORDS))
    before, after = words(chance), words(chance)
    # a comment after it
    return f"{before} {query}{chance.choice(('', ' --'))} {after}", [before, after]


@pytest.mark.parametrize("make", [cue, event, key, definition, record, badges, statement])
def test_only_the_text_of_a_line_is_read(make: Make) -> None:
    chance = random.Random(SEED)
    for _ in range(MEMBERS):
        source, expected = make(chance)
        for before, after in (("", ""), ("They came.\n", "\nThey left.")):
            text = before + source + after
            assert " ".join(texts(text)).split() == " ".join([before, *expected, after]).split(), (
                source
            )
            assert plain.scan(Tagged(text)).write() == text


def test_names_of_yaml_are_no_text() -> None:
    chance = random.Random(SEED)
    for _ in range(MEMBERS):
        names = chance.sample(WORDS, 3)
        values = [words(chance) for _ in names]
        marks = [chance.choice(("", '"')) for _ in names]
        lines = [
            f"{name}: {mark}{value}{mark}"
            for name, value, mark in zip(names, values, marks, strict=True)
        ]
        for source in (
            "\n".join(lines),
            "menu:\n  " + "\n  ".join(lines),
            "# Words\n" + "\n".join(lines),
        ):
            assert [part for part in texts(source) if part != "# Words"] == values
            assert plain.scan(Tagged(source)).write() == source
        assert texts(f"{names[0]}: {values[0].capitalize()}") == [values[0].capitalize()]
        assert len(texts(f"{names[0]}: {values[0]}")) == 1  # a sentence: "error: it is open"


@pytest.mark.parametrize("sign", ",;")
def test_fields_of_a_table_stay_fields(sign: str) -> None:
    chance = random.Random(SEED)
    for _ in range(MEMBERS):
        columns, rows = chance.randint(2, 5), chance.randint(3, 6)
        cells = [
            [
                chance.choice((words(chance), "12", '"{}, {}"'.format(*WORDS)))
                for _ in range(columns)
            ]
            for _ in range(rows)
        ]
        cells[0] = chance.sample(WORDS, columns)
        if sign == ",":
            cells = [[cell if cell != "12" else "twelve" for cell in row] for row in cells]
        source = "\n".join([sign.join(row) for row in cells]) + chance.choice(("", "\n"))
        parts = [part for text in texts(source) for part in text.split("\n")]
        assert parts == [cell.strip('"') for row in cells for cell in row], source
        assert plain.scan(Tagged(source)).write() == source


def test_words_in_commands_and_quotes_are_text() -> None:
    chance = random.Random(SEED)
    commands = (
        "emph textbf textit underline section subsection* chapter title caption footnote".split()
    )
    pairs = [(f"\\{command}{{", "}") for command in commands]
    for opening, closing in (
        *pairs,
        ("`", "'"),
        *[(sign, sign) for sign in ("'''", "''", "***", '\\"')],
    ):
        inner, outer = words(chance), words(chance)
        tagged = plain.scan(Tagged(f"{outer} {opening}{inner}{closing} {outer}"))
        assert {code.role for code in tagged.codes} == {"sc", "ec"}, opening
        assert tagged.bare.split() == [*outer.split(), *inner.split(), *outer.split()]
    for text in (
        "it is 5'' and 6'' long",
        "``one'' and ``two''",
        "the ` of dogs'",
        "a } b",
        "\\emph{a",
    ):
        assert not [code for code in plain.scan(Tagged(text)).codes if code.role != "ph"]


def test_a_path_has_no_line_end() -> None:
    chance = random.Random(SEED)
    for _ in range(MEMBERS):
        path = "\\".join(
            [
                chance.choice("CDE") + ":",
                *chance.choices("new temp reports North notes".split(), k=2),
            ]
        )
        assert [code.equiv for code in plain.scan(Tagged(f"Open {path} now")).codes] == [path]
    assert [code.splits for code in plain.scan(Tagged("One\\nTwo\\NThree")).codes] == [True, True]


def test_cells_of_a_table_end_at_their_separators() -> None:
    chance = random.Random(SEED)
    for _ in range(MEMBERS):
        cells = [words(chance) for _ in range(3)]
        row = (
            "|"
            + "|".join([f" {cell.ljust(len(cell) + chance.randrange(3))} " for cell in cells])
            + "|"
        )
        assert texts(row) == cells


def test_columns_and_leaders_end_a_sentence() -> None:
    for text, expected in (
        ("WARN  [main] Retrying", ["WARN", "[main] Retrying"]),
        ("( ) Yes  (x) No", ["( ) Yes", "No"]),
        ("len(xs)  # the size", ["len(xs)", "the size"]),
        ("Chapter 1 ........ 17", ["Chapter 1", "17"]),
        ("Latte....3,20", ["Latte", "3,20"]),
        ("He said  hello and left", ["He said  hello and left"]),
    ):
        found = [text[start:end] for start, end in split_sentences(text, "en")]
        assert [part for part in found if part.strip(" .")] == expected


def test_an_empty_element_is_one_code_between_words() -> None:
    for name in ("i", "span", "em", "a"):
        [code] = html.scan(f"Click <{name} class='x'></{name}> to save", "en").codes
        assert (code.role, code.data) == ("ph", f"<{name} class='x'></{name}>")
    for name in ("x", "b1", "ph", "my-icon"):
        for element in (f"<{name} id='1'></{name}>", f"<{name}></{name}>"):
            for tagged in (
                plain.scan(Tagged(f"Click {element} to save")),
                html.scan(f"Click {element} to save"),
            ):
                assert [code.word for code in tagged.codes] == ["name"]
