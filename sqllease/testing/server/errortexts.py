"""The texts of sys.messages that the interpreter raises, with their severities and states.

One place for wording; when an error is due is known by the rooms that raise it.
"""

from __future__ import annotations

import re

from .sqltypes import SqlError

_TEXTS = r"""
102 15 1 Incorrect syntax near '{}'.
104 15 1 ORDER BY items must appear in the select list if the statement contains a UNION, INTERSECT or EXCEPT
  operator.
107 15 1 The column prefix '{}' does not match with a table name or alias name used in the query.
108 15 1 The ORDER BY position number {} is out of range of the number of items in the select list.
109 15 1 There are more columns in the INSERT statement than values specified in the VALUES clause. The number of
  values in the VALUES clause must match the number of columns specified in the INSERT statement.
110 15 1 There are fewer columns in the INSERT statement than values specified in the VALUES clause. The number of
  values in the VALUES clause must match the number of columns specified in the INSERT statement.
127 15 1 A TOP N or FETCH rowcount value may not be negative.
130 16 1 Cannot perform an aggregate function on an expression containing an aggregate or a subquery.
134 15 1 The variable name '{}' has already been declared. Variable names must be unique within a query batch or
  stored procedure.
137 15 2 Must declare the scalar variable "{}".
141 15 1 A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.
145 15 1 ORDER BY items must appear in the select list if SELECT DISTINCT is specified.
148 15 1 Incorrect time syntax in time string '{}' used with WAITFOR.
191 15 1 Some part of your SQL statement is nested too deeply. Rewrite the query or break it up into smaller queries.
201 16 4 Procedure or function '{}' expects parameter '{}', which was not supplied.
205 16 1 All queries combined using a UNION, INTERSECT or EXCEPT operator must have an equal number of expressions in
  their target lists.
207 16 1 Invalid column name '{}'.
208 16 1 Invalid object name '{}'.
209 16 1 Ambiguous column name '{}'.
213 16 1 Column name or number of supplied values does not match table definition.
214 16 2 Procedure expects parameter '{}' of type '{}'.
217 16 1 Maximum stored procedure, function, trigger, or view nesting level exceeded (limit 32).
226 16 6 ALTER DATABASE statement not allowed within multi-statement transaction.
229 14 5 The {} permission was denied on the object '{}', database '{}', schema '{}'.
262 14 1 {} permission denied in database '{}'.
264 16 1 The column name '{}' is specified more than once in the SET clause or column list of an INSERT. A column
  cannot be assigned more than one value in the same clause. Modify the clause to make sure that a column is updated
  only once. If this statement updates or inserts columns into a view, column aliasing can conceal the duplication in
  your code.
266 16 2 Transaction count after EXECUTE indicates a mismatching number of BEGIN and COMMIT statements. Previous count
  = {}, current count = {}.
272 16 1 Cannot update a timestamp column.
273 16 1 Cannot insert an explicit value into a timestamp column. Use INSERT with a column list to exclude the
  timestamp column, or insert a DEFAULT into the timestamp column.
300 14 1 VIEW SERVER STATE permission was denied on object 'server', database 'master'.
308 16 1 Index '{}' on table '{}.{}' (specified in the FROM clause) does not exist.
331 16 1 The target table '{}' of the OUTPUT INTO clause cannot have any enabled triggers.
333 16 1 The target table '{}' of the OUTPUT INTO clause cannot have any enabled check constraints or any enabled
  rules. Found check constraint or rule '{}'.
334 16 1 The target table '{}' of the DML statement cannot have any enabled triggers if the statement contains an
  OUTPUT clause without INTO clause.
468 16 1 Cannot resolve the collation conflict between "{}" and "{}" in the {} operation.
515 16 2 Cannot insert the value NULL into column '{}', table '{}'; column does not allow nulls. {} fails.
544 16 1 Cannot insert explicit value for identity column in table '{}' when IDENTITY_INSERT is set to OFF.
545 16 1 Explicit value must be specified for identity column in table '{}' either when IDENTITY_INSERT is set to ON
  or when a replication user is inserting into a NOT FOR REPLICATION identity column.
547 16 0 The {} statement conflicted with the CHECK constraint "{}". The conflict occurred in database "{}", table
  "{}.{}"{}.
628 16 1 Cannot issue SAVE TRANSACTION when there is no active transaction.
650 16 1 You can only specify the READPAST lock in the READ COMMITTED or REPEATABLE READ isolation levels.
911 16 1 Database '{}' does not exist. Make sure that the name is entered correctly.
916 14 1 The server principal "{}" is not able to access the database "{}" under the current security context.
1011 16 1 The correlation name '{}' is specified multiple times in a FROM clause.
1047 15 1 Conflicting locking hints specified.
1060 15 1 The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.
1062 15 1 The TOP N WITH TIES clause is not allowed without a corresponding ORDER BY clause.
1087 15 2 Must declare the table variable "{}".
1088 16 1 Cannot find the object "{}" because it does not exist or you do not have permissions.
1202 16 1 The database-principal '{}' does not exist or user is not a member.
1223 16 1 Cannot release the application lock (Database Principal: '{}', Resource: '{}') because it is not currently
  held.
1224 16 5 An invalid application lock resource was passed to {}.
1230 16 1 An invalid database principal was passed to {}.
1902 16 3 Cannot create more than one clustered index on table '{}'. Drop the existing clustered index '{}' before
  creating another.
1911 16 1 Column name '{}' does not exist in the target table or view.
1913 16 1 The operation failed because an index or statistics with name '{}' already exists on table '{}.{}'.
2111 16 1 Cannot create trigger '{}' on table '{}.{}' because an INSTEAD OF trigger already exists on this object.
2705 16 3 Column names in each table must be unique. Column name '{}' is specified more than once.
2714 16 6 There is already an object named '{}' in the database.
2738 16 1 A table can only have one timestamp column. Because table '{}' already has one, the column cannot be added.
2747 16 1 Too many substitution parameters for RAISERROR. Cannot exceed {} substitution parameters.
2748 16 1 Cannot specify {} data type (parameter {}) as a substitution parameter.
2754 16 1 Error severity levels greater than 18 can only be specified by members of the sysadmin role, using the WITH
  LOG option.
2760 16 1 The specified schema name "{}" either does not exist or you do not have permission to use it.
2786 16 1 The data type of substitution parameter {} does not match the expected type of the format specification.
2812 16 62 Could not find stored procedure '{}'.
3609 16 1 The transaction ended in the trigger. The batch has been aborted.
3701 11 5 Cannot drop the {} '{}', because it does not exist or you do not have permission.
3728 16 1 '{}' is not a constraint.
3729 16 1 Cannot drop schema '{}' because it is being referenced by object '{}'.
3902 16 1 The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.
3903 16 1 The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.
3906 16 2 Failed to update database "{}" because the database is read-only.
3930 16 1 The current transaction cannot be committed and cannot support operations that write to the log file. Roll
  back the transaction.
3931 16 1 The current transaction cannot be committed and cannot be rolled back to a savepoint. Roll back the entire
  transaction.
3952 16 1 Snapshot isolation transaction failed accessing database '{}' because snapshot isolation is not allowed in
  this database. Use ALTER DATABASE to allow snapshot isolation.
3998 16 1 Uncommittable transaction is detected at the end of the batch. The transaction is rolled back.
4060 11 1 Cannot open database "{}" requested by the login. The login failed.
4104 16 1 The multi-part identifier "{}" could not be bound.
4406 16 1 Update or insert of view or function '{}' failed because it contains a derived or constant field.
4613 16 1 Grantor does not have GRANT permission.
4701 16 1 Cannot find the object "{}" because it does not exist or you do not have permissions.
4901 16 1 ALTER TABLE only allows columns to be added that can contain nulls, or have a DEFAULT definition specified,
  or the column being added is an identity or timestamp column. Column '{}' cannot be added to non-empty table '{}'
  because it does not satisfy these conditions.
4902 16 1 Cannot find the object "{}" because it does not exist or you do not have permissions.
4922 16 9 ALTER TABLE DROP COLUMN {} failed because one or more objects access this column.
4924 16 1 ALTER TABLE DROP COLUMN failed because column '{}' does not exist in table '{}'.
5011 14 5 User does not have permission to alter database '{}', the database does not exist, or the database is not in
  a state that allows access checks.
5334 16 1 The identifier '{}' cannot be bound. Only target columns are allowed in the 'WHEN NOT MATCHED BY SOURCE'
  clause of a MERGE statement.
8102 16 1 Cannot update identity column '{}'.
8107 16 1 IDENTITY_INSERT is already ON for table '{}'. Cannot perform SET operation for table '{}'.
8110 16 0 Cannot add multiple PRIMARY KEY constraints to table '{}'.
8111 16 1 Cannot define PRIMARY KEY constraint on nullable column in table '{}'.
8112 16 0 Cannot add more than one clustered index for constraints on table '{}'.
8120 16 1 Column '{}' is invalid in the select list because it is not contained in either an aggregate function or the
  GROUP BY clause.
8144 16 2 Procedure or function {} has too many arguments specified.
8145 16 2 {} is not a parameter for procedure {}.
8154 16 1 The table '{}' is ambiguous.
8155 16 1 No column name was specified for column {} of '{}'.
8158 16 1 '{}' has more columns than were specified in the column list.
8159 16 1 '{}' has fewer columns than were specified in the column list.
8178 16 1 The parameterized query '({}){}' expects the parameter '{}', which was not supplied.
8179 16 2 Could not find prepared statement with handle {}.
8197 16 4 The object '{}' does not exist or is invalid for this operation.
8622 16 1 Query processor could not produce a query plan because of the hints defined in this query. Resubmit the
  query without specifying any hints and without using SET FORCEPLAN.
8672 16 1 The MERGE statement attempted to UPDATE or DELETE the same row more than once. This happens when a target
  row matches more than one source row. A MERGE statement cannot UPDATE/DELETE the same row of the target table
  multiple times. Refine the ON clause to ensure a target row matches at most one source row, or use the GROUP BY
  clause to group the source rows.
10704 15 1 To rethrow an error, a THROW statement must be used inside a CATCH block.
10705 15 1 Subqueries are not allowed in the OUTPUT clause.
10709 16 1 The number of columns for each row in a table value constructor must be the same.
10742 15 1 The offset specified in a OFFSET clause may not be negative.
11502 16 1 The type for parameter '{}' cannot be deduced in this version of the stand-in.
15007 16 1 '{}' is not a valid login or you do not have permission.
15023 16 1 User, group, or role '{}' already exists in the current database.
15025 16 1 The server principal '{}' already exists.
15135 16 8 Object is invalid. Extended properties are not permitted on '{}', or the object does not exist.
15151 16 1 Cannot find the {} '{}', because it does not exist or you do not have permission.
15217 16 1 Property cannot be updated or deleted. Property '{}' does not exist for '{}.{}'.
15233 16 1 Property cannot be added. Property '{}' already exists for '{}.{}'.
15247 16 1 User does not have permission to perform this action.
18456 14 1 Login failed for user '{}'.
35100 16 1 Error number {} in the THROW statement is outside the valid range. Specify an error number in the valid
  range of 50000 to 2147483647.
"""  # number, severity, state, text; indented lines go on


def _parsed() -> dict[int, tuple[int, int, str]]:
    lines = re.sub(r"\n  +", " ", _TEXTS).strip().splitlines()
    entries = (line.split(" ", 3) for line in lines)
    return {int(number): (int(severity), int(state), text) for number, severity, state, text in entries}


_MESSAGES = _parsed()


def sql_error(number: int, *values: object, line: int = 1) -> SqlError:
    """The error with its text, the values filled in where the text has places for them."""
    severity, state, text = _MESSAGES[number]
    return SqlError(number, text.format(*values), severity=severity, state=state, line=line)
