"""Figure 18: how many sequential updates a device needs to learn what a merge gives it at once.

Device-A knows laying and Device-B walking. Device-B learns Device-A's rows one by one, or merges
them. Since a merge is exact, both are the same model once all rows are learned: the loss of the
sequential one comes down to the merged one's, and how early depends on what counts as there.
"""

from collections.abc import Sequence

from elmgrove_papers.figure import Numbers, Run
from elmgrove_papers.ito2021.activities import LAYING, activities, learned, tested
from elmgrove_papers.ito2021.losses import B, two_devices
from elmgrove_papers.ito2021.settings import HAR

WALKING, EVERY = "WALKING", 50
#: "As low as": within such shares of the merged model's loss.
WITHIN = (0.5, 0.1, 0.05, 0.01, 0.0)
#: Where the paper's lines meet, approximately.
PAPER = 650


def figure18(run: Run) -> Numbers:
    """Loss on laying at Device-B, every 50 updates, and where it is as low as the merged one."""
    data = activities(run)
    new, known, tests = learned(data, LAYING), learned(data, WALKING), tested(data, LAYING)
    basis = HAR.basis(data.width)
    fleet = two_devices(basis, new, known)
    fleet.sync()
    merged = float(fleet.detector(B).score_many(tests).mean())

    device = two_devices(basis, new, known).detector(B)
    found = {0: float(device.score_many(tests).mean())}
    for start in run.track(range(0, len(new), EVERY), "Sequential updates"):
        for row in new[start : start + EVERY]:
            device.learn_one(row)
        found[min(start + EVERY, len(new))] = float(device.score_many(tests).mean())
    return {
        "crossing": {
            f"within {share:.0%}" if share else "not above": {
                "updates": first_at(list(found.items()), (1.0 + share) * merged),
                "paper": PAPER,
            }
            for share in WITHIN
        },
        "loss": [
            {"updates": updates, "sequential": loss, "merged": merged}
            for updates, loss in found.items()
        ],
        "features": data.width,
    }


def first_at(losses: Sequence[tuple[int, float]], limit: float) -> int | None:
    """After how many updates the loss is first that low; None where it never is."""
    # At the end both models rest on the same rows: rounding must not keep them apart.
    return next((updates for updates, loss in losses if loss <= limit * (1.0 + 1e-6)), None)
