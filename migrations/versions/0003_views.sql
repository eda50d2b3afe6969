-- For people and their tools: lists by any condition, what comes, and what was.

-- A list goes by name, page by page, so each condition has its index in that order. Not of the rows with
-- a queue alone: the planner would know nothing of how many have which. Labels and words have no order:
-- of those that many have a page is soon full, those that few have are looked up and sorted.
CREATE INDEX dbbeat_schedule_by_state ON dbbeat_schedule (state, name);
CREATE INDEX dbbeat_schedule_by_task ON dbbeat_schedule (task, name);
CREATE INDEX dbbeat_schedule_by_queue ON dbbeat_schedule ((options ->> 'queue'), name);
CREATE INDEX dbbeat_schedule_by_owner ON dbbeat_schedule (name) WHERE owner = 'code';
CREATE INDEX dbbeat_schedule_by_label ON dbbeat_schedule USING gin (labels jsonb_path_ops);
CREATE INDEX dbbeat_schedule_by_word ON dbbeat_schedule USING gin (to_tsvector('simple'::regconfig,
    regexp_replace(name || ' ' || task || ' ' || description, '[^[:alnum:]]+', ' ', 'g')));

-- What was recorded last, as `dbbeat status` counts it: nearly free to write, for it holds no rows, only
-- from when to when each stretch of the table is.
CREATE INDEX dbbeat_tick_recorded ON dbbeat_tick USING brin (recorded_at)
    WITH (pages_per_range = 32, autosummarize = on);

-- What comes next, and when: ORDER BY due_at. One that beat has not planned yet has no fire time.
CREATE VIEW dbbeat_upcoming AS
SELECT s.name AS schedule, s.task, c.nominal_at, c.due_at, c.due_at - now() AS due_in, s.kind, s.expression,
       s.timezone, s.options ->> 'queue' AS queue, s.labels, c.runs, c.replan_from IS NOT NULL AS being_planned,
       s.id AS schedule_id
FROM dbbeat_cursor c JOIN dbbeat_schedule s ON s.id = c.schedule_id
WHERE c.due_at IS NOT NULL;

-- What became of fire times, with the runs of those that were sent. With a schedule or task id it is
-- quick; with a stretch of nominal_at only those days are read.
CREATE VIEW dbbeat_history AS
SELECT coalesce(s.name, d.schedule) AS schedule, s.task, t.nominal_at, t.last_at, t.count, t.state, t.kind,
       t.attempt, t.due_at, t.recorded_at, t.sent_at, t.sent_at - t.due_at AS sent_late, t.outcome,
       d.status AS run, d.result, d.worker, d.started_at, d.ended_at, d.ended_at - d.started_at AS took,
       t.reason, d.error, t.replica, s.labels, t.task_id, t.schedule_id
FROM dbbeat_tick t
LEFT JOIN dbbeat_schedule s ON s.id = t.schedule_id
LEFT JOIN dbbeat_dedup d ON d.task_id = t.task_id AND d.nominal_at = t.nominal_at;

COMMENT ON VIEW dbbeat_upcoming IS 'What comes next, and when: ORDER BY due_at.';
COMMENT ON COLUMN dbbeat_upcoming.schedule IS 'The name of the schedule.';
COMMENT ON COLUMN dbbeat_upcoming.task IS 'The task it sends.';
COMMENT ON COLUMN dbbeat_upcoming.nominal_at IS 'Its next fire time, by the schedule.';
COMMENT ON COLUMN dbbeat_upcoming.due_at IS 'The same with jitter: when it is sent.';
COMMENT ON COLUMN dbbeat_upcoming.due_in IS 'How long until then; below zero: late by so long.';
COMMENT ON COLUMN dbbeat_upcoming.kind IS 'How to read expression.';
COMMENT ON COLUMN dbbeat_upcoming.expression IS 'When it fires.';
COMMENT ON COLUMN dbbeat_upcoming.timezone IS 'The time zone of the expression.';
COMMENT ON COLUMN dbbeat_upcoming.queue IS 'The queue it asks for; null: as the app routes it.';
COMMENT ON COLUMN dbbeat_upcoming.labels IS 'The labels of the schedule.';
COMMENT ON COLUMN dbbeat_upcoming.runs IS 'How many ticks it has had.';
COMMENT ON COLUMN dbbeat_upcoming.being_planned IS 'New or just changed: beat is about to find its next fire time.';
COMMENT ON COLUMN dbbeat_upcoming.schedule_id IS 'Identity of the schedule.';

