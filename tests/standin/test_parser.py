"""The T-SQL parser of the stand-in: what it reads, where it says what is wrong, what it refuses."""

from __future__ import annotations

from decimal import Decimal
from textwrap import dedent
from typing import Any

import pytest

from sqllease.testing.server import syntax as s
from sqllease.testing.server.lexer import tokenize
from sqllease.testing.server.parser import parse_batch, parse_declarations
from sqllease.testing.server.sqltypes import INT, MAX, SqlError, SqlType, nvarchar, varbinary, varchar

ONE = s.Literal(1, INT)
TWO = s.Literal(2, INT)
THREE = s.Literal(3, INT)
A, B, C = s.Column("a"), s.Column("b"), s.Column("c")


def parse(text: str) -> Any:
    """The only statement of a batch."""
    (statement,) = parse_batch(text)
    return statement


def value(text: str) -> s.Expr:
    """An expression, read as the only item of a SELECT."""
    item: s.Expr = parse(f"SELECT {text}").query.items[0].expr
    return item


def holds(text: str) -> s.Expr:
    """A condition, read behind WHERE."""
    test: s.Expr = parse(f"SELECT 1 WHERE {text}").query.where
    return test


def source(text: str) -> s.Source:
    found: s.Source = parse(f"SELECT 1 FROM {text}").query.source
    return found


def table(name: str, alias: str | None = None, hints: tuple[str, ...] = ()) -> s.TableRef:
    return s.TableRef(s.ObjectName(name), alias, hints)


def error(text: str) -> SqlError:
    with pytest.raises(SqlError) as caught:
        parse_batch(text)
    return caught.value


def kinds(text: str) -> list[type[s.Statement]]:
    return [type(statement) for statement in parse_batch(text)]


# --- tokens ---


def test_quotes_inside_quotes_are_halved() -> None:
    tokens = [(token.kind, token.text) for token in tokenize("""'a''b' N'c''' [d]]e] "f""g" """)]
    assert tokens[:4] == [("string", "a'b"), ("nstring", "c'"), ("quoted", "d]e"), ("quoted", 'f"g')]


def test_comments_nest_and_count_lines() -> None:
    tokens = tokenize("/* a\n/* b */\n'*/ -- c ' /*\nSELECT 1 -- [\n+ 2")
    assert [(token.text, token.line) for token in tokens[:4]] == [("SELECT", 4), ("1", 4), ("+", 5), ("2", 5)]


def test_a_token_has_the_line_on_which_it_begins() -> None:
    assert [token.line for token in tokenize("'a\nb' c")] == [1, 2, 2]


def test_a_backslash_at_the_end_of_a_line_continues_a_string() -> None:
    assert tokenize("'a\\\nb'")[0].text == "ab"


