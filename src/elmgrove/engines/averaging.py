"""Fed-ELMS in rounds: the average of what the clients of a round made of the model."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.cholesky import Factor, mirrored
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.fed_elms import State, begin, fedavg
from elmgrove.compact import CompactModel
from elmgrove.engines.federation import Federation, require_sender
from elmgrove.engines.reply import Reply
from elmgrove.errors import BadInput, NotAdmissible, SingularSystem
from elmgrove.federation import Merged

#: Bits of a number in a message: as it is, and in a compact model.
PLAIN, COMPACT = 64, 8


class Averaging(Federation[Reply]):
    """β and P go down, βᵏ and Pᵏ come up, and the average weighted by rows takes their place.

    It needs a first batch of at least as many rows as hidden units. A reply that is lost is lost
    with its rows: the client has thrown them away. For comparison with ``Summing``. With 8
    ``bits``, models travel as ``CompactModel`` both ways: an eighth of the bytes where the layer is
    large, a quarter where the header weighs, and a client with few rows may change nothing. A
    client answers as it was asked.
    """

    def __init__(self, name: str, basis: Basis, X0: Any, T0: Any, *, bits: int = PLAIN) -> None:
        # P is that of no ridge at all.
        super().__init__(name, basis, ridge=0.0)
        require_bits(bits)
        self._bits = bits
        self._rows = len(X0)
        self._origins = set[str]()
        self._begin(begin(basis.layer, X0, T0))

    def _begin(self, model: State) -> None:
        if self._bits == COMPACT:
            small = CompactModel.of(self.basis, model)
            # Nobody has more than what is sent, the server neither.
            self._request, model = small.to_bytes(), small.state
        self.task = replace(self.task, model=model)

    def request(self) -> bytes:
        """β and P, in a task or compact."""
        return self._request if self._bits == COMPACT else super().request()

    @property
    def model(self) -> State:
        """β and P as they are now."""
        assert self.task.model is not None
        return self.task.model

    def read(self, origin: str, reply: bytes) -> Reply | None:
        """The update; ``Mismatch``, ``NotAdmissible`` or ``BadFile`` if it can't be used."""
        if not reply:
            return None
        made = self._opened(origin, reply)
        require_sender(origin, made.origin)
        self.basis.require(made.basis)
        try:
            Factor(made.update.P, 0.0)
        except SingularSystem as error:
            # One of these in the average, and nobody could go on from it.
            raise NotAdmissible(f"P of {origin!r} is that of no rows: {error}") from error
        return made if made.update.rows else None

    def _opened(self, origin: str, reply: bytes) -> Reply:
        if self._bits != COMPACT:
            return Reply.from_bytes(reply)
        small = CompactModel.from_bytes(reply)
        return Reply(origin, small.basis, small.update)

    def combine(self, replies: Sequence[Reply]) -> None:
        """Equations (10) and (11)."""
        self._begin(fedavg(reply.update for reply in replies))
        self._rows += int(sum(reply.update.rows for reply in replies))
        self._origins |= {reply.origin for reply in replies}

    def gift(self, origin: str) -> bytes:
        """Nothing beyond the request, which has the model."""
        return b""

    def merged(self) -> Merged:
        """The evidence that has this β and P, by equation (15): U = P⁻¹, V = Uβ.

        An average is no sum over rows: the energy is the least that is possible, and the number of
        rows says how many went in, not that U has seen them.
        """
        beta, P = self.model
        U = mirrored(Factor(P, 0.0).inverse())
        V = U @ beta
        evidence = Evidence(self.basis, U, V, float(np.vdot(beta, V)), self._rows)
        return Merged(self.task.federation, self.rounds, len(self._origins), evidence)


def require_bits(bits: int) -> None:
    """Raises ``BadInput`` unless messages can be of that width."""
    if bits not in (PLAIN, COMPACT):
        raise BadInput(f"bits must be {COMPACT} or {PLAIN}, not {bits}")
