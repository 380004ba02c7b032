"""SELECT: sources, joins, grouping, order, TOP, set operations, and which locks and paths a read uses.

Right values are from Microsoft's documentation of Transact-SQL; the page is named in each docstring.
"""

from __future__ import annotations

import pytest

from tests.standin.desk import Desk, User


@pytest.fixture
def sa() -> User:
    user = Desk().sa
    user.ok(
        """
        CREATE TABLE dbo.city (id int NOT NULL PRIMARY KEY, name nvarchar(20) NOT NULL, land nvarchar(20) NULL,
            people int NULL);
        CREATE INDEX ix_people ON dbo.city (people);
        INSERT dbo.city VALUES (1, N'Ulm', N'Baden', 126), (2, N'Bonn', N'Rhein', 331), (3, N'Kehl', N'Baden',
            37), (4, N'Nowhere', NULL, NULL);
        CREATE TABLE dbo.river (city int NOT NULL, name nvarchar(20) NOT NULL, CONSTRAINT pk_river PRIMARY KEY
            (city, name));
        INSERT dbo.river VALUES (1, N'Donau'), (1, N'Iller'), (2, N'Rhein'), (3, N'Rhein'), (9, N'Lethe');
        """
    )
    return user


def rows(user: User, text: str) -> list[tuple[object, ...]]:
    return list(user.ok(text).rows)


def test_a_select_without_a_source_gives_one_row(sa: User) -> None:
    """SELECT (Transact-SQL)."""
    answer = sa.ok("SELECT 1 AS one, N'x' + N'y', NULL")
    assert answer.rows == [(1, "xy", None)]
    assert [column.name for column in answer.columns_of[0]] == ["one", "", ""]
    assert answer.counts == [1]


def test_a_star_gives_all_columns_of_its_source(sa: User) -> None:
    """SELECT clause: ``table_alias.*``."""
    answer = sa.ok("SELECT r.*, c.name AS town FROM dbo.city AS c JOIN dbo.river r ON r.city = c.id WHERE c.id = 2")
    assert [column.name for column in answer.columns_of[0]] == ["city", "name", "town"]
    assert answer.rows == [(2, "Rhein", "Bonn")]


def test_joins_keep_what_their_kind_says(sa: User) -> None:
    """FROM clause: INNER, LEFT OUTER, RIGHT OUTER, CROSS JOIN."""
    assert len(rows(sa, "SELECT 1 FROM dbo.city c JOIN dbo.river r ON r.city = c.id")) == 4
    assert rows(sa, "SELECT c.name FROM dbo.city c LEFT JOIN dbo.river r ON r.city = c.id WHERE r.city IS NULL") == [
        ("Nowhere",)
    ]
    assert rows(sa, "SELECT r.name FROM dbo.city c RIGHT JOIN dbo.river r ON r.city = c.id WHERE c.id IS NULL") == [
        ("Lethe",)
    ]
    assert len(rows(sa, "SELECT 1 FROM dbo.city CROSS JOIN dbo.river")) == 20


def test_a_condition_of_on_does_not_remove_rows_of_the_preserved_side(sa: User) -> None:
    """FROM clause: the condition of an outer join decides about matches only."""
    found = rows(
        sa,
        "SELECT c.id, r.name FROM dbo.city c LEFT JOIN dbo.river r ON r.city = c.id AND r.name = N'Rhein'"
        " ORDER BY c.id",
    )
    assert found == [(1, None), (2, "Rhein"), (3, "Rhein"), (4, None)]


def test_apply_sees_the_columns_to_its_left(sa: User) -> None:
    """FROM clause: CROSS APPLY and OUTER APPLY evaluate the right side for each row of the left one."""
    first = "(SELECT TOP (1) r.name FROM dbo.river r WHERE r.city = c.id ORDER BY r.name) AS f"
    assert rows(sa, f"SELECT c.id, f.name FROM dbo.city c CROSS APPLY {first} ORDER BY 1") == [
        (1, "Donau"),
        (2, "Rhein"),
        (3, "Rhein"),
    ]
    assert rows(sa, f"SELECT c.id, f.name FROM dbo.city c OUTER APPLY {first} WHERE c.id > 3") == [(4, None)]


