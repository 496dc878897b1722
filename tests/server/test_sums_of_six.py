"""What a device's key computes of another's rows, in a federation of six as it is made."""

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.algebra.moments import zero_evidence
from elmgrove.federation.charter import Charter
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from support.reconstruction import off, on_and_off, singled_out
from support.serving import Federation, Server

NAMES = [f"fan-{number}" for number in range(6)]
SPY, VICTIM = NAMES[0], NAMES[3]


def merged_at(fans: Federation, path: str) -> Merged:
    answer = fans.ask("GET", path, fans.keys[SPY])
    assert answer.status_code == 200, answer.text
    return Merged.from_bytes(answer.content)


@pytest.mark.parametrize("path", ["/merged", "/others"])
@pytest.mark.parametrize("guarded", [False, True])
def test_sums_over_others_do_not_give_rows_away(server: Server, path: str, guarded: bool) -> None:
    """Without the guard they do, at an upload each 60 rows: as many as it asked for before."""
    basis = Basis(HiddenLayer(8, 8), 8, score="distance")
    fans = server.found(Charter(f"six-{path[1:]}-{guarded}".lower(), basis))
    fans.enrol(*NAMES)

    def put(member: Member) -> None:
        given = member.offer(guarded=guarded)
        assert given is not None
        assert fans.put(given).status_code == 200

    members = {name: fans.charter.start(name) for name in NAMES}
    for seed, member in enumerate(members.values()):
        member.detector.learn_many(on_and_off(600 + seed, 0.01))
        put(member)
    rows, found = on_and_off(40 * 60, 0.01), set[int]()
    before = sum(merged_at(fans, path).parts, zero_evidence(basis))
    for start in range(0, len(rows), 60):
        members[VICTIM].detector.learn_many(rows[start : start + 60])
        put(members[VICTIM])
        after = sum(merged_at(fans, path).parts, zero_evidence(basis))
        guesses = singled_out(after, before, {6: (0.0, 1.0), 7: (0.0, 1.0)})
        if len(guesses):
            found |= set(np.flatnonzero(off(rows, guesses) < 1e-6).tolist())
        before = after
    assert (len(found) > 20) != guarded
    assert not (guarded and found)
