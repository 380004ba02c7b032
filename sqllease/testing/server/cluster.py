"""A primary and its secondary behind two ports: read-only routing, failover, and the node that comes back.

Knows which port has which role. What is replicated, and when, is the replication's business.
"""

from __future__ import annotations

from .endpoint import HOST, Endpoint, hang_up
from .replication import Replication, State
from .session import Session


class Cluster:
    """For the servers' thread."""

    def __init__(self, primary: Endpoint, secondary: Endpoint) -> None:
        self.primary, self.secondary = primary, secondary
        self.routing = True
        self.replication = Replication(primary.engine, secondary.engine)
        for endpoint in (primary, secondary):
            endpoint.router = self._route
        self._relate_clocks()

    @property
    def complete(self) -> bool:
        """Whether there is a secondary that follows."""
        return self.replication.state is not State.ENDED

    def _relate_clocks(self) -> None:
        """Time that passes on the primary passes on both; the secondary's clock moved alone is a skew."""
        self.primary.clock.followers = [self.secondary.clock]
        self.secondary.clock.followers = []

    def _route(self, session: Session) -> tuple[str, int] | None:
        """Read intent on a database that somebody follows goes to who follows."""
        wanted = self.routing and session.requested.read_only and session.database.on_commit is not None
        return (HOST, self.secondary.port) if wanted else None

    async def open(self) -> None:
        await self.primary.open()
        if self.complete:
            await self.secondary.open()

    async def close(self) -> None:
        await self.primary.close()
        await self.secondary.close()

    async def stop_secondary(self) -> None:
        self.replication.end(deliver=False)
        await self.secondary.close()

    async def rejoin(self) -> None:
        if not self.complete:
            self.replication = Replication(self.primary.engine, self.secondary.engine, self.replication.lag)
            await self.secondary.open()

    async def failover(
        self, *, lose_tail: bool, reissue: bool, clock_skew: float, listener: bool, rejoin: bool
    ) -> None:
        if not self.complete:
            raise RuntimeError("there is no secondary to fail over to")
        if self.replication.state is State.CUT and not lose_tail:
            raise RuntimeError("the secondary is cut off: a failover loses what has not been sent")
        if reissue and not lose_tail:
            raise ValueError("row versions are handed out again only where the tail is lost")
        await hang_up(self.primary, self.secondary)
        self.replication.end(deliver=not lose_tail)
        self.replication.promote(reissue=reissue)
        self.secondary.clock.advance(clock_skew)
        old, new = self.primary, self.secondary
        if listener:
            old.engine, new.engine = new.engine, old.engine
        else:
            self.primary, self.secondary = new, old
        self._relate_clocks()
        if rejoin:
            await self.rejoin()
        else:
            await self.secondary.close()
