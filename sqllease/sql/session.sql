-- Beginning of each batch on a connection of the library's own. $(lock_timeout_ms) is an integer written by the library.
--
-- The session's settings may have leaked in from whoever used the pooled connection before: sp_reset_connection does not reset
-- the isolation level, and SET ROWCOUNT caps DML and answers. So each batch sets what it relies on. NOCOUNT: else each statement is a result set for ODBC.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;
SET ROWCOUNT 0;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT $(lock_timeout_ms);

-- In an open transaction nothing below would be committed by its own end, and a replica would show its first picture for ever:
-- unixODBC's pool hands out such connections.
IF @@TRANCOUNT > 0
BEGIN;
    THROW 51000, N'sqllease: the lease connection has an open transaction', 1;
END;
