from flwr.app import ArrayRecord
from flwr.serverapp import Grid

class Strategy:
    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
    ) -> object: ...
