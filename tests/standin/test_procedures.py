"""System procedures: parameterised texts, prepared ones, application locks, and what drivers ask.

Right values are from Microsoft's documentation of each procedure; numbers of remote calls from MS-TDS.
"""

from __future__ import annotations

import pytest

from sqllease.testing.server.sqltypes import INT, RpcParameter, SqlType, Value, nvarchar, varchar
from tests.standin.desk import Desk, User


@pytest.fixture
def sa() -> User:
    return Desk().sa


def text(value: str | None) -> RpcParameter:
    return RpcParameter("", nvarchar(), value)


def number(value: int | None, *, name: str = "", output: bool = False) -> RpcParameter:
    return RpcParameter(name, INT, value, output)


# --- sp_executesql ---------------------------------------------------------------------------------------


def test_a_text_gets_its_parameters_and_gives_them_back(sa: User) -> None:
    """sp_executesql (Transact-SQL): by place or by name, OUTPUT on both sides."""
    answer = sa.ok(
        """
        DECLARE @sum int = 0, @rc int;
        EXEC @rc = sp_executesql N'SET @s = @a + @b; SELECT @a', N'@a int, @b int, @s int OUTPUT', 1, @b = 2, @s =
            @sum OUTPUT;
        SELECT @sum, @rc;
        """
    )
    assert answer.results == [[(1,)], [(3, 0)]]


def test_a_text_does_not_see_the_variables_around_it(sa: User) -> None:
    """sp_executesql: self-contained batch."""
    assert sa.run("DECLARE @x int = 1; EXEC sp_executesql N'SELECT @x'").numbers == [137]


@pytest.mark.parametrize(
    ("call", "number_"),
    [
        ("EXEC sp_executesql N'SELECT @a', N'@a int'", 8178),
        ("EXEC sp_executesql N'SELECT @a', N'@a int', @b = 1", 8145),
        ("EXEC sp_executesql N'SELECT @a', N'@a int', 1, 2", 8144),
        ("EXEC sp_executesql N'SELECT 1 +'", 102),
        ("EXEC dbo.nowhere", 2812),
        ("EXEC sp_who", 40517),
        ("EXEC sp_getapplock", 201),
        ("EXEC sp_getapplock N'a', 'Shared', @nix = 1", 8145),
    ],
)
def test_calls_that_do_not_fit(sa: User, call: str, number_: int) -> None:
    assert sa.run(call).numbers == [number_]


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        ("EXEC sp_executesql 'SELECT 1'", "@statement"),
        ("EXEC sp_executesql @stmt = 'SELECT 1'", "@statement"),
        ("EXEC sp_executesql NULL", "@statement"),
        ("DECLARE @s varchar(40) = 'SELECT 1'; EXEC sp_executesql @s", "@statement"),
        ("EXEC sp_executesql N'SELECT @a', '@a int', 1", "@params"),
    ],
)
def test_a_text_and_its_declarations_are_unicode(sa: User, call: str, parameter: str) -> None:
    """sp_executesql (Transact-SQL): a Unicode constant or a Unicode variable; character constants are not allowed."""
    answer = sa.run(call)
    assert answer.numbers == [214]
    assert str(answer.errors[0]) == f"Procedure expects parameter '{parameter}' of type 'ntext/nchar/nvarchar'."
    assert answer.results == []


def test_a_text_may_be_nchar_and_its_declarations_null(sa: User) -> None:
    """sp_executesql (Transact-SQL): the default of @params is NULL."""
    assert sa.ok("DECLARE @s nchar(20) = N'SELECT 1'; EXEC sp_executesql @s, NULL").value == 1


def test_a_remote_text_is_unicode_too(sa: User) -> None:
    assert sa.call(10, RpcParameter("", varchar(8000), "SELECT 1")).numbers == [214]


