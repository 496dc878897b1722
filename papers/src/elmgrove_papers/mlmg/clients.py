"""Clients: what each device learns, with which layer and rule, and what it is tested with."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from elmgrove.algebra import Array, Basis, HiddenLayer
from elmgrove.detector import PatternRule
from elmgrove_papers.data import Labelled, Recording
from elmgrove_papers.data.fans import NORMAL
from elmgrove_papers.figure import SEED, Run

RIDGE = 1e-3
#: Hidden units and activation as in Ito 2021, Table 3; the fans are not in there.
UNITS = {"mnist": 64, "har": 128, "fans": 32, "celeba": 64, "dcase": 128}
#: Anomalous begins at this quantile of the losses on the rows a device learned.
QUANTILE = 0.99
#: Join is the default, which was chosen with an eye on the ROC-AUC on test rows (docs/papers.md).
RULE = PatternRule(most=10, start_rows=512, silhouette=0.05)
#: MLMG's MNIST: 0 to 8 are normal, two or five of them at each of five clients; 9 is not.
CASES: dict[int, list[tuple[int, ...]]] = {
    1: [(0, 1), (2, 3), (4, 5), (6, 7), (8, 0)],
    2: [tuple((first + step) % 9 for step in range(5)) for first in (0, 2, 4, 6, 8)],
}
ABNORMAL_DIGIT = 9
#: Walking, upstairs, downstairs and sitting are normal somewhere; standing and laying nowhere.
ACTIVITIES = [(0, 1), (2, 3), (3, 0)]
ABNORMAL_ACTIVITIES = (4, 5)
#: There are damaged fans of this size only; the others are tested with those of this room.
DAMAGED = "12cm"
DAMAGED_ROOM = "silentA"


@dataclass(frozen=True)
class Client:
    """Rows of a device: to learn; normal ones of its own and of its peers' patterns; anomalies.

    ``item`` consecutive rows are one thing to judge (a sound of several frames), by their mean.
    ``left_out`` are rows to learn from that no model learns: where there are any, they say where
    anomalous begins. ``rare_items`` is how many anomalies decisions are counted on, where they are
    a tenth of all clients' test items together; None: of this client's.
    """

    name: str
    train: Array
    own: Array
    peers: Array
    anomalies: Array
    item: int = 1
    left_out: Array = field(default_factory=lambda: np.empty((0, 0)))
    rare_items: int | None = None

    @property
    def rare(self) -> Array:
        """As many anomalies as make 10 % of the test rows, as in the paper."""
        tenth = max(len(self.own) // self.item // 9, 1)
        return self.anomalies[: (tenth if self.rare_items is None else self.rare_items) * self.item]


def third_left_out(client: Client) -> Client:
    """Leaves every third item out of learning, for the threshold; of a single one nothing.

    Rows of one recording are learned or left out together. On rows that it learned, a model with
    more units than rows has hardly any loss, and a threshold from there refuses everything. What a
    model without some of the rows loses on those would not do either: with about as many rows as
    units the loss on new rows changes by the row.
    """
    items = np.arange(len(client.train) // client.item)
    out = np.repeat(items % 3 == 1, client.item)
    return replace(client, train=client.train[~out], left_out=client.train[out])


def rare_together(clients: Sequence[Client]) -> list[Client]:
    """Draws anomalies that make 10 % of the test items of all clients together.

    Where each client has one test item or two, an anomaly each would be half of them.
    """
    held = [len(client.anomalies) // client.item for client in clients]
    normal = sum(len(client.own) // client.item for client in clients)
    drawn = np.random.default_rng(SEED).multivariate_hypergeometric(
        held, min(-(-normal // 9), sum(held))
    )
    return [
        replace(client, rare_items=int(count)) for client, count in zip(clients, drawn, strict=True)
    ]


def basis(data: str, width: int) -> Basis:
    """Makes the layer that all devices of a run share, for the papers' loss."""
    return Basis(HiddenLayer(width, UNITS[data], seed=SEED), width, score="loss")


def distance_basis(rows: Array) -> Basis:
    """Makes what a detector for such rows has unless told: the distance, scaling and all."""
    return Basis.fitted(rows, None, scaling="standard", seed=SEED)


def digits(data: Labelled, case: int, run: Run) -> list[Client]:
    """Makes MLMG's five clients of MNIST; quick: with fewer rows to learn and to test with.

    2500 rows each are as many as patterns need, and as leave nothing to borrow by distance.
    """
    thinned = data.thinned(run.at_most(1, 10))
    return _by_label(thinned, CASES[case], (ABNORMAL_DIGIT,), run.at_most(10**6, 2500))


def few_digits(data: Labelled, case: int) -> list[Client]:
    """Makes the same clients with 400 rows a digit."""
    most = 400 * len(CASES[case][0])
    return _by_label(data.thinned(5), CASES[case], (ABNORMAL_DIGIT,), most)


def activities(data: Labelled) -> list[Client]:
    """Makes three clients with two activities each, 400 rows an activity."""
    return _by_label(data, ACTIVITIES, ABNORMAL_ACTIVITIES, 800)


def _by_label(
    data: Labelled, known_labels: Sequence[tuple[int, ...]], abnormal: tuple[int, ...], most: int
) -> list[Client]:
    """Clients that know some labels each; each has at most so many training rows."""
    rng = np.random.default_rng(SEED)
    known = sorted({label for labels in known_labels for label in labels})
    anomalies = rng.permutation(data.test[np.isin(data.test_label, abnormal)])
    clients = []
    for number, labels in enumerate(known_labels):
        mine = rng.permutation(np.flatnonzero(np.isin(data.train_label, labels)))
        own = np.isin(data.test_label, labels)
        peers = np.isin(data.test_label, [label for label in known if label not in labels])
        train = data.train[mine[:most]]
        clients.append(
            Client(f"client-{number}", train, data.test[own], data.test[peers], anomalies)
        )
    return clients


def fans(recordings: Sequence[Recording]) -> list[Client]:
    """Makes a client for each size and room: learns each speed, is tested with runs through all."""
    rng = np.random.default_rng(SEED)
    normal = [one for one in recordings if one.damage == NORMAL]
    names = sorted({one.device for one in normal})
    runs = {
        name: _rows([r for r in normal if r.device == name and r.speed == "hmlo"]) for name in names
    }
    clients = []
    for name in names:
        steady = [r for r in normal if r.device == name and r.speed != "hmlo"]
        room = name.partition("-")[2] if name.startswith(DAMAGED) else DAMAGED_ROOM
        damaged = [r for r in recordings if r.damage != NORMAL and r.room == room]
        peers = np.vstack([rows for other, rows in runs.items() if other != name])
        anomalies = rng.permutation(_rows(damaged))
        clients.append(Client(name, rng.permutation(_rows(steady)), runs[name], peers, anomalies))
    return clients


def _rows(recordings: Sequence[Recording]) -> Array:
    return np.vstack([recording.rows for recording in recordings])
