"""Protected spans are found, and text that only looks like one is not."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.text.syntax.match import Source
from server.text.syntax.placeholders import message
from tests.support.texts.matched import matches


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "%s %d %1$s %(name)s %-5.2f %lu %@",
            ["%s", "%d", "%1$s", "%(name)s", "%-5.2f", "%lu", "%@"],
        ),
        ("%d%% of %s%%", ["%d%%", "%s%%"]),
        ("%1 of %L2, %n files", ["%1", "%L2", "%n"]),
        (
            "{0} {name} {} {{user.first}} {{{raw}}} {a: {b}}",
            ["{0}", "{name}", "{}", "{{user.first}}", "{{{raw}}}", "{a: {b}}"],
        ),
        (
            "${count} $HOME/bin $(date) #{user.name}",
            ["${count}", "$HOME/bin", "$(date)", "#{user.name}"],
        ),
        (
            "%{ruby} %<price>.2f :rails @drupal @@drupal",
            ["%{ruby}", "%<price>.2f", ":rails", "@drupal", "@@drupal"],
        ),
        ('<x id="1"/> <ph/> <your name>', ['<x id="1"/>', "<ph/>"]),
        ("<keep>a b</keep> <b translate=no>c</b>", ["<keep>a b</keep>", "<b translate=no>c</b>"]),
        ("<% user.name %> {% if a %}", ["<% user.name %>", "{% if a %}"]),
        ("`a. b` and ``c ` d``", ["`a. b`", "``c ` d``"]),
        ("$x^2$ and $$a$$ and \\(b\\) and \\cite{c}", ["$x^2$", "$$a$$", "\\(b\\)", "\\cite{c}"]),
        (
            "/etc/hosts ./run.sh ~/x src/a.py C:\\Temp\\a.txt",
            ["/etc/hosts", "./run.sh", "~/x", "src/a.py", "C:\\Temp\\a.txt"],
        ),
        ("&amp; &#8594; &nbsp;", ["&amp;", "&#8594;", "&nbsp;"]),
        (
            "#news at https://a.org/b?c=d. (www.a.org)",
            ["#news", "https://a.org/b?c=d", "www.a.org"],
        ),
        (
            "https://a.org/b_(c) (https://a.org/d_(e)_f), ok",
            ["https://a.org/b_(c)", "https://a.org/d_(e)_f"],
        ),
        (
            "https://a.org/a[1]?b={c}&d, http://[::1]:8/e.",
            ["https://a.org/a[1]?b={c}&d", "http://[::1]:8/e"],
        ),
        ("see link:https://a.org[the page] and www.a.org.", ["https://a.org", "www.a.org"]),
        ("die /usr/-Ordner und /bin/sh-Programme", ["/usr/", "/bin/sh"]),
        ('"My house 2 (old).pdf" and „Mein Haus.docx“', ["My house 2 (old).pdf", "Mein Haus.docx"]),
        ("web1 sshd[901]: closed, children[15]: red", ["sshd[901]", "[15]"]),
        ("[--a=b] [--c[=d]] (--e)", ["--a=b", "--c[=d]", "--e"]),
        ("You found $X$.\\wHow many?", ["$X$", "\\w"]),
        ("Figure~\\ref{a} and ~/b", ["~", "\\ref{a}", "~/b"]),
        ("Hallo :name, :other ist da", [":name", ":other"]),
        ("une ère :Les jours sont, un verre :un", []),
        ("die 5-%-Hürde und 20 %-Klausel", []),
        ('is """ and (""" three)', []),
        ("a '_' or '_', Wf > Wi", []),
        ("${a:-x y} and #{b} (%1$@)", ["${a:-x y}", "#{b}", "%1$@"]),
        ("Run`make`now, set`a=1`and`b`", ["`make`", "`a=1`", "`b`"]),
        ("l`homme d`affaires, rock`n`roll", []),
        ("你好__name__欢迎, __name__", ["__name__", "__name__"]),
        ("ask in r/name or u/name-1", ["r/name", "u/name-1"]),
        ("a r/w file, and/or, his/her", []),
        ("costs $5 and $6, or 5$ and 6$", []),
        ("50% of it, 100%, 20 % des Umsatzes", []),
        ("if a < b and c > d, and/or e", []),
        ("At 10:30: he said: no!", []),
        ("don&#39;t", []),
        ("Wait... what? [sic] (see below)", []),
        ("3 * 4 * 5", []),
    ],
)
def test_spans_are_found(text: str, expected: list[str]) -> None:
    assert [text[span.start : span.end] for span in matches(text)] == expected


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("[the book](http://a.org/x)", ["open", "close"]),
        ("![alt](a.png)", ["open", "close"]),
        ("<b>bold</b> **strong**", ["open", "close", "open", "close"]),
        ("&lt;b&gt;bold&lt;/b&gt; and 1 &lt; 2", ["open", "close", "point"]),
        ("\ue001 Home \ue002Log out, press \ue003 to go", ["break", "break"]),
        ("press \ue003 Home or \ue003 to go", []),
        ("‹ Back", ["break"]),
        ("<b>one <i>two</b> three</i>", ["open", "point", "close", "point"]),
        ("</b> and ** alone", ["point"]),
        ("enter <name> here", ["word"]),
        ("see [[https://a.org][this page]] or a]]", ["open", "close"]),
        ("[*]One", ["break"]),
        ("{% assign a = 1 %}All {{!-- no --}}Good", ["break", "point"]),
        ("one<br>two\\nthree", ["break", "break"]),
        ("One.<3/>Two and <3/>two", ["break", "word"]),
        ("{{#if a}}One{{else}}Two{{/if}}", ["open", "break", "close"]),
        ("{% if a %}One{% elif b %}Two{% endif %}", ["open", "break", "close"]),
        ("The {{^big}}small{{/big}} house of {{name}}", ["open", "close", "word"]),
        ("{% for x in y %}{{ x }}{% endfor %} {% url 'a' %}", ["word", "word"]),
        ("<color=#ff0000>One</color> <size=20>two</size>", ["open", "close", "open", "close"]),
        (
            "[b]One[/b] [url=https://a.org/x]two [i]three[/i][/url] [sic]",
            ["open", "close", "open", "open", "close", "close"],
        ),
        ("<![CDATA[<b>One</b> two]]>", ["break", "open", "close", "break"]),
        (
            "Don\\'t. User''s ''{0}'' {1}''s",
            ["apostrophe", "apostrophe", "word", "word", "apostrophe"],
        ),
        ("```\ncode. Code.\n```\ntext", ["break"]),
        ("{n, plural, one {# file} other {# files}}", ["message"]),
        ("{n, plural, one {# file}", ["word", "word"]),
        ("Home | About us › Legal notice · Press", ["break", "break", "break"]),
        ("Settings > Privacy > Location", ["break", "break"]),
        ("a > b, x || y, a|b, 5>3 and 7 > 6", []),
        ("| one | two |", ["break", "break", "break"]),
    ],
)
def test_roles(text: str, roles: list[str]) -> None:
    assert [span.role for span in matches(text)] == roles


def test_terms_are_found_as_whole_words() -> None:
    text = "Acme and Acme Inc, not Acmeville: C++ stays."
    found = matches(text, ("Acme", "Acme Inc", "C++", " "))
    assert [text[span.start : span.end] for span in found] == ["Acme", "Acme Inc", "C++"]
    assert matches("Acme", ("", " ")) == []


def test_arms_of_a_message_are_its_translatable_text() -> None:
    text = "x {n, plural, offset:1 =0 {none} one {# {a} file} other {# files}} y"
    found = message(Source(text), 2)
    assert found is not None
    assert [text[start:end] for start, end in found.flows] == ["none", "# {a} file", "# files"]
    assert text[found.end :] == " y"


@given(st.text("{}%$<>/:.@#*`\\[]()!&;a1 \n~|›·,=\"'", max_size=40))
def test_spans_are_in_order_and_do_not_overlap(text: str) -> None:
    spans = matches(text)
    assert all(left.end <= right.start for left, right in pairwise(spans))
    assert all(0 <= span.start < span.end <= len(text) for span in spans)
