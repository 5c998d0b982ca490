-- The owner of a resource: a label of the configuration files that declare it, by which `slipway apply --prune` knows
-- what it may delete. It grants nothing.
alter table deployments add column owner text;
alter table roles add column owner text;
alter table webhooks add column owner text;
alter table oauth_providers add column owner text;
grant update (owner) on deployments to slipway_app;
grant update (owner) on roles to slipway_app;
grant update (owner) on webhooks to slipway_app;
grant update (owner) on oauth_providers to slipway_app;
--> statement-breakpoint
-- Most deployments have no owner, so this index is small, and leaves updates of the others heap-only.
create index deployments_owner on deployments (tenant_id, owner, created_at desc, id desc) where owner is not null;
