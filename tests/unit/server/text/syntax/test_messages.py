"""ICU messages are parsed as their grammar says: generated messages, quotes, broken ones, and the
bound of their depth."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.syntax.match import Match, Source
from server.text.syntax.placeholders import DEPTH, message
from tests.support.texts.matched import matches

texts = st.lists(
    st.sampled_from(["red car", "#", "{name}", " ", "'{'", "''", "it's", "\n", "{n, number}"]),
    max_size=5,
)
heads = st.sampled_from(
    ["{n, plural,", "{ n ,plural, offset:1 ", "{0,select,", "{user.name, selectordinal,\n"]
)
selectors = st.sampled_from(["one", "=0", " other ", "\nmale", "a-b"])


def parse(text: str, at: int = 0) -> Match | None:
    """Returns the message at a brace."""
    found = message(Source(text), at)
    return found if found and found.role == "message" else None


@st.composite
def messages(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[str]]:
    """A message and its arms."""
    head, arms = draw(heads), []
    for _ in range(draw(st.integers(1, 3))):
        arm = " ".join(draw(texts)) + (
            draw(messages(depth - 1))[0] if depth and draw(st.booleans()) else " "
        )
        head += f"{draw(selectors)}{{{arm}}}"
        arms.append(arm)
    return head + "}", arms


@given(messages(), st.sampled_from(["", "It's ", "{a} "]), st.sampled_from(["", " {b}", "}"]))
def test_the_arms_of_generated_messages_are_found(
    generated: tuple[str, list[str]], before: str, after: str
) -> None:
    whole, arms = generated
    text = before + whole + after
    parsed = parse(text, len(before))
    assert parsed is not None and text[len(before) : parsed.end] == whole
    assert [text[start:end] for start, end in parsed.flows] == arms


@pytest.mark.parametrize(
    ("text", "arms"),
    [
        ("{n, plural, one {{name} came} other {# came}}", ["{name} came", "# came"]),
        ("{n, plural, one {a '}' b} other {c}}", ["a '}' b", "c"]),
        ("{n, plural, one {d'{name}} other {c}}", ["d'{name}", "c"]),
        ("{n, plural, one {a}", None),
        ("{n, plural, one {a} b}", None),
        ("{n, plural}", None),
        ("{n, choice, one {a}}", None),
        (
            "{n, plural, offset:1 =0 {none} one {# {a} file} other {# files}}",
            ["none", "# {a} file", "# files"],
        ),
        ("{ $n -> [one] a *[other] { $n } b }", [" a ", " { $n } b "]),
        ("{ $n ->\n [one] a [x] b\n *[other] c\n}", [" a [x] b\n", " c\n"]),
        (
            '{ F($n, a: "}") -> [0] { "{" } a\t[1.5]{ "\\"}" } *[2]}',
            [' { "{" } a\t', '{ "\\"}" } ', ""],
        ),
        (
            "{ -t.attribute -> [a] x *[b] { $n -> [c] y *[d] z } }",
            [" x ", " { $n -> [c] y *[d] z } "],
        ),
        ("{ $n -> }", None),
        ("{ $n -> a [one] b }", None),
        ("{ $n -> [one] a", None),
        ("{ $n -> [one] { a }", None),
        ("{ 1 + $n -> [one] a }", None),
    ],
)
def test_arms_of_icu_and_fluent(text: str, arms: list[str] | None) -> None:
    parsed = parse(text)
    assert (parsed and [text[start:end] for start, end in parsed.flows]) == arms
    assert parsed is None or parsed.end == len(text)


def nested(depth: int) -> str:
    return "{n, plural, other {" * depth + "a word" + "}}" * depth


def test_the_arms_of_a_deep_message_are_not_translated() -> None:
    for depth, arms in ((DEPTH // 2, 1), (DEPTH // 2 + 1, 0), (20_000, 0)):
        text = nested(depth)
        [span] = matches(text)
        parsed = parse(text)
        assert (
            (span.role, span.end) == ("message", len(text))
            and parsed is not None
            and len(parsed.flows) == arms
        )
    assert parse("{$n->[a]" * 20_000 + "}" * 20_000) == Match(0, 180_000, "message", "message")


@pytest.mark.parametrize(
    "part",
    r"""{n, plural, one {|{n, plural, one {a} other {b} |'{'|<0>{a}|%s%|\|_a1|{n, select, a {'|a) |{$n->[a] |{$n->[a] b}"""
    r"""|{F("|{F(\"|{"\|{ -a |{$n->[a]{" """.split("|"),
)
def test_long_texts_of_broken_parts_take_linear_time(part: str) -> None:
    spans = matches(part * 20_000)
    assert all(left.end <= right.start for left, right in pairwise(spans))
