"""Text at the edge: owners as long as the column, halves of characters, and connection strings that are no text."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator

import pytest

from sqllease import (
    AsyncLeaseStore,
    AsyncSqlLease,
    LeaseConfigurationError,
    LeaseStore,
    LeaseValueError,
    ReplicaOptions,
    SqlLease,
    schema,
)
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import QUICK, Bench

LOCK = "\U0001f512"  # two UTF-16 units
RESTS = QUICK.but(hold_at_least=3600)

LONG_OWNERS = {
    "an emoji at the end": "o" * 126 + LOCK,
    "a blank where it is cut": "o" * 126 + " o",
    "nothing but an emoji a word": (LOCK + " ") * 42 + "oo",
    "as long as the column": "o" * 128,
}


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


# --- owners as long as the column ---


@pytest.mark.parametrize("owner", LONG_OWNERS.values(), ids=LONG_OWNERS.keys())
def test_a_lease_of_a_long_owner_can_rest_and_be_seen_and_be_broken(bench: Bench, owner: str) -> None:
    assert len(owner.encode("utf-16-le")) // 2 == 128
    store = bench.store()
    lease = bench.lease(connection=store, owner_id=owner, options=RESTS)
    assert lease.try_acquire() is True
    assert lease.try_renew() is True
    assert lease.try_release() is True
    (info,) = store.list()
    assert info.resting
    assert owner.startswith(info.owner_id)
    assert len(info.owner_id.encode("utf-16-le")) // 2 >= 125
    assert [seen.owner_id for seen in (store.get("job"),) if seen] == [info.owner_id]
    other = bench.lease(connection=store)
    assert other.try_acquire() is False
    assert other.holder is not None
    assert other.holder.resting
    assert lease.try_acquire() is False
    assert store.break_lease("job", owner) is not None
    assert other.try_acquire() is True


# --- halves of characters that others have written ---

HALF = "NCHAR(55357)"


def write(bench: Bench, owner: str, metadata: str, seconds: int) -> None:
    """A row of somebody else's making, that expires in so many seconds."""
    bench.server.execute(
        "INSERT INTO [lease].[Leases] (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc, Metadata)"
        f" SELECT N'job', {owner}, n.t, n.t, DATEADD(second, {seconds}, n.t), {metadata}"
        " FROM (SELECT CAST(SYSUTCDATETIME() AS datetimeoffset(7)) AS t) AS n"
    )


def one_clear_error(call: Callable[[], object]) -> None:
    with pytest.raises(LeaseConfigurationError, match="not valid UTF-16") as caught:
        call()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def test_half_a_character_in_the_metadata_is_one_clear_error_and_the_row_is_left_alone(bench: Bench) -> None:
    store = bench.store()
    lease = bench.lease(connection=store)
    write(bench, "N'other'", f"N'from ops' + {HALF}", 60)
    before = bench.row()
    for call in (lease.try_acquire, store.list, lambda: store.get("job"), lease.try_acquire):
        one_clear_error(call)
    assert not lease.held
    assert bench.row() == before
    bench.server.execute("UPDATE [lease].[Leases] SET Metadata = N'from ops'")
    assert lease.try_acquire() is False
    assert lease.holder is not None
    assert lease.holder.metadata == "from ops"


def test_half_a_character_in_the_metadata_of_an_expired_row_goes_with_the_take_over(bench: Bench) -> None:
    lease = bench.lease()
    write(bench, "N'other'", HALF, -60)
    assert lease.try_acquire() is True


def test_a_take_over_whose_answer_cannot_be_read_leaves_no_row_that_nobody_uses(bench: Bench) -> None:
    # The former owner is in the answer: the lease is won on the server, and nobody can be told of it.
    lease = bench.lease(options=RESTS)
    write(bench, f"N'other' + {HALF}", "NULL", -60)
    one_clear_error(lease.try_acquire)
    assert not lease.held
    assert bench.rows() == []
    assert lease.try_acquire() is True


# --- connection strings that are no text ---

BROKEN = "DRIVER={FreeTDS};SERVER=127.0.0.1;UID=sa;PWD=Zeb\udcffra;"

MAKERS: dict[str, Callable[[], object]] = {
    "SqlLease": lambda: SqlLease("job", BROKEN),
    "LeaseStore": lambda: LeaseStore(BROKEN),
    "AsyncSqlLease": lambda: AsyncSqlLease("job", BROKEN),
    "AsyncLeaseStore": lambda: AsyncLeaseStore(BROKEN),
    "replica": lambda: LeaseStore("SERVER=primary", replica=ReplicaOptions(BROKEN)),
    "ensure_created": lambda: schema.ensure_created(BROKEN),
    "verify": lambda: schema.verify(BROKEN),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_connection_string_with_half_a_character_is_refused_without_being_shown(
    make: Callable[[], object],
) -> None:
    # What Python makes of a byte that is no UTF-8 in an environment variable.
    with pytest.raises(LeaseValueError, match="connection string") as caught:
        make()
    error: BaseException | None = caught.value
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    told = [str(error), repr(error), repr(caught.value.__dict__), repr(caught.value.args)]
    told += traceback.format_exception_only(caught.value)
    assert [text for text in told if "Zeb" in text or "127.0.0.1" in text] == []
