-- Catching up, and runs that overlap: what a cursor remembers of them, and what beat needs to know.
--
-- A cursor that waits is not due (due_at is null), so that no claim of what is due ever meets it.
--   waits_for 'turn', waits_since set: its next fire time is late, and goes when there is room for late
--     ones; in the order of waits_since. With due_at set instead: it was late until just now.
--   waits_for 'run': since waits_since, a run has to end first.
-- range_at, range_until, range_state: the row of dbbeat_tick that ends with the fire time before; the next
-- one belongs to it, too, if it is not sent for the same reason. before: the *when* of fire times that had passed when it was changed.
ALTER TABLE dbbeat_cursor
    ADD COLUMN waits_for text,
    ADD COLUMN waits_since timestamptz,
    ADD COLUMN range_at timestamptz,
    ADD COLUMN range_until timestamptz,
    ADD COLUMN range_state text,
    ADD COLUMN before jsonb,
    ADD CONSTRAINT dbbeat_cursor_waits_for_known CHECK (waits_for IN ('turn', 'run'));
COMMENT ON COLUMN dbbeat_cursor.waits_for IS 'turn: its next fire time is late, and goes when there is room for late ones; run: an earlier run has to end first.';
COMMENT ON COLUMN dbbeat_cursor.waits_since IS 'Since when it waits; null: it does not.';
COMMENT ON COLUMN dbbeat_cursor.range_at IS 'The first fire time of the range not sent that ends with the fire time before the next one; null: none does.';
COMMENT ON COLUMN dbbeat_cursor.range_until IS 'The last fire time of that range.';
COMMENT ON COLUMN dbbeat_cursor.range_state IS 'Why those of that range were not sent, as the state of a tick.';
COMMENT ON COLUMN dbbeat_cursor.before IS 'The when of fire times that had passed when it was edited, and are not decided.';
CREATE INDEX dbbeat_cursor_late ON dbbeat_cursor (waits_since) WHERE waits_for = 'turn' AND waits_since IS NOT NULL;
CREATE INDEX dbbeat_cursor_waiting ON dbbeat_cursor (waits_since, schedule_id) WHERE waits_for = 'run' AND due_at IS NULL;

ALTER TABLE dbbeat_schedule
    ADD CONSTRAINT dbbeat_schedule_catch_up_limit_range CHECK (catch_up_limit <= 10000);
COMMENT ON COLUMN dbbeat_schedule.catch_up IS 'What becomes of several fire times due at once: latest sends the newest, all sends each in order, none sends nothing that passed while nobody was dispatching.';
COMMENT ON COLUMN dbbeat_schedule.overlap IS 'When the last run is not done: allow, skip, buffer_one, buffer_all, cancel_other, terminate_other. All but allow need the worker guard.';

ALTER TABLE dbbeat_tick
    DROP CONSTRAINT dbbeat_tick_state_known,
    ADD CONSTRAINT dbbeat_tick_state_known
        CHECK (state IN ('recorded', 'sent', 'missed', 'coalesced', 'overlapped', 'paused', 'dead', 'cancelled'));
COMMENT ON COLUMN dbbeat_tick.state IS 'recorded (will be sent), sent; not sent: missed (too late), coalesced (a newer one was sent), overlapped (an earlier one was not done), paused; dead: sent, and given up; cancelled: ended for a newer one.';

-- How fast late ticks go: one row. Whoever sends some locks it; nobody waits for it.
CREATE TABLE dbbeat_pace (
    one      boolean PRIMARY KEY DEFAULT true,
    free_at  timestamptz NOT NULL DEFAULT now(),
    usual    double precision NOT NULL DEFAULT 0,
    minutes  bigint NOT NULL DEFAULT 0,
    sent     bigint NOT NULL DEFAULT 0,
    since    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT dbbeat_pace_one CHECK (one)
);
INSERT INTO dbbeat_pace DEFAULT VALUES;
COMMENT ON TABLE dbbeat_pace IS 'How fast late ticks go; one row.';
COMMENT ON COLUMN dbbeat_pace.one IS 'Always true: there is one row.';
COMMENT ON COLUMN dbbeat_pace.since IS 'When the average was last made.';
COMMENT ON COLUMN dbbeat_pace.free_at IS 'When the next late tick may go.';
COMMENT ON COLUMN dbbeat_pace.usual IS 'Ticks a second in calm weather: the average of a day''s minutes in which somebody was dispatching.';
COMMENT ON COLUMN dbbeat_pace.minutes IS 'How many minutes went into the average.';
COMMENT ON COLUMN dbbeat_pace.sent IS 'Ticks sent on time since the average was last made.';

-- Ticks of schedules whose overlap is not allow, from their record until it is known that they ended.
CREATE TABLE dbbeat_open (
    schedule_id  uuid NOT NULL,
    nominal_at   timestamptz NOT NULL,
    task_id      uuid NOT NULL,
    PRIMARY KEY (schedule_id, nominal_at, task_id)
);
COMMENT ON COLUMN dbbeat_open.schedule_id IS 'Of which schedule.';
COMMENT ON COLUMN dbbeat_open.nominal_at IS 'Its fire time.';
COMMENT ON COLUMN dbbeat_open.task_id IS 'Its task id.';
COMMENT ON TABLE dbbeat_open IS 'Ticks on their way or running, of schedules whose overlap is not allow.';

-- Ticks that were ended for a newer one. Beat writes it; workers look whether an id is here before they
-- take it, and a task that asks is told.
CREATE TABLE dbbeat_cancelled (
    task_id       uuid PRIMARY KEY,
    requested_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX dbbeat_cancelled_requested ON dbbeat_cancelled (requested_at);
COMMENT ON COLUMN dbbeat_cancelled.task_id IS 'A task id that no worker takes any more.';
COMMENT ON COLUMN dbbeat_cancelled.requested_at IS 'When it was to end; it is forgotten after the retention.';
COMMENT ON TABLE dbbeat_cancelled IS 'Task ids that no worker takes any more: ended for a newer tick.';

-- The cursor goes, history stays. Fire times that were due and not yet dispatched get their reason. What
-- comes between the first of them and the deletion only an interval's arithmetic can count here.
CREATE OR REPLACE FUNCTION dbbeat_schedule_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH gone AS (
        DELETE FROM dbbeat_cursor c USING old_rows o WHERE c.schedule_id = o.id
        RETURNING c.schedule_id, c.nominal_at, c.due_at, c.waits_since, least(clock_timestamp(), o.end_at) AS until,
                  CASE WHEN o.kind = 'interval' AND o.expression ~ '^[0-9]{1,10}(\.[0-9]{1,6})?$'
                       THEN greatest(o.expression::numeric, 0.1) END AS every
    ), counted AS (
        SELECT *, CASE WHEN every IS NULL THEN 0
                       ELSE floor(extract(epoch FROM until - nominal_at)::numeric / every) END AS more
        FROM gone
        WHERE nominal_at <= until AND (due_at IS NOT NULL OR waits_since IS NOT NULL)
    )
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, last_at, count, reason)
    SELECT schedule_id, nominal_at, gen_random_uuid(), 'missed', coalesce(due_at, nominal_at), 'database',
           CASE WHEN every IS NULL THEN until
                WHEN more > 0 THEN nominal_at + more::double precision * make_interval(secs => every::double precision) END,
           1 + more, 'the schedule was deleted before this fire time was dispatched'
    FROM counted;
    PERFORM pg_notify('dbbeat_' || TG_TABLE_SCHEMA, 'schedule');
    RETURN NULL;
END $$;
