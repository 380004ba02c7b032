-- Delete one batch of rows that have been expired for at least so long. A locked row is left for the next time.
DECLARE @age_s  int = ?;
DECLARE @age_us int = ?;
DECLARE @limit  int = ?;
DECLARE @stale datetimeoffset(7) = DATEADD(microsecond, -@age_us, DATEADD(second, -@age_s, @now));

DELETE t
  FROM $(table) AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
 WHERE t.ExpiresAtUtc <= @stale
   AND t.LeaseName IN (SELECT TOP (@limit) x.LeaseName
                         FROM $(table) AS x WITH (READUNCOMMITTED)
                        WHERE x.ExpiresAtUtc <= @stale
                        ORDER BY x.ExpiresAtUtc)
OPTION (LOOP JOIN, MAXDOP 1);

SELECT @@ROWCOUNT AS Deleted;