def test_a_derived_table_does_not_see_its_neighbours(sa: User) -> None:
    """FROM clause: only APPLY correlates."""
    assert sa.run("SELECT 1 FROM dbo.city c JOIN (SELECT 1 AS a WHERE c.id = 1) AS d ON 1 = 1").numbers == [4104]


def test_values_make_a_table(sa: User) -> None:
    """Table value constructor."""
    assert rows(sa, "SELECT v.b FROM (VALUES (1, N'a'), (2, N'b')) AS v (a, b) WHERE v.a = 2") == [("b",)]


def test_null_makes_a_condition_unknown(sa: User) -> None:
    """WHERE keeps rows only where the condition is true; NOT IN with a NULL is never true."""
    assert rows(sa, "SELECT id FROM dbo.city WHERE people > 0 OR people <= 0 ORDER BY id") == [(1,), (2,), (3,)]
    assert rows(sa, "SELECT id FROM dbo.city WHERE id NOT IN (SELECT people FROM dbo.city)") == []


def test_groups_are_counted_and_filtered(sa: User) -> None:
    """GROUP BY, HAVING; aggregates ignore NULL, COUNT(*) does not."""
    found = rows(sa, "SELECT land, COUNT(*), SUM(people), MIN(name) FROM dbo.city GROUP BY land ORDER BY land")
    assert found == [(None, 1, None, "Nowhere"), ("Baden", 2, 163, "Kehl"), ("Rhein", 1, 331, "Bonn")]
    assert rows(sa, "SELECT land FROM dbo.city GROUP BY land HAVING COUNT(people) > 1") == [("Baden",)]
    assert rows(sa, "SELECT COUNT(DISTINCT land), COUNT(land), AVG(people) FROM dbo.city") == [(2, 3, 164)]


def test_aggregates_without_rows_still_give_one_row(sa: User) -> None:
    """Aggregate functions: COUNT is 0, the others NULL; with GROUP BY there is no row."""
    assert rows(sa, "SELECT COUNT(*), MAX(id) FROM dbo.city WHERE id > 99") == [(0, None)]
    assert rows(sa, "SELECT COUNT(*) FROM dbo.city WHERE id > 99 GROUP BY land") == []


def test_a_column_outside_the_groups_is_an_error(sa: User) -> None:
    """Error 8120."""
    assert sa.run("SELECT name, COUNT(*) FROM dbo.city GROUP BY land").numbers == [8120]
    assert sa.ok(
        "SELECT people / 100, COUNT(*) FROM dbo.city WHERE people > 100 GROUP BY people / 100 ORDER BY 1"
    ).rows == [(1, 1), (3, 1)]


@pytest.mark.parametrize(
    ("function", "number"),
    [
        ("STDEV(people)", 40517),
        ("VAR(people)", 40517),
        ("STRING_AGG(name, N',')", 40517),
        ("NOSUCH(people)", 195),
        ("CHOOSE(1, people)", 8120),
    ],
)
def test_an_unknown_function_is_named_before_its_arguments_are_looked_at(sa: User, function: str, number: int) -> None:
    """Error 195, or the refusal of what only this server lacks, also beside an aggregate; 8120 is for what it knows."""
    for text in (f"SELECT COUNT(*), {function} FROM dbo.city", f"SELECT land, {function} FROM dbo.city GROUP BY land"):
        (error,) = sa.run(text).errors
        assert error.number == number
        assert f"'{function.split('(')[0]}'" in str(error) or number == 8120


