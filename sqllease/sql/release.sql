-- Give one tenure back. With a hold (hold-at-least) that has not passed, the row stays and rests: an owner that no valid owner id can
-- equal, until AcquiredAtUtc + hold. Else the row goes.
DECLARE @name    nvarchar(200)     = ?;
DECLARE @owner   nvarchar(128)     = ?;
DECLARE @tenure  datetimeoffset(7) = ?;
DECLARE @rest    nvarchar(128)     = ?;
DECLARE @hold_s  int               = ?;
DECLARE @hold_us int               = ?;

DECLARE @expires datetimeoffset(7) = DATEADD(microsecond, @hold_us, DATEADD(second, @hold_s, @tenure));

BEGIN TRY
    -- Without a hold a tenure also ends at once when it began in the future: the clock went back, or stood still.
    IF (@hold_s > 0 OR @hold_us > 0) AND @expires > @now
        UPDATE t
           SET OwnerInstanceId = @rest,
               RenewedAtUtc    = @now,
               ExpiresAtUtc    = @expires
        OUTPUT deleted.LeaseName, deleted.OwnerInstanceId, deleted.AcquiredAtUtc, inserted.[RowVersion]
          INTO @done (LeaseName, Owner, AcquiredAt, Version)
          FROM $(table) AS t WITH (UPDLOCK, ROWLOCK)
         WHERE t.LeaseName = @name
           AND t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
           AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)
           AND t.AcquiredAtUtc = @tenure;
    ELSE
        DELETE t
        OUTPUT deleted.LeaseName, deleted.OwnerInstanceId, deleted.AcquiredAtUtc, deleted.[RowVersion]
          INTO @done (LeaseName, Owner, AcquiredAt, Version)
          FROM $(table) AS t WITH (UPDLOCK, ROWLOCK)
         WHERE t.LeaseName = @name
           AND t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
           AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)
           AND t.AcquiredAtUtc = @tenure;
END TRY
BEGIN CATCH
    SET @err = ERROR_NUMBER();
    IF @err NOT IN (601, 1204, 1205, 1222, 3960)
    BEGIN;
        THROW;
    END;
END CATCH;
