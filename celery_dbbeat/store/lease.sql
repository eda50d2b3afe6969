-- name: heartbeat
-- One statement a renewal: says that this replica is alive, renews what it holds (only the exact
-- holder can), and tells how the leases ought to be shared out: the live and ready replicas in the
-- order of their start get the slots in turn.
WITH me AS (
    INSERT INTO dbbeat_replica (id, hostname, pid, release, ready, listener_pid)
    VALUES (%(replica)s, %(hostname)s, %(pid)s, %(release)s, %(ready)s, %(listener_pid)s)
    ON CONFLICT (id) DO UPDATE
    SET seen_at = now(), ready = excluded.ready, listener_pid = excluded.listener_pid
    RETURNING started_at
), others AS (
    SELECT count(*) FILTER (WHERE (r.started_at, r.id) < ((SELECT started_at FROM me), %(replica)s)) AS before,
           count(*) AS number
    FROM dbbeat_replica r
    WHERE r.id <> %(replica)s AND r.ready AND r.seen_at > now() - %(lease_ttl)s
      AND (r.listener_pid IS NULL
           OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = r.listener_pid))
), renewed AS (
    UPDATE dbbeat_lease SET expires_at = now() + %(lease_ttl)s
    WHERE holder = %(replica)s AND %(ready)s
    RETURNING slot, first_shard, last_shard, epoch
)
SELECT clock_timestamp() AS now, others.before, others.number,
       (SELECT count(*) FROM dbbeat_lease) AS slots,
       ARRAY(SELECT slot FROM renewed ORDER BY slot) AS held_slots,
       ARRAY(SELECT first_shard FROM renewed ORDER BY slot) AS first_shards,
       ARRAY(SELECT last_shard FROM renewed ORDER BY slot) AS last_shards,
       ARRAY(SELECT epoch FROM renewed ORDER BY slot) AS epochs
FROM others;

-- name: acquire
-- Takes free slots: never held, given back, run out, or held by a replica known to be gone. The epoch
-- grows at each change of hands.
WITH free AS (
    SELECT l.slot FROM dbbeat_lease l
    WHERE (l.holder IS NULL OR l.expires_at < now() OR NOT EXISTS (
        SELECT FROM dbbeat_replica r
        WHERE r.id = l.holder AND (r.listener_pid IS NULL
            OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = r.listener_pid))))
      AND l.holder IS DISTINCT FROM %(replica)s
    ORDER BY l.slot
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE dbbeat_lease l
SET holder = %(replica)s, epoch = l.epoch + 1, acquired_at = now(), expires_at = now() + %(lease_ttl)s
FROM free WHERE l.slot = free.slot
RETURNING l.slot, l.first_shard, l.last_shard, l.epoch;

-- name: resign
-- Gives slots back, highest first, keeping so many; tells the others that they are free.
WITH surplus AS (
    SELECT slot FROM dbbeat_lease WHERE holder = %(replica)s ORDER BY slot OFFSET %(keep)s
    FOR UPDATE SKIP LOCKED
), given AS (
    UPDATE dbbeat_lease l SET holder = NULL, expires_at = NULL FROM surplus
    WHERE l.slot = surplus.slot AND l.holder = %(replica)s RETURNING l.slot
)
SELECT pg_notify(%(channel)s, 'lease') FROM given LIMIT 1;

-- name: leave
-- A replica that stops: it is not alive any more, and everything it held is free.
WITH gone AS (
    DELETE FROM dbbeat_replica WHERE id = %(replica)s
), given AS (
    UPDATE dbbeat_lease SET holder = NULL, expires_at = NULL
    WHERE holder = %(replica)s RETURNING slot
)
SELECT pg_notify(%(channel)s, 'lease') FROM given LIMIT 1;

-- name: lock_leases
LOCK TABLE dbbeat_lease IN EXCLUSIVE MODE;

-- name: reslice
-- Cuts the 256 shards into so many slots of nearly equal length. Epochs go on from the highest.
WITH old AS (DELETE FROM dbbeat_lease RETURNING epoch),
     top AS (SELECT coalesce(max(epoch), 0) AS epoch FROM old)
INSERT INTO dbbeat_lease (slot, first_shard, last_shard, epoch)
SELECT i, i * 256 / %(slots)s, (i + 1) * 256 / %(slots)s - 1, top.epoch
FROM generate_series(0, %(slots)s - 1) AS i, top;

-- name: tell
SELECT pg_notify(%(channel)s, %(what)s);

-- name: forget_replicas
-- Those that have not been seen for a day.
DELETE FROM dbbeat_replica WHERE seen_at < now() - interval '1 day';
