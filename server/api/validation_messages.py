"""The errors of pydantic as one sentence, in the words of this server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MESSAGES = {
    "string_type": "must be a string",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have at most {max_length} characters",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a number of fewer digits",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "too_long": "must have at most {max_length} entries",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
}
"""Types of pydantic's errors; the names in braces are those of their context."""
SOURCES = ("body", "query", "header", "path")


def sentence_of(problems: Sequence[Any]) -> str:
    """Returns pydantic's errors of the first wrong parameter as one sentence with its name, without its value.

    A parameter of several types has an error for each of them. The one that is deepest within the value counts, because
    its type fits best.
    """
    places = [[part for part in problem["loc"] if part not in SOURCES] for problem in problems]
    if not places or not places[0]:
        return "Invalid request."
    first = places[0][0]
    depth = max(len(place) for place in places if place[0] == first)
    deepest = [index for index, place in enumerate(places) if place[0] == first and len(place) == depth]
    name = name_of(places[deepest[0]])
    if problems[deepest[0]]["type"] == "missing":
        return f"Invalid request: missing {name} parameter."
    if "[" in name:
        del deepest[1:]
    messages = list(dict.fromkeys([message_of(problems[index]) for index in deepest]))
    further = "".join(f" or {message.removeprefix('must be ')}" for message in messages[1:])
    return f"Invalid request: {name} {messages[0]}{further}."


def name_of(place: Sequence[str | int]) -> str:
    """Returns the name of a parameter or of a value in its list, such as `q[1]` or `glossary[0].target`. Names before the
    first index are those that pydantic gives to the types of the parameter."""
    index = next((at for at, part in enumerate(place) if isinstance(part, int)), len(place))
    inner = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in place[index:]]
    return "".join([str(place[0]), *inner])


def message_of(problem: Mapping[str, Any]) -> str:
    """Returns what a value must be, or pydantic's message for other types of errors."""
    message = MESSAGES.get(problem["type"])
    if message is not None:
        return message.format_map(problem.get("ctx", {}))
    text = str(problem.get("msg", "is not valid")).removeprefix("Value error, ").rstrip(".")
    return text[:1].lower() + text[1:]
