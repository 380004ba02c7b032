"""Logins, users, roles and rights.

Right values are from Microsoft's documentation: GRANT, DENY, REVOKE, "Metadata visibility configuration", errors
229 to 18456.
"""

from __future__ import annotations

import pytest

from sqllease.testing.server.sqltypes import SqlError
from tests.standin.desk import Desk, User


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.sa.ok(
        "CREATE LOGIN ann WITH PASSWORD = N'pw'; CREATE USER ann FOR LOGIN ann;"
        " CREATE LOGIN nobody WITH PASSWORD = N'pw'"
    )
    desk.sa.ok("CREATE SCHEMA shop")
    desk.sa.ok("CREATE TABLE shop.item (id int NOT NULL PRIMARY KEY, n int NULL); INSERT shop.item VALUES (1, 1)")
    return desk


@pytest.fixture
def sa(desk: Desk) -> User:
    return desk.sa


@pytest.fixture
def ann(desk: Desk) -> User:
    return desk.login("ann", "pw")


def refused(desk: Desk, *login: str) -> list[int]:
    with pytest.raises(SqlError) as caught:
        desk.login(*login)
    return [error.number for error in getattr(caught.value, "errors", [caught.value])]


def test_a_wrong_name_or_password_is_refused(desk: Desk) -> None:
    """Error 18456, the same for both."""
    assert refused(desk, "ann", "wrong") == [18456]
    assert refused(desk, "who", "pw") == [18456]


def test_a_database_that_cannot_be_opened_is_named_first(desk: Desk) -> None:
    """Error 4060, then 18456: the database is missing, or the login has no user in it."""
    assert refused(desk, "ann", "pw", "nowhere") == [4060, 18456]
    assert refused(desk, "nobody", "pw", "app") == [4060, 18456]
    assert desk.login("nobody", "pw", "master").ok("SELECT DB_NAME()").value == "master"


def test_use_needs_a_database_and_a_user_in_it(desk: Desk) -> None:
    """Errors 911 and 916."""
    answer = desk.sa.run("USE nowhere")
    assert answer.numbers == [911]
    assert desk.login("nobody", "pw", "master").run("USE app").numbers == [916]
    assert desk.sa.ok("USE master; SELECT DB_NAME()").databases == ["master"]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("SELECT * FROM shop.item", "SELECT"),
        ("INSERT shop.item VALUES (2, 2)", "INSERT"),
        ("UPDATE shop.item SET n = 2", "UPDATE"),
        ("DELETE shop.item", "DELETE"),
    ],
)
def test_each_right_is_needed_and_enough(sa: User, ann: User, text: str, right: str) -> None:
    """Error 229, severity 14, state 5, with the documented text."""
    (error,) = ann.run(text).errors
    assert (error.number, error.severity, error.state) == (229, 14, 5)
    assert str(error) == f"The {right} permission was denied on the object 'item', database 'app', schema 'shop'."
    sa.ok(f"GRANT {right} ON OBJECT::shop.item TO ann")
    assert ann.run(text).numbers == []


def test_a_condition_needs_select_too(sa: User, ann: User) -> None:
    """UPDATE and DELETE: SELECT permission is required where the statement reads the table; MERGE as well."""
    sa.ok("GRANT UPDATE, DELETE, INSERT ON shop.item TO ann")
    assert ann.run("UPDATE shop.item SET n = 2 WHERE id = 1").numbers == [229]
    assert ann.run("MERGE shop.item t USING (VALUES (1)) s (i) ON t.id = s.i WHEN MATCHED THEN DELETE;").numbers == [
        229
    ]
    sa.ok("GRANT SELECT ON shop.item TO ann")
    assert ann.run("UPDATE shop.item SET n = 2 WHERE id = 1").numbers == []
    assert ann.run("MERGE shop.item t USING (VALUES (1)) s (i) ON t.id = s.i WHEN MATCHED THEN DELETE;").numbers == []


def test_a_denied_right_can_be_caught(ann: User) -> None:
    assert ann.ok("BEGIN TRY SELECT * FROM shop.item END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH").value == 229


def test_rights_come_through_roles_schemas_and_the_database(sa: User, ann: User) -> None:
    """The permission hierarchy; roles within roles; fixed roles."""
    sa.ok(
        "CREATE ROLE reader; CREATE ROLE outer_role; ALTER ROLE reader ADD MEMBER outer_role;"
        " ALTER ROLE outer_role ADD MEMBER ann"
    )
    sa.ok("GRANT SELECT ON SCHEMA::shop TO reader")
    assert ann.ok("SELECT COUNT(*) FROM shop.item").value == 1
    sa.ok("ALTER ROLE outer_role DROP MEMBER ann")
    assert ann.run("SELECT * FROM shop.item").numbers == [229]
    sa.ok("ALTER ROLE db_datareader ADD MEMBER ann")
    assert ann.ok("SELECT COUNT(*) FROM shop.item").value == 1
    assert ann.run("DELETE shop.item").numbers == [229]
    sa.ok("ALTER ROLE db_owner ADD MEMBER ann")
    assert ann.ok("DELETE shop.item; SELECT IS_ROLEMEMBER(N'db_owner')").value == 1


def test_deny_beats_grant_and_revoke_takes_either_back(sa: User, ann: User) -> None:
    """DENY takes precedence over GRANT."""
    sa.ok("GRANT SELECT ON SCHEMA::shop TO public; DENY SELECT ON shop.item TO ann")
    assert ann.run("SELECT * FROM shop.item").numbers == [229]
    sa.ok("REVOKE SELECT ON shop.item FROM ann")
    assert ann.run("SELECT * FROM shop.item").numbers == []
    sa.ok("REVOKE SELECT ON SCHEMA::shop FROM public")
    assert ann.run("SELECT * FROM shop.item").numbers == [229]


