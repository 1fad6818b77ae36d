"""Texts for the classifier of languages: what is measured is kept aside."""

from __future__ import annotations

from pathlib import Path

from benchmarks.quality.detection_texts import is_kept, main


def test_no_sentence_is_both_trained_on_and_measured(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for language in ("aa", "bb"):
        lines = [f"{language}{i}a {language}{i}b {language}{i}c" for i in range(60)]
        (tmp_path / "texts" / f"{language}.txt").write_text("\n".join(lines))
    found = {}
    for flags in ([], ["--kept"]):
        assert main([str(tmp_path), str(tmp_path / "out.tsv"), *flags]) == 0
        rows = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
        assert {language for language, _ in rows} == {"aa", "bb"}
        found[bool(flags)] = {word[:-1] for _, text in rows for word in text.split()}
    assert not found[True] & found[False]
    whole = {text: f"{text}a {text}b {text}c" for text in found[True] | found[False]}
    assert all(is_kept(sentence) == (text in found[True]) for text, sentence in whole.items())
    assert main([str(tmp_path / "texts"), str(tmp_path / "out.tsv")]) == 2
