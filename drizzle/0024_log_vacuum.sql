-- The lines that a busy application replaces are more than the vacuum removes at its usual pace.
ALTER TABLE "log_lines" SET (autovacuum_vacuum_cost_delay = 0);
