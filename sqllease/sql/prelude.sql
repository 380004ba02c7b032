-- Beginning of each batch that changes a lease row. $(lock_timeout_ms) is an integer written by the library.
--
-- The session's settings may have leaked in from whoever used the pooled connection before: sp_reset_connection does not reset
-- the isolation level, and SET ROWCOUNT caps DML. So each batch sets what it relies on. NOCOUNT: else each statement is a result set for ODBC.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;
SET ROWCOUNT 0;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SET LOCK_TIMEOUT $(lock_timeout_ms);

-- In an open transaction nothing below would be committed by its own end: unixODBC's pool hands out such connections.
IF @@TRANCOUNT > 0
BEGIN;
    THROW 51000, N'sqllease: the lease connection has an open transaction', 1;
END;

-- One reading of the server's clock for the whole batch, taken before any wait: take-overs get stricter and expiries shorter, both safe.
DECLARE @now datetimeoffset(7) = SYSUTCDATETIME();
DECLARE @err int = 0;

-- What the locking statement did. OUTPUT goes INTO here, because a bare OUTPUT fails on a table with triggers (error 334)
-- and sends rows of statements that are rolled back later. rowversion is caught in binary(8) (error 273 otherwise).
DECLARE @done TABLE (
    LeaseName     nvarchar(200)     NOT NULL,
    Owner         nvarchar(128)     NOT NULL,
    PreviousOwner nvarchar(128)     NULL,
    AcquiredAt    datetimeoffset(7) NOT NULL,
    Version       binary(8)         NOT NULL
);
