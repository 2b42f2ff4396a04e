-- The records, the ordered index beside them, and the newest times of commits.
--
-- No secondary index: an update of a value then changes no index at all (a HOT update), and the page
-- that it happens on is cleaned by whoever comes next. The free room in each page is what such updates
-- live on.

CREATE TABLE records (
    -- Never the same twice for one key: what an optimistic write compares.
    version bigint NOT NULL,
    -- Whether the last commit of it may still be lost in a crash.
    relaxed boolean NOT NULL,
    key bytea NOT NULL,
    -- NULL: absent, for a moment, while only index entries change.
    value bytea,
    PRIMARY KEY (key) WITH (fillfactor = 80)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.1,
    toast.autovacuum_vacuum_scale_factor = 0.02,
    toast.autovacuum_vacuum_threshold = 1000
);

-- Large values are moved out of the row as they are: whoever writes them has compressed them already.
ALTER TABLE records ALTER COLUMN value SET STORAGE EXTERNAL;

CREATE TABLE entries (
    key bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (key) WITH (fillfactor = 80)
) WITH (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.1
);

ALTER TABLE entries ALTER COLUMN value SET STORAGE EXTERNAL;

-- The newest time that a commit was given. Many rows, so that commits don't wait for each other; a
-- connection writes one of them.
CREATE TABLE times (
    slot integer PRIMARY KEY,
    now_us bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 5000);

INSERT INTO times (slot, now_us) SELECT slot, 0 FROM generate_series(0, 255) AS slot;
