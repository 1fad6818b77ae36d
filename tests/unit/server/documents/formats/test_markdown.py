"""Markdown: text is translated in place, markup stays around its words, and everything else is
copied."""

from __future__ import annotations

import html
import re

import pytest
from markdown_it import MarkdownIt

from server.documents.document import tagged_of
from server.documents.formats.markdown import kinds
from server.documents.reader_process import read_document
from tests.support.texts.document_files import change, unchanged

PAGE = """---
title: Front matter
---
# A *title* with `code()`

Some text with **bold words** and a [link](https://x.org/a_(b) "t"), which is wrapped
over two lines with a [ref][ref].

> quoted text
> in two lines

- [ ] one task{break}
  after a break
- ![an image](a.png)

| head | 2 \\| 3 |
|------|:------:|
| cell &lt;b&gt; | snake_case \\*kept\\* |

```python
print("code")
```

<p align="center">An <b>HTML</b> block</p>

[ref]: https://x.org
""".replace("{break}", "  ")


def test_unchanged_markdown_is_identical():
    assert unchanged("a.md", PAGE.encode()).decode() == PAGE
    assert unchanged("a.md", PAGE.replace("\n", "\r\n").encode()).decode() == PAGE.replace(
        "\n", "\r\n"
    )
    assert unchanged("a.md", b"a\n\x1c") == b"a\n\x1c"


def test_only_text_changes():
    expected = PAGE
    words = (
        "Front matter|quoted text|in two lines|one task|after a break|an "
        "image|head|cell|snake_case|kept|A *title* with"
    )
    for text in (
        *words.split("|"),
        "Some text with **bold words** and a [link]",
        ' "t"',
        "which is wrapped\nover two lines with a [ref]",
        "An <b>HTML</b> block",
    ):
        expected = expected.replace(
            text, text.upper().replace("<B>", "<b>").replace("</B>", "</b>")
        )
    expected = expected.replace("</b> BLOCK", "</b> BLOCK").replace("&lt;b&gt;", "&lt;B&gt;")
    assert change("a.md", PAGE.encode()).decode() == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("2 * 3 * 4 is _not_ snake_case_name", "2 * 3 * 4 IS _NOT_ SNAKE_CASE_NAME"),
        ("[not a link] but [^1] and <https://x.org>", "[NOT A LINK] BUT [^1] AND <https://x.org>"),
        ("***both*** ~~gone~~ \\# x &amp; y", "***BOTH*** ~~GONE~~ \\# X &amp; Y"),
        ("[![badge](b.svg)](https://x.org) text", "[![BADGE](b.svg)](https://x.org) TEXT"),
        ("    indented code\n\ntext", "    indented code\n\nTEXT"),
        ("Title\n=====\ntext\\\nnext", "TITLE\n=====\nTEXT\\\nNEXT"),
    ],
)
def test_markup_within_a_line(source, expected):
    assert change("a.md", source.encode()).decode() == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("> [!NOTE]\n> Some text\n> in two lines", "> [!NOTE]\n> SOME TEXT IN TWO LINES"),
        (":::tip Title\nSome text \n:::", ":::tip TITLE\nSOME TEXT \n:::"),
        (":::note[A title]{.x}\nSome text\n:::", ":::note[A TITLE]{.x}\nSOME TEXT\n:::"),
        (
            '{{< tab >}}\nSome text\n{{< /tab >}}\nMore {{< ref "a.md" >}}',
            '{{< tab >}}\nSOME TEXT\n{{< /tab >}}\nMORE {{< ref "a.md" >}}',
        ),
        ('[a link](u "a \\"b\\" c"){ .x y=1 }', '[A LINK](u "A \\"B\\" C"){ .x y=1 }'),
        (
            '=== "Tab"\n\n    - one\n    - two\n\n        deep\n\n    ```\n    !!! x\n    ```',
            '=== "TAB"\n\n    - ONE\n    - TWO\n\n        DEEP\n\n    ```\n    !!! x\n    ```',
        ),
        (
            "!!! x\n    one\n\n    !!! y\n        two\n\ntext\n\n    code here",
            "!!! x\n    ONE\n\n    !!! y\n        TWO\n\nTEXT\n\n    code here",
        ),
        (":::tip\n\nSome text\n\n:::", ":::tip\n\nSOME TEXT\n\n:::"),
        ('!!! note "Title"\n    Some text', '!!! note "TITLE"\n    SOME TEXT'),
        ("Term\n: Its meaning\n: Another one", "TERM\n: ITS MEANING\n: ANOTHER ONE"),
        ("Term\n\n: Its meaning", "TERM\n\n: ITS MEANING"),
        ("> **Note**\n> Some text\n> here", "> **NOTE**\n> SOME TEXT HERE"),
        ("The formula\n$$\na = b\n$$\nis short", "THE FORMULA\n$$\na = b\n$$\nIS SHORT"),
    ],
)
def test_lines_that_extensions_of_markdown_read_stay_lines(source, expected):
    assert change("a.md", source.encode()).decode() == expected


