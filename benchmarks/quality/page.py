"""The page of the docs: what was measured, where and when, in tables."""

from collections.abc import Sequence
from typing import Any

from benchmarks.quality import after_learn, drift, first_day, pairs, poison
from benchmarks.quality.kinds import APART, DEALT, LEVEL, MEMORY, SHARE
from benchmarks.quality.kinds import BLOCK as DEALT_BLOCK
from benchmarks.quality.machines import (
    BLOCK,
    FAULTY,
    LEAD,
    RESOLUTION,
    SINGLES,
    TRAINING_ROWS,
    ideal,
)
from benchmarks.quality.measure import FIRST_ROWS
from benchmarks.quality.peers import MOST_ROWS
from benchmarks.quality.report import Cells, measured, promises, targets
from benchmarks.quality.runs import FULL, PROMISES, Results
from benchmarks.quality.sets import SETS
from benchmarks.quality.targets import EVENTS_BEFORE, QUESTIONS_BEFORE, Reached, promised

_HEAD = """# Detection quality

[Docs](index.md) › Papers and results

Made by `make quality`: change `benchmarks/quality`, not this page. Every number is from one run,
with fixed splits and seeds, and every peer with its own defaults but for what is said below; the
section on promises may be from a later one, and has its own date.
"""
_WORDS = f"""
AUC and AP (average precision) are point by point: each test row counts by itself. Recall and false
alarms are at each method's own threshold for 1 %, from the rows learned: PyOD's `contamination`, a
quantile for Ledoit-Wolf and HalfSpaceTrees, the detector's own for Elmgrove; false alarms are the
median over devices. "± devices" is a standard deviation, "± seeds" the highest minus the lowest
over seeds of the mean over devices (on pairs each seed is another split as well); s are seconds to
learn and score one device with one thread, n devices.

- Columns are scaled by the rows learned: mean 0 and deviation 1, for HalfSpaceTrees 0 to 1.
- "w = 10": ten rows side by side as one input, equal for all; before the first it is repeated.
- Seeds: {FULL.own_seeds} of Elmgrove, {FULL.peer_seeds} of IForest and HalfSpaceTrees; on pairs 3
  of Elmgrove. Simulated machines: {FULL.seeds}, in up to {FULL.orders} orders of columns; peers
  have {FULL.seeds_with_peers} of these, in one order. A quick run has fewer.
- LOF and KNN learn at most {MOST_ROWS["LOF"]:,} rows, drawn at random with a fixed seed.
- PyOD's PCA divides by the variance of constant columns: it gets the others alone.
- HalfSpaceTrees learn on while they score, as they are meant to, and look at half of the rows
  learned where these are fewer than 500; all others are as fitted.
- "Elmgrove 0.1 (loss)" is the first release's score by its equations: the suggested units and
  standard scaling; on pairs the paper's units and no scaling.
- Pairs are those of `elmgrove paper ito2021`: Elmgrove learns one pattern on each of two devices
  and merges; peers learn both in one place, at most {pairs.PEERS_ROWS:,} rows of each, on every
  third pair of one split (n says on how many). Targets compare on the same pairs and splits.
- The stream: a detector made for the first {FIRST_ROWS:,} rows of a server, which then observes all
  rows from the first on; counted are rows while it watches.
- Fleets: each device in turn has learned so many of its rows (from two places of them; all, once)
  and all others all of theirs. Scaling and window are those of a federation made with the others'
  rows. Alone it uses none of them, by the loan how their readings move together (the default), by
  everyone one model of its rows and those of all.
- Mixtures: each device in turn has learned so many of its rows, and all others all of theirs; each
  rule chooses among those, and one model is made of their rows and its own (the policy `merged`);
  `named` is told who is of its kind. Precision and recall are of choosing the own kind. Pumps are
  machines of 8 sensors; levels of one kind are about {LEVEL} residual σ apart, those of other kinds
  {APART:.0f} σ in a third of the sensors, or they have other correlations; in time, a row remembers
  {MEMORY} of the last, and windows hold ten. A poisoned one has a fault of 6 residual σ in
  {SHARE:.0%} of its rows; it may send its sums as if it had 10⁶ times the rows, or 3 × everybody's
  sums and the fault in as large a share. Fans: blocks of {DEALT_BLOCK} rows of each fan, dealt to
  {DEALT} devices; only those of 12 cm can be tested. The tolerance of the rules (0.3 beyond chance)
  was chosen on pumps of other seeds, with how far the real devices are apart in sight.
- Poison: each server of SMD in turn has learned so many of its rows and borrows from the eleven
  others, the first of which lends what the server's own test anomalies would have taught it: in
  {poison.SHARE:.0%} of its rows, beside its own rows with a count 10⁶ times as large, beside 3 ×
  everybody's sums, 10³ times as far off, or nothing else. Recall is at the limit that 1 % of the
  normal test rows exceed. "Not there" is what that lender's absence changes: the scale of chance.
- Drift: a detector that has learned observes rows with its watch; nothing need be shown before it
  may speak. Fans (12 cm, each speed, in each of two silent rooms) learn {drift.FAN_ROWS} rows, see
  100 more, and then the noisy room, as Yamada and Matsutani 2023 (arXiv 2212.09637) have it. Beside
  the watch stand their centroids, as far as remembered: a row above the threshold for 1 % of a loss
  starts a check of W rows, whose centroid is compared with that of the rows learned; drift is an L1
  distance beyond mean + 1 deviation of the learned rows' own. Machines of 8 sensors, whose rows
  remember so much of the last one, learn {drift.LEARNED:,} rows and see {drift.BEFORE}; then one
  sensor is {drift.STEP:.0f} residual σ off for good (change), moves one σ in {drift.RAMP} rows
  (drift), or is off for {drift.SPIKE_ROWS} rows (spike). "Onset off by" counts rows. No change: 10⁵
  rows of the machine; of a fan, rows mixed of two blocks of {drift.FAN_BLOCK} of its recording, so
  that none comes twice. What the watch allows, and how sure it must be, was chosen on simulated
  rows of other laws and seeds, with the fans at medium speed in sight.
- Simulated machines learn {TRAINING_ROWS:,} rows, see {LEAD} more normal ones, and then faults:
  blocks of {BLOCK} rows and {SINGLES} single rows, {FAULTY} times, each time of another sensor if
  there is one. A residual σ is the standard deviation of a sensor given the others, from the true
  covariance; a constant column's is {RESOLUTION} of its unit. Flagged is what `observe` calls
  anomalous, counted from the first faulty row on; for peers, what is above their threshold.
  How much warm-up and drift weigh was set so that the true law sees most of the faults. A target
  is judged on the rows of all faults of a machine together; the worst one fault stands beside it.
  "The true law" is a Mahalanobis distance that knows mean and covariance: what such a distance of
  one row can reach at most. For faults of 6 σ at 1 % that is {ideal(4):.1%} of rows with 4
  sensors, {ideal(8):.1%} with 8, {ideal(16):.1%} with 16.
"""


