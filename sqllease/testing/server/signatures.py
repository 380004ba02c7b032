"""Functions and global variables that only the session or the catalogue can answer: parameters and result types.

Declarations only; the values come from ``frame.session.intrinsic``. Also the functions that are known and refused.
"""

from __future__ import annotations

from .sqltypes import BIGINT, INT, ROWVERSION, SMALLINT, TINYINT, SqlType, nvarchar, varbinary

SYSNAME = nvarchar(128)
VARIANT = SqlType("sql_variant")

_IDENTITY = SqlType("decimal", precision=38)

INTRINSICS: dict[str, tuple[str, SqlType]] = {
    # name: (parameters: n nvarchar, i int, x binary; ? what follows is optional), result
    "OBJECT_ID": ("n?n", INT), "OBJECT_NAME": ("i?i", SYSNAME), "OBJECT_SCHEMA_NAME": ("i?i", SYSNAME),
    "SCHEMA_ID": ("?n", INT), "SCHEMA_NAME": ("?i", SYSNAME), "DB_ID": ("?n", INT), "DB_NAME": ("?i", SYSNAME),
    "COL_LENGTH": ("nn", SMALLINT), "COL_NAME": ("ii", SYSNAME), "TYPE_NAME": ("i", SYSNAME),
    "DATABASEPROPERTYEX": ("nn", VARIANT), "SERVERPROPERTY": ("n", VARIANT), "SESSIONPROPERTY": ("n", VARIANT),
    "CONNECTIONPROPERTY": ("n", VARIANT), "INDEXPROPERTY": ("inn", INT), "OBJECTPROPERTY": ("in", INT),
    "COLUMNPROPERTY": ("inn", INT), "XACT_STATE": ("", SMALLINT), "CURRENT_TRANSACTION_ID": ("", BIGINT),
    "SCOPE_IDENTITY": ("", _IDENTITY), "ROWCOUNT_BIG": ("", BIGINT),
    "ERROR_NUMBER": ("", INT), "ERROR_MESSAGE": ("", nvarchar(4000)), "ERROR_SEVERITY": ("", INT),
    "ERROR_STATE": ("", INT), "ERROR_LINE": ("", INT), "ERROR_PROCEDURE": ("", SYSNAME),
    "HAS_PERMS_BY_NAME": ("nnn?nn", INT), "IS_ROLEMEMBER": ("n?n", INT),
    "IS_SRVROLEMEMBER": ("n?n", INT), "SUSER_SNAME": ("?x", SYSNAME), "SUSER_NAME": ("?i", SYSNAME),
    "SUSER_ID": ("?n", INT), "ORIGINAL_LOGIN": ("", SYSNAME), "USER_NAME": ("?i", SYSNAME),
    "CURRENT_USER": ("", SYSNAME), "SESSION_USER": ("", SYSNAME),
    "SYSTEM_USER": ("", SYSNAME), "USER": ("", SYSNAME), "APP_NAME": ("", SYSNAME), "HOST_NAME": ("", SYSNAME),
    "MIN_ACTIVE_ROWVERSION": ("", ROWVERSION), "APPLOCK_MODE": ("nnn", nvarchar(32)),
    "APPLOCK_TEST": ("nnnn", SMALLINT),
}  # fmt: skip

GLOBALS: dict[str, SqlType] = {
    "@@ROWCOUNT": INT, "@@TRANCOUNT": INT, "@@ERROR": INT, "@@VERSION": nvarchar(300), "@@SPID": SMALLINT,
    "@@OPTIONS": INT, "@@LOCK_TIMEOUT": INT, "@@SERVERNAME": SYSNAME, "@@SERVICENAME": SYSNAME, "@@DBTS": varbinary(8),
    "@@IDENTITY": _IDENTITY, "@@NESTLEVEL": INT, "@@PROCID": INT, "@@DATEFIRST": TINYINT, "@@LANGUAGE": SYSNAME,
    "@@LANGID": SMALLINT, "@@TEXTSIZE": INT, "@@MAX_PRECISION": TINYINT, "@@MICROSOFTVERSION": INT,
}  # fmt: skip

REFUSED = frozenset((
    "BINARY_CHECKSUM", "CERTENCODED", "CHECKSUM", "CHECKSUM_AGG", "COMPRESS", "CONCAT_WS", "CONTEXT_INFO", "COS",
    "CRYPT_GEN_RANDOM", "CURSOR_STATUS", "DATABASE_PRINCIPAL_ID", "DATEFROMPARTS", "DATENAME", "DATETIME2FROMPARTS",
    "DATETIMEFROMPARTS", "DATETIMEOFFSETFROMPARTS", "DATETRUNC", "DATE_BUCKET", "DECOMPRESS", "DIFFERENCE", "EOMONTH",
    "EVENTDATA", "EXP", "FORMAT", "FORMATMESSAGE", "GENERATE_SERIES", "GETANSINULL", "GREATEST", "GROUPING",
    "HASHBYTES", "IDENT_CURRENT", "IDENT_INCR", "IDENT_SEED", "INDEX_COL", "ISDATE", "ISJSON", "ISNUMERIC", "IS_MEMBER",
    "JSON_MODIFY", "JSON_QUERY", "JSON_VALUE", "LAG", "LEAD", "LEAST", "LOG", "LOG10", "NEWSEQUENTIALID", "NTILE",
    "OBJECT_DEFINITION", "PATINDEX", "PI", "POWER", "RAND", "RANK", "REVERSE", "ROW_NUMBER", "SESSION_CONTEXT", "SIN",
    "SMALLDATETIMEFROMPARTS", "SOUNDEX", "SQL_VARIANT_PROPERTY", "SQRT", "SQUARE", "STATS_DATE", "STDEV", "STR",
    "STRING_AGG", "STRING_ESCAPE", "STRING_SPLIT", "STUFF", "TAN", "TIMEFROMPARTS", "TRANSLATE", "TRIGGER_NESTLEVEL",
    "TYPE_ID", "UPDATE", "USER_ID", "VAR", "VARP",
))  # fmt: skip
"""Functions that SQL Server has and this server does not."""
