from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from quantattn.errors import DataError
from quantattn.forecasters.baselines import EventSequences, SampleTable

from .news import DAY, news_of, table_of_news


def table() -> SampleTable:
    return table_of_news(news_of("return", days=40), cutoff=30 * DAY)


def test_forecasts_read_what_the_dataset_counts() -> None:
    whole = table()
    assert whole.sequences is not None
    for entity in "AB":
        rows, counts = whole.sequences.counts(entity)
        assert counts.tolist() == whole.samples["n_visible"].gather(rows).to_list()
        assert rows[whole.sequences.queries(entity, rows[[5, 2, 2]])].tolist() == rows[[5, 2, 2]].tolist()


def test_words_are_hashed_once() -> None:
    whole = table()
    assert whole.sequences is not None
    words = whole.sequences.words("A", 8)
    assert words.shape == (len(whole.sequences.own("A").event_times), 8)
    assert whole.sequences.words("A", 8) is words
    assert replace(whole.sequences, tokens=None).words("A", 8) is words


def test_sequences_of_other_samples_are_refused() -> None:
    whole = table()
    assert whole.sequences is not None
    entities = dict(whole.sequences.entities)
    own = entities["A"]
    for rows in (own.rows[1:], own.rows[::-1], own.rows + 1, np.append(own.rows, 10_000)):
        times = own.query_times[: len(rows)]
        wrong = {**entities, "A": replace(own, rows=rows, query_times=np.resize(times, rows.size))}
        with pytest.raises(DataError, match="sequences of 'A' name rows that are not its samples"):
            replace(whole, sequences=EventSequences(wrong, whole.sequences.features))
    swapped = {"A": entities["B"], "B": entities["A"]}
    with pytest.raises(DataError, match="not its samples"):
        replace(whole, sequences=EventSequences(swapped, whole.sequences.features))


def test_tokens_of_another_history_are_refused() -> None:
    whole = table()
    assert whole.sequences is not None
    assert whole.sequences.tokens is not None
    tokens = dict(whole.sequences.tokens)
    late = {**tokens, "A": replace(tokens["A"], event_times=tokens["A"].event_times + 1)}
    for wrong in (late, {**tokens, "C": tokens["A"]}):
        with pytest.raises(DataError, match=r"tokens of '[AC]' are not those of its events"):
            replace(whole, sequences=replace(whole.sequences, tokens=wrong))


def test_what_is_not_there() -> None:
    whole = table()
    assert whole.sequences is not None
    with pytest.raises(DataError, match="no events of 'C'"):
        whole.sequences.own("C")
    with pytest.raises(DataError, match="no tokens of 'C'"):
        whole.sequences.tokens_of("C")
    with pytest.raises(DataError, match="no tokens of 'A'"):
        replace(whole.sequences, tokens=None).tokens_of("A")
