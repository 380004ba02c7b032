-- Read lease rows without a lock: advisory, never a proof. The WHERE clause is empty, or names one lease.
SELECT t.LeaseName                                                                   AS SeenName,
       t.OwnerInstanceId                                                             AS SeenOwner,
       CONVERT(nvarchar(34), t.AcquiredAtUtc, 126)                                   AS SeenAcquiredAt,
       CONVERT(nvarchar(34), t.RenewedAtUtc, 126)                                    AS SeenRenewedAt,
       CONVERT(nvarchar(34), t.ExpiresAtUtc, 126)                                    AS SeenExpiresAt,
       DATEDIFF_BIG(microsecond, CAST(SYSUTCDATETIME() AS datetimeoffset(7)), t.ExpiresAtUtc) AS SeenRemainingUs,
       t.Metadata                                                                    AS SeenMetadata
  FROM $(table) AS t WITH (READUNCOMMITTED)
 $(filter)
 ORDER BY t.LeaseName;
