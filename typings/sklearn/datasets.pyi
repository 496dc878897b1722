from typing import Any, Literal

from numpy.typing import NDArray

def load_digits(*, return_X_y: Literal[True]) -> tuple[NDArray[Any], NDArray[Any]]: ...
