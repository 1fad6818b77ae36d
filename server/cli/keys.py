"""`attentive keys`: creates, lists and revokes API keys. A running server applies the change at once."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from typing import Protocol, Unpack

from server.access.api_keys import MAX_WEIGHT, MIN_WEIGHT, Key, KeyFile, KeyOptions
from server.access.authentication import shared_keys
from server.cli.tables import aligned
from server.cli.whole_numbers import from_zero
from server.config import Settings, add_flags
from server.errors import NotFound, SettingsError
from server.state.setting import open_state

NAME = "keys"
HELP = "Create, list and revoke API keys."


class Keys(Protocol):
    """The keys of one server, or of all servers of one Redis."""

    async def create(self, name: str, **options: Unpack[KeyOptions]) -> tuple[str, Key]: ...
    async def all(self) -> list[Key]: ...
    async def revoke(self, id: str) -> Key | None: ...


class FileKeys:
    """The keys of a data folder."""

    def __init__(self, file: KeyFile) -> None:
        self._file = file

    async def create(self, name: str, **options: Unpack[KeyOptions]) -> tuple[str, Key]:
        return self._file.create(name, **options)

    async def all(self) -> list[Key]:
        return self._file.all()

    async def revoke(self, id: str) -> Key | None:
        return self._file.revoke(id)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="Create a key and print its secret, which is shown only once.")
    create.add_argument("name", help="Name of the key, such as its owner.")
    for unit in ("requests", "characters"):
        create.add_argument(
            f"--{unit}-per-minute",
            type=from_zero,
            metavar="N",
            help=f"Maximum {unit} per minute. 0 is no limit. [default: the limit of the server]",
        )
    create.add_argument(
        "--weight",
        type=float,
        default=1.0,
        metavar="N",
        help="Share of the server while callers wait for each other: a key of weight 2 gets twice that of a key of weight "
        f"1. {MIN_WEIGHT:g} to {MAX_WEIGHT:g}. [default: 1]",
    )
    create.add_argument(
        "--no-store",
        action="store_true",
        help="Store none of the key's texts: they are neither in the history (so there is no attention by id) nor in the "
        "result cache.",
    )
    listing = actions.add_parser("list", help="List the keys without their secrets.")
    listing.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    revoke = actions.add_parser("revoke", help="Revoke a key.")
    revoke.add_argument("id", help="Id of the key in the output of `attentive keys list`.")
    importing = actions.add_parser("import", help="Copy the keys of the data folder to the Redis of --state.")
    for action in (create, listing, revoke, importing):
        add_flags(action, ("data", "state"))


def run(arguments: argparse.Namespace) -> int:
    settings = Settings.read(argparse.Namespace(data=arguments.data, state=arguments.state))
    asyncio.run(run_action(arguments, settings))
    return 0


async def run_action(arguments: argparse.Namespace, settings: Settings) -> None:
    """Runs the action on the keys of the settings. Raises SettingsError, or StateUnreachable without Redis."""
    state = open_state(settings)
    if state is None:
        if settings.data is None:
            raise SettingsError(
                "--data (ATTENTIVE_DATA) must name the data folder of the server, or --state (ATTENTIVE_STATE) its Redis."
            )
        if arguments.action == "import":
            raise SettingsError("--state (ATTENTIVE_STATE) must be the redis://host:port that receives the keys.")
        try:
            await change_or_list(arguments, FileKeys(KeyFile(settings.data)))
        except OSError as error:
            raise SettingsError(
                f"--data (ATTENTIVE_DATA): the keys in {str(settings.data)!r} cannot be opened: {error.strerror}."
            ) from None
        return
    try:
        keys = shared_keys(state)
        if arguments.action == "import":
            if settings.data is None:
                raise SettingsError("--data (ATTENTIVE_DATA) must name the folder with the keys to copy.")
            copied = KeyFile(settings.data).all()
            await keys.add(copied)
            print(f"The {len(copied):,} keys of the data folder are in Redis.", file=sys.stderr)
        else:
            await change_or_list(arguments, keys)
    finally:
        await state.stop()


async def change_or_list(arguments: argparse.Namespace, keys: Keys) -> None:
    """Runs the action on `keys`. Raises NotFound for an unknown id."""
    match arguments.action:
        case "create":
            secret, key = await keys.create(
                arguments.name,
                requests_per_minute=arguments.requests_per_minute,
                characters_per_minute=arguments.characters_per_minute,
                weight=arguments.weight,
                remembered=not arguments.no_store,
            )
            print(secret)
            print(f"Key {key.id} for {key.name}; the secret above is shown this once.", file=sys.stderr)
        case "list" if arguments.json:
            print(json.dumps([described(key) for key in await keys.all()], indent=2, ensure_ascii=False))
        case "list":
            print(table(await keys.all()))
        case _:
            if await keys.revoke(arguments.id) is None:
                raise NotFound(f"There is no valid key with the id {arguments.id}.")


def described(key: Key) -> dict[str, object]:
    """Returns the fields of a key without its digest."""
    return {name: value for name, value in dataclasses.asdict(key).items() if name != "digest"}


def table(keys: list[Key]) -> str:
    """Returns the keys as a table."""
    heads = ("ID", "CREATED", "STATE", "REQUESTS/MIN", "CHARACTERS/MIN", "STORED", "WEIGHT", "NAME")
    return aligned([heads, *map(row, keys)])


def row(key: Key) -> tuple[str, ...]:
    """Returns the cells of one key."""
    limits = [
        "server's" if value is None else "unlimited" if value == 0 else f"{value:,}"
        for value in (key.requests_per_minute, key.characters_per_minute)
    ]
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
    name = "".join(character for character in key.name if character.isprintable())
    return (
        key.id,
        created,
        "good" if key.revoked is None else "revoked",
        *limits,
        "yes" if key.remembered else "no",
        f"{key.weight:g}",
        name,
    )