@pytest.mark.parametrize(
    ("written", "number", "sql_type"),
    [
        ("1", 1, INT),
        ("2147483647", 2147483647, INT),
        ("2147483648", Decimal(2147483648), SqlType("decimal", precision=10)),
        ("1.50", Decimal("1.50"), SqlType("decimal", precision=3, scale=2)),
        ("0.5", Decimal("0.5"), SqlType("decimal", precision=1, scale=1)),
        (".5", Decimal("0.5"), SqlType("decimal", precision=1, scale=1)),
        ("1.e5", 1e5, SqlType("float")),
        ("2.5E-1", 0.25, SqlType("float")),
        ("1e", 1.0, SqlType("float")),
        ("0x", b"", varbinary(1)),
        ("0xABC", b"\x0a\xbc", varbinary(2)),
        ("'ab'", "ab", varchar(2)),
        ("''", "", varchar(1)),
        ("N'\U0001f63c'", "\U0001f63c", nvarchar(2)),
        (f"N'{'x' * 4001}'", "x" * 4001, nvarchar(MAX)),
        ("NULL", None, INT),
    ],
)
def test_a_constant_has_its_type(written: str, number: object, sql_type: SqlType) -> None:
    assert value(written) == s.Literal(number, sql_type)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "number", "line", "message"),
    [
        ("SELECT 1;\nSELECT 'abc", 105, 2, "Unclosed quotation mark after the character string 'abc'."),
        ("SELECT [abc", 105, 1, "Unclosed quotation mark after the character string 'abc'."),
        ("\n/* a /* b */", 113, 2, "Missing end comment mark '*/'."),
        ("SELECT ?", 102, 1, "Incorrect syntax near '?'."),
        ("SELECT 1 AS []", 1038, 1, None),
        (f"SELECT {'x' * 129}", 103, 1, None),
        (f"SELECT {'9' * 39}", 1007, 1, None),
        (f"SELECT {'9' * 5000}", 1007, 1, None),
        ("SELECT 1e999", 168, 1, None),
        (f"SELECT TOP {'9' * 5000} 1", 102, 1, None),
        ("SELECT 1\nFROM\nWHERE a = 1", 156, 3, "Incorrect syntax near the keyword 'WHERE'."),
        ("SELECT 1 + ", 102, 1, "Incorrect syntax near '+'."),
        ("select 1 from", 102, 1, "Incorrect syntax near 'from'."),
        ("SELECT a > 1", 102, 1, "Incorrect syntax near '>'."),
        ("SELECT 1 WHERE a", 4145, 1, None),
        ("SELECT 1 WHERE (a = 1) = 1", 102, 1, "Incorrect syntax near '='."),
        ("SELECT @a = 1, b", 141, 1, None),
        ("SELECT * FROM (SELECT a FROM t ORDER BY a) AS x", 1033, 1, None),
        ("SELECT * FROM (SELECT 1 AS a)", 102, 1, None),
        ("SELECT * FROM t WITH (BANANA)", 321, 1, '"BANANA" is not a recognized table hints option.'),
        ("END", 156, 1, "Incorrect syntax near the keyword 'END'."),
        ("BEGIN END", 156, 1, "Incorrect syntax near the keyword 'END'."),
        ("BEGIN TRY SELECT 1 END TRY; BEGIN CATCH END CATCH", 102, 1, "Incorrect syntax near ';'."),
        ("BREAK", 135, 1, None),
        ("WHILE 1 = 1 SELECT 1; CONTINUE", 136, 1, None),
        ("RETURN 1", 178, 1, None),
        ("THROW", 10704, 1, None),
        ("SET BANANA ON", 195, 1, "'BANANA' is not a recognized SET option."),
        ("EXEC p 1 OUTPUT", 179, 1, None),
        ("EXEC p 1, @a = 2, 3", 119, 1, None),
        ("ALTER TABLE t DROP COLUMN CONSTRAINT a", 156, 1, None),
        ("EXEC p 1 + 1", 102, 1, "Incorrect syntax near '+'."),
        ("SELECT 1; CREATE SCHEMA x", 111, 1, "'CREATE SCHEMA' must be the first statement in a query batch."),
        ("IF 1 = 1 CREATE SCHEMA x", 156, 1, "Incorrect syntax near the keyword 'SCHEMA'."),
        ("SELECT 1; CREATE TRIGGER x ON t AFTER INSERT AS SELECT 1", 111, 1, None),
        ("DECLARE @a nvarchar(4001)", 2717, 1, None),
        ("DECLARE @a varchar(8001)", 131, 1, None),
        ("DECLARE @a varchar(0)", 1001, 1, None),
        ("DECLARE @a datetime2(8)", 1002, 1, None),
        ("DECLARE @a decimal(39)", 2750, 1, None),
        ("DECLARE @a decimal(3, 4)", 192, 1, None),
        ("DECLARE @a banana", 2715, 1, None),
        ("SELECT CAST(1 AS banana)", 243, 1, "Type banana is not a defined system type."),
        ("DELETE TOP 5 FROM t", 102, 1, "Incorrect syntax near '5'."),
    ],
)
def test_a_wrong_batch_ends_in_the_error_of_the_original(
    text: str, number: int, line: int, message: str | None
) -> None:
    raised = error(text)
    assert (raised.number, raised.line) == (number, line)
    assert message is None or raised.message == message
    assert raised.severity == (16 if number in (243, 2715, 2750) else 15)


def test_parentheses_beyond_measure_are_error_191() -> None:
    assert error(f"SELECT {'(' * 5000}1{')' * 5000}").number == 191


# --- expressions ---


def test_operators_keep_their_order() -> None:
    assert value("a + b * c") == s.Binary("+", A, s.Binary("*", B, C))
    assert value("a - b - c") == s.Binary("-", s.Binary("-", A, B), C)
    assert value("a & b + c") == s.Binary("+", s.Binary("&", A, B), C)
    assert value("~a * b") == s.Binary("*", s.Unary("~", A), B)


def test_a_minus_sign_binds_weaker_than_multiplication() -> None:
    assert value("a / -b * c") == s.Binary("/", A, s.Unary("-", s.Binary("*", B, C)))


def test_not_and_or_keep_their_order() -> None:
    a, b, c = (s.Compare("=", column, ONE) for column in (A, B, C))
    assert holds("NOT a = 1 AND b = 1 OR c = 1") == s.Or((s.And((s.Not(a), b)), c))
    assert holds("a = 1 AND (b = 1 OR c = 1)") == s.And((a, s.Or((b, c))))
    assert holds("a = 1 OR b = 1 OR c = 1") == s.Or((a, b, c))


def test_parentheses_hold_values_or_conditions() -> None:
    assert holds("(a + b) * c > 1") == s.Compare(">", s.Binary("*", s.Binary("+", A, B), C), ONE)
    assert holds("((a = 1))") == s.Compare("=", A, ONE)


@pytest.mark.parametrize(("written", "op"), [("!=", "<>"), ("!<", ">="), ("!>", "<="), ("<=", "<=")])
def test_each_comparison_has_one_sign(written: str, op: Any) -> None:
    assert holds(f"a {written} 1") == s.Compare(op, A, ONE)


