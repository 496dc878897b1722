"""§5.4: bytes that a device sends and receives, for one merge and for R rounds of BP-NN3-FL."""

import numpy as np

from elmgrove.exchange import MemoryExchange
from elmgrove.federation import Charter
from elmgrove_papers.data.har import FEATURES
from elmgrove_papers.figure import SEED, Numbers, Run
from elmgrove_papers.ito2021.losses import A, B
from elmgrove_papers.ito2021.networks import begin
from elmgrove_papers.ito2021.online import packed
from elmgrove_papers.ito2021.settings import HAR, MNIST, ROUNDS, Setting

#: Rows that the messages rest on: they count for no more than the digits of their number.
ROWS = 1000


def communication(run: Run) -> Numbers:
    """From the sizes of real messages, with Table 2's features; no data is read."""
    sizes = {"HAR": (HAR, FEATURES), "MNIST": (MNIST, 784)}
    return {
        "bytes a device": {
            f"{name}, {width} features": _bytes(setting, width)
            for name, (setting, width) in sizes.items()
        },
        "rounds": ROUNDS,
    }


def _bytes(setting: Setting, width: int) -> dict[str, Numbers]:
    up, down = _merge(setting, width)
    # The same numbers travel both ways, in each round.
    message = len(packed(ROWS, begin(width, setting.bp_nn3, (SEED,))))
    sent = {
        "one merge": (up, down),
        "BP-NN3-FL, a round": (message, message),
        "BP-NN3-FL": (ROUNDS * message, ROUNDS * message),
    }
    return {
        kind: {"up": one, "down": other, "times a merge": (one + other) / (up + down)}
        for kind, (one, other) in sent.items()
    }


def _merge(setting: Setting, width: int) -> tuple[int, int]:
    """What one of two devices sends, and what it gets back."""
    exchange = MemoryExchange(Charter("paper", setting.basis(width)))
    members = [exchange.charter.start(name) for name in (A, B)]
    for member, rows in zip(
        members, np.random.default_rng(SEED).uniform(size=(2, ROWS, width)), strict=True
    ):
        member.detector.learn_many(rows)
        exchange.publish(member.contribution())
    others = exchange.merged(A, None)
    # There is news for whoever knows nothing yet.
    assert others is not None
    return len(members[0].contribution().to_bytes()), len(others.to_bytes())
