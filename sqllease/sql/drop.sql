-- Removes the lease table and every lease in it. The schema stays: other objects may live there. Safe to run again.
IF OBJECT_ID($(table_literal), N'U') IS NOT NULL
    DROP TABLE $(table);