def test_predicates_and_their_negations() -> None:
    assert holds("a IS NOT NULL") == s.IsNull(A, negated=True)
    assert holds("a LIKE b ESCAPE 'x'") == s.Like(A, B, s.Literal("x", varchar(1)))
    assert holds("a NOT BETWEEN 1 AND 2 AND b = 1") == s.And((s.Between(A, ONE, TWO, True), s.Compare("=", B, ONE)))
    assert holds("a NOT IN (1, 2)") == s.InList(A, (ONE, TWO), negated=True)
    one = s.Select((s.SelectItem(ONE),))
    assert holds("a IN (SELECT 1)") == s.InQuery(A, one)
    assert holds("NOT EXISTS (SELECT 1)") == s.Not(s.Exists(one))


def test_collate_binds_to_what_stands_before_it() -> None:
    assert holds("a = b COLLATE X_BIN2") == s.Compare("=", A, s.Collate(B, "X_BIN2"))


def test_forms_that_look_like_functions() -> None:
    assert value("CAST(a AS nvarchar)") == s.Cast(A, nvarchar(30))
    assert value("TRY_CAST(a AS varbinary(max))") == s.Cast(A, varbinary(), tolerant=True)
    assert value("CONVERT(varchar(23), a, 1)") == s.Cast(A, varchar(23), ONE)
    assert value("IIF(a = 1, 1, 2)") == s.Case(None, ((s.Compare("=", A, ONE), ONE),), TWO)
    assert value("CASE a WHEN 1 THEN b END") == s.Case(A, ((ONE, B),))
    assert value("CURRENT_TIMESTAMP") == s.Function("CURRENT_TIMESTAMP")
    assert value("left(a, 1)") == s.Function("LEFT", (A, ONE))
    assert value("COUNT(*)") == s.Function("COUNT", (s.Star(),))
    assert value("COUNT(DISTINCT a)") == s.Function("COUNT", (A,), distinct=True)
    assert value("DATEADD(second, 1, a)") == s.Function("DATEADD", (s.Column("second"), ONE, A))
    assert value("(SELECT 1)") == s.ScalarQuery(s.Select((s.SelectItem(ONE),)))


def test_names_have_up_to_four_parts() -> None:
    assert value("d.s.t.[c d]") == s.Column("c d", s.ObjectName("t", "s", "d"))
    assert source("d..t") == s.TableRef(s.ObjectName("t", None, "d"))


def test_two_at_signs_make_a_global_variable() -> None:
    assert value("@@RowCount") == s.GlobalVariable("@@rowcount")
    assert value("@Row") == s.Variable("@Row")


# --- queries ---


def test_items_may_be_named_in_four_ways() -> None:
    items = parse("SELECT a AS x, a y, z = a, a AS 'w', a").query.items
    assert [item.alias for item in items] == ["x", "y", "z", "w", None]


def test_a_select_may_assign() -> None:
    assert parse("SELECT @a = 1, @b += b").query.items == (
        s.SelectAssign("@a", "=", ONE),
        s.SelectAssign("@b", "+=", B),
    )


def test_top_needs_no_parentheses_in_select() -> None:
    assert parse("SELECT TOP 1 a").query.top == s.Top(ONE)
    assert parse("SELECT TOP (@n) PERCENT WITH TIES a").query.top == s.Top(s.Variable("@n"), True, True)


def test_all_clauses_of_a_query() -> None:
    query = parse(
        "SELECT DISTINCT a FROM t WHERE b = 1 GROUP BY a, c HAVING COUNT(*) > 1 "
        "ORDER BY a DESC, c OFFSET 1 ROWS FETCH NEXT 2 ROWS ONLY OPTION (MAXDOP 1, LOOP JOIN, RECOMPILE)"
    ).query
    assert query == s.Select(
        (s.SelectItem(A),),
        table("t"),
        s.Compare("=", B, ONE),
        (A, C),
        s.Compare(">", s.Function("COUNT", (s.Star(),)), ONE),
        (s.OrderItem(A, descending=True), s.OrderItem(C)),
        distinct=True,
        offset=ONE,
        fetch=TWO,
    )


def test_intersect_binds_stronger_than_union() -> None:
    one, two, three = (s.Select((s.SelectItem(item),)) for item in (ONE, TWO, THREE))
    union = s.SetOperation("union all", one, s.SetOperation("intersect", two, three), (s.OrderItem(ONE),))
    assert parse("SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT 3 ORDER BY 1").query == union
    except_ = s.SetOperation("except", s.SetOperation("union", one, two), three)
    assert parse("(SELECT 1 UNION SELECT 2) EXCEPT SELECT 3").query == except_


def test_joins_nest_to_the_left_and_a_comma_is_weakest() -> None:
    on = s.Compare("=", A, B)
    a, b, c = table("a"), table("b"), table("c")
    assert source("a JOIN b ON a = b LEFT OUTER JOIN c ON a = b") == s.Join("left", s.Join("inner", a, b, on), c, on)
    assert source("a JOIN b LEFT JOIN c ON a = b ON a = b") == s.Join("inner", a, s.Join("left", b, c, on), on)
    assert source("a, b CROSS JOIN c") == s.Join("cross", a, s.Join("cross", b, c))
    assert source("(a FULL JOIN b ON a = b)") == s.Join("full", a, b, on)


