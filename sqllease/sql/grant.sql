-- All rights that an application needs at run time, given to one role. Safe to run again.
-- Put the application's user into the role: ALTER ROLE ... ADD MEMBER ...;
IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = $(role_literal))
    EXEC ($(create_role_literal));

GRANT SELECT, INSERT, UPDATE, DELETE ON OBJECT::$(table) TO $(role);
