-- Inside the caller's transaction: finds the row of this tenure, if it is not over. The row stays locked until the transaction ends.
--
-- A take-over, release or sweep of the row needs an exclusive lock on it, so it waits for this transaction: whatever the clocks say, the
-- caller's writes commit before the next tenure begins. Shared (REPEATABLEREAD), not update: an update lock would block the acquires
-- of neighbour names and other fences of the same owner. A plain read, also under read committed snapshot, is no fence. Owner and tenure
-- decide, not the expiry: a predicate on it could bring in another index, and with it another lock order.
-- No SET statement: the session is the caller's, and stays as it is.
DECLARE @name   nvarchar(200)     = ?;
DECLARE @owner  nvarchar(128)     = ?;
DECLARE @tenure datetimeoffset(7) = ?;

IF @@TRANCOUNT = 0 AND (@@OPTIONS & 2) = 0
BEGIN;
    THROW 51001, N'sqllease: the fence must run inside a transaction', 1;
END;
IF (SELECT s.transaction_isolation_level FROM sys.dm_exec_sessions AS s WHERE s.session_id = @@SPID) = 5
BEGIN;
    THROW 51002, N'sqllease: the fence cannot run at the isolation level SNAPSHOT', 1;
END;

SELECT CAST(t.[RowVersion] AS bigint)                                                                AS FencedVersion,
       CASE WHEN t.ExpiresAtUtc > CAST(SYSUTCDATETIME() AS datetimeoffset(7)) THEN 1 ELSE 0 END      AS Unexpired
  FROM $(table) AS t WITH (REPEATABLEREAD, ROWLOCK, FORCESEEK)
 WHERE t.LeaseName = @name
   AND t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
   AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)
   AND t.AcquiredAtUtc = @tenure;
