-- Schedules that cannot be used are few among many, and are looked for whenever somebody asks for metrics.
CREATE INDEX dbbeat_schedule_invalid ON dbbeat_schedule (name) WHERE state = 'invalid';
