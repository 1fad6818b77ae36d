"""`attentive glossary`: manages glossaries. A running server applies changes at once."""

from __future__ import annotations

import argparse
import asyncio
import sys
from datetime import UTC, datetime

from server.cli.terminal import (
    add_direction,
    add_state_flags,
    open_text,
    print_json,
    print_table,
    state_settings,
    utf8_lines,
)
from server.config import Settings
from server.errors import NotFound
from server.glossaries.glossaries import EVERYONE, Glossaries
from server.glossaries.types import (
    Dictionary,
    EntriesFormat,
    Glossary,
    base_language,
    read_entries,
    write_entries,
)
from server.store.interface import Store
from server.store.keys import Keys
from server.store.open_store import store_of_command

NAME = "glossary"
HELP = "Create, list, show, delete, import and export glossaries."
HEADINGS = ("ID", "CREATED", "KEY", "ENTRIES", "NAME")
LANGUAGES = ("Language of the terms.", "Language of the translations.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create", help="Create a glossary from a file of entries and print its id."
    )
    create.add_argument("name", help="Name of the glossary.")
    create.add_argument(
        "--key",
        default=EVERYONE,
        metavar="ID",
        help="Id of the API key that it belongs to. [default: everyone]",
    )
    add_entries(create)
    listing = actions.add_parser("list", help="List all glossaries.")
    listing.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    show = actions.add_parser("show", help="Show a glossary as JSON.")
    delete = actions.add_parser("delete", help="Delete a glossary.")
    import_ = actions.add_parser("import", help="Add a file of entries to a glossary.")
    export = actions.add_parser("export", help="Print the entries of a language pair.")
    for action in (show, delete, import_, export):
        action.add_argument(
            "id", help="Id of the glossary in the output of `attentive glossary list`."
        )
    add_entries(import_)
    add_direction(export, *LANGUAGES)
    export.add_argument("--csv", action="store_true", help="Print CSV instead of TSV.")
    add_state_flags(create, listing, show, delete, import_, export)


def add_entries(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",  # not optional: argparse of Python 3.11 then accepts no file after --from and --to
        help="UTF-8 file with one entry a line, separated by a tab, or by a comma if its name ends "
        "with .csv. - is standard input.",
    )
    add_direction(parser, *LANGUAGES)
    parser.add_argument(
        "--inflected",
        action="store_true",
        help="The terms and their translations may be inflected.",
    )


def run(arguments: argparse.Namespace) -> int:
    asyncio.run(run_action(state_settings(arguments), arguments))
    return 0


async def run_action(settings: Settings, arguments: argparse.Namespace) -> None:
    """Runs one action. Only `create` makes a database. Raises NotFound for an unknown id."""
    async with store_of_command(settings, create=arguments.action == "create") as store:
        if not store.permanent:
            raise NotFound(f"There are no glossaries in {str(settings.data)!r}.")
        glossaries = Glossaries(store)
        owner = (await glossaries.get(arguments.id)).owner if "id" in arguments else EVERYONE
        match arguments.action:
            case "create":
                if arguments.key != EVERYONE:
                    await check_key(arguments.key, store)
                print(
                    (
                        await glossaries.create(
                            arguments.key, arguments.name, [dictionary_of(arguments)]
                        )
                    ).id
                )
            case "list" if arguments.json:
                print_json([described(glossary) for glossary in await glossaries.of()])
            case "list":
                print_table(HEADINGS, *map(cells, await glossaries.of()))
            case "show":
                print_json(described(await glossaries.find(owner, arguments.id)))
            case "delete":
                await glossaries.delete(owner, arguments.id)
            case "import":
                changed = await glossaries.put(
                    owner, arguments.id, dictionary_of(arguments), merge=True
                )
                print(
                    f"{sum([pair.count for pair in changed.dictionaries]):,} entries.",
                    file=sys.stderr,
                )
            case _:
                dictionary = await glossaries.dictionary(
                    owner, arguments.id, arguments.source, arguments.target
                )
                print(
                    write_entries(dictionary.entries, "csv" if arguments.csv else "tsv").rstrip(
                        "\n"
                    )
                )


async def check_key(id: str, store: Store) -> None:
    """Raises NotFound if there is no valid key with this id."""
    if not any(key.id == id and key.revoked is None for key in await Keys(store).all()):
        raise NotFound(f"There is no valid key with the id {id}.")


def dictionary_of(arguments: argparse.Namespace) -> Dictionary:
    """Returns the entries of a file. Raises InvalidRequest."""
    format: EntriesFormat = "csv" if arguments.file.lower().endswith(".csv") else "tsv"
    with open_text(arguments.file, "r") as file:
        entries = read_entries("".join(utf8_lines(file)), format)
    pair = base_language(arguments.source), base_language(arguments.target)
    return Dictionary(*pair, entries, exact=not arguments.inflected)


def described(glossary: Glossary) -> dict[str, object]:
    return {
        "id": glossary.id,
        "name": glossary.name,
        "key": glossary.owner or None,
        "created": glossary.created,
        "dictionaries": [
            {
                "source": pair.source,
                "target": pair.target,
                "entries": pair.count,
                "exact": pair.exact,
            }
            for pair in glossary.dictionaries
        ],
    }


def cells(glossary: Glossary) -> list[str]:
    created = datetime.fromtimestamp(glossary.created, UTC).strftime("%Y-%m-%d")
    entries = " ".join(
        [f"{pair.source}-{pair.target}:{pair.count}" for pair in glossary.dictionaries]
    )
    return [glossary.id, created, glossary.owner or "everyone", entries or "-", glossary.name]
