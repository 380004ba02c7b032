-- One look at a lease row on a replica. No hint and no transaction: on a readable secondary every query is a snapshot and hints are
-- ignored, and a poll inside one transaction would see its first picture for ever. Updateability tells a secondary from the primary, which
-- a read-only connection may well reach.
DECLARE @name nvarchar(200) = ?;

SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(32))      AS Updateability,
       t.LeaseName                                                                AS ShownName,
       t.OwnerInstanceId                                                          AS ShownOwner,
       CONVERT(nvarchar(34), t.AcquiredAtUtc, 126)                                AS ShownAcquiredAt,
       CAST(t.[RowVersion] AS bigint)                                             AS ShownVersion
  FROM (VALUES (1)) AS o (one)
  LEFT JOIN $(table) AS t ON t.LeaseName = @name;
