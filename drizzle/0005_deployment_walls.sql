-- Row-level security of deployments and what belongs to them, and the index that carries their list.

do $$
declare t text;
begin
  foreach t in array array['projects', 'tag_keys', 'tag_values', 'deployments', 'revisions', 'deployment_secrets'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy own on %I to slipway_app using (tenant_id = current_tenant())', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_app, slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
-- One covering index bounds every filter of the list, alone and together, and survives row-level security, which a GIN index does not.
-- What a patch changes stays out of it, so that patches are heap-only updates; the fill leaves them their room.
create index deployments_list on deployments (tenant_id, created_at desc, id desc)
  include (status, deployment_type, image_version, remote_reconciled, name_fold, tag_value_ids);
--> statement-breakpoint
alter table deployments set (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.02);

--> statement-breakpoint
-- Row-level security of uploads and logs, and what holds an archive for as long as somebody names it.

do $$
declare t text;
begin
  foreach t in array array['uploads', 'logs', 'log_lines'] loop
    execute format('alter table %I enable row level security, force row level security', t);
    execute format('create policy own on %I to slipway_app using (tenant_id = current_tenant())', t);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_app, slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
-- The archive was uploaded in this workspace. Its row is held until the transaction ends, so that the sweep passes over it.
create function uploaded(p_path text) returns boolean language plpgsql cost 10000 as $$
begin
  perform from uploads where tenant_id = current_tenant() and object_path = p_path and state = 'stored' for share;
  if not found then perform refuse('archive_unknown'); end if;
  return true;
end $$;
--> statement-breakpoint
create index revisions_archive on revisions ((source_revision_config ->> 'source_tarball_path'))
  where source_revision_config ->> 'source_tarball_path' is not null;
