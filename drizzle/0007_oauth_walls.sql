-- Row-level security of OAuth providers and what belongs to them, and who may hand out tokens.

do $$
declare t text;
begin
  foreach t in array array['oauth_providers', 'oauth_reservations', 'oauth_flows', 'oauth_tokens'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_app, slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
create policy own on oauth_providers to slipway_app using (organization_id = current_organization());
create policy own on oauth_reservations to slipway_app using (organization_id = current_organization());
create policy own on oauth_flows to slipway_app using (tenant_id = current_tenant());
create policy own on oauth_tokens to slipway_app using (tenant_id = current_tenant());
--> statement-breakpoint
-- Whoever changes deployments may connect people to providers and hand out their tokens.
set local role slipway_system;
--> statement-breakpoint
update roles set permissions = permissions || array['tokens:use']
  where 'deployments:update' = any(permissions) and not 'tokens:use' = any(permissions);
--> statement-breakpoint
reset role;