_PROMISES = "## Promises on real machines"
_ALONE = " ".join(f'--only "{part}"' for part in PROMISES)
_PROMISED = f"""
To measure this section alone: `python -m benchmarks.quality {_ALONE}`.

- Even and odd are a device's place in its file. The constants of the first day's rules were chosen
  on the even devices, and its targets are judged on the odd ones, whose figures were in sight
  meanwhile: what unseen devices show may lie between the two. After learn, a target for false
  alarms must hold on all devices and on the odd ones.
- First day: an agent that nobody taught. Its detector is made from the first {first_day.MADE_FROM}
  rows, and observes one row at a time: {first_day.BEFORE} normal rows, the longest labelled stretch
  of the device (at most {first_day.FAULT} rows), {first_day.BETWEEN} normal rows, and the same
  stretch again. Nobody answers its questions. Told: at least one anomalous row while an event is
  open. Asked: a question was put during the stretch, the first time. Learned: the share of the
  stretch's rows that went into the model, the first time. What it costs is counted with another
  agent, which sees up to {first_day.NORMAL:,} normal rows and nothing else. Devices are those of
  SMD, TEP, SMAP/MSL and NAB with at least {first_day.BEFORE + first_day.BETWEEN} rows to learn.
  The rules before these (commit 14a61d8), measured alike on the odd devices, had {QUESTIONS_BEFORE}
  questions and {EVENTS_BEFORE} events in 1,000 normal rows.
- After learn: a device is taught all its rows to learn, and then sees its test rows. By score is
  what `elmgrove score` does: the threshold stays as it was after learning. As a stream is what an
  agent does: it learns on, so what comes slowly (C-MAPSS, engines that wear), or is most of what it
  sees (digits and breast cancer, whose rows come in random order), is told less. Of SMD the first
  {after_learn.SERVER_ROWS:,} test rows; of C-MAPSS rows with label 2 are not judged.
- Silencing: each device learns its normal rows, and is tested alone, with all others by name, and
  with all others at once, as a server tells of them.
"""


def page(results: Results, reached: Sequence[Reached], about: dict[str, Any]) -> str:
    """Writes the page in Markdown."""
    others = [one for one in reached if one.part not in PROMISES]
    parts = [_HEAD, _where(about), "", "## Targets", "", *_table(targets(others)), ""]
    parts += ["![AUC by set, and faults flagged](quality.png)", "", "## How", _WORDS]
    parts += [f"- {one.name}: {one.about}." for one in SETS.values()]
    if about["not there"]:
        parts.append(f"- Not in the data folder, so not measured: {', '.join(about['not there'])}.")
    parts += [f"- Failed: {failure}" for failure in results.failures]
    for cells in measured(results):
        parts += ["", f"## {cells.title}", "", *_table(cells)]
    return with_promises("\n".join(parts) + "\n", results, about)


def with_promises(text: str, results: Results, about: dict[str, Any]) -> str:
    """Gives a page with the section on promises by these results, in the place of any other."""
    found = promises(results)
    if not found:
        return text
    parts = [_PROMISES, "", _where(about), "", *_table(targets(promised(results))), _PROMISED]
    for cells in found:
        parts += [f"### {cells.title}", "", *_table(cells), ""]
    before, _, after = text.partition("## How\n")
    return f"{before.partition(_PROMISES)[0]}{chr(10).join(parts)}\n## How\n{after}"


def _where(about: dict[str, Any]) -> str:
    """Says when, and on which machine with which packages."""
    packages = ", ".join(f"{name} {version}" for name, version in sorted(about["packages"].items()))
    return (
        f"{about['date']}, {about['processor']}, {about['cores']} cores, Python {about['python']}, "
        f"{packages}{'; **a quick run**' if about['quick'] else ''}."
    )


def _table(cells: Cells) -> list[str]:
    rule = "|".join("---" for _ in cells.head)
    lines = ["| " + " | ".join(row) + " |" for row in (cells.head, *cells.rows)]
    return [lines[0], f"|{rule}|", *lines[1:]]
