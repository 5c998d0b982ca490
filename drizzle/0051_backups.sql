-- A backup reads how far the identities of tables are.
grant select on all sequences in schema public to slipway_system;
--> statement-breakpoint
-- Since a restore: agents keep deployments that the restored database does not know.
alter table listeners add column holds_removals_since timestamptz;
