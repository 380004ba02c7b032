"""T-SQL text -> tokens with their lines. Knows spelling only; knows no grammar.

Hand-written, since sqlglot's tokenizer is not exact for T-SQL: it splits ``@@ROWCOUNT``, ``#t``, ``!<``, ``1.e5`` and
``$1.5``, makes ``0x`` an identifier, merges ``ORDER BY``, and dates a string by the line where it ends.
QUOTED_IDENTIFIER is ON, as every driver sets it: ``"x"`` is a name.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .sqltypes import SqlError, unsupported


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# docs/t-sql/language-elements/reserved-keywords-transact-sql.md; what is not here may name things without brackets.
RESERVED = words(
    """ADD ALL ALTER AND ANY AS ASC AUTHORIZATION BACKUP BEGIN BETWEEN BREAK BROWSE BULK BY CASCADE CASE CHECK
    CHECKPOINT CLOSE CLUSTERED COALESCE COLLATE COLUMN COMMIT COMPUTE CONSTRAINT CONTAINS CONTAINSTABLE CONTINUE
    CONVERT CREATE CROSS CURRENT CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER CURSOR DATABASE DBCC
    DEALLOCATE DECLARE DEFAULT DELETE DENY DESC DISK DISTINCT DISTRIBUTED DOUBLE DROP DUMP ELSE END ERRLVL ESCAPE
    EXCEPT EXEC EXECUTE EXISTS EXIT EXTERNAL FETCH FILE FILLFACTOR FOR FOREIGN FREETEXT FREETEXTTABLE FROM FULL
    FUNCTION GOTO GRANT GROUP HAVING HOLDLOCK IDENTITY IDENTITY_INSERT IDENTITYCOL IF IN INDEX INNER INSERT
    INTERSECT INTO IS JOIN KEY KILL LEFT LIKE LINENO LOAD MERGE NATIONAL NOCHECK NONCLUSTERED NOT NULL NULLIF OF
    OFF OFFSETS ON OPEN OPENDATASOURCE OPENQUERY OPENROWSET OPENXML OPTION OR ORDER OUTER OVER PERCENT PIVOT PLAN
    PRECISION PRIMARY PRINT PROC PROCEDURE PUBLIC RAISERROR READ READTEXT RECONFIGURE REFERENCES REPLICATION
    RESTORE RESTRICT RETURN REVERT REVOKE RIGHT ROLLBACK ROWCOUNT ROWGUIDCOL RULE SAVE SCHEMA SECURITYAUDIT SELECT
    SEMANTICKEYPHRASETABLE SEMANTICSIMILARITYDETAILSTABLE SEMANTICSIMILARITYTABLE SESSION_USER SET SETUSER SHUTDOWN
    SOME STATISTICS SYSTEM_USER TABLE TABLESAMPLE TEXTSIZE THEN TO TOP TRAN TRANSACTION TRIGGER TRUNCATE
    TRY_CONVERT TSEQUAL UNION UNIQUE UNPIVOT UPDATE UPDATETEXT USE USER VALUES VARYING VIEW WAITFOR WHEN WHERE
    WHILE WITH WRITETEXT"""
)


class Token(NamedTuple):
    """kind: keyword, word, quoted, variable, string, nstring, number, binary, dollar, sign or end.

    text: the name or string without its quotes, else as written (``end`` repeats the last token's, for messages).
    key: what a grammar compares: words in upper case and signs; '' for anything quoted and for constants.
    """

    kind: str
    text: str
    key: str
    line: int


_TOKEN = re.compile(
    r"""(?P<space> \s+ | --[^\n]*+ )
      | (?P<comment> /\* )
      | (?P<nstring> [Nn]'[^']*+(?:''[^']*+)*+' )
      | (?P<string> '[^']*+(?:''[^']*+)*+' )
      | (?P<quoted> \[[^\]]*+(?:\]\][^\]]*+)*+\] | "[^"]*+(?:""[^"]*+)*+" )
      | (?P<open> [Nn]?' | \[ | " )
      | (?P<word> (?:[^\W\d]|\#)[\w@$\#]*+ )
      | (?P<variable> @[\w@$\#]++ )
      | (?P<binary> 0[xX](?:[0-9a-fA-F]|\\\r?\n)*+ )
      | (?P<number> (?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]*+)? )
      | (?P<dollar> \$[^\W\d]\w*+ )
      | (?P<money> [$\u00a2-\u00a5\u20ac] )
      | (?P<sign> [-+*/%&^|]= | <> | [<>!]= | ![<>] | :: | [-+*/%&^|~=<>(),.;:{}?] )""",
    re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_CONTINUED_LINE = re.compile(r"\\\r?\n")
_SAME_SIGN = {"!=": "<>", "!<": ">=", "!>": "<="}
_MAX_NAME = 128


def tokenize(text: str) -> list[Token]:
    """Raises 102, 103, 105, 113 or 1038; the last token is of kind ``end``."""
    tokens: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        kind, written = (match.lastgroup, match.group()) if match else (None, text[position])
        if kind == "comment":
            written = text[position : _end_of_comment(text, position, line)]
        elif kind == "open":
            opened = text[position + len(written) :]
            raise _error(105, f"Unclosed quotation mark after the character string '{opened}'.", line)
        elif kind != "space":
            tokens.append(_token(kind, written, line))
        position += len(written)
        line += written.count("\n")
    last = tokens[-1] if tokens else Token("end", "", "", 1)
    return [*tokens, Token("end", last.text, "", last.line)]


def _error(number: int, message: str, line: int) -> SqlError:
    return SqlError(number, message, severity=15, line=line)


def _end_of_comment(text: str, position: int, line: int) -> int:
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, position):  # comments nest
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    raise _error(113, "Missing end comment mark '*/'.", line)


def _token(kind: str | None, written: str, line: int) -> Token:
    text, key = written, ""
    if kind in ("string", "nstring"):
        text = _CONTINUED_LINE.sub("", written[written.index("'") + 1 : -1].replace("''", "'"))
    elif kind == "quoted":
        text = written[1:-1].replace(written[-1] * 2, written[-1])
    elif kind == "binary":
        text = _CONTINUED_LINE.sub("", written)
    elif kind in ("word", "dollar", "sign"):
        key = _SAME_SIGN.get(written, written.upper())
        kind = "keyword" if key in RESERVED else kind
    elif kind == "money":
        raise unsupported("money constant", line=line)
    if kind is None:
        raise _error(102, f"Incorrect syntax near '{written}'.", line)
    if kind == "quoted" and not text:
        message = (
            "An object or column name is missing or empty. For SELECT INTO statements, verify each column has a name. "
            'For other statements, look for empty alias names. Aliases defined as "" or [] are not allowed. Change the '
            "alias to a valid name."
        )
        raise _error(1038, message, line)
    if kind in ("quoted", "word", "variable") and len(text) > _MAX_NAME:
        start = text[:_MAX_NAME]
        raise _error(103, f"The identifier that starts with '{start}' is too long. Maximum length is 128.", line)
    return Token(kind, text, key, line)