def test_order_by_takes_names_places_and_expressions(sa: User) -> None:
    """ORDER BY clause; NULLs are the lowest."""
    assert rows(sa, "SELECT name n FROM dbo.city ORDER BY n DESC") == [("Ulm",), ("Nowhere",), ("Kehl",), ("Bonn",)]
    assert rows(sa, "SELECT id, people FROM dbo.city ORDER BY 2") == [(4, None), (3, 37), (1, 126), (2, 331)]
    assert rows(sa, "SELECT id FROM dbo.city ORDER BY land DESC, -id") == [(2,), (3,), (1,), (4,)]
    assert sa.run("SELECT id FROM dbo.city ORDER BY 2").numbers == [108]


def test_top_and_offset_limit_the_rows(sa: User) -> None:
    """TOP, WITH TIES, OFFSET ... FETCH."""
    assert rows(sa, "DECLARE @n int = 2; SELECT TOP (@n) id FROM dbo.city ORDER BY people DESC") == [(2,), (1,)]
    assert rows(sa, "SELECT TOP (1) WITH TIES land FROM dbo.city WHERE land IS NOT NULL ORDER BY land") == [
        ("Baden",),
        ("Baden",),
    ]
    assert rows(sa, "SELECT id FROM dbo.city ORDER BY id OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY") == [(2,), (3,)]
    assert rows(sa, "SELECT TOP (0) id FROM dbo.city") == []
    assert sa.run("SELECT TOP (-1) id FROM dbo.city").numbers == [127]


def test_top_with_an_index_in_the_right_order_reads_no_more_than_it_needs(sa: User) -> None:
    """An index that delivers the order needs no sort; rows_read counts what the storage gave."""
    assert rows(sa, "SELECT TOP (1) id FROM dbo.city WHERE people > 0 ORDER BY people") == [(3,)]
    assert sa.session.work.rows_read == 1
    assert rows(sa, "SELECT TOP (1) id FROM dbo.city ORDER BY id DESC") == [(4,)]
    assert sa.session.work.rows_read == 1


def test_set_operations(sa: User) -> None:
    """UNION, UNION ALL, EXCEPT, INTERSECT; NULLs count as the same, text compares under its collation."""
    assert rows(sa, "SELECT N'a' UNION SELECT N'A' UNION ALL SELECT NULL") == [("a",), (None,)]
    assert rows(sa, "SELECT land FROM dbo.city EXCEPT SELECT name FROM dbo.river ORDER BY land") == [
        (None,),
        ("Baden",),
    ]
    assert rows(sa, "SELECT land FROM dbo.city INTERSECT SELECT name FROM dbo.river") == [("Rhein",)]
    assert rows(sa, "SELECT 1 UNION ALL SELECT 2.5") == [(1,), (2.5,)]
    assert sa.run("SELECT 1 UNION SELECT 1, 2").numbers == [205]


def test_distinct_compares_under_the_collation(sa: User) -> None:
    """SELECT DISTINCT; SQL_Latin1_General_CP1_CI_AS ignores case."""
    assert rows(sa, "SELECT DISTINCT x FROM (VALUES (N'a'), (N'A'), (N'b')) v (x)") == [("a",), ("b",)]
    binary = (
        "SELECT COUNT(*) FROM (SELECT DISTINCT x COLLATE Latin1_General_BIN2 AS y FROM (VALUES (N'a'), (N'A')) v (x)) d"
    )
    assert sa.ok(binary).value == 2


def test_common_tables_build_on_each_other(sa: User) -> None:
    """WITH common_table_expression."""
    found = rows(
        sa,
        "WITH a (n) AS (SELECT people FROM dbo.city WHERE people IS NOT NULL), b AS (SELECT MAX(n) AS m FROM"
        " a) SELECT m FROM b",
    )
    assert found == [(331,)]
    assert sa.run("WITH a AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM a) SELECT * FROM a").numbers == [40517]