COMMENT ON VIEW dbbeat_history IS 'What became of fire times, with the runs of those that were sent. Name a schedule, or a stretch of nominal_at.';
COMMENT ON COLUMN dbbeat_history.schedule IS 'The name of the schedule; of a deleted one, as its run knew it.';
COMMENT ON COLUMN dbbeat_history.task IS 'The task of the schedule, as it is now.';
COMMENT ON COLUMN dbbeat_history.nominal_at IS 'The fire time by the schedule; of a range the first.';
COMMENT ON COLUMN dbbeat_history.last_at IS 'Of a range of fire times not sent: the last one.';
COMMENT ON COLUMN dbbeat_history.count IS 'How many fire times the row stands for.';
COMMENT ON COLUMN dbbeat_history.state IS 'What became of it: sent, missed, … (see dbbeat_tick.state).';
COMMENT ON COLUMN dbbeat_history.kind IS 'scheduled, catch_up, backfill, manual or recovery.';
COMMENT ON COLUMN dbbeat_history.attempt IS 'Which attempt at running it the message was for.';
COMMENT ON COLUMN dbbeat_history.due_at IS 'When it was to be sent: the fire time with jitter.';
COMMENT ON COLUMN dbbeat_history.recorded_at IS 'When beat decided.';
COMMENT ON COLUMN dbbeat_history.sent_at IS 'When it was sent.';
COMMENT ON COLUMN dbbeat_history.sent_late IS 'How long after it was due it was sent.';
COMMENT ON COLUMN dbbeat_history.outcome IS 'How its run ended: done, failed.';
COMMENT ON COLUMN dbbeat_history.run IS 'Where its run stands: running, retry, released, done, failed; null: no guarded worker took it.';
COMMENT ON COLUMN dbbeat_history.result IS 'Celery''s result state of the run.';
COMMENT ON COLUMN dbbeat_history.worker IS 'The worker that took it.';
COMMENT ON COLUMN dbbeat_history.started_at IS 'When its last run began.';
COMMENT ON COLUMN dbbeat_history.ended_at IS 'When its last run ended.';
COMMENT ON COLUMN dbbeat_history.took IS 'How long its last run took.';
COMMENT ON COLUMN dbbeat_history.reason IS 'Why it was not sent, or given up.';
COMMENT ON COLUMN dbbeat_history.error IS 'The error of its run.';
COMMENT ON COLUMN dbbeat_history.replica IS 'The beat process that decided.';
COMMENT ON COLUMN dbbeat_history.labels IS 'The labels of the schedule, as they are now.';
COMMENT ON COLUMN dbbeat_history.task_id IS 'The id of the message; of a range an id of the row alone.';
COMMENT ON COLUMN dbbeat_history.schedule_id IS 'Identity of the schedule.';

-- What was left to be said of the tables.
COMMENT ON TABLE dbbeat_cursor IS 'Where each schedule stands: its next fire time. Beat writes it, and the triggers of dbbeat_schedule.';
COMMENT ON COLUMN dbbeat_cursor.schedule_id IS 'The schedule.';
COMMENT ON COLUMN dbbeat_cursor.shard IS 'By this number, 0 to 255, replicas share the work.';
COMMENT ON COLUMN dbbeat_cursor.version IS 'The version of the schedule that it stands for.';
COMMENT ON COLUMN dbbeat_cursor.nominal_at IS 'The next fire time, by the schedule.';
COMMENT ON COLUMN dbbeat_cursor.due_at IS 'When there is something to do for it next; null: nothing (paused, finished, invalid).';
COMMENT ON COLUMN dbbeat_cursor.replan_from IS 'The schedule is new or changed: its next fire time is to be sought after this instant.';
COMMENT ON COLUMN dbbeat_cursor.held_at IS 'The schedule was not active from this instant on.';
COMMENT ON COLUMN dbbeat_cursor.runs IS 'How many ticks the schedule has had, as max_runs counts them.';

COMMENT ON COLUMN dbbeat_tick.schedule_id IS 'The schedule; it may be deleted by now.';
COMMENT ON COLUMN dbbeat_tick.task_id IS 'The id of the message, made from schedule and fire time; of a range an id of the row alone.';
COMMENT ON COLUMN dbbeat_tick.kind IS 'scheduled, catch_up (sent late), backfill, manual, recovery (sent again).';
COMMENT ON COLUMN dbbeat_tick.due_at IS 'When it was to be sent: the fire time with jitter.';
COMMENT ON COLUMN dbbeat_tick.recorded_at IS 'When it was decided.';
COMMENT ON COLUMN dbbeat_tick.sent_at IS 'When it was sent, or last sent again.';
COMMENT ON COLUMN dbbeat_tick.replica IS 'The beat process that took it upon itself.';
COMMENT ON COLUMN dbbeat_tick.reason IS 'Why it was not sent, or given up.';

