"""The rule of averages, on the server's side: what Fed-ELMS makes of its clients' β and P."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Factor,
    RoundModel,
    fedavg,
    first_model,
    mirrored,
)
from elmgrove.errors import NotAdmissible, SingularSystem
from elmgrove.federation import Merged
from elmgrove.rounds.compact import CompactModel
from elmgrove.rounds.evaluation import GlobalModel
from elmgrove.rounds.messages import COMPACT, PLAIN, Reply, require_bits
from elmgrove.rounds.rules import RoundRule, require_sender


class AverageRule(RoundRule[Reply]):
    """Averages β and P, weighted by rows (Fed-ELMS), for comparison with ``SumRule``.

    It needs a first batch of at least as many rows as hidden units. A reply that is lost is lost
    with its rows, which the client has thrown away. With 8 ``bits``, models travel as
    ``CompactModel`` both ways: an eighth of the bytes where the layer is large, a quarter where the
    header is most of it, and a client with few rows may change nothing.
    """

    def __init__(self, name: str, basis: Basis, X0: Any, T0: Any, *, bits: int = PLAIN) -> None:
        # Fed-ELMS' P is that of no ridge.
        super().__init__(name, basis, ridge=0.0)
        require_bits(bits)
        self._bits = bits
        self._rows = len(X0)
        self._origins = set[str]()
        self._set_model(first_model(basis.layer, X0, T0))

    def _set_model(self, model: RoundModel) -> None:
        if self._bits == COMPACT:
            small = CompactModel.of(self.basis, model)
            # The server goes on from what it sends, as the clients do.
            self._compact, model = small.to_bytes(), small.state
        self.task = replace(self.task, model=model)

    def request(self) -> bytes:
        """Gives β and P, in a task or compact."""
        return self._compact if self._bits == COMPACT else super().request()

    @property
    def model(self) -> RoundModel:
        """The current β and P."""
        assert self.task.model is not None
        return self.task.model

    def read(self, origin: str, reply: bytes) -> Reply | None:
        """Opens a client's update.

        Raises ``Mismatch``, ``NotAdmissible``, ``BadInput`` or ``BadFile`` if it can't be used.
        """
        if not reply:
            return None
        opened = self._opened(origin, reply)
        require_sender(origin, opened.origin)
        self.basis.require(opened.basis)
        require_invertible(origin, opened.update.P)
        return opened if opened.update.rows else None

    def _opened(self, origin: str, reply: bytes) -> Reply:
        if self._bits != COMPACT:
            return Reply.from_bytes(reply)
        small = CompactModel.from_bytes(reply)
        return Reply(origin, small.basis, small.update)

    def combine(self, replies: Sequence[Reply]) -> None:
        """Replaces β and P by the averages of equations (10) and (11)."""
        self._set_model(fedavg(reply.update for reply in replies))
        self._rows += int(sum(reply.update.rows for reply in replies))
        self._origins |= {reply.origin for reply in replies}

    def models(self) -> tuple[GlobalModel, ...]:
        """Gives the current β, which is there from the first batch on."""
        return (GlobalModel(self.model.beta, self._rows),)

    def gift(self, origin: str) -> bytes:
        """Gives nothing: the request has the model already."""
        return b""

    def merged(self) -> Merged:
        """Gives the evidence that has this β and P, by equation (15): U = P⁻¹, V = Uβ.

        An average is no sum over rows: the energy is the least that is possible, and the number of
        rows says how many went in, not that U has seen them.
        """
        beta, P = self.model
        U = mirrored(Factor(P, 0.0).inverse())
        V = U @ beta
        evidence = Evidence(self.basis, U, V, float(np.vdot(beta, V)), self._rows)
        return Merged(self.task.federation, self.rounds, len(self._origins), (evidence,))


def require_invertible(origin: str, P: Array) -> None:
    """Raises ``NotAdmissible`` if a client's P has no inverse: the average might have none."""
    try:
        Factor(P, 0.0)
    except SingularSystem as error:
        raise NotAdmissible(f"P of {origin!r} is not that of any rows: {error}") from error