def test_subqueries(sa: User) -> None:
    """Scalar sub-queries (NULL without a row, error 512 with several), EXISTS, IN."""
    found = rows(
        sa, "SELECT c.id, (SELECT MIN(r.name) FROM dbo.river r WHERE r.city = c.id) FROM dbo.city c ORDER BY 1"
    )
    assert found == [(1, "Donau"), (2, "Rhein"), (3, "Rhein"), (4, None)]
    assert rows(
        sa,
        "SELECT id FROM dbo.city c WHERE EXISTS (SELECT * FROM dbo.river r WHERE r.city = c.id AND r.name LIKE N'I%')",
    ) == [(1,)]
    assert sa.run("SELECT (SELECT id FROM dbo.city)").numbers == [512]


def test_names_that_do_not_fit(sa: User) -> None:
    """Errors 207, 208, 209, 4104, 137, 1011."""
    assert sa.run("SELECT nix FROM dbo.city").numbers == [207]
    assert sa.run("SELECT 1 FROM dbo.nix").numbers == [208]
    assert sa.run("SELECT name FROM dbo.city c JOIN dbo.river r ON r.city = c.id").numbers == [209]
    assert sa.run("SELECT x.id FROM dbo.city c").numbers == [4104]
    assert sa.run("SELECT @nix").numbers == [137]
    assert sa.run("SELECT 1 FROM dbo.city c, dbo.river c").numbers == [1011]


def test_assignment_goes_row_by_row(sa: User) -> None:
    """SELECT @local_variable: the last row wins; without a row the variable keeps its value."""
    assert (
        sa.ok(
            "DECLARE @s nvarchar(99) = N''; SELECT @s = @s + name FROM dbo.city WHERE id < 3 ORDER BY id; SELECT @s"
        ).value
        == "UlmBonn"
    )
    assert sa.ok("DECLARE @n int = 7; SELECT @n = id FROM dbo.city WHERE id > 99; SELECT @n").value == 7
    assert sa.run("DECLARE @n int; SELECT @n = 1, 2").numbers == [141]


def test_set_rowcount_ends_statements_early(sa: User) -> None:
    """SET ROWCOUNT, until it is 0 again."""
    answer = sa.ok(
        "SET ROWCOUNT 2; SELECT id FROM dbo.city; SELECT id FROM dbo.river CROSS JOIN dbo.city;"
        " SET ROWCOUNT 0; SELECT 1 FROM dbo.city"
    )
    assert [len(result) for result in answer.results] == [2, 2, 4]


def test_an_empty_result_still_has_its_columns(sa: User) -> None:
    answer = sa.ok("SELECT name, people FROM dbo.city WHERE 1 = 0")
    assert [(column.name, str(column.type), column.nullable) for column in answer.columns_of[0]] == [
        ("name", "nvarchar(20)", False),
        ("people", "int", True),
    ]


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ("id = 3", 1),
        ("id = 3 AND name = N'x'", 1),
        ("id IN (1, 3)", 2),
        ("id IN (SELECT city FROM dbo.river WHERE city = 1 AND name = N'Iller')", 2),
        ("id > 2", 2),
        ("people BETWEEN 100 AND 200", 1),
        ("people < 100", 1),
        ("3 = id", 1),
        ("id + 0 = 3", 4),
        ("name = N'Ulm'", 4),
    ],
)
def test_a_condition_on_a_key_is_a_seek(sa: User, where: str, read: int) -> None:
    """The work counts the rows that the storage gave: a seek gives what it is for, a scan all four."""
    sa.ok(f"SELECT id FROM dbo.city WHERE {where}")
    assert sa.session.work.rows_read == read


def test_a_join_seeks_its_inner_side_whatever_the_order_of_the_text(sa: User) -> None:
    """One row of the small side, one seek into the other."""
    sa.ok("SELECT 1 FROM dbo.city c JOIN (SELECT TOP (1) city FROM dbo.river ORDER BY city) AS r ON r.city = c.id")
    assert sa.session.work.rows_read == 2


