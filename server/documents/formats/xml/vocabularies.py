"""The kinds of elements of the XML vocabularies (`paragraph.Vocabulary`), one line each."""

from __future__ import annotations

from collections.abc import Iterable

from server.documents.formats.xml.paragraph import Vocabulary


def prefixes(vocabulary: str, name: str) -> tuple[str, str]:
    """Returns the transitional and the strict namespace of a vocabulary as in tags of lxml."""
    return (
        f"{{http://schemas.openxmlformats.org/{vocabulary}/2006/{name}}}",
        f"{{http://purl.oclc.org/ooxml/{vocabulary}/{name}}}",
    )


def vocabularies(
    namespaces: Iterable[str], table: str, spaces: bool = False, lines: bool = True
) -> dict[str, Vocabulary]:
    """Returns the vocabularies of a table by the tags of their paragraphs, in these namespaces."""
    names = {kind: elements for kind, *elements in map(str.split, table.strip().splitlines())}
    made: dict[str, Vocabulary] = {}
    for namespace in namespaces:
        kinds = {
            namespace + name: kind
            for kind, elements in names.items()
            if kind not in ROLES
            for name in elements
        }
        roles = {
            role: namespace + names[role][0]
            for role in ("run", "properties", "text", "mark")
            if role in names
        }
        invisible = frozenset(
            prefix + name for name in names.get("invisible", ()) for prefix in ("", namespace)
        )
        own = Vocabulary(kinds=kinds, invisible=invisible, spaces=spaces, lines=lines, **roles)
        made |= {namespace + name: own for name in names["paragraph"]}
    return made


ROLES = frozenset(("paragraph", "properties", "invisible", "mark"))
"""Rows of a table that are no kinds of elements in a paragraph."""
WORD = """
paragraph p
run r
properties rPr
text t
mark fldChar
first pPr
gap tab br cr ptab
container hyperlink ins smartTag moveTo customXml dir bdo ruby
field fldSimple
control sdt
content sdtContent rubyBase
start bookmarkStart commentRangeStart permStart
end bookmarkEnd commentRangeEnd permEnd
setting sdtPr sdtEndPr smartTagPr customXmlPr
hyphen noBreakHyphen
dropped proofErr lastRenderedPageBreak softHyphen
invisible lang noProof proofErr
"""
DRAWING = """
paragraph p
run r
properties rPr
text t
first pPr
last endParaRPr
gap br
invisible lang altLang dirty err noProof smtClean bmk
"""
CELL = """
paragraph si is text
run r
properties rPr
text t
last phoneticPr
dropped rPh
"""
OPEN_DOCUMENT = """
paragraph p h
container span a meta ruby
content ruby-base
start bookmark-start reference-mark-start
end bookmark-end reference-mark-end
gap tab line-break
space s
dropped soft-page-break
"""
XLIFF = """
paragraph source
container g pc mrk
start bpt sc
end ept ec
"""
OFFICE_PARAGRAPHS = {
    **vocabularies(prefixes("wordprocessingml", "main"), WORD, spaces=True, lines=False),
    **vocabularies(prefixes("drawingml", "main"), DRAWING),
    **vocabularies(prefixes("spreadsheetml", "main"), CELL, spaces=True),
}
OPEN_PARAGRAPHS = vocabularies(("{urn:oasis:names:tc:opendocument:xmlns:text:1.0}",), OPEN_DOCUMENT)
MARGINS = frozenset(
    space + name
    for space in prefixes("spreadsheetml", "main")
    for name in "oddHeader oddFooter evenHeader evenFooter firstHeader firstFooter".split()
)
"""Headers and footers of printed sheets."""
DC = "{http://purl.org/dc/elements/1.1/}"
SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
CHARTS = prefixes("drawingml", "chart")
CHARTS_2016 = "{http://schemas.microsoft.com/office/drawing/2014/chartex}"
NUMBERS = frozenset(c + name for c in CHARTS for name in ("numCache", "numLit"))
"""Elements of charts whose values are numbers."""
LABELS = {
    "{*}docPr": ("descr", "title"),
    "{*}cNvPr": ("descr", "title"),
    "{*}hyperlink": ("tooltip", *(p + "tooltip" for p in prefixes("wordprocessingml", "main"))),
    "{*}hlinkClick": ("tooltip",),
    "{*}dataValidation": ("promptTitle", "prompt", "errorTitle", "error"),
}
"""Attributes that people read, by element: alternative texts, tooltips, messages of cells."""
PLAIN = (
    *(DC + name for name in ("title", "subject", "description")),
    *(SVG + name for name in ("title", "desc")),
    *(c + "v" for c in (*CHARTS, CHARTS_2016)),
    *(c + "name" for c in CHARTS),
    CHARTS_2016 + "pt",
    *(p + "text" for p in prefixes("presentationml", "main")),
    "{http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments}text",
    "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}index-title-template",
)
"""Elements with plain text: properties of the document, alternative texts, texts of charts,
comments, titles of indexes."""
BOOK = (DC + "title", DC + "description", "{http://www.daisy.org/z3986/2005/ncx/}text")
"""Elements with plain text of a book's package and table of contents."""
