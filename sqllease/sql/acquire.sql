-- Take a lease: free, expired, or already ours. Loses without a lock when another owner's lease is seen to be alive.
DECLARE @name         nvarchar(200)     = ?;
DECLARE @owner        nvarchar(128)     = ?;
DECLARE @metadata     nvarchar(1024)    = ?;
DECLARE @has_metadata bit               = ?;   -- a NULL parameter would cost a second round trip (sp_describe_undeclared_parameters)
DECLARE @duration_s   int               = ?;
DECLARE @duration_us  int               = ?;   -- seconds and microseconds apart: DATEADD takes an int, 2,147 s of microseconds
DECLARE @hold_s       int               = ?;
DECLARE @hold_us      int               = ?;
DECLARE @grace_s      int               = ?;
DECLARE @grace_us     int               = ?;
DECLARE @last         datetimeoffset(7) = NULLIF(?, N'');   -- the last tenure that the caller knows of
DECLARE @keep         bit               = ?;                -- 1: @last is still the caller's, refresh it; 0: begin a new tenure

IF @has_metadata = 0
    SET @metadata = NULL;

DECLARE @expires  datetimeoffset(7) = DATEADD(microsecond, @duration_us, DATEADD(second, @duration_s, @now));
DECLARE @takeable datetimeoffset(7) = DATEADD(microsecond, -@grace_us, DATEADD(second, -@grace_s, @now));
DECLARE @kept     datetimeoffset(7) = CASE WHEN @keep = 1 THEN @last END;

-- A new tenure begins strictly later than any that the caller knows, also when the clock stood still or went back:
-- a delayed release of an old tenure can then never fit the new one.
DECLARE @begin datetimeoffset(7) = CASE WHEN @last >= @now THEN DATEADD(nanosecond, 100, @last) ELSE @now END;

-- While the lease is held, the row also covers the hold (hold-at-least): a crash cannot shorten it.
DECLARE @until datetimeoffset(7) = DATEADD(microsecond, @hold_us, DATEADD(second, @hold_s, @begin));
IF @until < @expires
    SET @until = @expires;

-- The same for the tenure that is kept, which may have been begun without a hold.
DECLARE @kept_until datetimeoffset(7) = DATEADD(microsecond, @hold_us, DATEADD(second, @hold_s, @kept));
IF @kept_until < @expires
    SET @kept_until = @expires;

DECLARE @refused bit = 0;
BEGIN TRY
    -- Losing is cheap: a dirty read can only make a caller lose a moment too long, or send it to the MERGE, which decides.
    SELECT @refused = 1
      FROM $(table) AS t WITH (READUNCOMMITTED)
     WHERE t.LeaseName = @name
       AND DATALENGTH(t.LeaseName) = DATALENGTH(@name)
       AND t.ExpiresAtUtc > @takeable
       AND NOT (t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
                AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner));

    IF @refused = 0
        -- UPDLOCK and HOLDLOCK together: without HOLDLOCK two callers both find no row and both insert (2627); with HOLDLOCK alone both
        -- keep shared range locks and deadlock on the way to exclusive ones (1205). ROWLOCK: page locks meet neighbours.
        -- FORCESEEK: a scan under HOLDLOCK would lock the whole table; where no seek is possible it fails loudly (8622).
        -- Unexpired and matched means ours, so AcquiredAtUtc alone tells whether it is the tenure to keep.
        -- The ON clause compares with a variable, which takes the column's collation: the seek works on tables of any collation.
        MERGE INTO $(table) WITH (UPDLOCK, HOLDLOCK, ROWLOCK, FORCESEEK) AS t
        USING (VALUES (1)) AS s (one)
           ON t.LeaseName = @name
        WHEN MATCHED AND t.LeaseName = @name COLLATE Latin1_General_100_BIN2
                     AND DATALENGTH(t.LeaseName) = DATALENGTH(@name)
                     AND (t.ExpiresAtUtc <= @takeable
                          OR (t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2
                              AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner)))
            THEN UPDATE SET
                AcquiredAtUtc   = CASE WHEN t.AcquiredAtUtc = @kept AND t.ExpiresAtUtc > @now THEN t.AcquiredAtUtc
                                       WHEN t.AcquiredAtUtc >= @begin THEN DATEADD(nanosecond, 100, t.AcquiredAtUtc)
                                       ELSE @begin END,
                ExpiresAtUtc    = CASE WHEN t.AcquiredAtUtc = @kept AND t.ExpiresAtUtc > @now
                                       THEN CASE WHEN t.ExpiresAtUtc > @kept_until THEN t.ExpiresAtUtc ELSE @kept_until END
                                       ELSE @until END,
                RenewedAtUtc    = @now,
                OwnerInstanceId = @owner,
                Metadata        = @metadata
        WHEN NOT MATCHED BY TARGET
            THEN INSERT (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc, Metadata)
                 VALUES (@name, @owner, @begin, @now, @until, @metadata)
        OUTPUT inserted.LeaseName, inserted.OwnerInstanceId, deleted.OwnerInstanceId, inserted.AcquiredAtUtc, inserted.[RowVersion]
          INTO @done (LeaseName, Owner, PreviousOwner, AcquiredAt, Version);
END TRY
BEGIN CATCH
    SET @err = ERROR_NUMBER();
    IF @err NOT IN (601, 1204, 1205, 1222, 2601, 2627, 3960)
    BEGIN;
        THROW;
    END;
END CATCH;
