"""LocalSqlServer: an engine behind a TDS port on 127.0.0.1, run by an event loop in a daemon thread.

Ties port, engine and thread together, and the second node where there is one.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from .clock import ServerClock
from .cluster import Cluster
from .endpoint import Endpoint
from .engine import Engine
from .replica import Replica
from .runtime import LoopThread, Pump
from .tls import make_certificate


class LocalSqlServer(Endpoint):
    """A stand-in for SQL Server: real TDS, real locks and transactions, a subset of T-SQL over rows in memory.

    It is not SQL Server: what it does not understand it refuses with error 40517. All data is gone when it stops.
    ``replica=True`` gives it a second node, a readable secondary on a port of its own.
    """

    def __init__(
        self,
        *,
        database: str = "app",
        tls: bool = True,
        seed: int = 0,
        user: str = "sa",
        password: str = "Stand-in-1",
        replica: bool = False,
    ) -> None:
        thread = LoopThread()
        self.certificate: str | None = None
        """The server's own certificate as PEM, for clients that are to verify it; None without TLS."""
        context = None
        if tls:
            context, self.certificate = make_certificate()
        engine = Engine(database=database, seed=seed, user=user, password=password)
        super().__init__(thread, engine, database=database, user=user, password=password, tls_context=context)
        self._engines = [engine]
        self._pumps: list[Pump] = []
        self._replica: Replica | None = None
        if replica:
            clock = ServerClock(like=engine.clock)
            second = Engine(
                database=database, seed=seed, clock=clock, user=user, password=password, name=f"{engine.name}-2"
            )
            self._engines.append(second)
            self._replica = Replica(
                thread, second, database=database, user=user, password=password, tls_context=context
            )
            self._replica.cluster = Cluster(self, self._replica)

    # life

    def start(self) -> Self:
        """Opens a port that the system chooses and serves it. Data and log of an earlier start are still there."""
        if not self._loop_thread.started:
            self._loop_thread.start()
            self._loop_thread.run(self._start())
        return self

    def stop(self) -> None:
        """Cuts all links and closes the port. Does nothing when it has stopped, or in a forked child."""
        if self._loop_thread.running:
            try:
                self._loop_thread.run(self._stop())
            finally:
                self._loop_thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def _start(self) -> None:
        self._pumps = [Pump(engine, self.loop) for engine in self._engines]
        await (self.open() if self._replica is None else self._replica.cluster.open())

    async def _stop(self) -> None:
        await (self.close() if self._replica is None else self._replica.cluster.close())
        for pump in self._pumps:
            pump.close()

    # the second node

    @property
    def replica(self) -> Replica:
        """The second node's port, with connection strings, log, faults and clock of its own. Time that passes on the
        primary's clock passes on both; the secondary's clock, moved alone, is a skew.
        """
        if self._replica is None:
            raise RuntimeError("made without replica=True")
        return self._replica

    @property
    def read_only_routing(self) -> bool:
        """Whether a login to the primary with ApplicationIntent=ReadOnly is sent on to the secondary's port. Without a
        secondary the primary serves it itself.
        """
        return self.replica.cluster.routing

    @read_only_routing.setter
    def read_only_routing(self, on: bool) -> None:
        self.replica.cluster.routing = on

    def failover(
        self,
        *,
        lose_tail: bool = False,
        reissue: bool = False,
        clock_skew: float = 0.0,
        listener: bool = True,
        rejoin: bool = True,
    ) -> None:
        """Cuts all links, rolls back what is in flight and makes the secondary the primary. Returns when that is done.

        lose_tail: the commits that the secondary has not applied are lost; without it they are applied first, which
        RuntimeError refuses after a ``cut``.
        reissue: row versions of the lost tail are handed out again. Without it that happens only if more of them were
        lost than the engine reserves at a time (4,000); else they jump forward.
        clock_skew: seconds by which the new primary's clock runs ahead of the old one's.
        listener: the ports keep their roles, as behind a listener: this server's port is answered by the new primary,
        the replica's by the old one; engine and clock change places with them. Otherwise the nodes keep their ports,
        and the replica's port becomes the writable one.
        rejoin: the old primary comes back as the secondary, without what was lost. Otherwise it stays away and the
        secondary's port refuses connections until ``rejoin``.
        """
        cluster = self.replica.cluster
        self._loop_thread.run(
            cluster.failover(
                lose_tail=lose_tail, reissue=reissue, clock_skew=clock_skew, listener=listener, rejoin=rejoin
            )
        )

    def stop_secondary(self) -> None:
        """The secondary goes away: its port refuses connections, no log is kept for it."""
        self._loop_thread.run(self.replica.cluster.stop_secondary())

    def rejoin(self) -> None:
        """The node that is away comes back as the secondary, as a copy of the primary."""
        self._loop_thread.run(self.replica.cluster.rejoin())
