-- name: announce_worker
INSERT INTO dbbeat_worker (id, queues, release) VALUES (%(worker)s, %(queues)s, %(release)s)
ON CONFLICT (id) DO UPDATE SET queues = excluded.queues, release = excluded.release, seen_at = now();

-- name: forget_worker
DELETE FROM dbbeat_worker WHERE id = %(worker)s;

-- name: guarded_queues
-- Which queues are read by workers with the guard that are alive.
SELECT DISTINCT unnest(queues) AS queue FROM dbbeat_worker WHERE seen_at > now() - %(alive)s;

-- name: forget_workers
-- Those that have not been seen for a day.
DELETE FROM dbbeat_worker WHERE seen_at < now() - interval '1 day';
