-- Recovery: what a schedule says of it, what a tick remembers of it, and which workers are guarded.
ALTER TABLE dbbeat_schedule
    ADD COLUMN max_attempts smallint,
    ADD COLUMN on_failure text NOT NULL DEFAULT 'dead',
    ADD COLUMN resend_after interval,
    ADD CONSTRAINT dbbeat_schedule_max_attempts_range CHECK (max_attempts BETWEEN 1 AND 100),
    ADD CONSTRAINT dbbeat_schedule_on_failure_known CHECK (on_failure IN ('dead', 'retry')),
    ADD CONSTRAINT dbbeat_schedule_resend_after_range
        CHECK (resend_after >= '1 second' AND resend_after <= '1 year'),
    DROP CONSTRAINT dbbeat_schedule_overlap_known,
    ADD CONSTRAINT dbbeat_schedule_overlap_known
        CHECK (overlap IN ('allow', 'skip', 'buffer_one', 'buffer_all', 'cancel_other', 'terminate_other'));
COMMENT ON COLUMN dbbeat_schedule.name IS 'What people call it; unique.';
COMMENT ON COLUMN dbbeat_schedule.task IS 'The name of the task, as Celery knows it.';
COMMENT ON COLUMN dbbeat_schedule.args IS 'Positional arguments of the task: a JSON array.';
COMMENT ON COLUMN dbbeat_schedule.kwargs IS 'Keyword arguments of the task: a JSON object.';
COMMENT ON COLUMN dbbeat_schedule.labels IS 'Whatever you like to say of it: a JSON object.';
COMMENT ON COLUMN dbbeat_schedule.created_at IS 'When it was made.';
COMMENT ON COLUMN dbbeat_schedule.updated_at IS 'When it was last changed.';
COMMENT ON COLUMN dbbeat_schedule.max_attempts IS 'How often a tick is begun before it is dead; null: as dbbeat_max_attempts says.';
COMMENT ON COLUMN dbbeat_schedule.on_failure IS 'What becomes of a tick whose task failed: dead (a dead letter), or retry: run again, up to max_attempts.';
COMMENT ON COLUMN dbbeat_schedule.resend_after IS 'Send a tick again that no worker took for so long, whatever waits in its queue; null: as dbbeat_resend_after says, and never while it may be waiting.';
COMMENT ON COLUMN dbbeat_schedule.overlap IS 'When the last run is not done: allow.';

-- awaited: sent to guarded workers, and how it ended is not known yet.
ALTER TABLE dbbeat_tick
    ADD COLUMN awaited boolean NOT NULL DEFAULT false,
    ADD COLUMN outcome text,
    ADD COLUMN losses smallint NOT NULL DEFAULT 0,
    DROP CONSTRAINT dbbeat_tick_state_known,
    ADD CONSTRAINT dbbeat_tick_state_known
        CHECK (state IN ('recorded', 'sent', 'missed', 'coalesced', 'paused', 'dead')),
    DROP CONSTRAINT dbbeat_tick_kind_known,
    ADD CONSTRAINT dbbeat_tick_kind_known
        CHECK (kind IN ('scheduled', 'catch_up', 'backfill', 'manual', 'recovery')),
    ADD CONSTRAINT dbbeat_tick_outcome_known CHECK (outcome IN ('done', 'failed'));
CREATE INDEX dbbeat_tick_awaited ON dbbeat_tick (claimed_at, task_id) WHERE awaited;
CREATE INDEX dbbeat_tick_dead ON dbbeat_tick (nominal_at, task_id) WHERE state = 'dead';
COMMENT ON COLUMN dbbeat_tick.state IS 'recorded (will be sent), sent; not sent: missed (too late), coalesced (a newer one was sent), paused; dead: sent, and given up.';
COMMENT ON COLUMN dbbeat_tick.attempt IS 'Which attempt at running it the message was for.';
COMMENT ON COLUMN dbbeat_tick.awaited IS 'Sent to guarded workers, and how it ended is not known yet.';
COMMENT ON COLUMN dbbeat_tick.outcome IS 'How its run ended: done, failed; null while that is not known.';
COMMENT ON COLUMN dbbeat_tick.losses IS 'How often it was sent again because it or its worker was lost, or its task failed.';

-- Which workers take ids before they run a tick, and from which queues. Workers write it.
CREATE TABLE dbbeat_worker (
    id          text PRIMARY KEY,
    queues      text[] NOT NULL,
    holding     integer NOT NULL DEFAULT 0,
    release     text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    seen_at     timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE dbbeat_worker IS 'Workers with the guard, and the queues they read.';
COMMENT ON COLUMN dbbeat_worker.holding IS 'How many messages it had taken out of its queues and not begun with.';

-- Sends dead ticks again, to be run again; says which. A tick whose schedule is gone stays dead. It
-- becomes an unsent tick of a replica that does not exist, so any beat adopts it at once.
CREATE FUNCTION dbbeat_replay(task_ids uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        UPDATE dbbeat_tick t
        SET state = 'recorded', kind = 'manual', replica = 'replay', claimed_at = now(),
            sent_at = NULL, awaited = false, outcome = NULL, reason = NULL, losses = 0,
            attempt = least(30000, 1 + greatest(t.attempt, (
                SELECT d.attempt FROM dbbeat_dedup d
                WHERE d.task_id = t.task_id AND d.nominal_at = t.nominal_at)))
        WHERE t.state = 'dead' AND t.task_id = ANY(task_ids)
          AND EXISTS (SELECT FROM dbbeat_schedule s WHERE s.id = t.schedule_id)
        RETURNING t.task_id;
    IF FOUND THEN
        PERFORM pg_notify('dbbeat_' || current_schema(), 'tick');
    END IF;
END $$;

-- Triggers and replay work with their owner's rights: who manages schedules needs none on cursors and
-- ticks. Nobody else may put these triggers on a table of their own.
DO $$
DECLARE
    home text := current_schema();
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['revise', 'inserted', 'updated', 'deleted', 'truncated'] LOOP
        EXECUTE format('ALTER FUNCTION dbbeat_schedule_%s() SECURITY DEFINER SET search_path = %I, pg_temp',
                       name, home);
        EXECUTE format('REVOKE ALL ON FUNCTION dbbeat_schedule_%s() FROM PUBLIC', name);
    END LOOP;
    EXECUTE format('ALTER FUNCTION dbbeat_replay(uuid[]) SECURITY DEFINER SET search_path = %I, pg_temp', home);
END $$;
REVOKE ALL ON FUNCTION dbbeat_replay(uuid[]) FROM PUBLIC;