def test_sources_other_than_tables() -> None:
    one = s.Select((s.SelectItem(ONE),))
    assert source("(SELECT 1) AS x (a)") == s.DerivedTable(one, "x", ("a",))
    assert source("(VALUES (1, 2), (2, 1)) x (a, b)") == s.ValuesTable(((ONE, TWO), (TWO, ONE)), "x", ("a", "b"))
    assert source("@t AS x") == table("@t", "x")
    assert source("t OUTER APPLY (SELECT 1) x") == s.Join("outer apply", table("t"), s.DerivedTable(one, "x"))


def test_table_hints_stay_in_the_tree() -> None:
    hints = ("UPDLOCK", "HOLDLOCK", "INDEX(PK_X, 1)", "FORCESEEK(IX(a))", "INDEX(2)")
    assert source("t x WITH (updlock, HOLDLOCK INDEX(PK_X, 1), FORCESEEK (IX (a)), INDEX = 2)") == table(
        "t", "x", hints
    )
    assert source("t (NOLOCK)") == table("t", None, ("NOLOCK",))


def test_common_tables_stand_before_any_statement_on_rows() -> None:
    ctes = (s.CommonTable("x", s.Select((s.SelectItem(ONE),)), ("a",)),)
    for rest in ("SELECT * FROM x", "DELETE FROM x", "UPDATE x SET a = 1", "INSERT t SELECT a FROM x"):
        assert parse(f"WITH x (a) AS (SELECT 1) {rest}").ctes == ctes


# --- statements that write rows ---


def test_insert_takes_values_defaults_or_a_query() -> None:
    assert parse("INSERT INTO s.t (a, b) VALUES (1, DEFAULT), (2, 1)") == s.Insert(
        s.ObjectName("t", "s"), ("a", "b"), ((ONE, None), (TWO, ONE))
    )
    assert parse("INSERT t DEFAULT VALUES").default_values
    assert parse("INSERT t (SELECT 1)").query == s.Select((s.SelectItem(ONE),))


def test_output_goes_into_named_columns() -> None:
    node = parse("INSERT t (a) OUTPUT inserted.a, inserted.* INTO @x (p, q) VALUES (1)")
    inserted = s.SelectItem(s.Column("a", s.ObjectName("inserted")))
    assert node.output == s.OutputClause((inserted, s.SelectItem(s.Star("inserted"))), s.ObjectName("@x"), ("p", "q"))


def test_delete_with_output_and_where() -> None:
    node = parse("DELETE FROM t OUTPUT deleted.a WHERE a = 1")
    assert node.target == s.ObjectName("t")
    assert node.output == s.OutputClause((s.SelectItem(s.Column("a", s.ObjectName("deleted"))),))
    assert node.where == s.Compare("=", A, ONE)


def test_delete_top_from_is_no_table_named_top() -> None:
    assert parse("DELETE TOP (2) FROM t WITH (READPAST)") == s.Delete(
        s.ObjectName("t"), top=s.Top(TWO), hints=("READPAST",)
    )
    assert parse("DELETE TOP (2) t") == s.Delete(s.ObjectName("t"), top=s.Top(TWO))


def test_delete_by_an_alias() -> None:
    assert parse("DELETE x FROM t AS x") == s.Delete(s.ObjectName("x"), table("t", "x"))


def test_update_assigns_columns_and_variables() -> None:
    node = parse(
        "UPDATE TOP (1) x SET x.a = DEFAULT, b += 1, @v = c = 1, @w = a OUTPUT deleted.a FROM t AS x WHERE c = 1"
    )
    assert node.top == s.Top(ONE)
    assert node.assignments == (
        s.Assignment("a", None),
        s.Assignment("b", ONE, op="+="),
        s.Assignment("c", ONE, "@v"),
        s.Assignment(None, A, "@w"),
    )
    assert (node.source, node.where) == (table("t", "x"), s.Compare("=", C, ONE))


def test_merge_with_all_its_clauses() -> None:
    node = parse(
        "MERGE TOP (1) INTO t WITH (HOLDLOCK) AS x USING (VALUES (1)) AS y (one) ON x.a = 1 "
        "WHEN MATCHED AND b = 1 THEN UPDATE SET x.a = 1 WHEN MATCHED THEN DELETE "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (a) VALUES (DEFAULT) WHEN NOT MATCHED BY SOURCE THEN DELETE "
        "OUTPUT $action, inserted.a INTO @won (Act, A);"
    )
    assert node.target == table("t", "x", ("HOLDLOCK",))
    assert node.source == s.ValuesTable(((ONE,),), "y", ("one",))
    assert node.whens == (
        s.MergeWhen("matched", s.Compare("=", B, ONE), "update", (s.Assignment("a", ONE),)),
        s.MergeWhen("matched", None, "delete"),
        s.MergeWhen("not matched", None, "insert", columns=("a",), values=(None,)),
        s.MergeWhen("not matched by source", None, "delete"),
    )
    assert node.output.items[0] == s.SelectItem(s.Column("$action"))
    assert (node.output.into, node.output.into_columns) == (s.ObjectName("@won"), ("Act", "A"))