def test_a_longer_translation_is_wrapped_with_the_indentation():
    made = change("a.md", b"> one two three\n> four five", lambda text: text + " and - more words")
    assert made.decode() == "> one two three\n> four five and - more words"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_are_kept(line_end):
    source = line_end.join(["# Title", "", "- one", "- two", ""])
    assert change("a.md", source.encode()).decode() == source.upper()


def test_a_sentence_has_its_code():
    [text] = read_document("a.md", b"Run [the `a*b`](x) now and ``c`d``.\n", "de").texts
    assert [passage.text for passage in tagged_of(text, "coded").passages()] == [
        "Run the a*b now and ."
    ]


@pytest.mark.parametrize(
    ("source", "passages"),
    [
        ("# The tool [![it builds](b.svg)](https://x.org)", ["The tool ", "it builds", ""]),
        ("[![one](a)](b) [![two](c)](e)", ["one", " ", "two", ""]),
        ("**Note**\nSome text.", ["Note", "Some text."]),
        ("Some text with\n**strong words** in it.", ["Some text with strong words in it."]),
    ],
)
def test_pictures_that_are_links_and_lines_of_strong_words_are_no_part_of_a_sentence(
    source, passages
):
    [text] = read_document("a.md", source.encode(), "de").texts
    assert [passage.text for passage in tagged_of(text, "coded").passages()] == passages


MDX = """import Tabs from '@theme/Tabs';
import {
  One,
} from "./one";
export const meta = { title: 'A title' };

export default Layout;

# Hello there

We import goods from many countries.

<Tabs items={['npm', 'yarn']} onClick={() => go()}>
  <Tab value="npm">Install it with `npm`.</Tab>
</Tabs>

A word <Badge>new</Badge> within a text
that is wrapped.

See[^1] and [the text][ref].

[^1]: The first note.
[^two]: The second note.
[ref]: https://example.com "A title"
[other]: <a b> 'Another title'

> quoted text
lazy line
"""


def test_modules_components_and_definitions_are_kept():
    document = read_document("a.mdx", MDX.encode(), "de")
    assert document.write(document.texts).decode() == MDX
    texts = [re.sub("<[^<>]*>", "", text) for text in document.texts]
    assert texts[:2] == ["Hello there", "We import goods from many countries."]
    assert not any(word in " ".join(texts) for word in ("theme", "export", "example.com", "npm'"))
    written = change("a.mdx", MDX.encode()).decode().split("\n")
    for line in MDX.split("\n"):
        if line.startswith(("import", "export", "<Tabs", "</Tabs", "  One", "}")):
            assert line in written
    assert {"[^1]: THE FIRST NOTE.", "[^two]: THE SECOND NOTE."} <= set(written)
    assert {'[ref]: https://example.com "A TITLE"', "[other]: <a b> 'ANOTHER TITLE'"} <= set(
        written
    )
    assert '  <Tab value="npm">INSTALL IT WITH `npm`.</Tab>' in written
    assert "A WORD <Badge>NEW</Badge> WITHIN A TEXT" in written


@pytest.mark.parametrize("label", ["**{}:**", "**{}**:", "__{}:__"])
def test_lines_that_begin_with_a_label_are_texts_of_their_own(label):
    page = "".join(
        f"{label.format(name)} some text\n" for name in ("Name", "Place of birth", "Age")
    )
    document = read_document("a.md", page.encode(), "de")
    assert len(tagged_of(document.texts[0], "coded").passages()) == 3
    assert document.write(document.texts).decode() == page
    assert change("a.md", page.encode()).decode() == page.upper()


@pytest.mark.parametrize("mark", ["{#start}", "{.lead #a}", "{: .lead }", "{/* #start */}"])
@pytest.mark.parametrize("block", ["# One two {}", "One two three {}", "Four five\n------"])
def test_the_attributes_of_a_block_stay_at_its_end(block, mark):
    given = block.format(mark)
    document = read_document("a.md", given.encode(), "de")
    assert document.write(document.texts) == given.encode()
    made = document.write([f"Drei {text}" for text in document.texts]).decode()
    assert made == given.replace("One", "Drei One").replace("Four", "Drei Four")


