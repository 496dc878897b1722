"""Plain decimal numbers, many at once: three times as fast as reading them one by one."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Up to 15 digits are an exact whole number, as are the powers of ten: so their quotient is the
# number nearest to what is written, as it is if it is read by itself.
_DIGITS = 15
_POWERS = 10.0 ** np.arange(_DIGITS + 1)
# Cells that are read at once, so that they stay in the cache.
_PART = 1 << 15
_NEW_LINE, _ZERO, _MINUS = (ord(sign) for sign in "\n0-")


def decimals(
    text: bytes, delimiter: str, width: int, places: list[int], decimal: str = "."
) -> Array | None:
    """Reads the cells at these places of each line; None if any is not written like -12.5.

    Every line must have as many cells as the ``width`` says, and end with a line feed.

    >>> decimals(b"1;a;-2,50\\n3;b;4\\n", ";", 3, [2, 0], ",")
    array([[-2.5,  1. ],
           [ 4. ,  3. ]])
    """
    data = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero((data == ord(delimiter)) | (data == _NEW_LINE))
    if not len(ends) or len(ends) % width or ends[-1] + 1 != len(data):
        return None
    lasts = (data[ends] == _NEW_LINE).reshape(-1, width)
    if not lasts[:, -1].all() or lasts[:, :-1].any():
        return None
    starts = np.concatenate([[0], ends[:-1] + 1]).reshape(-1, width)[:, places].reshape(-1)
    ends = ends.reshape(-1, width)[:, places].reshape(-1)
    # A cell is looked at up to the length of the longest.
    padded = np.concatenate([data, np.zeros(_DIGITS + 2, np.uint8)])
    found = np.empty(len(ends))
    for first in range(0, len(ends), _PART):
        part = slice(first, first + _PART)
        values = _read(padded, starts[part], ends[part] - starts[part], ord(decimal))
        if values is None:
            return None
        found[part] = values
    return found.reshape(-1, len(places))


def _read(
    data: NDArray[np.uint8], at: NDArray[np.intp], length: NDArray[np.intp], point: int
) -> Array | None:
    """The numbers that begin at these places, by Horner's rule for all of them together."""
    longest = int(length.max())
    if longest > _DIGITS + 2:
        return None
    number, behind = np.zeros(len(at), np.int64), np.zeros(len(at), bool)
    digits, shift = np.zeros(len(at), np.int8), np.zeros(len(at), np.int8)
    negative = data[at] == _MINUS
    for place in range(longest):
        sign = data[at + place]
        digit = sign - np.uint8(_ZERO)
        inside = length > place
        is_digit, is_point = inside & (digit < 10), inside & (sign == point)
        number = np.where(is_digit, 10 * number + digit, number)
        digits += is_digit
        shift += is_digit & behind
        if (is_point & behind).any():
            return None
        behind |= is_point
    if (digits + behind + negative != length).any() or digits.min() < 1 or digits.max() > _DIGITS:
        return None
    return np.where(negative, -1.0, 1.0) * (number / _POWERS[shift])