@pytest.mark.parametrize(
    ("whens", "number"),
    [
        ("WHEN MATCHED THEN DELETE", 10713),
        ("WHEN MATCHED THEN INSERT VALUES (1);", 10711),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE;", 10714),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED AND 1 = 1 THEN UPDATE SET a = 1;", 5324),
        (";", 102),
    ],
)
def test_merge_clauses_that_cannot_be(whens: str, number: int) -> None:
    assert error(f"MERGE t USING u ON a = b {whens}").number == number


# --- batches ---


def test_statements_need_no_semicolons() -> None:
    text = """
        SET NOCOUNT ON SET XACT_ABORT ON
        DECLARE @a int = 1, @b nvarchar(max), @t TABLE (x int NOT NULL, y binary(8))
        SELECT 1 SELECT a FROM t x WHERE a = 1 UPDATE t SET a = 1 DELETE t WHERE a = 1 EXEC p 1 EXECUTE @a = p
        BEGIN TRAN COMMIT SAVE TRAN x ROLLBACK TRAN x PRINT 'x' WAITFOR DELAY '00:00:01' RAISERROR ('x', 16, 1)
        IF 1 = 1 SELECT 1 ELSE SELECT 2 WHILE 1 = 1 BREAK USE [app] RETURN"""
    assert " ".join(kind.__name__ for kind in kinds(text)) == (
        "SetOption SetOption Declare SelectStatement SelectStatement Update Delete Execute Execute BeginTransaction "
        "Commit SaveTransaction Rollback Print WaitFor RaiseError If While Use Return"
    )


def test_a_statement_has_the_line_of_its_first_word() -> None:
    block = parse("\n-- one\nBEGIN\n  SELECT 1\n\n  DELETE t\nEND")
    assert [block.line, *(statement.line for statement in block.body)] == [3, 4, 6]


def test_an_empty_batch_has_no_statements() -> None:
    assert parse_batch(" ;; -- nothing") == ()


def test_the_same_text_is_parsed_once() -> None:
    assert parse_batch("SELECT 'once'") is parse_batch("SELECT 'once'")


def test_else_follows_with_and_without_a_semicolon() -> None:
    for text in ("IF 1 = 1 SELECT 1 ELSE SELECT 2", "IF 1 = 1 SELECT 1; ELSE SELECT 2;"):
        assert isinstance(parse(text).otherwise, s.SelectStatement)
    assert error("IF 1 = 1 SELECT 1;; ELSE SELECT 2").number == 156


def test_else_belongs_to_the_nearest_if() -> None:
    outer = parse("IF 1 = 1 IF 2 = 2 SELECT 1 ELSE SELECT 2")
    assert outer.otherwise is None
    assert outer.then.otherwise is not None


def test_if_with_exec_of_a_text() -> None:
    node = parse("IF SCHEMA_ID(N'x') IS NULL EXEC (N'CREATE SCHEMA [x]')")
    assert node.condition == s.IsNull(s.Function("SCHEMA_ID", (s.Literal("x", nvarchar(1)),)))
    assert node.then == s.ExecuteText(s.Literal("CREATE SCHEMA [x]", nvarchar(17)))


def test_if_with_return_is_no_alias() -> None:
    assert kinds("IF 1 = 1 RETURN; SELECT 9") == [s.If, s.SelectStatement]


def test_try_and_catch() -> None:
    node = parse("BEGIN TRY SELECT 1; SELECT 2 END TRY BEGIN CATCH ROLLBACK; THROW; END CATCH;")
    assert [type(statement) for statement in node.body] == [s.SelectStatement, s.SelectStatement]
    assert node.handler == (s.Rollback(), s.Throw())
    assert parse("BEGIN TRY SELECT 1 END TRY BEGIN CATCH END CATCH").handler == ()


@pytest.mark.parametrize(
    "text", ["THROW 51000, N'x', 1", "BEGIN; THROW 51000, N'x', 1; END;", "IF 1 = 1 THROW 51000, N'x', 1"]
)
def test_throw_begins_a_statement_where_none_can_go_on(text: str) -> None:
    throw = s.Throw(s.Literal(51000, INT), s.Literal("x", nvarchar(1)), ONE)
    node = parse(text)
    assert throw in (node, getattr(node, "then", None), *getattr(node, "body", ()))


def test_throw_elsewhere_is_what_the_statement_before_makes_of_it() -> None:
    assert parse("SELECT 1 THROW").query.items[0].alias == "THROW"
    assert parse("ROLLBACK TRAN THROW") == s.Rollback("THROW")
    assert error("PRINT 'x'\nTHROW 51000, 'x', 1").message == "Incorrect syntax near 'THROW'."
    assert error("ROLLBACK THROW").number == 102


@pytest.mark.parametrize("before", ["SELECT 1", "DECLARE @a int = 1", "SELECT * FROM t"])
def test_with_needs_a_semicolon_before_it(before: str) -> None:
    raised = error(f"{before}\nWITH x AS (SELECT 1 AS a) SELECT * FROM x")
    assert (raised.number, raised.line) == (319, 2)
    assert kinds(f"{before};\nWITH x AS (SELECT 1 AS a) SELECT * FROM x")[-1] is s.SelectStatement


