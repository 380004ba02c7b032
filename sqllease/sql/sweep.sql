-- After a won acquire, now and then: delete some rows that have been expired for long. $(sweep_limit) and $(sweep_after_s) are integers
-- written by the library. It never waits (LOCK_TIMEOUT 0), so it can be part of no deadlock; it is a commit of its own; it finds rows
-- without locks on the expiry index and deletes them through the key, in the same lock order as everybody else; and it comes
-- after the answer, so that no failure of it can touch the acquire.
IF @err = 0 AND EXISTS (SELECT 1 FROM @done)
BEGIN
    DECLARE @stale datetimeoffset(7) = DATEADD(second, -$(sweep_after_s), @now);
    SET LOCK_TIMEOUT 0;
    BEGIN TRY
        DELETE t
          FROM $(table) AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
         WHERE t.ExpiresAtUtc <= @stale
           AND t.LeaseName IN (SELECT TOP ($(sweep_limit)) x.LeaseName
                                 FROM $(table) AS x WITH (READUNCOMMITTED)
                                WHERE x.ExpiresAtUtc <= @stale
                                ORDER BY x.ExpiresAtUtc)
        OPTION (LOOP JOIN, MAXDOP 1);
    END TRY
    BEGIN CATCH
        SET @err = ERROR_NUMBER();   -- somebody is at work on those rows: next time, then
    END CATCH;
END;
