-- Creates the schema, the lease table and its index where they are missing. Safe to run again, and by many at once.
--
-- Needs CREATE TABLE in the database and ALTER on the schema, and CREATE SCHEMA where the schema is missing. Where all is there,
-- it needs nothing and takes no schema lock. Columns and types are those of the .NET package Aaravsoft.Distributed.Lease: both may share the table.
SET NOCOUNT ON;
SET XACT_ABORT ON;
SET IMPLICIT_TRANSACTIONS OFF;
SET ROWCOUNT 0;
SET LOCK_TIMEOUT 10000;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- In an open transaction the table would be there for this session alone, until somebody commits.
IF @@TRANCOUNT > 0
BEGIN;
    THROW 51000, N'sqllease: this connection has an open transaction: commit it first', 1;
END;

IF OBJECT_ID($(table_literal)) IS NULL
   OR (NOT EXISTS (SELECT 1 FROM sys.index_columns AS i
                     JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
                    WHERE i.object_id = OBJECT_ID($(table_literal)) AND i.key_ordinal = 1 AND c.name = N'ExpiresAtUtc')
       AND COL_LENGTH($(table_literal), N'ExpiresAtUtc') IS NOT NULL
       AND HAS_PERMS_BY_NAME($(table_literal), N'OBJECT', N'ALTER') = 1)
BEGIN
    BEGIN TRY
        BEGIN TRANSACTION;

        -- IF NOT EXISTS followed by CREATE is two steps: without this lock, instances that start together meet error 2714.
        DECLARE @rc int;
        EXEC @rc = sys.sp_getapplock @Resource = N'sqllease:ddl', @LockMode = N'Exclusive', @LockOwner = N'Transaction',
                                     @LockTimeout = 15000, @DbPrincipal = N'public';
        IF @rc < 0
        BEGIN;
            THROW 51003, N'sqllease: another session is creating the lease table and does not come to an end', 1;
        END;

        IF SCHEMA_ID($(schema_literal)) IS NULL
            EXEC ($(create_schema_literal));

        IF OBJECT_ID($(table_literal)) IS NULL
        BEGIN
            CREATE TABLE $(table) (
                LeaseName       nvarchar(200)     COLLATE Latin1_General_100_BIN2 NOT NULL,
                OwnerInstanceId nvarchar(128)     COLLATE Latin1_General_100_BIN2 NOT NULL,
                AcquiredAtUtc   datetimeoffset(7) NOT NULL,
                RenewedAtUtc    datetimeoffset(7) NOT NULL,
                ExpiresAtUtc    datetimeoffset(7) NOT NULL,
                Metadata        nvarchar(1024)    NULL,
                [RowVersion]    rowversion        NOT NULL,
                CONSTRAINT $(primary_key) PRIMARY KEY CLUSTERED (LeaseName),
                -- A binary collation still does not see blanks at the end: 'a' and 'a ' would be one key.
                CONSTRAINT $(check) CHECK (
                    DATALENGTH(LeaseName) > 0 AND DATALENGTH(LeaseName) = DATALENGTH(RTRIM(LeaseName)) AND
                    DATALENGTH(OwnerInstanceId) > 0 AND DATALENGTH(OwnerInstanceId) = DATALENGTH(RTRIM(OwnerInstanceId))),
                INDEX $(index) NONCLUSTERED (ExpiresAtUtc)
            );
            ALTER TABLE $(table) SET (LOCK_ESCALATION = DISABLE);
            EXEC sys.sp_addextendedproperty @name = N'sqllease.schema_version', @value = N'1',
                 @level0type = N'SCHEMA', @level0name = $(schema_literal), @level1type = N'TABLE', @level1name = $(table_name_literal);
        END;
        ELSE IF NOT EXISTS (SELECT 1 FROM sys.index_columns AS i
                              JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
                             WHERE i.object_id = OBJECT_ID($(table_literal)) AND i.key_ordinal = 1 AND c.name = N'ExpiresAtUtc')
            CREATE NONCLUSTERED INDEX $(index) ON $(table) (ExpiresAtUtc);

        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF XACT_STATE() <> 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
