"""`attentive adapt`: adapts a model to translation memories."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from model.convert.importer import card, new_folder
from model.head_roles import measure, open_exact
from model.model_folder import FolderError, ModelFolder, read_folder
from model.pairs import LEAST_PAIRS, Pair, split
from server.cli.local_services import FLAGS, local_services, local_settings, running
from server.cli.models import shortened
from server.cli.terminal import add_direction, print_table
from server.config import Settings, add_flags
from server.errors import AttentiveError, InvalidRequest
from server.models.discovery import find_model, read_model
from server.services import default_options
from server.text.languages import resolve_language_code
from server.translation.catalog import ModelCatalog
from server.translation.types import TranslationRequest
from server.translation_memory import read_memory

if TYPE_CHECKING:
    from training.adaptation.adaptation import Adapted
    from training.adaptation.judgement import Sentence

NAME = "adapt"
HELP = (
    "Adapt a model to translation memories: written as a new model if it is better for them and no "
    "worse otherwise."
)
AT_ONCE = 64
"""Texts that are translated together."""
MOST_GENERAL, EXAMPLES = 200, 10
"""Sentences of each general file, and translations that are printed."""
INTERRUPTED = 130
BAR = "{percentage:5.1f}% |{bar}| {elapsed} < {remaining}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="Name of the model, as `attentive models` prints it.")
    kinds = "Translation memories (TMX, XLIFF, PO, TSV, CSV) and glossaries (CSV)."
    parser.add_argument("memories", nargs="+", type=Path, metavar="FILE", help=kinds)
    add_direction(parser, "Language of the sources.")
    parser.add_argument("--name", required=True, help="Name of the new model.")
    parser.add_argument(
        "--minutes",
        type=float,
        default=30.0,
        metavar="N",
        help="Time for training and judgement. [default: 30]",
    )
    parser.add_argument(
        "--general",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="Files with general pairs, which must not get worse. They are not trained on.",
    )
    parser.add_argument(
        "--force", action="store_true", help="Write the model in any case; its card says why not."
    )
    add_flags(parser, FLAGS)


def run(arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    try:
        from training.adaptation.adaptation import Adaptation, adapt
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "sacrebleu"):
            raise
        raise AttentiveError(
            'This needs PyTorch and sacrebleu: pip install "attentive-server[train]".'
        ) from None

    settings = local_settings(arguments)
    base, target = find(arguments, settings)
    direction = (arguments.source, arguments.target)
    try:
        training, sentences = read(arguments)
    except OSError as error:
        raise InvalidRequest(f"{error.filename} cannot be opened: {error.strerror}.") from None
    work = target.with_name(f".adapting-{target.name}")
    try:
        adapted = adapt(
            Adaptation(
                base=base,
                name=target.name,
                direction=direction,
                training=training,
                sentences=sentences,
                work=work,
                minutes=arguments.minutes,
                translate=lambda folder, texts, seconds: asyncio.run(
                    translate(settings, folder, direction, texts, seconds)
                ),
                say=partial(print, flush=True),
                began=began,
            )
        )
    except FolderError as error:
        raise InvalidRequest(str(error)) from None
    if adapted is None:
        print("Interrupted; the same command continues.")
        return INTERRUPTED
    report(adapted)
    reasons = adapted.judgement.reasons()
    if reasons and not arguments.force:
        print(*reasons, f"{target.name} is not written; the same command with --force writes it.")
        return 1
    write(adapted, base, arguments.memories, reasons, target)
    shutil.rmtree(work)
    print(
        f"{target}: for requests with its name as `model`; `attentive serve --prefer "
        f"{target.name}` uses it for all."
    )
    return 0


def find(arguments: argparse.Namespace, settings: Settings) -> tuple[ModelFolder, Path]:
    """Returns the model to adapt and the folder to write. Sets the languages to the model's codes.
    Raises InvalidRequest."""
    model = find_model(settings, arguments.model)
    codes = {code for pair in model.pairs for code in pair}
    arguments.source, arguments.target = (
        resolve_language_code(code, codes) or code for code in (arguments.source, arguments.target)
    )
    if (arguments.source, arguments.target) not in model.pairs:
        pairs = shortened(model.pairs)
        raise InvalidRequest(
            f"{model.name} does not translate {arguments.source}-{arguments.target}; it has "
            f"{pairs}."
        )
    if not arguments.minutes > 0:
        raise InvalidRequest("--minutes must be a positive number.")
    try:
        if arguments.name and (settings.weights / arguments.name).exists():
            raise FolderError(
                f"There is a model {arguments.name!r} already; choose another --name."
            )
        return read_folder(model.folder), new_folder(
            settings.weights, arguments.name, replace=False
        )
    except FolderError as error:
        raise InvalidRequest(str(error)) from None


def read(arguments: argparse.Namespace) -> tuple[list[Pair], list[Sentence]]:
    """Returns the pairs to train on and the sentences that judge. Raises InvalidRequest and
    OSError."""
    from training.adaptation.judgement import Sentence, general_sentences

    pairs, dropped = read_memory(arguments.memories, arguments.source, arguments.target)
    count = sum(not pair.term for pair in pairs)
    left_out = "".join(f"; left out: {number} {reason}" for reason, number in dropped.items())
    print(f"{count} pairs and {len(pairs) - count} terms{left_out}.")
    if count < LEAST_PAIRS:
        raise InvalidRequest(
            f"There are {count} pairs to adapt to, and at least {LEAST_PAIRS} are needed."
        )
    training, kept = split(pairs)
    general = general_sentences(arguments.source, arguments.target)
    for file in arguments.general:
        sentences, _ = read_memory([file], arguments.source, arguments.target)
        general += [
            Sentence(pair.source, pair.target, True)
            for pair in sentences[:: 1 + len(sentences) // MOST_GENERAL]
        ]
    known = {pair.source for pair in pairs}
    general = [sentence for sentence in general if sentence.source not in known]
    missing = "" if general else " There are none for these languages; --general FILE gives some."
    print(
        f"{len(training)} to train on, {len(kept)} kept for the judgement; {len(general)} general "
        f"sentences.{missing}"
    )
    return training, [*general, *(Sentence(pair.source, pair.target) for pair in kept)]


async def translate(
    settings: Settings,
    folder: Path,
    direction: tuple[str, str],
    texts: Sequence[str],
    seconds: float,
) -> list[str]:
    """Translates texts in order as a server with this model does: those for which the seconds
    suffice, and at least AT_ONCE."""
    services = local_services(settings, catalog=ModelCatalog([read_model(folder)]))
    began = time.monotonic()
    (source, target), options = direction, default_options(settings)
    translated: list[str] = []
    used = 0.0  # of the sentences or of the seconds, whichever is used up first
    with tqdm(total=1.0, disable=None, leave=False, bar_format=BAR) as bar:
        async with running(services):
            while used < 1.0:
                chunk = tuple(texts[len(translated) : len(translated) + AT_ONCE])
                request = TranslationRequest(
                    texts=chunk, source=source, target=target, options=options
                )
                translated += [
                    translation.text for translation in await services.translator.translate(request)
                ]
                spent = time.monotonic() - began
                used = (
                    1.0 if spent >= seconds else max(spent / seconds, len(translated) / len(texts))
                )
                bar.update(used - bar.n)
    return translated


def report(adapted: Adapted) -> None:
    changed = (row for row in adapted.translations if not row[0].general and row[1] != row[2])
    for sentence, before, after in islice(changed, EXAMPLES):
        print(
            f"\nsource: {sentence.source}\nmemory: {sentence.reference}\nbefore: {before}\nafter:  "
            f"{after}"
        )
    print()
    print_table(*adapted.judgement.table())


def write(
    adapted: Adapted, base: ModelFolder, files: Sequence[Path], reasons: Sequence[str], target: Path
) -> None:
    """Completes the folder with the card and the roles of the heads, and moves it to its place.
    `reasons` speak against the model, which --force writes."""
    folder, (headings, *rows) = adapted.folder, adapted.judgement.table()
    table = [headings, ("---",) * len(headings), *rows]
    about = f"{base.name} adapted to other texts. " + " ".join(
        [*reasons, "It was written with --force."] if reasons else []
    )
    text = f"""{card(folder, about.strip())}- **Texts:** {", ".join(file.name for file in files)}
- **Weights:** {adapted.share:.0%} of those after the training, the rest of those before

Scores of pairs of the texts that were kept from the training, and of a general set, with intervals of a paired bootstrap:

"""
    lines = [f"| {' | '.join(row)} |\n" for row in table]
    (folder.path / "README.md").write_text(text + "".join(lines), encoding="utf-8")
    backend = open_exact(folder)
    measure(folder, backend)
    backend.close()
    folder.path.rename(target)
