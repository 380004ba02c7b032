-- Before each statement that changes a lease row.
--
-- One reading of the server's clock for the whole batch, taken before any wait: take-overs get stricter and expiries shorter, both safe.
DECLARE @now datetimeoffset(7) = SYSUTCDATETIME();
DECLARE @err int = 0;

-- What the locking statement did. OUTPUT goes INTO here, because a bare OUTPUT fails on a table with triggers (error 334)
-- and sends rows of statements that are rolled back later. rowversion is caught in binary(8) (error 273 otherwise).
DECLARE @done TABLE (
    LeaseName     nvarchar(200)     NOT NULL,
    Owner         nvarchar(128)     NOT NULL,
    PreviousOwner nvarchar(128)     NULL,
    AcquiredAt    datetimeoffset(7) NOT NULL,
    Version       binary(8)         NOT NULL
);
