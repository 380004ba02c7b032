"""The fence, proved by transfers between two rows of one table, while the lease is taken away at random moments.

Each transaction changes the same two rows, so that their commits stand in one order, which the journal shows. With
the fence no write of an ended tenure comes after the first write of a later one; without it some do.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pyodbc

from sqllease import LeaseError, LeaseLost, LeaseOptions, LeaseStore, SqlLease, schema
from sqllease.testing import LocalSqlServer
from sqllease.testing.drivers import find_driver

from . import quiet

OPTIONS = LeaseOptions(duration=20, command_timeout=5, lock_timeout=3, sweep_limit=0)
WORKERS = 4
START = 1_000_000


@dataclass(frozen=True, slots=True)
class Result:
    """tried: transfers begun. refused: those that the fence stopped. tenures: how many wrote. late: writes committed
    after the first one of a later tenure. whole: whether the two rows and the journal agree.
    """

    tried: int
    committed: int
    refused: int
    tenures: int
    late: int
    whole: bool


class _Bank:
    def __init__(self, server: LocalSqlServer, dsn: str, transfers: int, fenced: bool, seed: int) -> None:
        self.server, self.dsn, self.transfers, self.fenced = server, dsn, transfers, fenced
        self.chance = random.Random(seed)
        self.store = LeaseStore(dsn, max_connections=WORKERS + 1)
        self.tried = self.refused = 0
        self.lock = threading.Lock()
        self.errors: list[BaseException] = []

    @property
    def open(self) -> bool:
        return self.tried < self.transfers and not self.errors

    def work(self) -> None:
        """One worker: takes the lease, transfers a few times without looking, renews, and so on."""
        mine = pyodbc.connect(self.dsn, autocommit=False, timeout=20)
        lease = self.store.lease("bank", options=OPTIONS)
        try:
            while self.open:
                with suppress(LeaseError):
                    if not lease.try_acquire():
                        time.sleep(0.002)
                        continue
                    for _ in range(self.chance.randint(2, 8)):
                        if not self._transfer(lease, mine):
                            break
                    if self.chance.random() < 0.1:
                        lease.try_release()
                    else:
                        lease.try_renew()
        except BaseException as error:  # noqa: BLE001  told at the end, in the main thread
            self.errors.append(error)
        finally:
            mine.close()

    def steal(self) -> None:
        """Takes the lease away, by hand or by the server's clock, at random moments."""
        try:
            while self.open:
                time.sleep(self.chance.uniform(0.02, 0.1))
                if self.chance.random() < 0.5:
                    self.server.clock.advance(OPTIONS.duration + 1)
                    continue
                info = self.store.get("bank")
                if info is not None:
                    with suppress(LeaseError):
                        self.store.break_lease("bank", info.owner_id)
        except BaseException as error:  # noqa: BLE001
            self.errors.append(error)

    def _transfer(self, lease: SqlLease, mine: pyodbc.Connection) -> bool:
        """False: the fence says that the lease is lost."""
        token = lease.fencing_token
        if token is None or not self.open:
            return False
        with self.lock:
            self.tried += 1
        amount = self.chance.randint(1, 100)
        try:
            with lease.fenced(mine) if self.fenced else _unfenced(mine) as cursor:
                time.sleep(self.chance.uniform(0, 0.004))
                cursor.execute("UPDATE dbo.Accounts SET Balance = Balance - ? WHERE Id = 1", amount)
                cursor.execute("UPDATE dbo.Accounts SET Balance = Balance + ? WHERE Id = 2", amount)
                cursor.execute("INSERT INTO dbo.Journal (Token, Amount) VALUES (?, ?)", token, amount)
                time.sleep(self.chance.uniform(0, 0.004))
        except LeaseLost:
            with self.lock:
                self.refused += 1
            return False
        return True

    def result(self) -> Result:
        if self.errors:
            raise self.errors[0]
        journal = self.server.execute("SELECT Token, Amount FROM dbo.Journal ORDER BY Number")
        balances = self.server.execute("SELECT Balance FROM dbo.Accounts ORDER BY Id")
        moved = sum(int(str(amount)) for _, amount in journal)
        tokens = [int(str(token)) for token, _ in journal]
        late = sum(token < max(tokens[:number]) for number, token in enumerate(tokens) if number)
        whole = balances == [(START - moved,), (START + moved,)]
        return Result(self.tried, len(tokens), self.refused, len(set(tokens)), late, whole)


@contextmanager
def _unfenced(mine: pyodbc.Connection) -> Iterator[pyodbc.Cursor]:
    try:
        yield mine.cursor()
        mine.commit()
    except BaseException:
        mine.rollback()
        raise


def transfer(transfers: int, *, fenced: bool, seed: int = 1) -> Result:
    """So many transfers by several workers."""
    driver = find_driver("ms")
    assert driver is not None
    with quiet(), LocalSqlServer(tls=False, seed=seed) as server:
        server.execute(schema.create_script())
        server.execute("CREATE TABLE dbo.Accounts (Id int NOT NULL PRIMARY KEY, Balance int NOT NULL)")
        server.execute(f"INSERT INTO dbo.Accounts VALUES (1, {START}), (2, {START})")
        server.execute(
            "CREATE TABLE dbo.Journal (Number int IDENTITY(1, 1) NOT NULL PRIMARY KEY, "
            "Token bigint NOT NULL, Amount int NOT NULL)"
        )
        bank = _Bank(server, server.connection_string(driver=driver), transfers, fenced, seed)
        threads = [threading.Thread(target=bank.work, daemon=True) for _ in range(WORKERS)]
        threads.append(threading.Thread(target=bank.steal, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bank.store.close()
        return bank.result()


def fence(transfers: int = 1_000, seed: int = 1) -> bool:
    """With the fence, then without. Prints both; True when only the second shows late writes."""
    good = True
    for fenced in (True, False):
        began = time.monotonic()
        result = transfer(transfers, fenced=fenced, seed=seed)
        print(
            f"{'with' if fenced else 'without'} the fence: {result.tried} transfers, {result.committed} committed by "
            f"{result.tenures} tenures, {result.refused} refused; {result.late} committed after the first write of a "
            f"later tenure{'' if result.whole else '; THE BOOKS DO NOT AGREE'} ({time.monotonic() - began:.0f} s)"
        )
        good = good and result.whole and (result.late == 0) is fenced
    return good
