-- The commit at the head of a pull request, so that a person sees what an approval allows. Null for a preview whose
-- pull request last changed before this migration.
alter table previews add column commit json;
grant update (commit) on previews to slipway_app;
--> statement-breakpoint
-- For the list of all previews of a workspace.
create index previews_of_workspace on previews (tenant_id, created_at desc, id desc);
--> statement-breakpoint

-- The health that the journal has. The schedule writes an event where the reported one differs, so that an application
-- that flaps makes one event a minute at most. Null counts as healthy.
alter table deployments add column recorded_healthy boolean;
create index deployments_health_unrecorded on deployments (id)
  where healthy <> coalesce(recorded_healthy, true);
