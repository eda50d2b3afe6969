-- What beat shows of all tables together, for whoever watches it. Nothing here takes longer the more
-- there is: a count ends at a bound, on an index, and what has no index is estimated.

-- name: backlog
SELECT (SELECT count(*) FROM (SELECT FROM dbbeat_cursor WHERE due_at <= now() LIMIT %(most)s) AS due) AS due,
       (SELECT count(*) FROM (SELECT FROM dbbeat_cursor WHERE due_at <= now() - %(late)s LIMIT %(most)s) AS late) AS late,
       (SELECT extract(epoch FROM greatest(interval '0', now() - due_at))::float8 FROM dbbeat_cursor
        WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS oldest_due,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE state = 'recorded' LIMIT %(most)s) AS unsent) AS unsent,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE awaited LIMIT %(most)s) AS awaited) AS awaited,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE state = 'dead' LIMIT %(most)s) AS dead) AS dead,
       (SELECT count(*) FROM dbbeat_worker WHERE seen_at > now() - %(worker_alive)s) AS workers,
       (SELECT count(*) FILTER (WHERE ready) FROM dbbeat_replica WHERE seen_at > now() - %(lease_ttl)s) AS ready,
       (SELECT count(*) FILTER (WHERE NOT ready) FROM dbbeat_replica WHERE seen_at > now() - %(lease_ttl)s) AS not_ready;

-- name: schedule_states
-- Counted where there are few schedules in a state, else estimated by what the planner knows of them.
WITH known AS (
    SELECT v.state, v.share * greatest(c.reltuples, 0) AS estimate
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = 'state',
         unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS v (state, share)
    WHERE c.oid = 'dbbeat_schedule'::regclass
)
SELECT wanted.state, CASE WHEN counted.number < %(most)s THEN counted.number
                          ELSE greatest(counted.number, known.estimate) END::float8 AS number
FROM unnest(%(states)s::text[]) AS wanted (state)
CROSS JOIN LATERAL (SELECT count(*) AS number FROM (
    SELECT FROM dbbeat_schedule s WHERE s.state = wanted.state LIMIT %(most)s) AS bounded) AS counted
LEFT JOIN known ON known.state = wanted.state;

-- name: replicas_of_host
-- Of the replicas that were seen on a host within a day: who is alive, and who is ready.
SELECT id, pid, ready, seen_at > now() - %(fresh)s AS fresh,
       extract(epoch FROM now() - seen_at)::float8 AS seen_ago
FROM dbbeat_replica WHERE hostname = %(hostname)s AND seen_at > now() - interval '1 day'
ORDER BY seen_at DESC;
