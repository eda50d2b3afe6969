-- name: announce_worker
INSERT INTO dbbeat_worker (id, queues, holding, release)
VALUES (%(worker)s, %(queues)s, %(holding)s, %(release)s)
ON CONFLICT (id) DO UPDATE
SET queues = excluded.queues, holding = excluded.holding, release = excluded.release, seen_at = now();

-- name: forget_worker
DELETE FROM dbbeat_worker WHERE id = %(worker)s;

-- name: forget_workers
-- Those that have not been seen for a day.
DELETE FROM dbbeat_worker WHERE seen_at < now() - interval '1 day';
