-- When the sweep next looks at a log, and indexes for what is deleted by its age.
-- Of the logs that are there, each is looked at once a day from the first sweep on.
alter table logs add column check_at timestamp with time zone not null default '2026-11-24 00:00:00+00';
--> statement-breakpoint
alter table logs alter column check_at set default clock() + interval '1 day';
--> statement-breakpoint
create index logs_check on logs (check_at);
--> statement-breakpoint
create index api_keys_ended on api_keys (least(revoked_at, expires_at)) where least(revoked_at, expires_at) is not null;
--> statement-breakpoint
create index previews_ended on previews (updated_at) where state = 'ended';
--> statement-breakpoint
create index deleted_projects_age on deleted_projects (deleted_at);
