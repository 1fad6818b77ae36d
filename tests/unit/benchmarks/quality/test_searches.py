"""The table of the searches."""

from __future__ import annotations

from benchmarks.quality.searches import Result, _cell


def test_a_cell_has_means_over_the_directions_and_the_time_relative_to_greedy_search():
    results = [
        Result("greedy", "dev", "en-de", 10.0, 40.0, 2.0), Result("greedy", "dev", "de-en", 20.0, 50.0, 3.0),
        Result("model", "dev", "en-de", 12.0, 42.0, 4.0), Result("model", "dev", "de-en", 22.0, 52.0, 6.0),
        Result("model", "other", "en-de", 0.0, 0.0, 9.0),
    ]  # fmt: skip
    assert _cell(results, "greedy", "dev") == "15.0 / 45.0 / 1.00"
    assert _cell(results, "model", "dev") == "17.0 / 47.0 / 2.00"
