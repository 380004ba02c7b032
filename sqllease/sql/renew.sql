-- Move the expiry of one tenure forward. An expired row is never revived, an expiry never moved back.
DECLARE @name        nvarchar(200)     = ?;
DECLARE @owner       nvarchar(128)     = ?;
DECLARE @tenure      datetimeoffset(7) = ?;
DECLARE @duration_s  int               = ?;
DECLARE @duration_us int               = ?;

DECLARE @expires datetimeoffset(7) = DATEADD(microsecond, @duration_us, DATEADD(second, @duration_s, @now));

BEGIN TRY
    UPDATE t
       SET RenewedAtUtc = @now,
           ExpiresAtUtc = CASE WHEN t.ExpiresAtUtc > @expires THEN t.ExpiresAtUtc ELSE @expires END
    OUTPUT inserted.LeaseName, inserted.OwnerInstanceId, inserted.AcquiredAtUtc, inserted.[RowVersion]
      INTO @done (LeaseName, Owner, AcquiredAt, Version)
      FROM $(table) AS t WITH (UPDLOCK, ROWLOCK)
     WHERE t.LeaseName = @name
       AND t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
       AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)
       AND t.AcquiredAtUtc = @tenure
       AND t.ExpiresAtUtc > @now;
END TRY
BEGIN CATCH
    SET @err = ERROR_NUMBER();
    IF @err NOT IN (601, 1204, 1205, 1222, 3960)
    BEGIN;
        THROW;
    END;
END CATCH;
