-- Removes the lease table and every lease in it. The schema stays: other objects may live there. Safe to run again.
IF OBJECT_ID(N'[lease].[Leases]', N'U') IS NOT NULL
    DROP TABLE [lease].[Leases];
