"""Tables of pandas and Polars, and rows with names, as a detector takes them."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from elmgrove import BadInput, Basis, Detector
from support.factories import detector_for, trained

RNG = np.random.default_rng(0)
ROWS = 400
START = 1714564800.0
COLUMNS = {
    "heat": RNG.normal(50.0, 1.0, ROWS),
    "mode": RNG.choice(["auto", "manual"], ROWS),
    "flow": RNG.normal(5.0, 0.1, ROWS),
    "open": RNG.random(ROWS) < 0.5,
}
FEATURES = ("heat", "mode=auto", "mode=manual", "flow", "open")
DATES = START + 60.0 * np.arange(ROWS)


def pandas(columns: dict[str, Any], dates: str = "index") -> pd.DataFrame:
    when = pd.to_datetime(DATES[: len(next(iter(columns.values())))], unit="s")
    if dates == "index":
        return pd.DataFrame(columns, index=when)
    if dates == "index with a zone":
        return pd.DataFrame(columns, index=when.tz_localize("UTC").tz_convert("Asia/Tokyo"))
    return pd.DataFrame({**columns, **({"when": when} if dates == "column" else {})})


def polars(columns: dict[str, Any], dates: str = "column") -> pl.DataFrame:
    frame = pl.DataFrame(columns)
    if dates == "none":
        return frame
    when = DATES[: len(frame)].astype("int64") * 1_000_000
    return frame.with_columns(pl.Series("when", when).cast(pl.Datetime("us")))


TABLES = [
    pytest.param(pandas, "index", id="pandas, index"),
    pytest.param(pandas, "index with a zone", id="pandas, index with a zone"),
    pytest.param(pandas, "column", id="pandas, column"),
    pytest.param(polars, "column", id="polars, column"),
]


def expected() -> np.ndarray:
    mode = COLUMNS["mode"]
    return np.column_stack(
        [COLUMNS["heat"], mode == "auto", mode == "manual", COLUMNS["flow"], COLUMNS["open"]]
    )


@pytest.mark.parametrize(("made", "dates"), TABLES)
def test_a_table_is_learned_scored_and_observed_by_name(made: Any, dates: str) -> None:
    table = made(COLUMNS, dates)
    detector = Detector.for_data(table, categories=["mode"], window=1)
    assert detector.basis.features == FEATURES
    assert dict(detector.basis.categories) == {"mode": ("auto", "manual")}
    detector.learn_many(table)
    plain = trained(Detector.for_basis(detector.basis), expected())
    assert detector.evidence.close_to(plain.evidence)
    turned = made({"new": [0.0] * ROWS, **dict(reversed(COLUMNS.items()))}, dates)
    wanted = plain.score_many(expected())
    np.testing.assert_allclose(detector.score_many(turned), wanted, rtol=1e-9)
    verdicts = detector.observe_many(turned)
    assert [verdict.time for verdict in verdicts] == DATES.tolist()


def test_rows_with_names_are_taken_by_name() -> None:
    table = pandas(COLUMNS)
    detector = detector_for(table, categories=["mode"], window=1)
    wanted = pytest.approx(detector.score_many(table)[0])
    first = {name: values[0] for name, values in reversed(COLUMNS.items())}
    assert detector.score_one(first) == wanted
    assert detector.score_one(table.iloc[0]) == wanted
    assert detector.observe(first).score == wanted
    assert detector.blame(first)


def test_a_word_that_was_never_learned_is_anomalous_and_no_error() -> None:
    table = pandas(COLUMNS)
    detector = detector_for(table, categories=["mode"], window=1)
    odd = table.assign(mode="broken")
    assert (detector.score_many(odd) > detector.threshold).all()
    assert {detector.blame(odd.iloc[i])[0].feature[:5] for i in range(9)} == {"mode="}


def test_words_are_part_of_the_fingerprint_and_of_nothing_else() -> None:
    known = Detector.for_data(pandas(COLUMNS), categories=["mode"]).basis
    again = Basis.from_fields(known.fields)
    assert again == known
    assert again.fingerprint == known.fingerprint
    plain = Basis(known.layer, known.outputs, known.features, known.scaling, score=known.score)
    assert plain.fingerprint != known.fingerprint
    assert "categories" not in plain.fields
    with pytest.raises(BadInput, match="a feature for each word, like 'mode=off'"):
        Basis(known.layer, known.outputs, known.features, categories={"mode": ["off"]})


@pytest.mark.parametrize(
    ("table", "categories", "complaint"),
    [
        (np.ones((5, 2)), ["mode"], "categories are columns of a table with names"),
        (pandas(COLUMNS), ["gear"], "no column 'gear' among"),
        (pandas(COLUMNS), [], r"row 0, column 1 \('mode'\): '\w+' is not a number"),
        (pandas({"id": [f"m{i}" for i in range(65)]}), ["id"], "65 different words, too many"),
    ],
)
def test_what_can_not_be_learned_is_refused(
    table: Any, categories: list[str], complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        Detector.for_data(table, categories=categories)


def test_missing_columns_values_and_times_are_named() -> None:
    table = pandas(COLUMNS)
    detector = Detector.for_data(table, categories=["mode"])
    with pytest.raises(BadInput, match=r"expected columns \['heat', 'mode', 'flow', 'open'\], got"):
        detector.score_many(table.drop(columns="flow"))
    holes = table.assign(flow=[np.nan, *table["flow"].iloc[1:]])
    with pytest.raises(BadInput, match=r"row 0, column 3 \('flow'\): nan is not a finite number"):
        detector.score_many(holes)
    undated = table.set_index(table.index.where(np.arange(ROWS) != 3))
    with pytest.raises(BadInput, match="row 3: the time is missing"):
        detector.observe_many(undated)


@pytest.mark.parametrize("made", [pandas, polars])
def test_words_are_refused_with_what_reads_them(made: Any) -> None:
    with pytest.raises(BadInput, match=r"is not a number; categories=\['mode'\] reads it as words"):
        Detector.for_data(made(COLUMNS))
    texts = {"heat": COLUMNS["heat"], "note": [f"on day {i}" for i in range(ROWS)]}
    with pytest.raises(BadInput, match=r"leave 'note' out, or if it is a time make it dates"):
        Detector.for_data(made(texts))


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_a_table_as_a_file_gives_it_is_read_as_the_commands_read_it(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    heat = RNG.normal(size=120)
    pump = ["on" if value > 0 else "off" for value in heat]
    days = [f"2026-03-01 {row // 60:02d}:{row % 60:02d}:00" for row in range(120)]
    table = made({"Unnamed: 0": range(120), "when": days, "heat": heat, "pump": pump})
    with caplog.at_level("INFO", "elmgrove"):
        detector = Detector.for_data(table, window=1)
    assert detector.basis.features == ("heat", "pump")
    assert [record.getMessage() for record in caplog.records] == [
        "column 'when' is the time of each row, and not learned",
        "column 'Unnamed: 0' counts the rows, and is left out",
    ]
    first = datetime(2026, 3, 1, tzinfo=UTC).timestamp()
    assert [one.time for one in detector.observe_many(table)] == [
        first + 60.0 * row for row in range(120)
    ]
    epochs = made({"ts": [first + row for row in range(120)], "heat": heat})
    assert Detector.for_data(epochs, window=1).basis.features == ("heat",)