def test_forceseek_without_a_seek_is_refused(sa: User) -> None:
    """Error 8622."""
    assert sa.run("SELECT 1 FROM dbo.city WITH (FORCESEEK) WHERE name = N'Ulm'").numbers == [8622]
    assert sa.ok("SELECT name FROM dbo.city WITH (FORCESEEK) WHERE id = 1").value == "Ulm"


def test_another_collation_than_the_columns_keeps_the_index_from_being_used(sa: User) -> None:
    """A comparison under another collation cannot use the order of the index."""
    sa.ok(
        "CREATE TABLE dbo.n (name nvarchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL PRIMARY KEY);"
        " INSERT dbo.n VALUES (N'a'), (N'B')"
    )
    assert sa.run("SELECT 1 FROM dbo.n WITH (FORCESEEK) WHERE name = N'a' COLLATE Latin1_General_CI_AS").numbers == [
        8622
    ]
    assert (
        sa.ok("SELECT name FROM dbo.n WITH (FORCESEEK) WHERE name = N'B' COLLATE Latin1_General_100_BIN2").value == "B"
    )


def test_hints_that_contradict_each_other(sa: User) -> None:
    """Error 1047; an unknown hint is refused by name."""
    assert sa.run("SELECT 1 FROM dbo.city WITH (NOLOCK, HOLDLOCK)").numbers == [1047]
    assert sa.run("SELECT 1 FROM dbo.city WITH (TABLOCKX)").numbers == [40517]
    assert sa.run("SELECT 1 FROM dbo.city WITH (INDEX(nix))").numbers == [308]


@pytest.mark.parametrize("level", ["SERIALIZABLE", "SNAPSHOT"])
def test_readpast_needs_a_lower_level(sa: User, level: str) -> None:
    """Error 650 (table hints: READPAST)."""
    sa.ok(f"ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON; SET TRANSACTION ISOLATION LEVEL {level}")
    assert sa.run("SELECT 1 FROM dbo.city WITH (READPAST)").numbers == [650]
    assert sa.ok("SELECT COUNT(*) FROM dbo.city WITH (READPAST, READCOMMITTEDLOCK)").value == 4


def test_readpast_under_read_committed_snapshot_needs_locks(sa: User) -> None:
    """Table hints: READPAST cannot be specified there without READCOMMITTEDLOCK."""
    sa.ok("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON")
    assert sa.run("SELECT 1 FROM dbo.city WITH (READPAST)").numbers == [650]
    assert sa.ok("SELECT COUNT(*) FROM dbo.city WITH (READPAST, READCOMMITTEDLOCK)").value == 4
    assert sa.ok("DELETE TOP (1) FROM dbo.river WITH (READPAST)").counts == [1]


def test_a_value_named_twice_in_an_in_list_gives_its_row_once(sa: User) -> None:
    """IN: the list is a set, under the column's collation and in its type."""
    sa.ok(
        "CREATE TABLE dbo.n (name nvarchar(9) NOT NULL PRIMARY KEY, at datetime2(3) NULL);"
        " CREATE INDEX ix ON dbo.n (at)"
    )
    sa.ok("INSERT dbo.n VALUES (N'a', '2020-01-01'), (N'b', NULL)")
    assert rows(sa, "SELECT name FROM dbo.n WITH (FORCESEEK) WHERE name IN (N'A', N'a', N'a ', NULL)") == [("a",)]
    inner = "SELECT x FROM (VALUES (N'A'), (N'a')) v (x)"
    assert rows(sa, f"SELECT name FROM dbo.n WITH (FORCESEEK) WHERE name IN ({inner})") == [("a",)]
    dates = "SELECT '2020-01-01'"
    assert rows(sa, f"SELECT name FROM dbo.n WITH (INDEX(ix), FORCESEEK) WHERE at IN ({dates})") == [("a",)]
