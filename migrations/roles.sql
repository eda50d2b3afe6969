-- Three roles that may do what they need and no more. They cannot log in: grant them to users who can,
--     GRANT dbbeat_beat TO shop_beat;
-- Run this as the owner of the tables, after each migration; again and again does no harm. It works
-- on the first schema of the search path. The owner runs the migrations, so dbbeat_auto_migrate is not
-- for users of these roles. In a database with the table of runs alone, who writes effects needs
--     GRANT SELECT, INSERT, UPDATE ON dbbeat_dedup TO shop_worker;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['dbbeat_beat', 'dbbeat_worker', 'dbbeat_manager'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', name);
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), name);
        EXECUTE format('GRANT SELECT ON dbbeat_alembic_version TO %I', name);
    END LOOP;
END $$;

-- Beat: dispatches, and keeps in step the rows that the app's code owns.
GRANT SELECT, INSERT, DELETE ON dbbeat_schedule TO dbbeat_beat;
GRANT UPDATE (state, reason, note, task, kind, expression, timezone, args, kwargs, options, code_digest)
    ON dbbeat_schedule TO dbbeat_beat;
GRANT SELECT, INSERT, UPDATE ON dbbeat_tick TO dbbeat_beat;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbbeat_cursor, dbbeat_lease, dbbeat_replica, dbbeat_open, dbbeat_cancelled
    TO dbbeat_beat;
GRANT SELECT, UPDATE ON dbbeat_pace TO dbbeat_beat;
GRANT SELECT ON dbbeat_dedup TO dbbeat_beat;
GRANT SELECT, UPDATE ON dbbeat_backfill TO dbbeat_beat;
GRANT SELECT, DELETE ON dbbeat_worker TO dbbeat_beat;
GRANT EXECUTE ON FUNCTION dbbeat_make_partitions(integer), dbbeat_retire(interval), dbbeat_retire_audit(interval)
    TO dbbeat_beat;

-- Workers: take task ids, and say which queues they read.
GRANT SELECT, INSERT, UPDATE ON dbbeat_dedup TO dbbeat_worker;
GRANT SELECT, INSERT, UPDATE, DELETE ON dbbeat_worker TO dbbeat_worker;
GRANT SELECT ON dbbeat_cancelled TO dbbeat_worker;

-- Who manages schedules, looks at what became of them, and has dead ticks sent again.
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON dbbeat_schedule TO dbbeat_manager;
GRANT SELECT ON dbbeat_tick, dbbeat_cursor, dbbeat_dedup, dbbeat_lease, dbbeat_replica, dbbeat_worker,
    dbbeat_audit, dbbeat_upcoming, dbbeat_history, dbbeat_pace, dbbeat_open, dbbeat_cancelled TO dbbeat_manager;
GRANT EXECUTE ON FUNCTION dbbeat_replay(uuid[]), dbbeat_trigger(text, jsonb, jsonb),
    dbbeat_go_on_from(uuid[], timestamptz[]) TO dbbeat_manager;
GRANT SELECT, UPDATE (state, reason, ended_at),
      INSERT (schedule_id, schedule, start_at, end_at, reprocess, max_concurrent, rate, overlap, note, total)
    ON dbbeat_backfill TO dbbeat_manager;
