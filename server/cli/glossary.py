"""`attentive glossary`: creates, lists, shows and deletes glossaries, and imports and exports their entries. A running
server applies the change at once."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from server.access.api_keys import KeyFile
from server.cli.keys import aligned
from server.cli.text_streams import open_text, utf8_lines
from server.config import Settings, add_flags
from server.errors import InvalidRequest, NotFound, SettingsError
from server.glossaries.formats import EntriesFormat, read_entries, write_entries
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.sqlite import SQLiteGlossaries
from server.glossaries.types import Dictionary, Glossary, base_language

NAME = "glossary"
HELP = "Create, list, show, delete, import and export glossaries."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="Create a glossary from a file of entries and print its id.")
    create.add_argument("name", help="Name of the glossary.")
    create.add_argument(
        "--key", default=EVERYONE, metavar="ID", help="Id of the API key that it belongs to. [default: everyone]"
    )
    add_entries(create)
    listing = actions.add_parser("list", help="List all glossaries.")
    listing.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    show = actions.add_parser("show", help="Show a glossary as JSON.")
    delete = actions.add_parser("delete", help="Delete a glossary.")
    import_ = actions.add_parser("import", help="Add a file of entries to a glossary.")
    export = actions.add_parser("export", help="Print the entries of a language pair.")
    for action in (show, delete, import_, export):
        action.add_argument("id", help="Id of the glossary in the output of `attentive glossary list`.")
    add_entries(import_)
    add_pair(export)
    export.add_argument("--csv", action="store_true", help="Print CSV instead of TSV.")
    for action in (create, listing, show, delete, import_, export):
        add_flags(action, ("data",))


def add_pair(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help="Language of the terms.")
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="Language of the translations.")


def add_entries(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        help="UTF-8 file with one entry a line, separated by a tab, or by a comma if its name ends with .csv. - is "
        "standard input. [default: -]",
    )
    add_pair(parser)
    parser.add_argument("--inflected", action="store_true", help="The translations of the terms may be inflected.")


def run(arguments: argparse.Namespace) -> int:
    folder = Settings.read(argparse.Namespace(data=arguments.data)).data
    if folder is None:
        raise SettingsError("--data (ATTENTIVE_DATA) must name the data folder of the server.")
    glossaries = Glossaries(SQLiteGlossaries(folder))
    arguments.data = folder
    try:
        act(glossaries, arguments)
    finally:
        glossaries.store.close()
    return 0


def act(glossaries: Glossaries, arguments: argparse.Namespace) -> None:
    """Carries out one action. Raises NotFound for an unknown id."""
    owner = "" if arguments.action in ("create", "list") else glossaries.owner(arguments.id)
    match arguments.action:
        case "create":
            check_key(arguments.key, arguments.data)
            print(glossaries.create(arguments.key, arguments.name, [dictionary_of(arguments)]).id)
        case "list" if arguments.json:
            print(json.dumps([described(one) for one in glossaries.store.of()], indent=2, ensure_ascii=False))
        case "list":
            print(table(glossaries.store.of()))
        case "show":
            print(json.dumps(described(glossaries.find(owner, arguments.id)), indent=2, ensure_ascii=False))
        case "delete":
            glossaries.delete(owner, arguments.id)
        case "import":
            changed = glossaries.put(owner, arguments.id, dictionary_of(arguments), merge=True)
            print(f"{sum([one.count for one in changed.dictionaries]):,} entries.", file=sys.stderr)
        case _:
            found = glossaries.dictionary(owner, arguments.id, arguments.source, arguments.target)
            print(write_entries(found.entries, "csv" if arguments.csv else "tsv").rstrip("\n"))


def check_key(id: str, folder: Path) -> None:
    """Raises NotFound if there is no valid key with this id."""
    if id != EVERYONE and not any(key.id == id and key.revoked is None for key in KeyFile(folder).all()):
        raise NotFound(f"There is no valid key with the id {id}.")


def dictionary_of(arguments: argparse.Namespace) -> Dictionary:
    """Returns the entries of a file. Raises InvalidRequest."""
    source, target = base_language(arguments.source), base_language(arguments.target)
    if source == target:
        raise InvalidRequest("The two languages of a dictionary must be different.")
    format: EntriesFormat = "csv" if arguments.file.lower().endswith(".csv") else "tsv"
    with open_text(arguments.file, "r") as file:
        text = "".join(utf8_lines(file))
    return Dictionary(source, target, read_entries(text, format), not arguments.inflected)


def described(glossary: Glossary) -> dict[str, object]:
    """Returns the fields of a glossary."""
    return {
        "id": glossary.id,
        "name": glossary.name,
        "key": glossary.owner or None,
        "created": glossary.created,
        "dictionaries": [
            {"source": one.source, "target": one.target, "entries": one.count, "exact": one.exact}
            for one in glossary.dictionaries
        ],
    }


def table(glossaries: list[Glossary]) -> str:
    """Returns the glossaries as a table."""
    rows = [
        (
            one.id,
            datetime.fromtimestamp(one.created, UTC).strftime("%Y-%m-%d"),
            one.owner or "everyone",
            " ".join([f"{pair.source}-{pair.target}:{pair.count}" for pair in one.dictionaries]) or "-",
            one.name,
        )
        for one in glossaries
    ]
    return aligned([("ID", "CREATED", "KEY", "ENTRIES", "NAME"), *rows])
