"""The second node of a server, as tests hold it: its port, and the controls of what it gets from the primary.

Knows the cluster it belongs to; what happens in there is done in the servers' thread.
"""

from __future__ import annotations

from collections.abc import Callable

from .cluster import Cluster
from .endpoint import Endpoint
from .replication import Replication, State
from .runtime import LoopThread


class Replica(Endpoint):
    """A readable secondary: READ_ONLY, every query a snapshot, hints ignored, error 3906 on writes.

    A transaction becomes visible as a whole, with the row versions of the primary. ``lag``, ``pause`` and the like
    are about the way from the present primary to the present secondary, also after a change of roles.
    """

    cluster: Cluster

    @property
    def lag(self) -> float:
        """Seconds on the primary's clock from a commit to its being visible here. With 0 it is visible when the commit
        is answered. Set to another value, it counts for what is on its way too.
        """
        return self._replication.lag

    @lag.setter
    def lag(self, seconds: float) -> None:
        self._do(lambda: setattr(self._replication, "lag", seconds))

    @property
    def caught_up(self) -> bool:
        """Whether every commit of the primary is visible here."""
        return self._replication.caught_up

    def wait_caught_up(self, timeout: float = 10.0) -> None:
        """Waits, in real time. Raises TimeoutError."""
        self._replication.wait(timeout)

    def pause(self) -> None:
        """Nothing is applied any more."""
        self._do(lambda: self._replication.set(State.PAUSED))

    def cut(self) -> None:
        """Nothing leaves the primary any more: a failover can only lose it."""
        self._do(lambda: self._replication.set(State.CUT))

    def resume(self) -> None:
        """Ends a pause or a cut; what is due by now is applied at once."""
        self._do(lambda: self._replication.set(State.FLOWS))

    @property
    def _replication(self) -> Replication:
        return self.cluster.replication

    def _do(self, function: Callable[[], object]) -> None:
        thread: LoopThread = self._loop_thread
        if thread.running:
            thread.call(function)
        else:
            function()