def test_go_is_not_a_statement() -> None:
    assert error("SELECT 1;\nGO\nSELECT 2").message == "Incorrect syntax near 'GO'."


# --- session ---


def test_variables_are_declared_with_their_first_values() -> None:
    node = parse("DECLARE @a nvarchar = N'x', @b AS datetimeoffset, @c decimal(5, 2), @d sys.sysname")
    assert node.items == (
        s.DeclareVariable("@a", nvarchar(1), s.Literal("x", nvarchar(1))),
        s.DeclareVariable("@b", SqlType("datetimeoffset", scale=7)),
        s.DeclareVariable("@c", SqlType("decimal", precision=5, scale=2)),
        s.DeclareVariable("@d", nvarchar(128)),
    )


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("SET @a += 1", s.SetVariable("@a", "+=", ONE)),
        ("SET LOCK_TIMEOUT -1", s.SetOption("LOCK_TIMEOUT", s.Unary("-", ONE))),
        ("SET DEADLOCK_PRIORITY low", s.SetOption("DEADLOCK_PRIORITY", "LOW")),
        ("SET ROWCOUNT @n", s.SetOption("ROWCOUNT", s.Variable("@n"))),
        ("set implicit_transactions off", s.SetOption("IMPLICIT_TRANSACTIONS", "OFF")),
        (
            " SET TRANSACTION ISOLATION LEVEL READ COMMITTED ",
            s.SetOption("TRANSACTION ISOLATION LEVEL", "READ COMMITTED"),
        ),
        ("SET IDENTITY_INSERT s.t ON", s.SetOption("IDENTITY_INSERT", "ON", s.ObjectName("t", "s"))),
        (
            "SET NOCOUNT, XACT_ABORT ON",
            s.Block((s.SetOption("NOCOUNT", "ON"), s.SetOption("XACT_ABORT", "ON"))),
        ),
        ("BEGIN TRANSACTION x", s.BeginTransaction("x")),
        ("COMMIT WORK", s.Commit()),
        ("COMMIT TRAN x WITH (DELAYED_DURABILITY = OFF)", s.Commit()),
        ("ROLLBACK TRANSACTION @x", s.Rollback("@x")),
        ("SAVE TRAN x", s.SaveTransaction("x")),
        ("RAISERROR (N'x', 16, 1) WITH NOWAIT", None),
    ],
)
def test_the_session_is_spoken_to(text: str, node: s.Statement | None) -> None:
    assert node is None or parse(text) == node


def test_exec_takes_constants_variables_and_defaults() -> None:
    node = parse(
        "EXEC @rc = sys.sp_getapplock @Resource = N'r', @LockMode = Exclusive, @b = DEFAULT, @c = @d OUTPUT, @e = -1"
    )
    assert node == s.Execute(
        s.ObjectName("sp_getapplock", "sys"),
        (
            s.Argument("@Resource", s.Literal("r", nvarchar(1))),
            s.Argument("@LockMode", s.Literal("Exclusive", nvarchar(9))),
            s.Argument("@b", None),
            s.Argument("@c", s.Variable("@d"), output=True),
            s.Argument("@e", s.Unary("-", ONE)),
        ),
        "@rc",
    )


def test_a_batch_may_begin_with_the_name_of_a_procedure() -> None:
    node = parse("sp_datatype_info_100 1,3")
    assert node == s.Execute(s.ObjectName("sp_datatype_info_100"), (s.Argument(None, ONE), s.Argument(None, THREE)))
    assert error("SELECT 1; sp_who").number == 102


def test_the_parameters_of_sp_executesql() -> None:
    assert parse_declarations("@P1 nvarchar(6),@P2 int OUTPUT, @P3 AS bigint = 5, @P4 ntext") == (
        s.ParameterDef("@P1", nvarchar(6)),
        s.ParameterDef("@P2", INT, output=True),
        s.ParameterDef("@P3", SqlType("bigint"), s.Literal(5, INT)),
        s.ParameterDef("@P4", nvarchar(MAX)),
    )
    assert parse_declarations("") == ()
    with pytest.raises(SqlError, match="near 'x'"):
        parse_declarations("@P1 int x")


# --- definitions ---


