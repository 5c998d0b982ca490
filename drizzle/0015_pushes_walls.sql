-- Row-level security of pushes and previews: a delivery is nobody's, and only the system reads it.

do $$
declare t text;
begin
  foreach t in array array['deployment_heads', 'preview_policies', 'previews', 'preview_hooks', 'githost_deliveries'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_system', t);
    continue when t = 'githost_deliveries';
    execute format('create policy own on %I to slipway_app using (tenant_id = current_tenant())', t);
    execute format('grant select, insert, update, delete on %I to slipway_app', t);
  end loop;
end $$;
