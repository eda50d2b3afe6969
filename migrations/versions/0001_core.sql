-- What to send and when. People write it: by API, command line, plain SQL.
-- Beat writes only state ('finished', 'invalid') and reason.
CREATE TABLE dbbeat_schedule (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name           text NOT NULL UNIQUE,
    task           text NOT NULL,
    kind           text NOT NULL,
    expression     text NOT NULL,
    timezone       text NOT NULL DEFAULT 'UTC',
    args           jsonb NOT NULL DEFAULT '[]',
    kwargs         jsonb NOT NULL DEFAULT '{}',
    options        jsonb NOT NULL DEFAULT '{}',
    state          text NOT NULL DEFAULT 'active',
    reason         text,
    misfire_grace  interval DEFAULT '1 hour',
    catch_up       text NOT NULL DEFAULT 'latest',
    overlap        text NOT NULL DEFAULT 'allow',
    jitter         interval NOT NULL DEFAULT '0',
    start_at       timestamptz,
    end_at         timestamptz,
    max_runs       bigint,
    labels         jsonb NOT NULL DEFAULT '{}',
    owner          text NOT NULL DEFAULT 'people',
    code_digest    text,
    version        bigint NOT NULL DEFAULT 1,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT dbbeat_schedule_name_length CHECK (length(name) BETWEEN 1 AND 500),
    CONSTRAINT dbbeat_schedule_task_length CHECK (length(task) BETWEEN 1 AND 500),
    CONSTRAINT dbbeat_schedule_kind_known
        CHECK (kind IN ('cron', 'crontab', 'interval', 'solar', 'once')),
    CONSTRAINT dbbeat_schedule_expression_length CHECK (length(expression) BETWEEN 1 AND 10000),
    CONSTRAINT dbbeat_schedule_timezone_length CHECK (length(timezone) BETWEEN 1 AND 100),
    CONSTRAINT dbbeat_schedule_args_is_array CHECK (jsonb_typeof(args) = 'array'),
    CONSTRAINT dbbeat_schedule_kwargs_is_object CHECK (jsonb_typeof(kwargs) = 'object'),
    CONSTRAINT dbbeat_schedule_options_is_object CHECK (jsonb_typeof(options) = 'object'),
    CONSTRAINT dbbeat_schedule_labels_is_object CHECK (jsonb_typeof(labels) = 'object'),
    CONSTRAINT dbbeat_schedule_state_known
        CHECK (state IN ('active', 'paused', 'finished', 'invalid')),
    CONSTRAINT dbbeat_schedule_misfire_grace_range
        CHECK (misfire_grace >= '0' AND misfire_grace <= '1000 years'),
    CONSTRAINT dbbeat_schedule_catch_up_known CHECK (catch_up IN ('latest')),
    CONSTRAINT dbbeat_schedule_overlap_known CHECK (overlap IN ('allow')),
    CONSTRAINT dbbeat_schedule_jitter_range CHECK (jitter >= '0' AND jitter <= '1 day'),
    -- Not infinity, not beyond what a calendar of other programs can hold.
    CONSTRAINT dbbeat_schedule_start_at_range
        CHECK (start_at >= '1900-01-01 UTC' AND start_at < '9000-01-01 UTC'),
    CONSTRAINT dbbeat_schedule_end_at_range
        CHECK (end_at >= '1900-01-01 UTC' AND end_at < '9000-01-01 UTC'),
    CONSTRAINT dbbeat_schedule_end_after_start CHECK (end_at > start_at),
    CONSTRAINT dbbeat_schedule_max_runs_positive CHECK (max_runs > 0),
    CONSTRAINT dbbeat_schedule_owner_known CHECK (owner IN ('people', 'code'))
);

