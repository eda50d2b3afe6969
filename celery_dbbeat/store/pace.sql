-- How fast late ticks go, all replicas together.

-- name: take_pace
-- The right to send late ticks, for this transaction. Nobody waits for it: who has not got it looks
-- again a little later. A replica without any lease takes it only when nobody used it for the hedge's time.
SELECT now() AS now, free_at, usual FROM dbbeat_pace
WHERE free_at <= now() - %(at_least)s
FOR UPDATE SKIP LOCKED;

-- name: charge_pace
-- Only whoever has locked the row.
UPDATE dbbeat_pace SET free_at = %(free_at)s;

-- name: note_usual
-- Ticks that were sent on time, into the average of a day's minutes. A stretch much longer than a minute
-- is one in which nobody led: it does not count, so that an outage lowers nothing. Waits for nobody.
WITH free AS (
    SELECT one, sent + %(sent)s AS sent, extract(epoch FROM now() - since)::double precision AS seconds
    FROM dbbeat_pace FOR UPDATE SKIP LOCKED
)
UPDATE dbbeat_pace p
SET sent = CASE WHEN seconds >= 55 THEN 0 ELSE free.sent END,
    since = CASE WHEN seconds >= 55 THEN now() ELSE p.since END,
    usual = CASE WHEN seconds BETWEEN 55 AND 150
                 THEN usual + (free.sent / seconds - usual) / least(minutes + 1, 1440) ELSE usual END,
    minutes = minutes + CASE WHEN seconds BETWEEN 55 AND 150 THEN 1 ELSE 0 END
FROM free WHERE p.one = free.one
RETURNING p.one;