def test_a_table_with_everything_inline() -> None:
    node = parse(
        """CREATE TABLE [lease].[Leases] (
            a nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL CONSTRAINT DF_a DEFAULT N'x' CHECK (a > N''),
            b int IDENTITY(1, 2) PRIMARY KEY NONCLUSTERED,
            [RowVersion] rowversion NOT NULL,
            c datetimeoffset(3) NULL INDEX IX_c,
            CONSTRAINT PK_x UNIQUE CLUSTERED (a ASC, b) WITH (FILLFACTOR = 80),
            CONSTRAINT CK_x CHECK (b > 1 AND a = N'x'),
            INDEX IX_x NONCLUSTERED (c) INCLUDE (b)
        ) ON [PRIMARY];"""
    )
    x = s.Literal("x", nvarchar(1))
    check = s.TableConstraint("check", None, ("a",), check=s.Compare(">", A, s.Literal("", nvarchar(1))))
    assert node.name == s.ObjectName("Leases", "lease")
    assert node.columns == (
        s.ColumnDef(
            "a",
            nvarchar(200),
            nullable=False,
            collation="Latin1_General_100_BIN2",
            default=x,
            default_name="DF_a",
            constraints=(check,),
        ),
        s.ColumnDef(
            "b", INT, identity=(1, 2), constraints=(s.TableConstraint("primary key", None, ("b",), clustered=False),)
        ),
        s.ColumnDef("RowVersion", SqlType("rowversion", 8), nullable=False),
        s.ColumnDef("c", SqlType("datetimeoffset", scale=3), nullable=True),
    )
    assert node.constraints == (
        s.TableConstraint("unique", "PK_x", ("a", "b"), clustered=True),
        s.TableConstraint("check", "CK_x", check=s.And((s.Compare(">", B, ONE), s.Compare("=", A, x)))),
    )
    assert node.indexes == (s.IndexDef("IX_c", ("c",)), s.IndexDef("IX_x", ("c",), include=("b",)))


def test_a_unique_index_with_included_columns_and_options() -> None:
    node = parse("CREATE UNIQUE NONCLUSTERED INDEX i ON s.t (a, b) INCLUDE (c) WITH (ONLINE = ON)")
    assert node == s.CreateIndex(s.ObjectName("t", "s"), s.IndexDef("i", ("a", "b"), unique=True, include=("c",)))


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (
            "ADD a int NULL CONSTRAINT d DEFAULT 1 WITH VALUES",
            {"add_columns": (s.ColumnDef("a", INT, True, default=ONE, default_name="d", with_values=True),)},
        ),
        ("ADD CONSTRAINT k PRIMARY KEY (a)", {"add_constraints": (s.TableConstraint("primary key", "k", ("a",)),)}),
        ("DROP CONSTRAINT k", {"drop_constraint": "k"}),
        ("DROP COLUMN a", {"drop_column": "a"}),
        ("SET (LOCK_ESCALATION = DISABLE)", {"options": (("LOCK_ESCALATION", "DISABLE"),)}),
        ("DISABLE TRIGGER x", {"options": (("DISABLE TRIGGER", "x"),)}),
    ],
)
def test_a_table_is_altered(text: str, changes: dict[str, Any]) -> None:
    assert parse(f"ALTER TABLE t {text}") == s.AlterTable(s.ObjectName("t"), **changes)


def test_a_trigger_reaches_to_the_end_of_the_batch() -> None:
    node = parse("CREATE TRIGGER s.x ON s.t AFTER INSERT, UPDATE AS SET NOCOUNT ON; DELETE u RETURN")
    assert (node.name, node.table) == (s.ObjectName("x", "s"), s.ObjectName("t", "s"))
    assert (node.instead_of, node.events) == (False, ("insert", "update"))
    assert [type(statement) for statement in node.body] == [s.SetOption, s.Delete, s.Return]


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("CREATE SCHEMA x AUTHORIZATION dbo", s.CreateSchema("x", "dbo")),
        ("DROP TABLE IF EXISTS s.t", s.Drop("table", s.ObjectName("t", "s"), if_exists=True)),
        ("DROP INDEX i ON t", s.Drop("index", s.ObjectName("i"), table=s.ObjectName("t"))),
        ("DROP ROLE r", s.Drop("role", s.ObjectName("r"))),
        ("TRUNCATE TABLE t", s.Truncate(s.ObjectName("t"))),
        ("ALTER DATABASE CURRENT SET READ_ONLY", s.AlterDatabase(None, "READ_ONLY")),
        (
            "ALTER DATABASE [a] SET READ_COMMITTED_SNAPSHOT ON WITH ROLLBACK IMMEDIATE",
            s.AlterDatabase("a", "READ_COMMITTED_SNAPSHOT", "ON", "ROLLBACK IMMEDIATE"),
        ),
        ("ALTER DATABASE a SET DELAYED_DURABILITY = FORCED", s.AlterDatabase("a", "DELAYED_DURABILITY", "FORCED")),
        ("CREATE LOGIN l WITH PASSWORD = N'p', CHECK_POLICY = OFF", s.CreatePrincipal("login", "l", "p")),
        ("CREATE USER u FOR LOGIN l", s.CreatePrincipal("user", "u", login="l")),
        ("CREATE USER u", s.CreatePrincipal("user", "u", login="u")),
        ("CREATE USER u WITHOUT LOGIN", s.CreatePrincipal("user", "u")),
        ("CREATE ROLE [r]", s.CreatePrincipal("role", "r")),
        ("ALTER ROLE r ADD MEMBER u", s.AlterRole("r", "u")),
        ("ALTER ROLE r DROP MEMBER u", s.AlterRole("r", "u", add=False)),
        (
            "GRANT SELECT, INSERT ON OBJECT::[s].[t] TO [r], u",
            s.Permission("grant", ("SELECT", "INSERT"), "object", s.ObjectName("t", "s"), ("r", "u")),
        ),
        (
            "GRANT CREATE TABLE, VIEW DEFINITION TO r",
            s.Permission("grant", ("CREATE TABLE", "VIEW DEFINITION"), "database", None, ("r",)),
        ),
        (
            "DENY ALTER ON SCHEMA::s TO public",
            s.Permission("deny", ("ALTER",), "schema", s.ObjectName("s"), ("public",)),
        ),
        ("REVOKE SELECT ON t FROM r", s.Permission("revoke", ("SELECT",), "object", s.ObjectName("t"), ("r",))),
    ],
)
def test_definitions_and_rights(text: str, node: s.Statement) -> None:
    assert parse(text) == node