COMMENT ON TABLE dbbeat_schedule IS 'What to send and when; one row a schedule. Insert, update and delete as you like.';
COMMENT ON COLUMN dbbeat_schedule.id IS 'Identity; task ids are made from it and the fire time. Never changes.';
COMMENT ON COLUMN dbbeat_schedule.kind IS 'cron, crontab, interval, solar or once: how to read expression.';
COMMENT ON COLUMN dbbeat_schedule.expression IS 'cron: the text; crontab: JSON of Celery''s five fields; interval: seconds; solar: event lat lon; once: an ISO-8601 instant.';
COMMENT ON COLUMN dbbeat_schedule.timezone IS 'IANA time zone in which expression is read.';
COMMENT ON COLUMN dbbeat_schedule.options IS 'As for apply_async: queue, priority, expires, headers, …';
COMMENT ON COLUMN dbbeat_schedule.state IS 'active, paused; set by beat: finished (no fire time left), invalid (see reason).';
COMMENT ON COLUMN dbbeat_schedule.reason IS 'Why the schedule is finished or invalid. Mending an invalid one makes it active again.';
COMMENT ON COLUMN dbbeat_schedule.misfire_grace IS 'How late a fire time may still be sent; null: however late.';
COMMENT ON COLUMN dbbeat_schedule.catch_up IS 'What becomes of several fire times due at once: latest sends the newest.';
COMMENT ON COLUMN dbbeat_schedule.jitter IS 'Fire times are delayed by up to this long, by a hash of the tick.';
COMMENT ON COLUMN dbbeat_schedule.start_at IS 'No fire time before; also the anchor of an interval (else the Unix epoch).';
COMMENT ON COLUMN dbbeat_schedule.end_at IS 'No fire time after.';
COMMENT ON COLUMN dbbeat_schedule.max_runs IS 'Finished after so many ticks.';
COMMENT ON COLUMN dbbeat_schedule.owner IS 'people, or code: made from the app''s beat_schedule and kept in step with it.';
COMMENT ON COLUMN dbbeat_schedule.code_digest IS 'What the code said when this row was last written from it.';
COMMENT ON COLUMN dbbeat_schedule.version IS 'Grows with each change.';