@pytest.mark.parametrize(
    "kept",
    [
        "{{< highlight go >}}\nsome words\n{{< /highlight >}}",
        "{% highlight ruby %}\nsome words\n{% endhighlight %}",
        "{{< mermaid >}}\ngraph words;\n{{< /mermaid >}}",
        "{{/* some words */}}",
        "{/*\n some words\n*/}",
        "export const x = 5;",
        ":::{tip}\n:class: some\n:::",
        "///",
    ],
)
def test_code_of_templates_is_kept(kept):
    given = f"one\n\n{kept}\n\ntwo\n"
    assert change("a.mdx", given.encode()).decode() == f"ONE\n\n{kept}\n\nTWO\n"


@pytest.mark.parametrize(
    "given",
    [
        "Text[^1].\n\n[^1]: the first.\n\n    the second.\n\n    - an item\n\nthe end",
        "word\n:   the first.\n\n    the second.\n\nthe end",
        "/// details | the summary\nthe body\n///\n\nthe end",
        ":::{note} the title\nthe body\n:::",
        "{{< highlight >}}\n\nthe text without an end",
        "<div>\n<b>the &mdash; x &quot;</b> &copy;\n</div>",
    ],
)
def test_every_paragraph_is_translated(given):
    made = change("a.md", given.encode(), lambda text: text.replace("the", "THE")).decode()
    assert made == given.replace("the", "THE")


@pytest.mark.parametrize(
    "given",
    [
        "A [link](/u \"the &amp; 'title'\"), ![one](a_(b).png 'the \\'picture\\'') [x][ref].",
        "[![one](a 'the badge')](b \"the link\") two",
        "> Two lines [one](/u (the title)) [two](/v\n> 'the other').",
        '# One <img src="a" alt="the red &quot;house&quot;" title=\'the "tip"\'> two',
        '<p align="center">\n  <img src="a" alt="the house">\n</p>',
        "Run `<img alt=\"x\">` or <kbd title='the one'>Ctrl</kbd>.",
        '<Tabs>\n  <TabItem value="a" label="the tab">One</TabItem>\n</Tabs>',
        'Text <Card title="the card"\n  description="the words" /> here',
        'one\n[a]: /u "the title"\ntwo',
        "> [a]: /u (the title)\n> [b]: <u v>\n>  'the other'",
        '{{< figure src="a.png" title="the \\"title\\"" caption=\'the words\' >}}',
        'One {{< icon name="a" label="the icon" >}} two',
        '{% include figure alt="the picture" %}',
        '```\n<img alt="x">\n[a](b "c")\n```',
        "---\ntitle: the page\ndate: 2020-01-01\ndescription: >-\n  the words\ntags: [tho]\n---\n# "
        "One",
        '---\nhero:\n  tagline: "the \\"one\\""\n  name: x\n---\none',
        "---\ntitle: 'tho\nx\n---\none",
        '+++\ntitle = "the \\"page\\""\nkind = "x"\n[params]\ndescription = \'the words\'\n+++\none',
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_labels_in_markup_are_translated(given, line_end):
    given = given.replace("\n", line_end)
    assert unchanged("a.mdx", given.encode()).decode() == given
    made = change(
        "a.mdx", given.encode(), lambda text: text.replace("the", "THE").replace("x", "y")
    ).decode()
    assert made.replace("y", "x").split() == given.replace("the", "THE").split()
    assert '"x"' not in given or '"x"' in made


@pytest.mark.parametrize(
    "new", ["x", "L'\u00e9t\u00e9 (l'\"ann\u00e9e\") & <b> \\", "# a\n\n- b", "](b) [c](d"]
)
@pytest.mark.parametrize(
    "given",
    ['[a](/u "{}")', "![a](/u '{}')", "[a](/u ({}))", '<img alt="{}"> a', "a\n\n[b]: /u '{}'"],
)
def test_a_label_becomes_no_other_markup(given, new):
    page = given.format("the title") + "\n\nlast\n"
    document = read_document("a.md", page.encode(), "de")
    made = document.write(
        [new if text == "the title" else text for text in document.texts]
    ).decode()
    assert kinds(made) == kinds(page)
    titles = [*re.findall(r'title="([^"]*)"|alt="([^"]*)"', MarkdownIt().render(made))]
    assert " ".join(new.split()) in [html.unescape(a or b) for a, b in titles] or "[b]" in given
