-- What people order besides: a tick now, a backfill of days past.
SELECT 1;
