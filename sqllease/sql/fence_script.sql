-- For T-SQL of your own: put this into the transaction that writes, right before its COMMIT. It throws when the tenure is over, and
-- else keeps the lease row locked until the transaction ends, so that your writes commit before anybody takes the lease over.
-- Same database only. Keep the transaction short, never renew the lease from inside it, and do not run it at SNAPSHOT.
--   @LeaseName nvarchar(200), @OwnerId nvarchar(128), @Tenure datetimeoffset(7): lease.name, lease.owner_id, lease.tenure
IF @@TRANCOUNT = 0 OR NOT EXISTS (
    SELECT 1
      FROM $(table) AS t WITH (REPEATABLEREAD, ROWLOCK, FORCESEEK)
     WHERE t.LeaseName = @LeaseName
       AND t.OwnerInstanceId = @OwnerId COLLATE Latin1_General_100_BIN2
       AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@OwnerId)
       AND t.AcquiredAtUtc = @Tenure)
BEGIN;
    THROW 51004, N'sqllease: the lease is lost, or there is no transaction', 1;
END;
