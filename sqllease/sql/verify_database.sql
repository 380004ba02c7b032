-- The database and the login's rights on the lease table.
SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(32))       AS Updateability,
       CAST(d.delayed_durability AS int)                                           AS DelayedDurability,
       CAST(d.is_read_committed_snapshot_on AS int)                                AS RowVersioning,
       HAS_PERMS_BY_NAME($(table_literal), N'OBJECT', N'SELECT')                   AS MaySelect,
       HAS_PERMS_BY_NAME($(table_literal), N'OBJECT', N'INSERT')                   AS MayInsert,
       HAS_PERMS_BY_NAME($(table_literal), N'OBJECT', N'UPDATE')                   AS MayUpdate,
       HAS_PERMS_BY_NAME($(table_literal), N'OBJECT', N'DELETE')                   AS MayDelete,
       (SELECT t.lock_escalation_desc FROM sys.tables AS t WHERE t.object_id = OBJECT_ID($(table_literal)))  AS LockEscalation,
       (SELECT CAST(p.value AS nvarchar(64)) FROM sys.extended_properties AS p
         WHERE p.major_id = OBJECT_ID($(table_literal)) AND p.minor_id = 0 AND p.class = 1
           AND p.name = N'sqllease.schema_version')                                AS SchemaVersion
  FROM sys.databases AS d
 WHERE d.name = DB_NAME();
