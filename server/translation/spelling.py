"""The marks and the hours of the day that a translation has as its source."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import cycle

from server.text.numbers import HALVES, Number, numbers
from server.text.spans import WORD
from server.text.terms import Edit

_REPEATED = re.compile(r"\.\.+|…|[!?](?:\s?[!?])*+")


def mark_edits(source: str, target: str) -> list[Edit]:
    """Returns the edits that give a translation the dots and the marks of its source: models
    write two dots or four for three, "! ! ! !" in French, and "!" for "?!"."""
    edits = []
    for signs in (".…", "!?"):
        given, runs = [
            [found for found in _REPEATED.finditer(side) if found[0][0] in signs]
            for side in (source, target)
        ]
        if signs == "!?" and (len(given) != len(runs) or not {*"¡¿"}.isdisjoint(target)):
            continue
        known = {"…", *[found[0] for found in given]}
        for place, run in enumerate(runs if given else ()):
            marks = "".join(given[min(place, len(given) - 1)][0].split())
            is_run = len(marks) > 1 or marks == "…"
            if run[0] not in known and is_run and (len(run[0]) > 1 or run[0] in marks):
                edits.append((*run.span(), marks))
    return edits


def half_edits(text: str, target: str) -> list[Edit]:
    """Returns the hours of a translation that lack the half of the day (6 p.m., 6 Uhr), and those
    of 24 hours for them; where one has the wrong half, its other letter. Equal hours of both halves
    are in order."""
    ways = defaultdict[tuple[str, str], list[int]](list)
    for each in numbers(text):
        said = text[each.last : each.until].lower().strip() if each.kind == "clock" else ""
        parts = [hours for word, hours in HALVES.items() if said.endswith(word)]
        hour, minute = _clock(each)
        if (parts or said[-1:] == "m") and hour.isdecimal() and int(hour) <= 12:
            is_late = int(hour) % 12 in parts[0] if parts else said[0] == "p"
            ways[hour, minute[:2] or "00"].append(int(hour) % 12 + 12 * is_late)
    if not ways:
        return []
    has_half = not {*HALVES, "pm", "m"}.isdisjoint(WORD.findall(target.lower()))
    places = defaultdict[tuple[str, str], list[int]](list)
    for each in numbers(target):
        (hour, minute), after = _clock(each), target[each.last : each.last + 6].lstrip().lower()
        is_hour = target[max(0, each.digits - 4) : each.digits] == "las "
        is_hour |= each.kind == "clock" or (after[:1] == "h" and not after[1:2].isalpha())
        said = target[each.last : each.until].lstrip() if each.kind == "clock" else ""
        has_letter = said[-1:].lower() == "m"  # 6 pm
        for way in ways if minute or has_letter or is_hour else ():
            same = minute or ("00" if has_letter else way[1] * (way[1].strip("0") in after))
            if way == (hour, same) and (has_letter or not has_half):
                places[way].append(each.until - len(said) if has_letter else each.digits)
                break
    edits = list[Edit]()
    for way, hours in ways.items():
        if len({*hours}) == 1 or len(hours) == len(places[way]):
            for at, late in zip(places[way], cycle(hours), strict=False):
                old = way[0] if target[at].isdigit() else target[at]
                half = "AP" if old.isupper() else "ap"
                new = str(late) if old.isdigit() else half[late > 11]
                edits += [(at, at + len(old), new)] * (new != old)
    return edits


def _clock(number: Number) -> tuple[str, str]:
    """Returns the hour and the minute of a time."""
    hour, _, minute = number.written.replace(".", ":").partition(":")
    return hour, minute
