-- An operator takes a lease away from the owner that was seen, and from nobody else. The row goes, resting or not.
DECLARE @name  nvarchar(200) = ?;
DECLARE @owner nvarchar(128) = ?;
DECLARE @rest  nvarchar(128) = ?;   -- the same owner while its lease rests
DECLARE @broken TABLE (
    LeaseName  nvarchar(200)     NOT NULL,
    Owner      nvarchar(128)     NOT NULL,
    AcquiredAt datetimeoffset(7) NOT NULL,
    RenewedAt  datetimeoffset(7) NOT NULL,
    ExpiresAt  datetimeoffset(7) NOT NULL,
    Metadata   nvarchar(1024)    NULL
);

DELETE t
OUTPUT deleted.LeaseName, deleted.OwnerInstanceId, deleted.AcquiredAtUtc, deleted.RenewedAtUtc, deleted.ExpiresAtUtc, deleted.Metadata
  INTO @broken (LeaseName, Owner, AcquiredAt, RenewedAt, ExpiresAt, Metadata)
  FROM $(table) AS t WITH (UPDLOCK, ROWLOCK)
 WHERE t.LeaseName = @name
   AND t.LeaseName = @name COLLATE Latin1_General_100_BIN2
   AND DATALENGTH(t.LeaseName) = DATALENGTH(@name)
   AND ((t.OwnerInstanceId = @owner COLLATE Latin1_General_100_BIN2 AND DATALENGTH(t.OwnerInstanceId) = DATALENGTH(@owner))
        OR t.OwnerInstanceId = @rest COLLATE Latin1_General_100_BIN2);

SELECT b.LeaseName                                        AS SeenName,
       b.Owner                                            AS SeenOwner,
       CONVERT(nvarchar(34), b.AcquiredAt, 126)           AS SeenAcquiredAt,
       CONVERT(nvarchar(34), b.RenewedAt, 126)            AS SeenRenewedAt,
       CONVERT(nvarchar(34), b.ExpiresAt, 126)            AS SeenExpiresAt,
       DATEDIFF_BIG(microsecond, @now, b.ExpiresAt)       AS SeenRemainingUs,
       b.Metadata                                         AS SeenMetadata
  FROM @broken AS b;