COMMENT ON COLUMN dbbeat_dedup.task_id IS 'The id of the message.';
COMMENT ON COLUMN dbbeat_dedup.schedule IS 'The name of the schedule, as the message says it.';
COMMENT ON COLUMN dbbeat_dedup.worker IS 'The worker that took it.';
COMMENT ON COLUMN dbbeat_dedup.started_at IS 'When this attempt began.';
COMMENT ON COLUMN dbbeat_dedup.ended_at IS 'When it ended.';
COMMENT ON COLUMN dbbeat_dedup.error IS 'The error, where it failed.';
COMMENT ON COLUMN dbbeat_dedup.traceback IS 'The traceback of that error.';

COMMENT ON TABLE dbbeat_lease IS 'Which replica goes first on which of the 256 shards.';
COMMENT ON COLUMN dbbeat_lease.slot IS 'One share of the shards.';
COMMENT ON COLUMN dbbeat_lease.first_shard IS 'Its first shard.';
COMMENT ON COLUMN dbbeat_lease.last_shard IS 'Its last shard.';
COMMENT ON COLUMN dbbeat_lease.holder IS 'The replica that goes first; null: nobody.';
COMMENT ON COLUMN dbbeat_lease.epoch IS 'Grows at each change of hands.';
COMMENT ON COLUMN dbbeat_lease.acquired_at IS 'When the holder got it.';
COMMENT ON COLUMN dbbeat_lease.expires_at IS 'When it is free, unless it is renewed.';

COMMENT ON TABLE dbbeat_replica IS 'The beat processes, and when each was last seen.';
COMMENT ON COLUMN dbbeat_replica.id IS 'Its name, a new one at each start.';
COMMENT ON COLUMN dbbeat_replica.hostname IS 'Where it runs.';
COMMENT ON COLUMN dbbeat_replica.pid IS 'Its process there.';
COMMENT ON COLUMN dbbeat_replica.release IS 'The version of this package that it runs.';
COMMENT ON COLUMN dbbeat_replica.ready IS 'Whether it can send: false while it has no broker.';
COMMENT ON COLUMN dbbeat_replica.listener_pid IS 'The server process of its connection that listens: it ends with the replica.';
COMMENT ON COLUMN dbbeat_replica.started_at IS 'When it started.';
COMMENT ON COLUMN dbbeat_replica.seen_at IS 'When it last said that it is alive.';

COMMENT ON COLUMN dbbeat_worker.id IS 'The worker''s node name.';
COMMENT ON COLUMN dbbeat_worker.queues IS 'The queues it reads.';
COMMENT ON COLUMN dbbeat_worker.release IS 'The version of this package that it runs.';
COMMENT ON COLUMN dbbeat_worker.started_at IS 'When it was first seen.';
COMMENT ON COLUMN dbbeat_worker.seen_at IS 'When it last said that it is alive.';

COMMENT ON COLUMN dbbeat_audit.schedule_id IS 'The schedule; it may be deleted by now.';
COMMENT ON COLUMN dbbeat_backfill.id IS 'Its number.';
COMMENT ON COLUMN dbbeat_backfill.schedule_id IS 'The schedule whose fire times it sends.';
COMMENT ON COLUMN dbbeat_backfill.ordered_by IS 'Who ordered it.';
COMMENT ON COLUMN dbbeat_backfill.ordered_at IS 'When it was ordered.';
COMMENT ON COLUMN dbbeat_backfill.open_nominals IS 'The fire times of open_ids.';
COMMENT ON COLUMN dbbeat_backfill.ended_at IS 'When it was done or stopped.';

COMMENT ON COLUMN dbbeat_cursor.waits_for IS 'What its next fire time waits for: turn (it is late, and goes when there is room), run (another has to end first).';
COMMENT ON COLUMN dbbeat_cursor.waits_since IS 'Since when it waits.';
COMMENT ON COLUMN dbbeat_cursor.range_at IS 'The row of dbbeat_tick that ends with the fire time before: its nominal_at.';
COMMENT ON COLUMN dbbeat_cursor.range_until IS 'The last fire time of that row.';
COMMENT ON COLUMN dbbeat_cursor.range_state IS 'The state of that row.';
COMMENT ON COLUMN dbbeat_cursor.before IS 'The when of fire times that had passed when it was changed.';
COMMENT ON COLUMN dbbeat_pace.one IS 'There is one row.';
COMMENT ON COLUMN dbbeat_pace.since IS 'Since when sent counts.';
COMMENT ON COLUMN dbbeat_open.schedule_id IS 'The schedule.';
COMMENT ON COLUMN dbbeat_open.nominal_at IS 'The fire time.';
COMMENT ON COLUMN dbbeat_open.task_id IS 'The id of the message.';
COMMENT ON COLUMN dbbeat_cancelled.task_id IS 'The id of the message.';
COMMENT ON COLUMN dbbeat_cancelled.requested_at IS 'When it was ended.';
