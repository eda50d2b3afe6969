-- How it all stands, in a moment however much there is: what is counted is on an index, and no count
-- goes beyond %(most)s.

-- name: status_replicas
-- Who is alive, and who goes first on how many of the 256 shards, since when.
SELECT r.id, r.hostname, r.pid, r.release, r.ready, r.started_at, r.seen_at,
       r.seen_at > now() - %(lease_ttl)s AND (r.listener_pid IS NULL
           OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = r.listener_pid)) AS alive,
       coalesce(l.shards, 0) AS shards, l.leads_since
FROM dbbeat_replica r LEFT JOIN LATERAL (
    SELECT sum(last_shard - first_shard + 1) AS shards, max(acquired_at) AS leads_since
    FROM dbbeat_lease WHERE holder = r.id AND expires_at > now()
) AS l ON true
WHERE r.seen_at > now() - interval '1 hour'
ORDER BY r.started_at, r.id;

-- name: status_schedules
-- By state: counted up to the bound; beyond, as the planner's statistics have it, where it has any.
SELECT known.state, bounded.number < %(most)s AS counted,
       CASE WHEN bounded.number < %(most)s THEN bounded.number
            ELSE greatest(bounded.number, (SELECT (c.reltuples * f.share)::bigint
                FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = 'state',
                     unnest(s.most_common_vals::text::text[], s.most_common_freqs) AS f (state, share)
                WHERE c.oid = 'dbbeat_schedule'::regclass AND f.state = known.state)) END AS number
FROM unnest(ARRAY['active', 'paused', 'finished', 'invalid']) AS known (state)
CROSS JOIN LATERAL (
    SELECT count(*) AS number FROM (
        SELECT FROM dbbeat_schedule WHERE state = known.state LIMIT %(most)s) AS few
) AS bounded;

-- name: status_ticks
-- What is to be done, what is late, and what became of the last minute.
SELECT clock_timestamp() AS now,
       (SELECT count(*) FROM (SELECT FROM dbbeat_cursor WHERE due_at <= now() LIMIT %(most)s) AS few) AS due,
       (SELECT count(*) FROM (SELECT FROM dbbeat_cursor WHERE due_at <= now() - %(late)s LIMIT %(most)s) AS few) AS late,
       (SELECT count(*) FROM (SELECT FROM dbbeat_cursor
            WHERE waits_for = 'turn' AND waits_since IS NOT NULL LIMIT %(most)s) AS few) AS held_back,
       (SELECT count(*) FROM (SELECT FROM dbbeat_cursor
            WHERE waits_for = 'run' AND due_at IS NULL LIMIT %(most)s) AS few) AS waiting,
       (SELECT due_at FROM dbbeat_cursor WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1) AS next_due,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE state = 'recorded' LIMIT %(most)s) AS few) AS unsent,
       (SELECT claimed_at FROM dbbeat_tick WHERE state = 'recorded' ORDER BY claimed_at LIMIT 1) AS oldest_unsent,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE awaited LIMIT %(most)s) AS few) AS awaited,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick WHERE state = 'dead' LIMIT %(most)s) AS few) AS dead,
       (SELECT count(*) FROM (SELECT FROM dbbeat_tick
            WHERE recorded_at > now() - interval '1 minute' AND state IN ('recorded', 'sent', 'dead', 'cancelled')
            LIMIT %(most)s) AS few) AS sent_a_minute,
       (SELECT count(*) FROM dbbeat_worker WHERE seen_at > now() - interval '1 minute') AS workers;
