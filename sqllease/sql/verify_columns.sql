-- The columns of the lease table, and what kind of object it is. Needs any right on the table.
SELECT o.type                              AS ObjectType,
       c.name                              AS ColumnName,
       t.name                              AS TypeName,
       CAST(c.max_length AS int)           AS MaxLength,
       CAST(c.scale AS int)                AS Scale,
       CAST(c.is_nullable AS int)          AS IsNullable,
       c.collation_name                    AS CollationName
  FROM sys.objects AS o
  JOIN sys.columns AS c ON c.object_id = o.object_id
  JOIN sys.types AS t ON t.user_type_id = c.user_type_id
 WHERE o.object_id = OBJECT_ID($(table_literal))
 ORDER BY c.column_id;
