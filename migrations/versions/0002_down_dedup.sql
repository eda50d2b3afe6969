-- Where only effects live.
DROP FUNCTION dbbeat_retire, dbbeat_make_partitions;
DROP TABLE dbbeat_dedup;
