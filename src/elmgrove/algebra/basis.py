"""The basis: what must be equal before two pieces of evidence may be added."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from elmgrove.algebra.layer import HiddenLayer, differences, fingerprint, suggested_units
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, Scaling
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.errors import BadInput, Mismatch, require_whole

#: The words of columns that hold words, by column.
Categories = Mapping[str, Sequence[str]]
#: The same, fixed: pairs of a column and its words.
Words = tuple[tuple[str, tuple[str, ...]], ...]


def fixed_words(categories: Categories | Words) -> Words:
    """Gives words by column in a form that can't change; ``BadInput`` if they are none."""
    try:
        made = tuple((name, tuple(words)) for name, words in dict(categories).items())
    except (TypeError, ValueError) as error:
        raise BadInput(f"categories must be words by column, not {categories!r:.60}") from error
    if not all(isinstance(text, str) for name, words in made for text in (name, *words)):
        raise BadInput("the words of categories must be text")
    return made


def word_of(cell: Any) -> str:
    """Gives a value as a word; a whole number without a point, whatever it came in.

    >>> word_of(3.0), word_of(3), word_of(" auto ")
    ('3', '3', 'auto')
    """
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def features_of(columns: Sequence[str], categories: Categories) -> tuple[str, ...]:
    """Names the features that columns become: one for each word, or the column itself.

    >>> features_of(["temp", "mode"], {"mode": ["auto", "off"]})
    ('temp', 'mode=auto', 'mode=off')
    """
    return tuple(
        feature
        for name in columns
        for feature in (
            [_named(name, w) for w in categories[name]] if name in categories else [name]
        )
    )


def columns_of(features: Sequence[str], categories: Categories) -> list[str]:
    """Names the columns that features come from: their own, or that of their words.

    >>> columns_of(["temp", "mode=auto", "mode=off"], {"mode": ["auto", "off"]})
    ['temp', 'mode']
    """
    source = {_named(name, word): name for name, words in categories.items() for word in words}
    return list(dict.fromkeys(source.get(feature, feature) for feature in features))


def _named(column: str, word: str) -> str:
    return f"{column}={word}"


#: The most inputs of a new detector: columns, or bands, times the window. Learning takes time by
#: their number, some 20 seconds for 500 rows of so many.
MOST_INPUTS = 4096

#: What a detector's score is computed from: a distance from moments, or the papers' loss.
SCORES = ("distance", "loss")


