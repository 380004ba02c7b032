-- Whether this very session still has the application lock. A driver that has quietly reconnected would be another session.
SET NOCOUNT ON;
DECLARE @resource  nvarchar(255) = ?;
DECLARE @principal nvarchar(128) = ?;

SELECT CASE WHEN APPLOCK_MODE(@principal, @resource, N'Session') = N'Exclusive' THEN 0 ELSE -1 END AS Result;
