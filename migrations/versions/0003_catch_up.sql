-- Catching up, and runs that overlap: what a cursor remembers of them.
SELECT 1;