@dataclass(frozen=True)
class Basis:
    """The layer, the outputs, the names of the columns, and how rows become inputs and a score.

    Two pieces of evidence may be added exactly when their bases are equal. The layer's ``inputs``
    are the columns of one row; with a ``window`` the last so many rows, side by side, are one
    input, and ``hidden`` is the layer for that. ``score`` decides which sums are kept. With a
    ``spectrum`` the columns are samples of fast signals, and what is learned are their band powers.
    ``categories`` are the words of columns that hold words (``mode``: auto, manual); each is a
    feature of its own (``mode=auto``), 1 in rows that have it and 0 in others.
    """

    layer: HiddenLayer
    outputs: int
    features: tuple[str, ...] | None = None
    scaling: Scaling = field(default_factory=Scaling)
    window: int = 1
    score: str = "loss"
    spectrum: Spectrum | None = None
    categories: Words = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "categories", fixed_words(self.categories))
        object.__setattr__(self, "outputs", require_whole("outputs", self.outputs, 1))
        object.__setattr__(self, "window", require_whole("window", self.window, 1))
        if self.score not in SCORES:
            raise BadInput(f"score must be one of {', '.join(SCORES)}, not {self.score!r}")
        if self.score == "distance" and self.layer.activation != "identity":
            raise BadInput(
                f"a distance needs a linear layer (activation identity, not "
                f"{self.layer.activation}): use score='loss'"
            )
        if self.score == "distance" and self.outputs != self.inputs:
            raise BadInput(f"{self.outputs} outputs, where a distance has {self.inputs} inputs")
        if self.layer.inputs % self.bands:
            raise BadInput(f"{self.layer.inputs} inputs are no multiple of {self.bands} bands")
        if self.features is not None and len(self.features) != self.columns:
            raise BadInput(
                f"{len(self.features)} feature names for {self.columns} columns of a row"
            )
        if not all(isinstance(name, str) for name in self.features or ()):
            raise BadInput("the names of features must be text")
        words = dict(self.categories)
        worded = features_of(list(words), words)
        if not set(worded) <= set(self.features or ()):
            raise BadInput(f"categories need a feature for each word, like {worded[0]!r}")
        scaled = len(self.scaling.tails if self.scaling.lacks_numbers else self.scaling.shift)
        if scaled != self.layer.inputs and (scaled or self.scaling.kind not in ("none", OWN)):
            raise BadInput(
                f"scaling of {scaled} columns for {self.layer.inputs} inputs of the layer"
            )

    @classmethod
    def fitted(
        cls,
        rows: Array,
        names: Sequence[str] | None,
        *,
        scaling: str,
        units: int | None = None,
        window: int = 1,
        score: str | None = None,
        spectrum: Spectrum | None = None,
        categories: Categories | None = None,
        **layer: Any,
    ) -> "Basis":
        """Makes a detector's basis for rows like these.

        ``layer`` holds settings of the layer. With a ``spectrum`` the rows are samples, and the
        scaling is fitted to their spectra.
        """
        featured = _featured(rows, spectrum)
        columns = featured.shape[1]
        if columns * window > MOST_INPUTS:
            side_by_side = f" in windows of {window} rows" if window > 1 else ""
            raise BadInput(
                f"{columns:,} columns{side_by_side} are more than the {MOST_INPUTS:,} inputs that "
                "one detector can have: choose some (--columns, --drop), or a smaller window; are "
                "rows and columns the wrong way round?"
            )
        score = score or default_score(layer.get("activation", "identity"))
        made = HiddenLayer(
            columns, units or suggested_units(columns * window, score, window), **layer
        )
        # Where mixtures stand for many columns, what one has of its own is known the less the
        # heavier its tails. Windows need none: what is rare is what they are to find.
        tails = score == "distance" and window == 1 and made.units < columns
        fitted = Scaling.fitted(scaling, featured, tails)
        features = None if names is None else tuple(names)
        words = fixed_words(categories or {})
        return cls(made, columns * window, features, fitted, window, score, spectrum, words)

    def in_units_of(self, rows: Array) -> "Basis":
        """Gives this basis in the units of a device that has rows like these.

        ``BadInput`` unless each device has its own.
        """
        if self.scaling.kind != OWN:
            raise BadInput(
                f"units_from: the scaling ({self.scaling.kind}) has the same numbers for all "
                "devices; only in own units each takes its own"
            )
        if not len(rows):
            raise BadInput("no rows to take own units from")
        # How heavy tails are does not depend on units: all devices have them in common.
        found = Scaling.fitted(OWN, _featured(rows, self.spectrum))
        return replace(self, scaling=replace(found, tails=self.scaling.tails))

    @property
    def common(self) -> "Basis":
        """The basis as all devices of a federation have it: without the numbers of own units."""
        scaling = self.scaling.common
        return self if scaling is self.scaling else replace(self, scaling=scaling)

    @property
    def bands(self) -> int:
        """The values that each column becomes: as many as the spectrum has bands, or one."""
        return 1 if self.spectrum is None else self.spectrum.bands

    @property
    def columns(self) -> int:
        """The columns of a row as it comes, before a spectrum makes more of them."""
        return self.layer.inputs // self.bands

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what one row becomes: its columns, or the bands of their spectra."""
        names = self.features or tuple(f"column {i}" for i in range(self.columns))
        return names if self.spectrum is None else self.spectrum.names(names)

    @property
    def counted(self) -> str:
        """What is learned and judged one by one, in a word: rows, or frames of samples."""
        return "rows" if self.spectrum is None else "frames"

    def frames_in(self, rows: int) -> int:
        """Counts what so many rows that follow each other are learned as: whole frames, if any."""
        if self.spectrum is None:
            return rows
        return max((rows - self.spectrum.length) // self.spectrum.step + 1, 0)

    def span(self, first: int, end: int) -> slice:
        """Finds the rows of a stretch in which its frames from ``first`` to before ``end`` lie."""
        if self.spectrum is None or end <= first:
            return slice(first, end)
        step = self.spectrum.step
        return slice(first * step, (end - 1) * step + self.spectrum.length)

    @property
    def inputs(self) -> int:
        """The values of one input: the columns of a row times the rows of a window."""
        return self.layer.inputs * self.window

    @cached_property
    def hidden(self) -> HiddenLayer:
        """The hidden layer for inputs of this basis, as wide as the window makes them."""
        return self.layer if self.window == 1 else replace(self.layer, inputs=self.inputs)

    @property
    def fields(self) -> dict[str, Any]:
        """The basis as JSON holds it."""
        words = {name: list(some) for name, some in self.categories}
        return ({"categories": words} if words else {}) | {
            "layer": self.layer.fields,
            "outputs": self.outputs,
            "features": None if self.features is None else list(self.features),
            "scaling": self.scaling.fields,
            "window": self.window,
            "score": self.score,
            "spectrum": None if self.spectrum is None else self.spectrum.fields,
        }

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Basis":
        """Makes a basis of what ``fields`` gave."""
        features = fields["features"]
        if features is not None and not isinstance(features, list):
            raise BadInput(f"features must be a list of names or null, not {features!r:.60}")
        return cls(
            HiddenLayer(**fields["layer"]),
            fields["outputs"],
            None if features is None else tuple(features),
            Scaling.from_fields(fields["scaling"]),
            fields["window"],
            fields["score"],
            None if fields["spectrum"] is None else Spectrum.from_fields(fields["spectrum"]),
            fields.get("categories", ()),
        )

    @cached_property
    def fingerprint(self) -> str:
        """A short text that is equal exactly when the bases are; part of every message.

        Own units are no part of it: each device has others.
        """
        return fingerprint(self.common.fields)

    def require(self, other: "Basis") -> None:
        """Raises ``Mismatch``, with each field that differs, unless the two are equal."""
        if self is other or self.fingerprint == other.fingerprint:
            return
        lines = "\n  ".join(differences(self.common.fields, other.common.fields))
        raise Mismatch(
            "can't merge what was learned in different ways "
            f"({self.fingerprint[:8]} here, {other.fingerprint[:8]} there):\n  {lines}"
        )


def default_score(activation: str) -> str:
    """Says which score fits a layer: the distance for a linear one, else the loss."""
    return "distance" if activation == "identity" else "loss"


def _featured(rows: Array, spectrum: Spectrum | None) -> Array:
    """The rows that are scaled: these, or the spectra of these samples."""
    if spectrum is None:
        return rows
    featured = spectrum.rows_of(rows)
    if not len(featured):
        raise BadInput(f"fewer samples than one frame of {spectrum.length} has")
    return featured
