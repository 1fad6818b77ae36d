"""Language pairs of imported models, from Marian's codes, tags and model names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from model.convert.source_files import ImportRefused, Languages

# ISO 639-3 (and the 639-2 bibliographic codes that models use) -> ISO 639-1.
_ISO = dict(
    entry.split(":")
    for entry in """
    aar:aa abk:ab afr:af aka:ak alb:sq amh:am ara:ar arb:ar arg:an arm:hy asm:as ava:av ave:ae aym:ay aze:az azj:az
    bak:ba bam:bm baq:eu bel:be ben:bn bis:bi bod:bo bos:bs bre:br bul:bg bur:my cat:ca ces:cs cha:ch che:ce chi:zh
    chu:cu chv:cv cmn:zh cor:kw cos:co cre:cr cym:cy cze:cs dan:da deu:de div:dv dut:nl dzo:dz ell:el eng:en epo:eo
    est:et eus:eu ewe:ee fao:fo fas:fa fij:fj fin:fi fra:fr fre:fr fry:fy ful:ff geo:ka ger:de gla:gd gle:ga glg:gl
    glv:gv gre:el grn:gn guj:gu hat:ht hau:ha heb:he her:hz hin:hi hmo:ho hrv:hr hun:hu hye:hy ibo:ig ice:is ido:io
    iii:ii iku:iu ile:ie ina:ia ind:id ipk:ik isl:is ita:it jav:jv jpn:ja kal:kl kan:kn kas:ks kat:ka kau:kr kaz:kk
    khm:km kik:ki kin:rw kir:ky kom:kv kon:kg kor:ko kua:kj kur:ku lao:lo lat:la lav:lv lim:li lin:ln lit:lt ltz:lb
    lub:lu lug:lg mac:mk mah:mh mal:ml mao:mi mar:mr may:ms mkd:mk mlg:mg mlt:mt mon:mn mri:mi msa:ms mya:my nau:na
    nav:nv nbl:nr nde:nd ndo:ng nep:ne nld:nl nno:nn nob:nb nor:no nya:ny oci:oc oji:oj ori:or orm:om oss:os pan:pa
    per:fa pes:fa pli:pi pob:pt-BR pol:pl por:pt pus:ps que:qu roh:rm ron:ro rum:ro run:rn rus:ru sag:sg san:sa sin:si
    slk:sk slo:sk slv:sl sme:se smo:sm sna:sn snd:sd som:so sot:st spa:es sqi:sq srd:sc srp:sr ssw:ss sun:su swa:sw
    swe:sv swh:sw tah:ty tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tib:bo tir:ti ton:to tsn:tn tso:ts tuk:tk tur:tr
    twi:tw uig:ug ukr:uk urd:ur uzb:uz ven:ve vie:vi vol:vo wel:cy wln:wa wol:wo xho:xh yid:yi yor:yo zha:za zho:zh
    zsm:ms zul:zu als:sq ayr:ay fuv:ff gaz:om jap:ja khk:mn kmr:ku knc:kr lvs:lv npi:ne ory:or pbt:ps plt:mg quy:qu
    uzn:uz ydd:yi
    """.split()
)
# Language families (ISO 639-5) and the names that OPUS-MT gives to groups of languages.
_GROUPS = frozenset(
    """
    aav afa alv art ase bat bnt cau ccs cel cpf cpp crp csu cus dra euq fiu gem gme gmq gmw grk iir inc ine ira iro itc
    jpx kmj khi map mkh mul nah ngf nic omv paa phi poz pqe pqw qwe roa sal sem sit sla smi ssa syd tai trk tup tut urj
    wen xgn ypk zhx zle zls zlw celtic romance scandinavia north_eu nordic norway sami western indic dravidian chinese
    caucasian balkan
    """.split()
)
_TAG = re.compile(r">>([A-Za-z]{2,8}(?:[_-][A-Za-z0-9]{1,8})*)<<")
NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")
"""A code of NLLB such as eng_Latn: language and script."""
_CODE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_NAME = re.compile(
    r"(?:^|/)opus-?(?:mt)?[-_](?:(?:tc|tatoeba|big|base|small|tiny|bible|transformer)-)*([A-Za-z_+]+)-([A-Za-z_+]+)$"
)


def language_code(marian: str) -> str:
    """Converts a Marian code to ours: deu -> de, cmn_Hans -> zh-Hans, pt_br -> pt-BR, nds -> nds."""
    first, *rest = re.split(r"[-_]", marian)
    variants = [part.title() if len(part) == 4 else part.upper() if len(part) == 2 else part.lower() for part in rest]
    return "-".join([_ISO.get(first.lower(), first.lower()), *variants])


def language_tags(vocabulary: Mapping[str, int]) -> dict[str, str]:
    """Returns target language -> tag for the tags of a source vocabulary.

    If two tags have the same language, the second one keeps Marian's code.
    """
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
    tags: dict[str, str],
    sources: Iterable[str] = (),
    targets: Iterable[str] = (),
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """Returns the language pairs of the model and the tags of the target languages.

    Sources of information, in this order: `sources` and `targets`, the files, the name (opus-mt-en-de). A language
    group stands for the languages of the model card; a model from a group to itself has each of them on both sides.
    Raises ImportRefused if the languages of a side are unknown.
    """
    named = _NAME.search(name)
    listed = [language_code(code) for code in stated.listed if code.lower() not in _GROUPS]
    right = list(dict.fromkeys(targets)) or list(tags) or _side(stated.target) or _side(named[2] if named else None)
    left = list(dict.fromkeys(sources)) or _side(stated.source) or _side(named[1] if named else None)
    if not left and right:
        left = [code for code in listed if code not in right] if len(right) == 1 or tags else []
        if not left and tags and named and named[1].lower() == named[2].lower():  # SCANDINAVIA-SCANDINAVIA
            left = right
    if not right and left:
        right = [code for code in listed if code not in left]
        if len(right) > 1:
            right = []  # several targets without tags cannot be told apart
    reasons = [
        f"its {side} languages cannot be determined from its files: name them with --{side}"
        for side, codes in (("source", left), ("target", right))
        if not codes
    ]
    reasons += [f"{code!r} is not a language code" for code in [*left, *right] if not _CODE.fullmatch(code)]
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
    """Parses one side of a model name: one language, several joined by _ or +, or a group (returns none)."""
    if not code or code.lower() in _GROUPS:
        return []
    if code.lower() == "pt_br":
        return ["pt-BR"]
    codes = re.split(r"[_+]", code)
    if any(part.lower() in _GROUPS for part in codes):
        return []
    if any(len(part) == 4 for part in codes[1:]):
        return [language_code(code)]
    return [language_code(part) for part in codes]
