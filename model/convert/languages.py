"""Language codes of other programs and ours, and the language pairs of imported models, from
Marian's codes, tags and model names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from model.model_folder import ImportRefused

Languages = tuple[str | None, str | None]
"""Codes of the source and the target language, None where the files state none."""
_ISO = dict(
    pair.split(":")
    for pair in Path(__file__).with_name("languages.txt").read_text(encoding="utf-8").split()
)
"""ISO 639-3 codes (also bibliographic ones of 639-2, and those that models invented) -> ours."""

_GROUPS = frozenset(
    """
    aav afa alv art ase bat bnt cau ccs cel cpf cpp crp csu cus dra euq fiu gem gme gmq gmw grk iir
    inc ine ira iro itc jpx kmj khi map mkh mul nah ngf nic omv paa phi poz pqe pqw qwe roa sal sem
    sit sla smi ssa syd tai trk tup tut urj wen xgn ypk zhx zle zls zlw celtic romance scandinavia
    north_eu nordic norway sami western indic dravidian chinese caucasian balkan
    """.split()
)
"""Language families (ISO 639-5) and the names that OPUS-MT gives to groups of languages."""
_TAG = re.compile(r">>([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{1,8})*)<<")
_CODE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_SEPARATOR = re.compile(r"[_+](?!(?:br|[a-z]{4})(?:[_+]|$))", re.IGNORECASE)
"""Separates languages, but not a language from its script or country: srp_Latn, pt_br."""
_NAME = re.compile(
    r"(?:^|/)opus-?(?:mt)?[-_](?:(?:tc|tatoeba|big|base|small|tiny|bible|transformer)-)*([A-Za-z_+]+)-([A-Za-z_+]+)$"
)


def language_code(marian: str) -> str:
    """Converts a code to ours: deu -> de, cmn_Hans -> zh-Hans, pt_br -> pt-BR, nds -> nds."""
    first, *rest = re.split(r"[-_]", marian)
    variants = [
        part.title() if len(part) == 4 else part.upper() if len(part) == 2 else part.lower()
        for part in rest
    ]
    return "-".join([_ISO.get(first.lower(), first.lower()), *variants])


def language_tags(vocabulary: Mapping[str, int]) -> dict[str, str]:
    """Returns target language -> tag of a source vocabulary. The second tag of one language keeps
    Marian's code."""
    tags: dict[str, str] = {}
    for piece in sorted(vocabulary, key=lambda piece: vocabulary[piece]):
        if match := _TAG.fullmatch(piece):
            code = language_code(match[1])
            tags.setdefault(code if code not in tags else match[1].replace("_", "-"), piece)
    return tags


def find_pairs(
    path: Path,
    name: str,
    stated: Languages,
    listed: Iterable[str],
    tags: dict[str, str],
    sources: Iterable[str] = (),
    targets: Iterable[str] = (),
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """Returns the language pairs of the model and the tags of the target languages.

    Sources of information, in this order: `sources` and `targets`, the files (`stated`), the name
    (opus-mt-en-de). A language group stands for the languages `listed` in the model card; a model
    from a group to itself has all of them on both sides. Raises ImportRefused if the languages of a
    side are unknown.
    """
    named = _NAME.search(name)
    card = [language_code(code) for code in listed if code.lower() not in _GROUPS]
    right = (
        list(dict.fromkeys(targets))
        or list(tags)
        or _side(stated[1])
        or _side(named[2] if named else None)
    )
    left = list(dict.fromkeys(sources)) or _side(stated[0]) or _side(named[1] if named else None)
    if not left and right:
        left = [code for code in card if code not in right] if len(right) == 1 or tags else []
        # SCANDINAVIA-SCANDINAVIA
        if not left and tags and named and named[1].lower() == named[2].lower():
            left = right
    if not right and left:
        right = [code for code in card if code not in left]
        if len(right) > 1:
            right = []  # several targets without tags cannot be told apart
    reasons = [
        f"its {side} languages cannot be determined from its files: name them with --{side}"
        for side, codes in (("source", left), ("target", right))
        if not codes
    ]
    reasons += [
        f"{code!r} is not a language code" for code in [*left, *right] if not _CODE.fullmatch(code)
    ]
    if tags:
        reasons += [f"it has no tag for the target {code}" for code in right if code not in tags]
    elif len(right) > 1:
        reasons.append("it has several target languages and no >>tags<< to choose between them")
    if reasons:
        raise ImportRefused(path, reasons)
    pairs = tuple((source, target) for source in left for target in right if source != target)
    if not pairs:
        raise ImportRefused(path, ["source and target language are the same"])
    return pairs, {code: tags[code] for code in right if code in tags}


def _side(code: str | None) -> list[str]:
    """Parses one side of a model name: languages joined by _ or +. A group returns none."""
    codes = _SEPARATOR.split(code) if code else []
    if any(part.lower() in _GROUPS for part in (code or "", *codes)):
        return []
    return [language_code(part) for part in codes]