def test_set_options_end_with_the_text_that_set_them(sa: User) -> None:
    """SET statements: in a text of sp_executesql or EXEC they are undone at its end; in a batch they stay."""
    look = "SELECT @@LOCK_TIMEOUT, @@OPTIONS & 512"
    answer = sa.ok(f"SET LOCK_TIMEOUT 5; EXEC sp_executesql N'SET LOCK_TIMEOUT 9; SET NOCOUNT ON; {look}'; {look}")
    assert answer.results == [[(9, 512)], [(5, 0)]]
    answer = sa.ok(
        "EXEC (N'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE');"
        " SELECT transaction_isolation_level FROM sys.dm_exec_sessions"
    )
    assert answer.value == 2


def test_a_text_that_leaves_a_transaction_is_told_so(sa: User) -> None:
    """Error 266; the transaction stays open."""
    answer = sa.run("EXEC sp_executesql N'BEGIN TRAN'; SELECT @@TRANCOUNT; ROLLBACK")
    assert answer.numbers == [266]
    assert answer.value == 1


def test_temporary_tables_made_outside_are_seen_inside(sa: User) -> None:
    assert sa.ok("CREATE TABLE #t (a int); INSERT #t VALUES (4); EXEC sp_executesql N'SELECT a FROM #t'").value == 4


def test_texts_nest_up_to_32_levels(sa: User) -> None:
    """Error 217."""
    answer = sa.run(
        "DECLARE @s nvarchar(max) = N'EXEC sp_executesql @s, N''@s nvarchar(max)'', @s';"
        " EXEC sp_executesql @s, N'@s nvarchar(max)', @s"
    )
    assert answer.numbers == [217]


# --- remote calls -----------------------------------------------------------------------------------------


def test_a_remote_sp_executesql(sa: User) -> None:
    """MS-TDS: procedure 10; status and output values come at the end."""
    answer = sa.call(
        10,
        text("SET @b = @a * 2; SELECT @a"),
        text("@a int, @b int OUTPUT"),
        number(4),
        number(None, name="@b", output=True),
    )
    assert answer.rows == [(4,)]
    assert answer.status == 0
    assert answer.values == [("@b", INT, 8)]
    named = sa.call("sp_executesql", text("SELECT @x + 1"), text("@x int"), number(1, name="@x"))
    assert named.rows == [(2,)]


def test_prepared_texts(sa: User) -> None:
    """MS-TDS: 11 sp_prepare, 12 sp_execute, 13 sp_prepexec, 15 sp_unprepare; 8179 for an unknown handle."""
    prepared = sa.call(11, number(None, output=True), text("@a int"), text("SELECT @a"), number(1))
    ((_, _, handle),) = prepared.values
    assert isinstance(handle, int)
    assert sa.call(12, number(handle), number(5)).rows == [(5,)]
    again = sa.call(13, number(handle, output=True), text("@a int"), text("SELECT @a * 10"), number(5))
    assert again.rows == [(50,)]
    ((_, _, second),) = again.values
    assert isinstance(second, int)
    assert sa.call(12, number(handle), number(5)).numbers == [8179]
    assert sa.call(15, number(second)).numbers == []
    assert sa.call(15, number(second)).numbers == [8179]


@pytest.mark.parametrize(("number_", "name"), [(2, "sp_cursoropen"), (14, "sp_prepexecrpc")])
def test_a_number_is_refused_by_its_name(sa: User, number_: int, name: str) -> None:
    """MS-TDS 2.2.6.6, ProcID. 14 is what pyodbc makes of ``{CALL ...}``."""
    (error,) = sa.call(number_, number(None, output=True), text("{CALL sp_getapplock(?, ?)}")).errors
    assert (error.number, f"'{name}'" in str(error)) == (40517, True)


def test_parameters_are_converted_to_what_was_declared(sa: User) -> None:
    answer = sa.call(
        10, text("SELECT @n, DATALENGTH(@n), @d"), text("@n nvarchar(3), @d decimal(5, 2)"), text("abcdef"), text("1.5")
    )
    assert [(str(value)) for value in answer.rows[0]] == ["abc", "6", "1.50"]


