-- Who changed which schedule, before and after.
SELECT 1;
