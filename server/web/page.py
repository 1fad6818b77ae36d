"""The pages, which a browser paints after one request, and reports in one file.

Styles and first scripts of a page are inline; its modules load after the first paint. A report of an
attention request has its styles, scripts and numbers inside and loads nothing.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from html import escape, unescape
from pathlib import Path
from posixpath import dirname, join, normpath
from typing import Any

import orjson

FOLDER = Path(__file__).parent / "static"
NO_FRAME = "frame-ancestors 'none'"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    f"connect-src 'self'; base-uri 'none'; form-action 'none'; {NO_FRAME}"
)


@cache
def asset(name: str) -> str:
    """Returns the text of a static file, such as "common/dom.js"."""
    return (FOLDER / name).read_text(encoding="utf-8")


def source_hash(text: str) -> str:
    """Returns the hash of an inline script or style for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


_TEXTS, _SPEAKER = "translator/texts.json", "translator/messages.js"
_SENTENCES = "explorer/sentences.json"
_STYLE = re.compile(r'<link rel="stylesheet" href="static/([^"]+)">')
_SCRIPT = re.compile(r'<script src="static/([^"]+)"></script>')
_MODULE = re.compile(r'<script type="module" src="static/([^"]+)"></script>')
_IMPORT = re.compile(r'^import .* from "([^"]+)";$', re.MULTILINE)
_MARK = re.compile(r"\{(\w+)\}")
_VISIBLE = re.compile(r"""(>|(?:aria-label|title|placeholder|content)=")([^<>"{}]*[^<>"{}\s])""")


@dataclass(frozen=True, slots=True)
class Page:
    """The HTML of a page, also with gzip, its ETag, and the Content-Security-Policy that allows its
    inline parts."""

    html: bytes
    compressed: bytes
    tag: str
    policy: str


@cache
def interface_texts() -> dict[str, dict[str, str]]:
    """Returns the texts of the translator's page by language and name."""
    texts: dict[str, dict[str, str]] = json.loads(asset(_TEXTS))
    return texts


@cache
def page(name: str, language: str = "en", embedded: bool = False) -> Page:
    """Returns a page of this package, such as "translator/index.html", in a language of
    `interface_texts`.

    Styles and first scripts are inlined. The module and its imports are put into a template, whose
    content `common/modules.js` inserts after the first paint. An `embedded` page shows one view.
    """
    hashes: dict[str, list[str]] = {"style": [], "script": []}

    def inlined(kind: str, match: re.Match[str]) -> str:
        text = asset(match[1])
        hashes[kind].append(source_hash(text))
        return f"<{kind}>{text}</{kind}>"

    text = _translated(asset(name), language)
    if embedded:
        text = text.replace("<html ", "<html data-embed ", 1)
    text = _MODULE.sub(lambda match: _template(match[1], match[0]), text)
    text = _STYLE.sub(lambda match: inlined("style", match), text)
    text = _SCRIPT.sub(lambda match: inlined("script", match), text)
    policy = PAGE_POLICY
    for kind, allowed in hashes.items():
        policy = policy.replace(f"{kind}-src 'self'", " ".join([f"{kind}-src 'self'", *allowed]))
    html = text.encode("utf-8")
    return Page(
        html, gzip.compress(html, mtime=0), f'"{hashlib.sha256(html).hexdigest()[:32]}"', policy
    )


def _translated(html: str, language: str) -> str:
    """Replaces {name} by the text of this name, {language} by the language, and English sentences
    by those of the language."""
    texts = interface_texts()[language] | {"language": language}
    html = html.replace(
        f'<option value="{language}" lang', f'<option value="{language}" selected lang'
    )
    column = list(interface_texts()).index(language)
    sentences = {row[0]: escape(row[column]) for row in json.loads(asset(_SENTENCES))}
    html = _VISIBLE.sub(lambda found: found[1] + sentences.get(unescape(found[2]), found[2]), html)
    return _MARK.sub(lambda mark: escape(texts[mark[1]]), html)


def _template(module: str, script: str) -> str:
    """Returns a template that preloads all imports of a module and starts it, with the texts where
    the module speaks."""
    imported = {module: None}  # in the order in which they are found
    waiting = [module]
    while waiting:
        file = waiting.pop(0)
        names = [normpath(join(dirname(file), name)) for name in _IMPORT.findall(asset(file))]
        waiting += [name for name in names if name not in imported]
        imported |= dict.fromkeys(names)
    links = [
        f'<link rel="modulepreload" href="static/{name}">' for name in imported if name != module
    ]
    texts = json.dumps(interface_texts(), ensure_ascii=False, separators=(",", ":")).replace(
        "<", "\\u003c"
    )
    if _SPEAKER in imported:
        links.append(f'<script type="application/json" id="texts">{texts}</script>')
    return "\n".join(['<template id="modules">', *links, script, "</template>"])


_REPORT_STYLES = ("common/base.css", "explorer/explorer.css")
_REPORT_MODULES = (
    "common/sentences.js",
    "common/dom.js",
    "explorer/maps/maps.js",
    "explorer/maps/colour.js",
    "explorer/maps/heat.js",
    "explorer/maps/lines.js",
    "explorer/maps/worth.js",
    "explorer/maps/heads.js",
    "explorer/maps/panel.js",
    "explorer/report.js",
)
"""Modules of the report. A module follows those that it imports."""
_THEME = "common/theme.js"
_IMPORT_LINE = re.compile(r"^import .*\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)


def report(answer: dict[str, Any]) -> bytes:
    """Returns the report of an answer of GET /attention with `numbers=uint16` and figures."""
    data = orjson.dumps(
        answer, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_SERIALIZE_DATACLASS
    ).decode("utf-8")
    # Only "<" can end a script element or open a comment, and JSON can escape it.
    data = data.replace("<", "\\u003c")
    title = escape(f"{answer['source']['text']} \u2192 {answer['target']['text']}"[:200])
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{report_policy()}">\n'
        f"<title>{title} \u00b7 Attentive</title>\n<style>{_report_style()}</style>\n"
        f"<script>{asset(_THEME)}</script>\n</head>\n"
        f'<body class="report">\n<main id="report"></main>\n'
        f'<script type="application/json" id="look">{data}</script>\n'
        f'<script type="module">{_report_module()}</script>\n</body>\n</html>\n'
    )
    return page.encode("utf-8", "replace")


@cache
def report_policy() -> str:
    """Returns the Content-Security-Policy that allows only the scripts and the style of reports."""
    scripts = " ".join(map(source_hash, (asset(_THEME), _report_module())))
    style = source_hash(_report_style())
    return (
        f"default-src 'none'; script-src {scripts}; style-src {style}; img-src data: blob:; "
        "base-uri 'none'"
    )


@cache
def _report_module() -> str:
    """Returns the modules of the report as one module without imports. Their top-level names are
    distinct."""
    texts = (asset(name) for name in _REPORT_MODULES)
    return "".join(_EXPORT.sub("", _IMPORT_LINE.sub("", text)) for text in texts)


def _report_style() -> str:
    return "".join(asset(name) for name in _REPORT_STYLES)
