-- What people order besides: a tick now, a backfill of days past.

-- What a tick takes instead of its schedule's own, for this once.
ALTER TABLE dbbeat_tick ADD COLUMN arguments jsonb;
COMMENT ON COLUMN dbbeat_tick.arguments IS 'Instead of the schedule''s own, for this tick alone: {"args": […], "kwargs": {…}}, each may be missing.';

-- One order to send the fire times of a stretch of time past. People write what is to be done, and
-- stop it; beat does it in slices, and writes down after each how far it has come.
CREATE TABLE dbbeat_backfill (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id     uuid NOT NULL,
    schedule        text NOT NULL,
    start_at        timestamptz NOT NULL,
    end_at          timestamptz NOT NULL,
    reprocess       text NOT NULL DEFAULT 'none',
    max_concurrent  integer NOT NULL DEFAULT 1,
    rate            double precision,
    overlap         text NOT NULL DEFAULT 'allow',
    note            text,
    ordered_by      text NOT NULL
        DEFAULT coalesce(nullif(current_setting('dbbeat.user', true), ''), session_user),
    ordered_at      timestamptz NOT NULL DEFAULT now(),
    state           text NOT NULL DEFAULT 'running',
    reason          text,
    total           bigint,
    next_at         timestamptz,
    paced_at        timestamptz,
    open_nominals   timestamptz[] NOT NULL DEFAULT '{}',
    open_ids        uuid[] NOT NULL DEFAULT '{}',
    passed          bigint NOT NULL DEFAULT 0,
    sent            bigint NOT NULL DEFAULT 0,
    done            bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    ended_at        timestamptz,
    CONSTRAINT dbbeat_backfill_start_at_range
        CHECK (start_at >= '1900-01-01 UTC' AND start_at < '9000-01-01 UTC'),
    CONSTRAINT dbbeat_backfill_end_after_start
        CHECK (end_at >= start_at AND end_at < '9000-01-01 UTC'),
    CONSTRAINT dbbeat_backfill_reprocess_known CHECK (reprocess IN ('none', 'failed', 'all')),
    CONSTRAINT dbbeat_backfill_max_concurrent_range CHECK (max_concurrent BETWEEN 1 AND 1000),
    CONSTRAINT dbbeat_backfill_rate_range CHECK (rate >= 0.001 AND rate <= 10000),
    CONSTRAINT dbbeat_backfill_overlap_known CHECK (overlap IN ('allow', 'buffer_all')),
    CONSTRAINT dbbeat_backfill_state_known CHECK (state IN ('running', 'stopped', 'finished')),
    CONSTRAINT dbbeat_backfill_open_pairs CHECK (cardinality(open_nominals) = cardinality(open_ids))
);
CREATE INDEX dbbeat_backfill_under_way ON dbbeat_backfill (id)
    WHERE state = 'running' OR cardinality(open_ids) > 0;
CREATE INDEX dbbeat_backfill_of_schedule ON dbbeat_backfill (schedule_id, id);
COMMENT ON TABLE dbbeat_backfill IS 'Orders to send the fire times of a stretch of time past, and how far each has come.';
COMMENT ON COLUMN dbbeat_backfill.schedule IS 'The schedule''s name when it was ordered.';
COMMENT ON COLUMN dbbeat_backfill.start_at IS 'The first instant of it.';
COMMENT ON COLUMN dbbeat_backfill.end_at IS 'The last instant of it.';
COMMENT ON COLUMN dbbeat_backfill.reprocess IS 'What is sent besides what never ran: none; failed: what failed or is dead; all: what is done, too, under other ids.';
COMMENT ON COLUMN dbbeat_backfill.max_concurrent IS 'How many of its ticks may be on their way or running at once.';
COMMENT ON COLUMN dbbeat_backfill.rate IS 'How many ticks a second it sends at the most; null: as max_concurrent lets it.';
COMMENT ON COLUMN dbbeat_backfill.overlap IS 'allow: beside the schedule''s own ticks; buffer_all: waits while one of these is on its way or running.';
COMMENT ON COLUMN dbbeat_backfill.note IS 'Why it was ordered, in the words of who did.';
COMMENT ON COLUMN dbbeat_backfill.state IS 'running, stopped, finished.';
COMMENT ON COLUMN dbbeat_backfill.reason IS 'Why it was stopped.';
COMMENT ON COLUMN dbbeat_backfill.total IS 'How many fire times it covers; null: too many to count at once.';
COMMENT ON COLUMN dbbeat_backfill.next_at IS 'All fire times before are decided; null: not begun.';
COMMENT ON COLUMN dbbeat_backfill.paced_at IS 'Until when its rate is used up.';
COMMENT ON COLUMN dbbeat_backfill.open_ids IS 'Its ticks that are not known to have ended; open_nominals: their fire times.';
COMMENT ON COLUMN dbbeat_backfill.passed IS 'How many fire times are decided.';
COMMENT ON COLUMN dbbeat_backfill.sent IS 'How many of them were to be sent.';
COMMENT ON COLUMN dbbeat_backfill.done IS 'How many of those are done.';
COMMENT ON COLUMN dbbeat_backfill.failed IS 'How many of those failed, are dead, or could not be sent.';

CREATE FUNCTION dbbeat_backfill_ordered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'backfill');
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_backfill_ordered AFTER INSERT OR UPDATE OF state ON dbbeat_backfill
    FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_backfill_ordered();

-- Orders one tick now, whatever the schedule's state but invalid; returns its task id, null where no
-- schedule has that name. It is an unsent tick of a replica that does not exist, so any beat adopts it
-- at once.
CREATE FUNCTION dbbeat_trigger(schedule_name text, args jsonb DEFAULT NULL, kwargs jsonb DEFAULT NULL)
    RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    wanted dbbeat_schedule%ROWTYPE;
    identity uuid := gen_random_uuid();
    instant timestamptz := clock_timestamp();
BEGIN
    IF jsonb_typeof(args) <> 'array' THEN
        RAISE EXCEPTION 'args is %; allowed is a JSON array', left(args::text, 200);
    END IF;
    IF jsonb_typeof(kwargs) <> 'object' THEN
        RAISE EXCEPTION 'kwargs is %; allowed is a JSON object', left(kwargs::text, 200);
    END IF;
    -- Not deleted before this is committed.
    SELECT * INTO wanted FROM dbbeat_schedule WHERE name = schedule_name FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF wanted.state = 'invalid' THEN
        RAISE EXCEPTION 'the schedule % is invalid: %; mend it first', wanted.name, wanted.reason;
    END IF;
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, kind, due_at, replica, arguments)
    VALUES (wanted.id, instant, identity, 'recorded', 'manual', instant, 'trigger',
            nullif(CASE WHEN args IS NULL THEN '{}' ELSE jsonb_build_object('args', args) END ||
                   CASE WHEN kwargs IS NULL THEN '{}' ELSE jsonb_build_object('kwargs', kwargs) END, '{}'));
    -- From its record on it counts for the schedule's other ticks.
    IF wanted.overlap <> 'allow' THEN
        INSERT INTO dbbeat_open (schedule_id, nominal_at, task_id) VALUES (wanted.id, instant, identity);
    END IF;
    PERFORM pg_notify('dbbeat_' || current_schema(), 'tick');
    RETURN identity;
END $$;