-- Where a schedule stands. Beat writes it, and the triggers below keep it in step with the schedule.
-- Narrow and hot. due_at null: nothing to do (paused, finished, invalid).
-- replan_from set: the next fire time is to be sought anew, after that instant.
-- held_at set: the schedule was not active from then on; fire times since were not sent on purpose.
CREATE TABLE dbbeat_cursor (
    schedule_id  uuid PRIMARY KEY,
    shard        smallint NOT NULL,
    version      bigint NOT NULL,
    nominal_at   timestamptz,
    due_at       timestamptz,
    replan_from  timestamptz,
    held_at      timestamptz,
    runs         bigint NOT NULL DEFAULT 0
) WITH (
    fillfactor = 70,
    -- The index on due_at is read from its busy end: dead entries there cost every claim.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX dbbeat_cursor_due ON dbbeat_cursor (due_at) WHERE due_at IS NOT NULL;

-- One decision: a tick sent, or a range of fire times not sent, with the reason.
-- The key holds the schedule first, so that it also serves a schedule's history.
CREATE TABLE dbbeat_tick (
    schedule_id  uuid NOT NULL,
    nominal_at   timestamptz NOT NULL,
    task_id      uuid NOT NULL,
    state        text NOT NULL,
    kind         text NOT NULL DEFAULT 'scheduled',
    attempt      smallint NOT NULL DEFAULT 1,
    due_at       timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT now(),
    claimed_at   timestamptz NOT NULL DEFAULT now(),
    sent_at      timestamptz,
    replica      text NOT NULL,
    epoch        bigint,
    last_at      timestamptz,
    count        bigint NOT NULL DEFAULT 1,
    reason       text,
    PRIMARY KEY (schedule_id, nominal_at, task_id),
    CONSTRAINT dbbeat_tick_state_known
        CHECK (state IN ('recorded', 'sent', 'missed', 'coalesced', 'paused')),
    CONSTRAINT dbbeat_tick_kind_known CHECK (kind IN ('scheduled', 'catch_up', 'recovery'))
) PARTITION BY RANGE (nominal_at);
CREATE INDEX dbbeat_tick_unsent ON dbbeat_tick (claimed_at) WHERE state = 'recorded';
CREATE TABLE dbbeat_tick_default PARTITION OF dbbeat_tick DEFAULT;

COMMENT ON TABLE dbbeat_tick IS 'One decision of beat: a tick, or a range of fire times not sent with the reason.';
COMMENT ON COLUMN dbbeat_tick.nominal_at IS 'The fire time by the schedule; of a range the first.';
COMMENT ON COLUMN dbbeat_tick.last_at IS 'Of a range of fire times not sent: the last one.';
COMMENT ON COLUMN dbbeat_tick.count IS 'How many fire times the row stands for.';
COMMENT ON COLUMN dbbeat_tick.state IS 'recorded (will be sent), sent; not sent: missed (too late), coalesced (a newer one was sent), paused.';
COMMENT ON COLUMN dbbeat_tick.claimed_at IS 'When a replica last took it upon itself to send it.';
COMMENT ON COLUMN dbbeat_tick.epoch IS 'The lease''s epoch under which it was recorded; null: hedged, without the lease.';

-- Who goes first on which shards.
CREATE TABLE dbbeat_lease (
    slot         smallint PRIMARY KEY,
    first_shard  smallint NOT NULL,
    last_shard   smallint NOT NULL,
    holder       text,
    epoch        bigint NOT NULL DEFAULT 0,
    acquired_at  timestamptz,
    expires_at   timestamptz,
    CONSTRAINT dbbeat_lease_shards CHECK (0 <= first_shard AND first_shard <= last_shard AND last_shard < 256)
);
INSERT INTO dbbeat_lease (slot, first_shard, last_shard) VALUES (0, 0, 255);

-- Who is alive. listener_pid is the server process of the replica's LISTEN connection: it ends with
-- the replica, however that ends, so that a killed one is known to be gone at once.
CREATE TABLE dbbeat_replica (
    id            text PRIMARY KEY,
    hostname      text NOT NULL,
    pid           integer NOT NULL,
    release       text NOT NULL,
    ready         boolean NOT NULL,
    listener_pid  integer,
    started_at    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now()
);

-- Before a schedule changes: its version grows, and mending what beat refused makes it active again.
CREATE FUNCTION dbbeat_schedule_revise() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    new_when boolean := (NEW.kind, NEW.expression, NEW.timezone, NEW.start_at, NEW.end_at, NEW.max_runs)
        IS DISTINCT FROM (OLD.kind, OLD.expression, OLD.timezone, OLD.start_at, OLD.end_at, OLD.max_runs);
    new_what boolean := (NEW.task, NEW.args, NEW.kwargs, NEW.options, NEW.overlap)
        IS DISTINCT FROM (OLD.task, OLD.args, OLD.kwargs, OLD.options, OLD.overlap);
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'dbbeat_schedule.id of % cannot be changed: task ids are made from it', OLD.name;
    END IF;
    IF NEW.state = OLD.state AND ((OLD.state = 'invalid' AND (new_when OR new_what))
                               OR (OLD.state = 'finished' AND new_when)) THEN
        NEW.state := 'active';
    END IF;
    IF NEW.state IN ('active', 'paused') THEN
        NEW.reason := NULL;
    END IF;
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
    RETURN NEW;
END $$;
CREATE TRIGGER dbbeat_schedule_revise BEFORE UPDATE ON dbbeat_schedule
    FOR EACH ROW EXECUTE FUNCTION dbbeat_schedule_revise();

-- clock_timestamp(), not now(): what passed while a long transaction was open is not due.
CREATE FUNCTION dbbeat_schedule_inserted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO dbbeat_cursor (schedule_id, shard, version, due_at, replan_from, held_at)
    SELECT id, get_byte(uuid_send(id), 0), version,
           CASE WHEN state = 'active' THEN clock_timestamp() END,
           clock_timestamp(),
           CASE WHEN state <> 'active' THEN clock_timestamp() END
    FROM new_rows;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_inserted AFTER INSERT ON dbbeat_schedule
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_inserted();

-- Waits for a claim under way: the claim holds the cursor's row until its tick is recorded.
CREATE FUNCTION dbbeat_schedule_updated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    WITH change AS (
        SELECT n.id, n.version, n.state = 'active' AS active,
               n.state = 'finished' AS finished, o.state = 'finished' AS was_finished,
               n.state = 'active' AND (o.state <> 'active'
                   OR (n.kind, n.expression, n.timezone, n.start_at, n.end_at, n.max_runs, n.jitter)
                      IS DISTINCT FROM
                      (o.kind, o.expression, o.timezone, o.start_at, o.end_at, o.max_runs, o.jitter)
               ) AS replan
        FROM new_rows n JOIN old_rows o USING (id)
    )
    UPDATE dbbeat_cursor c
    SET version = change.version,
        due_at = CASE WHEN NOT active THEN NULL WHEN replan THEN clock_timestamp() ELSE c.due_at END,
        replan_from = CASE WHEN replan THEN clock_timestamp() ELSE c.replan_from END,
        held_at = CASE WHEN finished THEN NULL WHEN active THEN c.held_at
                       ELSE coalesce(c.held_at, clock_timestamp()) END,
        runs = CASE WHEN active AND was_finished THEN 0 ELSE c.runs END
    FROM change WHERE c.schedule_id = change.id;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_updated AFTER UPDATE ON dbbeat_schedule
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_updated();

-- The cursor goes, history stays. A fire time that was due and not yet dispatched gets its reason.
CREATE FUNCTION dbbeat_schedule_deleted() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    WITH gone AS (
        DELETE FROM dbbeat_cursor c USING old_rows o WHERE c.schedule_id = o.id
        RETURNING c.schedule_id, c.nominal_at, c.due_at
    )
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, reason)
    SELECT schedule_id, nominal_at, gen_random_uuid(), 'missed', due_at, 'database',
           'the schedule was deleted before this fire time was dispatched'
    FROM gone WHERE nominal_at <= clock_timestamp() AND due_at IS NOT NULL;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_deleted AFTER DELETE ON dbbeat_schedule
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_deleted();