# --- refusals ---


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("SELECT ROW_NUMBER() OVER (ORDER BY a) FROM t", "OVER"),
        ("SELECT * FROM t PIVOT (MAX(a) FOR b IN (c)) AS p", "PIVOT"),
        ("SELECT * FROM t FOR XML PATH", "FOR XML"),
        ("SELECT * FROM t FOR JSON PATH", "FOR JSON"),
        ("SELECT * INTO u FROM t", "SELECT INTO"),
        ("SELECT * FROM OPENJSON(@a)", "OPENJSON() in FROM"),
        ("SELECT * FROM t OPTION (MAXRECURSION 5)", "OPTION (MAXRECURSION)"),
        ("SELECT 1 WHERE a = ANY (SELECT 1)", "ANY"),
        ("SELECT a FROM t GROUP BY ROLLUP (a)", "ROLLUP ("),
        ("SELECT a.value('x', 'int')", "a.value()"),
        ("SELECT dbo.f(1)", "dbo.f()"),
        ("SELECT @x.value('x', 'int')", "method call"),
        ("SELECT a AT TIME ZONE 'UTC'", "AT TIME ZONE"),
        ("SELECT NEXT VALUE FOR s", "NEXT VALUE FOR"),
        ("SELECT {fn NOW()}", "{"),
        ("SELECT $1.5", "money constant"),
        ("SELECT CAST(1 AS xml)", "xml"),
        ("INSERT t EXEC p", "INSERT EXEC"),
        ("INSERT TOP (1) t VALUES (1)", "INSERT TOP"),
        ("UPDATE t SET a = 1 WHERE CURRENT OF c", "WHERE CURRENT OF"),
        ("UPDATE t SET a.WRITE(1, 2, 3)", ".WRITE()"),
        ("DECLARE c CURSOR FOR SELECT 1", "CURSOR"),
        ("DECLARE @c CURSOR", "CURSOR"),
        ("FETCH NEXT FROM c", "FETCH"),
        ("GOTO x", "GOTO"),
        ("x: SELECT 1", "label"),
        ("BEGIN DISTRIBUTED TRAN", "DISTRIBUTED"),
        ("WAITFOR TIME '10:00'", "TIME"),
        ("EXECUTE AS USER = 'x'", "EXECUTE AS"),
        ("EXEC @p", "EXEC @procedure"),
        ("COMMIT WITH (DELAYED_DURABILITY = ON)", "ON"),
        ("SET QUOTED_IDENTIFIER OFF", "SET QUOTED_IDENTIFIER OFF"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
        ("CREATE PROCEDURE p AS SELECT 1", "CREATE PROCEDURE"),
        ("CREATE OR ALTER FUNCTION f() RETURNS int AS BEGIN RETURN 1 END", "CREATE OR"),
        ("CREATE TABLE t (a int REFERENCES u)", "REFERENCES"),
        ("CREATE TABLE t (a int, FOREIGN KEY (a) REFERENCES u (a))", "FOREIGN KEY"),
        ("CREATE TABLE t (a int, b AS a + 1)", "computed column"),
        ("CREATE TABLE t (a int INDEX i WITH (DATA = x))", "DATA = x"),
        ("CREATE INDEX i ON t (a DESC)", "DESC"),
        ("CREATE INDEX i ON t (a) WHERE a > 1", "filtered index"),
        ("ALTER INDEX i ON t REBUILD", "ALTER INDEX"),
        ("ALTER TABLE t ALTER COLUMN a int", "ALTER TABLE ALTER"),
        ("ALTER TABLE t ADD CONSTRAINT d DEFAULT 1 FOR a", "DEFAULT .. FOR"),
        ("ALTER DATABASE a SET RECOVERY SIMPLE", "ALTER DATABASE RECOVERY"),
        ("GRANT SELECT ON t TO u WITH GRANT OPTION", "WITH GRANT OPTION"),
        ("GRANT SELECT ON t (a) TO u", None),
        ("DBCC CHECKDB", "DBCC"),
        ("CREATE SCHEMA x CREATE TABLE t (a int)", "CREATE SCHEMA with elements"),
    ],
)
def test_what_the_tree_cannot_say_is_refused_by_name(text: str, construct: str | None) -> None:
    raised = error(text)
    if construct is None:
        assert raised.number in (102, 40517)
    else:
        assert (raised.number, raised.message.split("'", 1)[1].rsplit("' is not", 1)[0]) == (40517, construct)


def test_a_refusal_has_its_line() -> None:
    assert (
        error(
            dedent("""
        SELECT 1;
        GOTO x""")
        ).line
        == 3
    )
