-- End of each batch that changes a lease row: always exactly one result set with exactly one row.
--
-- It runs after the statement's own commit has hardened, so a Done row is proof. @err is tested as well: rollbacks do not undo
-- table variables. Seen is an unlocked read: who stands in the row when we do not. Times go out as ISO text, exact to 100 ns, because no
-- Python driver reads datetimeoffset without a converter; the error goes out as a number, because drivers lose or reorder errors.
SELECT @err                                                                          AS ErrorNumber,
       d.LeaseName                                                                   AS DoneName,
       d.Owner                                                                       AS DoneOwner,
       d.PreviousOwner                                                               AS PreviousOwner,
       CONVERT(nvarchar(34), d.AcquiredAt, 126)                                      AS DoneAcquiredAt,
       CONVERT(nvarchar(34), @expires, 126)                                          AS DoneExpiresAt,
       CAST(d.Version AS bigint)                                                     AS DoneVersion,
       t.LeaseName                                                                   AS SeenName,
       t.OwnerInstanceId                                                             AS SeenOwner,
       CONVERT(nvarchar(34), t.AcquiredAtUtc, 126)                                   AS SeenAcquiredAt,
       CONVERT(nvarchar(34), t.RenewedAtUtc, 126)                                    AS SeenRenewedAt,
       CONVERT(nvarchar(34), t.ExpiresAtUtc, 126)                                    AS SeenExpiresAt,
       DATEDIFF_BIG(microsecond, @now, t.ExpiresAtUtc)                               AS SeenRemainingUs,
       t.Metadata                                                                    AS SeenMetadata
  FROM (VALUES (1)) AS o (one)
  LEFT JOIN @done AS d ON @err = 0
  LEFT JOIN $(table) AS t WITH (READUNCOMMITTED) ON t.LeaseName = @name AND d.LeaseName IS NULL;