def test_what_a_user_has_no_right_on_it_does_not_see(sa: User, ann: User) -> None:
    """Metadata visibility: functions give NULL, views no row; any right is enough."""
    look = (
        "SELECT OBJECT_ID(N'shop.item'), COL_LENGTH(N'shop.item', N'id'), (SELECT COUNT(*) FROM sys.tables),"
        " (SELECT COUNT(*) FROM sys.indexes)"
    )
    assert ann.ok(look).rows == [(None, None, 0, 0)]
    sa.ok("GRANT INSERT ON shop.item TO ann")
    (row,) = ann.ok(look).rows
    assert row[0] is not None
    assert row[1:] == (4, 1, 1)


def test_a_table_needs_create_table_and_alter_on_the_schema(sa: User, ann: User) -> None:
    """CREATE TABLE: error 262 without the one, 2760 without the other or the schema."""
    assert [(e.number, str(e)) for e in ann.run("CREATE TABLE shop.new (a int)").errors] == [
        (262, "CREATE TABLE permission denied in database 'app'.")
    ]
    sa.ok("GRANT CREATE TABLE TO ann")
    assert ann.run("CREATE TABLE shop.new (a int)").numbers == [2760]
    assert ann.run("CREATE TABLE nowhere.new (a int)").numbers == [2760]
    sa.ok("GRANT ALTER ON SCHEMA::shop TO ann")
    assert (
        ann.run(
            "CREATE TABLE shop.new (a int); ALTER TABLE shop.new ADD b int NULL; CREATE INDEX ix ON shop.new (a)"
        ).numbers
        == []
    )
    assert (
        ann.run(
            "CREATE TABLE #own (a int); INSERT #own VALUES (1); DECLARE @t TABLE (a int); INSERT @t SELECT a FROM #own"
        ).numbers
        == []
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE SCHEMA mine", 262),
        ("ALTER TABLE shop.item ADD x int NULL", 4902),
        ("CREATE INDEX ix ON shop.item (n)", 1088),
        ("TRUNCATE TABLE shop.item", 4701),
        ("DROP TABLE shop.item", 3701),
        ("DROP SCHEMA shop", 15151),
        ("GRANT SELECT ON shop.item TO ann", 15151),
        ("CREATE LOGIN x WITH PASSWORD = N'x'", 15247),
        ("CREATE USER x WITHOUT LOGIN", 15247),
        ("ALTER DATABASE CURRENT SET READ_ONLY", 5011),
        (
            "EXEC sp_addextendedproperty N'v', N'1', N'SCHEMA', N'shop', N'TABLE', N'item'",
            15135,
        ),
    ],
)
def test_definitions_need_rights_of_their_own(ann: User, text: str, number: int) -> None:
    assert ann.run(text).numbers == [number]


def test_principals_must_exist_and_be_new(sa: User) -> None:
    """Errors 15151, 15023, 15025, 15007."""
    assert sa.run("GRANT SELECT ON shop.item TO who").numbers == [15151]
    assert sa.run("GRANT SELECT ON shop.nowhere TO ann").numbers == [15151]
    assert sa.run("CREATE USER ann FOR LOGIN ann").numbers == [15023]
    assert sa.run("CREATE LOGIN ann WITH PASSWORD = N'x'").numbers == [15025]
    assert sa.run("CREATE USER bob FOR LOGIN bob").numbers == [15007]
    assert sa.run("DROP ROLE nowhere").numbers == [15151]
    assert sa.run("DROP ROLE IF EXISTS nowhere").numbers == []


def test_grants_roll_back(sa: User, ann: User) -> None:
    sa.ok("BEGIN TRAN; GRANT SELECT ON shop.item TO ann; ROLLBACK")
    assert ann.run("SELECT * FROM shop.item").numbers == [229]


def test_has_perms_by_name_tells_beforehand(sa: User, ann: User) -> None:
    """HAS_PERMS_BY_NAME: 1, 0, or NULL for what is not there."""
    ask = (
        "SELECT HAS_PERMS_BY_NAME(N'shop.item', N'OBJECT', N'SELECT'), HAS_PERMS_BY_NAME(DB_NAME(),"
        " N'DATABASE', N'CREATE TABLE')"
    )
    assert sa.ok(ask).rows == [(1, 1)]
    sa.ok("GRANT INSERT ON shop.item TO ann")
    assert ann.ok(ask).rows == [(0, 0)]


def test_who_am_i(ann: User, sa: User) -> None:
    assert ann.ok("SELECT SUSER_SNAME(), USER_NAME(), ORIGINAL_LOGIN(), IS_SRVROLEMEMBER(N'sysadmin')").rows == [
        ("ann", "ann", "ann", 0)
    ]
    assert sa.ok("SELECT SUSER_SNAME(), USER_NAME(), IS_SRVROLEMEMBER(N'sysadmin')").rows == [("sa", "dbo", 1)]
    assert ann.ok("SELECT SESSION_USER, CURRENT_USER, USER, SYSTEM_USER").rows == [("ann", "ann", "ann", "ann")]
    assert sa.ok("SELECT SESSION_USER, SYSTEM_USER").rows == [("dbo", "sa")]


@pytest.mark.parametrize("name", ["IS_MEMBER(N'db_owner')", "USER_ID()", "DATABASE_PRINCIPAL_ID()", "TYPE_ID(N'int')"])
def test_functions_that_nobody_here_needs_are_refused(sa: User, name: str) -> None:
    assert sa.run(f"SELECT {name}").numbers == [40517]
