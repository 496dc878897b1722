from typing import Any

from numpy.typing import NDArray

def compute_class_weight(
    class_weight: dict[Any, float] | str | None, *, classes: Any, y: Any
) -> NDArray[Any]: ...
