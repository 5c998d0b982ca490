-- Row-level security of integrations and what belongs to them, who may manage them, and what a deployment may be made with.

do $$
declare t text;
begin
  foreach t in array array['integrations', 'integration_listings', 'integration_installs'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy own on %I to slipway_app using (tenant_id = current_tenant())', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_app, slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
-- Whoever may delete deployments may connect their git hosts, and part from them.
set local role slipway_system;
--> statement-breakpoint
update roles set permissions = permissions || array['integrations:manage']
  where 'deployments:delete' = any(permissions) and not 'integrations:manage' = any(permissions);
--> statement-breakpoint
reset role;
--> statement-breakpoint
-- The integration is this workspace's and its host answers for it; of another workspace's is told what is told of none.
create function integrated(p_id uuid) returns boolean language plpgsql stable cost 10000 as $$
declare
  v_state text := (select state from integrations where id = p_id and tenant_id = current_tenant());
begin
  if v_state is null then perform refuse('integration_unknown'); end if;
  if v_state <> 'active' then perform refuse('integration_' || v_state); end if;
  return true;
end $$;
