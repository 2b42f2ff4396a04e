-- The receipts of what was done once in this database. Apply it in the schema where you want them:
-- every connection finds the table by its search_path.
CREATE TABLE IF NOT EXISTS semel_receipts (
    tenant     text        NOT NULL,
    operation  text        NOT NULL,
    key        text        NOT NULL,
    -- Under which claim it was written; 0: without one.
    fence      bigint      NOT NULL,
    -- not_done: no owner with this fence or an older one may write any more.
    outcome    text        NOT NULL CHECK (outcome IN ('succeeded', 'failed_final', 'not_done')),
    -- What the key stands for, if this database has to know.
    algorithm  text,
    digest     bytea,
    -- What the work answered, as a semel.v1.Response.
    response   bytea,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (tenant, operation, key)
);
CREATE INDEX IF NOT EXISTS semel_receipts_written_at ON semel_receipts (written_at);
