"""Keeping a detector: its state file, and what it shows of itself."""

from typing import TYPE_CHECKING, Any

from elmgrove.detector.learner import Learner
from elmgrove.detector.progress import LEARNING
from elmgrove.errors import BadInput
from elmgrove.storage import FilePath, as_path, load, locked, seal, unseal, write

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector

# The columns that are named, of many.
_NAMED = 3


class Keeping(Learner):
    """A learner that can be saved, loaded and printed; ``Detector`` also decides."""

    def save(self, path: FilePath, name: str | None = None) -> None:
        """Saves all that it knows, atomically, as a state that the command and agents go on with.

        ``name`` is the device's; else that of the state which is there already, or the file's. What
        that state notes beside its detector stays. One that holds what others gave, or what was
        given away, is not replaced: that is for ``elmgrove.federation.Member``. The file holds
        recent rows, so only its owner may read it.
        """
        # Here, since it makes detectors itself.
        from elmgrove.detector.archive import STATE_FORMAT, pack_state

        path = as_path(path)
        with locked(path):
            beside = load(path, _beside) if path.exists() else {"name": path.stem}
            fields, arrays = pack_state(name or beside["name"], self)
            write(path, seal(STATE_FORMAT, beside | fields, arrays), private=True)

    @staticmethod
    def load(path: FilePath) -> "Detector":
        """Loads a detector that ``save``, the command or an agent saved.

        Of what others gave and lent nothing is loaded; where that is part of the model (the policy
        ``merged``) it is refused.
        """
        from elmgrove.detector.archive import detector_from_bytes

        return load(as_path(path), detector_from_bytes)

    def __repr__(self) -> str:
        basis, gate, rate = self.basis, self.gate, self.gate.policy.rate
        names = basis.names[:_NAMED] if basis.features else ()
        more = ", …" if names and len(basis.names) > _NAMED else ""
        columns = f"{basis.columns} column{'s' * (basis.columns > 1)}"
        named = f" ({', '.join(names)}{more})" if names else ""
        window = f", window {basis.window}" if basis.window > 1 else ""
        stated = "" if rate is None else f" at rate {rate:g}"
        outlook = f"scores above {gate.limit():.4g} are strange"
        if gate.state == LEARNING:
            outlook = f"{gate.rows_missing:,} more {basis.counted} until there are alarms"
        learned = f"{self.learned:,} {basis.counted} learned"
        return f"<Detector of {columns}{named}{window}: {gate.state}{stated}, {outlook}; {learned}>"


def _beside(blob: bytes) -> dict[str, Any]:
    """Reads what a state holds beside its detector; ``BadInput`` if that would not fit another."""
    from elmgrove.detector.archive import STATE_FORMAT

    fields, _ = unseal(STATE_FORMAT, blob)
    exchanged = [name for name in ("heard", "left", "merged", "published") if fields.get(name)]
    if exchanged:
        raise BadInput(
            f"the state of {fields['name']!r} holds more than a detector ({', '.join(exchanged)}), "
            "which would be lost; save to another file, or save its elmgrove.federation.Member"
        )
    return fields
