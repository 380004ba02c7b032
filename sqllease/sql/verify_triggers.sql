-- The enabled triggers of the lease table.
SELECT r.name                                  AS TriggerName,
       CAST(r.is_instead_of_trigger AS int)    AS IsInsteadOf
  FROM sys.triggers AS r
 WHERE r.parent_id = OBJECT_ID($(table_literal)) AND r.is_disabled = 0
 ORDER BY r.name;
