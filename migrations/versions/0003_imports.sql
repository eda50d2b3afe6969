-- As if the last run of each schedule, under another beat, had been at that instant: the fire times since
-- then are decided, by its own policy. What is not active goes on when it is resumed. Says how many.
CREATE FUNCTION dbbeat_go_on_from(schedule_ids uuid[], instants timestamptz[]) RETURNS bigint
    LANGUAGE sql AS $$
    WITH gone_on AS (
        UPDATE dbbeat_cursor c
        SET nominal_at = NULL, replan_from = given.instant, held_at = NULL, due_at = clock_timestamp()
        FROM unnest(schedule_ids, instants) AS given (id, instant)
        JOIN dbbeat_schedule s ON s.id = given.id AND s.state = 'active'
        WHERE c.schedule_id = given.id
        RETURNING 1
    )
    SELECT count(*) FROM gone_on
$$;
