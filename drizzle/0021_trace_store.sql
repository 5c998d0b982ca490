-- A trace may be upgraded before its project is known.
alter table upgraded_traces drop column session_id;
--> statement-breakpoint
create trigger enforce_quota
  after insert on projects
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'projects');
