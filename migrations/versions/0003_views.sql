-- For people and their tools: lists by any condition, what comes, and what was.

-- A list goes by name, page by page, so each condition has its index in that order. Labels and words
-- have none in an order: many rows with one are read in the order of names until a page is full,
-- a few are looked up and sorted.
CREATE INDEX dbbeat_schedule_by_state ON dbbeat_schedule (state, name);
CREATE INDEX dbbeat_schedule_by_task ON dbbeat_schedule (task, name);
CREATE INDEX dbbeat_schedule_by_queue ON dbbeat_schedule ((options ->> 'queue'), name)
    WHERE options ->> 'queue' IS NOT NULL;
CREATE INDEX dbbeat_schedule_by_owner ON dbbeat_schedule (name) WHERE owner = 'code';
CREATE INDEX dbbeat_schedule_by_label ON dbbeat_schedule USING gin (labels jsonb_path_ops);
CREATE INDEX dbbeat_schedule_by_word ON dbbeat_schedule USING gin (to_tsvector('simple'::regconfig,
    regexp_replace(name || ' ' || task || ' ' || description, '[^[:alnum:]]+', ' ', 'g')));