def test_what_the_drivers_ask_at_their_first_connect(sa: User) -> None:
    """sp_datatype_info_100, as a call by name and as text."""
    for answer in (
        sa.call(
            "[sys].sp_datatype_info_100",
            RpcParameter("", SqlType("smallint"), -9),
            RpcParameter("@ODBCVer", SqlType("tinyint"), 3),
        ),
        sa.ok("sp_datatype_info_100 -9, 3"),
    ):
        assert len(answer.columns_of[0]) == 20
        assert [(row[0], row[1], row[2]) for row in answer.rows] == [("nvarchar", -9, 4000)]


def test_the_types_of_undeclared_parameters(sa: User) -> None:
    """sp_describe_undeclared_parameters: 24 columns; told where a DECLARE shows the type, refused elsewhere."""
    answer = sa.call(
        "sp_describe_undeclared_parameters", text("DECLARE @x int = @P1, @y nvarchar(40) = @P2; SELECT @x")
    )
    assert len(answer.columns_of[0]) == 24
    assert [(row[0], row[1], row[3], row[4]) for row in answer.rows] == [
        (1, "@P1", "int", 4),
        (2, "@P2", "nvarchar(40)", 80),
    ]
    assert len(sa.call("sp_describe_undeclared_parameters", text("SELECT @P1")).numbers) == 1


# --- application locks ---------------------------------------------------------------------------------------


def lock(user: User, arguments: str) -> Value:
    return user.ok(f"DECLARE @rc int; EXEC @rc = sp_getapplock {arguments}; SELECT @rc").value


def test_session_locks_outlive_transactions_and_are_released_one_by_one(sa: User) -> None:
    """sp_getapplock, sp_releaseapplock: a lock got twice has to be released twice; names are case-sensitive."""
    other = sa.desk.login()
    mine = "@Resource = N'r', @LockMode = N'Exclusive', @LockOwner = N'Session', @LockTimeout = 0"
    assert lock(sa, mine) == 0
    assert lock(sa, mine) == 0
    assert lock(other, mine) == -1
    assert lock(other, mine.replace("N'r'", "N'R'")) == 0
    release = "EXEC sp_releaseapplock @Resource = N'r', @LockOwner = N'Session'"
    sa.ok(release)
    assert lock(other, mine) == -1
    sa.ok(release)
    assert lock(other, mine) == 0
    assert sa.run(release).numbers == [1223]


def test_a_session_is_told_in_which_mode_it_has_a_lock_itself(sa: User) -> None:
    """APPLOCK_MODE: the mode held by the owner that asks, NoLock for what others have; binary names."""
    look = "SELECT APPLOCK_MODE(N'public', N'r', N'Session')"
    assert sa.ok(look).value == "NoLock"
    for mode in ("Shared", "Update", "Exclusive"):
        sa.ok(f"EXEC sp_getapplock N'r', '{mode}', 'Session'")
        assert sa.ok(look).value == mode
    assert sa.desk.login().ok(look).value == "NoLock"
    assert sa.ok("SELECT APPLOCK_MODE(N'public', N'R', N'Session')").value == "NoLock"
    assert sa.run("SELECT APPLOCK_MODE(N'public', N'r', N'Transaction')").numbers == [40517]


def test_transaction_locks_end_with_their_transaction(sa: User) -> None:
    """@LockOwner = Transaction needs one (-999) and ends with it."""
    other = sa.desk.login()
    assert lock(sa, "N'r', 'Exclusive'") == -999
    sa.ok("BEGIN TRAN")
    assert lock(sa, "N'r', 'Exclusive'") == 0
    assert lock(other, "N'r', 'Shared', 'Session', 0") == -1
    sa.ok("ROLLBACK")
    assert lock(other, "N'r', 'Shared', 'Session', 0") == 0


def test_modes_are_compatible_as_locks_are(sa: User) -> None:
    other = sa.desk.login()
    assert lock(sa, "N'r', 'Shared', 'Session'") == 0
    assert lock(other, "N'r', 'Shared', 'Session', 0") == 0
    assert lock(other, "N'r', 'Exclusive', 'Session', 0") == -1
    assert lock(other, "N'r', 'Nix', 'Session', 0") == -999
    assert lock(other, "N'r', 'Shared', 'Nobody', 0") == -999


