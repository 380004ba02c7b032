-- The indexes of the lease table, one row for each key column.
SELECT i.name                              AS IndexName,
       CAST(i.is_unique AS int)            AS IsUnique,
       CAST(i.is_disabled AS int)          AS IsDisabled,
       CAST(i.has_filter AS int)           AS HasFilter,
       CAST(k.key_ordinal AS int)          AS KeyOrdinal,
       c.name                              AS ColumnName
  FROM sys.indexes AS i
  JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
  JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
 WHERE i.object_id = OBJECT_ID($(table_literal)) AND k.key_ordinal > 0
 ORDER BY i.index_id, k.key_ordinal;
