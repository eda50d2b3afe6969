-- For people and their tools: what comes, and what was.
SELECT 1;
