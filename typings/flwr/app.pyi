# What Elmgrove uses of Flower, which lives in an environment of its own.
from collections.abc import Mapping, MutableMapping
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

class Array:
    def __init__(self, ndarray: NDArray[Any]) -> None: ...
    def numpy(self) -> NDArray[np.uint8]: ...

class ArrayRecord(MutableMapping[str, Array]):
    def __init__(self, array_dict: dict[str, Array]) -> None: ...
    def __getitem__(self, key: str) -> Array: ...
    def __setitem__(self, key: str, value: Array) -> None: ...
    def __delitem__(self, key: str) -> None: ...
    def __iter__(self) -> Any: ...
    def __len__(self) -> int: ...

class ConfigRecord(dict[str, Any]): ...

class RecordDict(dict[str, ArrayRecord | ConfigRecord]):
    @property
    def array_records(self) -> Mapping[str, ArrayRecord]: ...
    @property
    def config_records(self) -> Mapping[str, ConfigRecord]: ...

class Metadata:
    src_node_id: int
    dst_node_id: int
    message_type: str
    reply_to_message_id: str

class Error:
    code: int
    reason: str
    def __init__(self, code: int, reason: str) -> None: ...

class Message:
    metadata: Metadata
    content: RecordDict
    error: Error
    @overload
    def __init__(
        self,
        content: RecordDict,
        dst_node_id: int,
        message_type: str,
        *,
        group_id: str | None = None,
    ) -> None: ...
    @overload
    def __init__(self, content: RecordDict | Error, *, reply_to: Message) -> None: ...
    def has_error(self) -> bool: ...

class Context:
    node_id: int
    node_config: dict[str, str | int | float | bool]
    run_config: dict[str, str | int | float | bool]
    state: RecordDict