CREATE FUNCTION dbbeat_schedule_truncated() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    TRUNCATE dbbeat_cursor;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
CREATE TRIGGER dbbeat_schedule_truncated AFTER TRUNCATE ON dbbeat_schedule
    FOR EACH STATEMENT EXECUTE FUNCTION dbbeat_schedule_truncated();

-- One partition a UTC day, from today for so many days; says how many it made. A day that already has
-- rows in the default partition takes them over. Attaching, unlike CREATE … PARTITION OF, lets
-- readers and writers of the other partitions go on. Of two at once the second waits, and finds them
-- made; who writes to the default partition waits, so that nothing slips in behind the move.
-- (OR REPLACE: a database that only held effects has this function already.)
CREATE OR REPLACE FUNCTION dbbeat_make_partitions(days integer) RETURNS integer LANGUAGE plpgsql
    SET search_path FROM CURRENT AS $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    made integer := 0;
    first_at timestamptz;
    next_at timestamptz;
    partition_name text;
BEGIN
    PERFORM pg_advisory_xact_lock('dbbeat_tick'::regclass::oid::bigint);
    FOR day IN 0 .. days - 1 LOOP
        first_at := (today + day)::timestamp AT TIME ZONE 'UTC';
        next_at := (today + day + 1)::timestamp AT TIME ZONE 'UTC';
        partition_name := 'dbbeat_tick_' || to_char(today + day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass(partition_name) IS NOT NULL;
        LOCK TABLE dbbeat_tick_default IN ACCESS EXCLUSIVE MODE;
        EXECUTE format('CREATE TABLE %I (LIKE dbbeat_tick INCLUDING ALL)', partition_name);
        EXECUTE format('WITH moved AS (DELETE FROM dbbeat_tick_default'
                       ' WHERE nominal_at >= %L AND nominal_at < %L RETURNING *)'
                       ' INSERT INTO %I SELECT * FROM moved', first_at, next_at, partition_name);
        EXECUTE format('ALTER TABLE dbbeat_tick ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                       partition_name, first_at, next_at);
        made := made + 1;
    END LOOP;
    RETURN made;
END $$;
SELECT dbbeat_make_partitions(7);
