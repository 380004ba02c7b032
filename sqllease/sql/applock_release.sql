-- Give an application lock of this session back. 0: it was ours. A session that does not have it gets error 1223.
SET NOCOUNT ON;
DECLARE @resource  nvarchar(255) = ?;
DECLARE @principal nvarchar(128) = ?;
DECLARE @result    int;

EXEC @result = sys.sp_releaseapplock @resource, N'Session', @principal;

SELECT @result AS Result;
