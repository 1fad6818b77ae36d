"""`attentive keys`: manages API keys. A running server applies changes at once."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections.abc import Sequence
from typing import Any

from server.cli.terminal import (
    add_state_flags,
    print_json,
    print_table,
    state_settings,
    whole_number,
)
from server.config import Settings
from server.errors import NotFound, SettingsError
from server.store.keys import MAX_WEIGHT, MIN_WEIGHT, Key, Keys, Quota, Usage
from server.store.open_store import store_of_command

NAME = "keys"
HELP = "Create, list, change and revoke API keys."
HEADINGS = (
    "ID",
    "CREATED",
    "STATE",
    "REQUESTS/MIN",
    "CHARACTERS/MIN",
    "TODAY",
    "MONTH",
    "STORED",
    "WEIGHT",
    "NAME",
)
SERVERS = "the limit of the server"
LIMITS = {
    "requests_per_minute": ("requests-per-minute", "requests per minute", SERVERS),
    "characters_per_minute": ("characters-per-minute", "characters per minute", SERVERS),
    "characters_per_day": ("per-day", "characters per day, in UTC", "0"),
    "characters_per_month": ("per-month", "characters per month, in UTC", "0"),
}
"""Flag, meaning and default of each limit of a key."""
KEY_NOT_REQUIRED = (
    "Callers without a key are accepted too, unless the server has --key-required "
    "(ATTENTIVE_KEY_REQUIRED=true)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    limits = argparse.ArgumentParser(add_help=False)
    for field, (flag, what, default) in LIMITS.items():
        help = f"Maximum {what}. 0 is no limit. [default: {default}]"
        limits.add_argument(f"--{flag}", dest=field, type=whole_number(0), metavar="N", help=help)
    limits.add_argument(
        "--weight",
        type=float,
        metavar="N",
        help="Share of the server while callers wait for each other: a key of weight 2 gets twice "
        f"that of a key of weight 1. {MIN_WEIGHT:g} to {MAX_WEIGHT:g}. [default: 1]",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser(
        "create",
        help="Create a key and print its secret, which is shown only once.",
        parents=[limits],
    )
    create.add_argument("name", help="Name of the key, such as its owner.")
    create.add_argument(
        "--no-store",
        action="store_true",
        help="Store none of the key's texts: they are neither in the history (so there is no "
        "attention by id) nor in the result cache.",
    )
    listing = actions.add_parser("list", help="List the keys without their secrets.")
    listing.add_argument("--json", action="store_true", help="Print JSON instead of a table.")
    change = actions.add_parser("change", help="Change the limits of a key.", parents=[limits])
    revoke = actions.add_parser("revoke", help="Revoke a key.")
    for named in (change, revoke):
        named.add_argument("id", help="Id of the key in the output of `attentive keys list`.")
    importing = actions.add_parser(
        "import", help="Copy the keys of the data folder to the Redis of --state."
    )
    add_state_flags(create, listing, change, revoke, importing)


def run(arguments: argparse.Namespace) -> int:
    asyncio.run(run_action(arguments, state_settings(arguments)))
    return 0


async def run_action(arguments: argparse.Namespace, settings: Settings) -> None:
    """Runs one action. Raises SettingsError, NotFound for an unknown id, or StateUnreachable."""
    async with store_of_command(settings, create=arguments.action == "create") as store:
        keys = Keys(store)
        given = {name: getattr(arguments, name, None) for name in (*LIMITS, "weight")}
        fields = {name: value for name, value in given.items() if value is not None}
        match arguments.action:
            case "create":
                await create(
                    keys, arguments.name, fields | {"remembered": not arguments.no_store}, settings
                )
            case "list":
                usage = Usage(store)
                listed = [(key, await usage.quotas(key)) for key in await keys.all()]
                if arguments.json:
                    print_json([described(*entry) for entry in listed])
                else:
                    print_table(HEADINGS, *[cells(*entry) for entry in listed])
            case "change" | "revoke" as action:
                changes = {"revoked": time.time()} if action == "revoke" else fields
                if await keys.change(arguments.id, **changes) is None:
                    raise NotFound(f"There is no valid key with the id {arguments.id}.")
            case _:
                await import_keys(keys, settings)


async def import_keys(keys: Keys, settings: Settings) -> None:
    if not settings.state:
        raise SettingsError(
            "--state (ATTENTIVE_STATE) must be the redis://host:port that receives the keys."
        )
    if settings.data is None:
        raise SettingsError("--data (ATTENTIVE_DATA) must name the folder with the keys to copy.")
    async with store_of_command(Settings(data=settings.data)) as folder:
        copied = await Keys(folder).all()
    await keys.add(copied)
    print(f"The {len(copied):,} keys of the data folder are in Redis.", file=sys.stderr)


async def create(keys: Keys, name: str, fields: dict[str, Any], settings: Settings) -> None:
    secret, key = await keys.create(name, **fields)
    print(secret)
    print(f"Key {key.id} for {key.name}; the secret above is shown this once.", file=sys.stderr)
    if not settings.key_required:
        print(KEY_NOT_REQUIRED, file=sys.stderr)


def described(key: Key, quotas: Sequence[Quota]) -> dict[str, object]:
    fields = {name: value for name, value in dataclasses.asdict(key).items() if name != "digest"}
    shown = ("period", "used", "limit", "reset")
    return fields | {"quotas": [{name: getattr(quota, name) for name in shown} for quota in quotas]}


def cells(key: Key, quotas: Sequence[Quota]) -> list[str]:
    limits = [
        "server's" if value is None else "unlimited" if value == 0 else f"{value:,}"
        for value in (key.requests_per_minute, key.characters_per_minute)
    ]
    spent = {quota.period: f"{quota.used:,}/{quota.limit:,}" for quota in quotas}
    limits += [spent.get(period, "unlimited") for period in ("day", "month")]
    created = time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created))
    state, stored = "good" if key.revoked is None else "revoked", "yes" if key.remembered else "no"
    name = "".join(character for character in key.name if character.isprintable())
    return [key.id, created, state, *limits, stored, f"{key.weight:g}", name]