@pytest.mark.parametrize(
    ("resource", "principal", "number_"),
    [("NULL", "N'public'", 1224), ("N'r'", "N'nobody'", 1202), ("N'r'", "N''", 1202), ("N'r'", "NULL", 1230)],
)
def test_a_lock_on_nothing_or_for_nobody_is_an_error(sa: User, resource: str, principal: str, number_: int) -> None:
    """sp_getapplock, sp_releaseapplock: -999 for a parameter validation or other call error; Database engine events and
    errors: 1202 (the principal does not exist, or the user is no member of it), 1224, 1230."""
    for call in ("sp_getapplock {}, 'Shared', 'Session', 0, {}", "sp_releaseapplock {}, 'Session', {}"):
        answer = sa.run(f"DECLARE @rc int; EXEC @rc = {call.format(resource, principal)}; SELECT @rc")
        assert answer.numbers == [number_]
        assert answer.value == -999


def test_a_lock_for_a_role_is_for_its_members_and_the_owners(sa: User) -> None:
    """sp_getapplock, @DbPrincipal: the caller must be a member of database_principal, dbo, or db_owner."""
    for name in ("ann", "bob"):
        sa.ok(f"CREATE LOGIN {name} WITH PASSWORD = N'pw'; CREATE USER {name} FOR LOGIN {name}")
    sa.ok("CREATE ROLE crew; CREATE ROLE other; ALTER ROLE crew ADD MEMBER ann; ALTER ROLE db_owner ADD MEMBER bob")
    call = "DECLARE @rc int; EXEC @rc = sp_getapplock N'r', 'Shared', 'Session', 0, N'{}'; SELECT @rc"
    ann, bob = (sa.desk.login(name, "pw") for name in ("ann", "bob"))
    assert ann.ok(call.format("crew")).value == 0
    assert ann.run(call.format("other")).numbers == [1202]
    for user in (bob, sa):
        assert user.ok(call.format("crew")).value == 0
        assert user.ok(call.format("other")).value == 0
        assert user.run(call.format("nobody")).numbers == [1202]


def test_a_lock_got_after_a_wait_says_so(sa: User) -> None:
    """Return code 1; a time-out is -1 and counts on the server's clock."""
    desk, other = sa.desk, sa.desk.login()
    sa.ok("EXEC sp_getapplock N'r', 'Exclusive', 'Session'")
    task, answer = other.start(
        "DECLARE @rc int; EXEC @rc = sp_getapplock N'r', 'Exclusive', 'Session', 1000; SELECT @rc"
    )
    assert not task.done
    sa.ok("EXEC sp_releaseapplock N'r', 'Session'")
    desk.settle(task)
    assert answer.value == 1
    task, answer = sa.start(
        "DECLARE @rc int; EXEC @rc = sp_getapplock N'r', 'Exclusive', 'Session', 1000; SELECT @rc, @@LOCK_TIMEOUT"
    )
    desk.advance(1)
    desk.settle(task)
    assert answer.rows == [(-1, -1)]


def test_a_deadlock_of_application_locks_is_minus_3(sa: User) -> None:
    desk, other = sa.desk, sa.desk.login()
    sa.ok("EXEC sp_getapplock N'a', 'Exclusive', 'Session'")
    other.ok("SET DEADLOCK_PRIORITY LOW; EXEC sp_getapplock N'b', 'Exclusive', 'Session'")
    task, _ = sa.start("EXEC sp_getapplock N'b', 'Exclusive', 'Session'")
    assert lock(other, "N'a', 'Exclusive', 'Session'") == -3
    other.session.close()
    desk.settle(task)


def test_an_unknown_session_context_is_refused(sa: User) -> None:
    assert sa.run("EXEC sp_set_session_context N'a', 1").numbers == [40517]
