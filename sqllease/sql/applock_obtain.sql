-- Take an application lock for this session, without waiting. >= 0: granted. -1: another session has it. -2: cancelled. -3: deadlock.
-- -999: a wrong parameter (Microsoft, "sp_getapplock (Transact-SQL)"). It lives as long as the session, and no log knows of it.
SET NOCOUNT ON;
DECLARE @resource  nvarchar(255) = ?;
DECLARE @principal nvarchar(128) = ?;
DECLARE @result    int;

EXEC @result = sys.sp_getapplock @resource, N'Exclusive', N'Session', 0, @principal;

SELECT @result AS Result;
