"""The transactional side of a session: the open transaction, its count, the statement's own one, savepoints, triggers.

Knows when a transaction begins and ends and what of a failed statement is undone. Knows nothing of statements and of
requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errortexts import sql_error
from .locks import Owner
from .options import Options
from .sqltypes import Sink, Work
from .storage import Table, Transaction

if TYPE_CHECKING:
    from .engine import Engine


class Transactions:
    """What a session is to locks and storage."""

    id: int
    work: Work

    def __init__(self, engine: Engine) -> None:
        self.engine: Engine = engine
        self.options: Options = Options()
        self.owner: Owner = Owner(self)
        """Holds the locks that belong to the session itself."""
        self.applocks: dict[Owner, dict[Any, list[str | None]]] = {}
        self.sink: Sink | None = None
        self.tx: Transaction | None = None
        self.trancount: int = 0
        self.transaction_name: str | None = None
        self.defines: bool = False
        """Whether the transaction has changed a definition."""
        self._descriptor = 0
        self._auto: Transaction | None = None
        self._local: Transaction | None = None

    @property
    def transaction_descriptor(self) -> int:
        return self._descriptor

    @property
    def doomed(self) -> bool:
        return self.tx is not None and self.tx.doomed

    @property
    def running(self) -> Transaction | None:
        """The running statement's own transaction, if it has one."""
        return self._auto

    def current(self) -> Transaction:
        """The transaction of the running statement: the open one, else one of its own."""
        if self.tx is not None:
            return self.tx
        if self._auto is None:
            self._auto = self.engine.instance.begin(self, self.options.isolation)
        return self._auto

    def transaction_for(self, table: Table) -> Transaction:
        """Table variables (they have no schema) take no part in transactions: each statement counts for itself."""
        if table.schema:
            return self.current()
        if self._local is None:
            self._local = self.engine.local.begin(self.engine.quiet, "READ COMMITTED")
        return self._local

    def end_statement(self) -> None:
        auto, self._auto = self._auto, None
        local, self._local = self._local, None
        if auto is not None:
            self.defines = False
            auto.commit()
        elif self.tx is not None:
            self.tx.end_statement()
        if local is not None:
            local.commit()

    def undo_statement(self, tx: Transaction | None, mark: int) -> None:
        """Undoes what the failed statement has done. mark: where in the open transaction it began."""
        auto, self._auto = self._auto, None
        local, self._local = self._local, None
        if auto is not None:
            auto.rollback()
        if local is not None:
            local.rollback()
        if tx is not None and self.tx is tx:
            tx.undo_to(mark)
            tx.end_statement()
        self._undone()

    def _undone(self) -> None:
        """What has been undone may have been a definition."""
        if self.defines:
            self.engine.changed()

    def start_implicitly(self) -> None:
        if self.options.implicit and self.tx is None:
            self._open(self.sink)

    def _open(self, sink: Sink | None) -> None:
        self.tx = self.engine.instance.begin(self, self.options.isolation)
        self.trancount, self.transaction_name = 1, None
        self._descriptor = self.tx.id
        if sink is not None:
            sink.transaction_begun(self._descriptor)

    def begin_transaction(self, sink: Sink | None, name: str | None = None) -> None:
        if self.doomed:
            raise sql_error(3930)
        if self.tx is not None:
            self.trancount += 1
            return
        self._open(sink)
        self.transaction_name = name
        self.trancount += self.options.implicit  # the implicit one, and this one in it

    def commit_transaction(self, sink: Sink | None) -> None:
        tx = self.tx
        if tx is None:
            raise sql_error(3902)
        if tx.doomed:
            raise sql_error(3930)
        self.trancount -= 1
        if self.trancount == 0:
            self.tx, self.defines = None, False
            self.applocks.pop(tx, None)
            tx.commit()
            self._tell_end(sink, committed=True)

    def rollback_transaction(self, sink: Sink | None, name: str | None = None) -> None:
        """name: a savepoint, or the transaction itself by the name that its BEGIN gave it."""
        if self.tx is None:
            raise sql_error(3903)
        if name is None or name == self.transaction_name:
            self.rollback_all(sink)
        elif self.tx.doomed:
            raise sql_error(3931)
        else:
            self.tx.rollback_to(name)
            self._undone()

    def save_transaction(self, name: str) -> None:
        if self.tx is None:
            raise sql_error(628)
        if self.tx.doomed:
            raise sql_error(3930)
        self.tx.save(name)

    def rollback_all(self, sink: Sink | None) -> None:
        tx, self.tx, self.trancount = self.tx, None, 0
        if tx is not None:
            self.applocks.pop(tx, None)
            tx.rollback()
            self._undone()
            self.defines = False
            self._tell_end(sink, committed=False)

    def _tell_end(self, sink: Sink | None, *, committed: bool) -> None:
        descriptor, self._descriptor = self._descriptor, 0
        if sink is not None and descriptor:
            sink.transaction_ended(descriptor, committed=committed)

    def lose_transaction(self) -> None:
        """A victim is rolled back at once, so that others go on; what is left of it can only be rolled back."""
        if self.tx is not None:
            self.applocks.pop(self.tx, None)
            self.tx.rollback()
            self._undone()
            self.tx = self.engine.instance.begin(self, self.options.isolation)
            self.tx.doomed = True

    def enter_trigger(self) -> bool:
        """Inside a trigger the statement's own transaction is an open one. Tells whether it was the statement's."""
        if self.tx is not None:
            return False
        self.tx, self._auto = self.current(), None
        self.trancount = 1
        return True

    def leave_trigger(self, own: bool, tx: Transaction | None) -> None:
        if own and self.tx is not None and self.tx is tx:
            self._auto, self.tx, self.trancount = self.tx, None, 0

    @property
    def lock_timeout(self) -> int:
        return self.options.lock_timeout

    @property
    def deadlock_priority(self) -> int:
        return self.options.deadlock_priority

    def set_isolation(self, level: str) -> None:
        self.options.isolation = level
        if self.tx is not None:
            self.tx.isolation = level

    def restore(self, options: Options) -> None:
        """At the end of a scope: SET statements inside it are undone."""
        self.options = options
        self.set_isolation(options.isolation)
