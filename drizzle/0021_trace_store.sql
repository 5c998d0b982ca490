-- A trace may be upgraded before its project is known.
alter table upgraded_traces drop column session_id;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on projects to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on projects
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'projects');
reset role;
revoke trigger on projects from slipway_system;
