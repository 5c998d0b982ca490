-- Datasets, the versions of their examples, and the attachments of examples.

create table datasets (
  -- Its name is the code of the error.
  id uuid default gen_random_uuid() not null constraint dataset_exists primary key,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  description text,
  data_type text default 'kv' not null,
  inputs_schema_definition json,
  outputs_schema_definition json,
  externally_managed boolean default false not null,
  metadata jsonb,
  baseline_experiment_id uuid,
  tag_value_ids uuid[] default '{}' not null,
  share_token uuid,
  last_number integer default 0 not null,
  example_count integer default 0 not null,
  examples_at timestamptz,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint dataset_name_taken unique (tenant_id, name),
  constraint datasets_tenant_id_workspaces_id_fk foreign key (tenant_id) references workspaces (id) on delete cascade
);
create unique index datasets_share_token on datasets (share_token);
create index datasets_page on datasets (tenant_id, created_at desc, id desc);
--> statement-breakpoint
create table dataset_versions (
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  as_of timestamptz not null,
  tags text[] default '{}' not null,
  constraint dataset_versions_dataset_id_as_of_pk primary key (dataset_id, as_of),
  constraint dataset_versions_dataset_id_datasets_id_fk
    foreign key (dataset_id) references datasets (id) on delete cascade
);
--> statement-breakpoint
create table examples (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  since timestamptz not null,
  until timestamptz,
  number integer not null,
  inputs text not null,
  outputs text,
  metadata jsonb not null,
  source_run_id uuid,
  attachments json,
  object_ids uuid[] default '{}' not null,
  created_at timestamptz default clock() not null,
  constraint examples_tenant_id_id_since_pk primary key (tenant_id, id, since),
  constraint examples_dataset_id_datasets_id_fk foreign key (dataset_id) references datasets (id) on delete cascade
);
-- Its name is the code of the error.
create unique index example_exists on examples (tenant_id, id) where until is null;
create index examples_current on examples (dataset_id, since desc, number) where until is null;
create index examples_page on examples (dataset_id, since desc, number);
create index examples_objects on examples using gin (object_ids);
--> statement-breakpoint
create table example_objects (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  bytes bigint not null,
  check_at timestamptz default clock() + interval '1 day',
  created_at timestamptz default clock() not null
);
create index example_objects_tenant on example_objects (tenant_id);
create index example_objects_check on example_objects (check_at);
--> statement-breakpoint

-- Compared with the row's own workspace, whoever writes.
create function check_dataset_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from projects p where p.id = new.baseline_experiment_id and p.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a dataset refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger check_references
  after insert or update of tag_value_ids, baseline_experiment_id on datasets
  for each row execute function check_dataset_references();
--> statement-breakpoint
create function is_own_dataset(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from datasets
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
-- An hour later, because a statement that runs now may still give an object to another example.
create function check_objects_of_deleted_examples() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  update example_objects o
  set check_at = clock() + interval '1 hour'
  from (select distinct unnest(object_ids) as id from deleted) d
  where o.id = d.id;
  return null;
end $$;
--> statement-breakpoint
create trigger check_objects
  after delete on examples
  referencing old table as deleted
  for each statement execute function check_objects_of_deleted_examples();
--> statement-breakpoint
-- `p_limit` is the largest sum of bytes that the attachments of a workspace may have.
create function require_attachment_room(p_tenant uuid, p_bytes bigint, p_limit bigint) returns boolean
language plpgsql volatile cost 20000 as $$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('attachments of ' || p_tenant, 0));
  select coalesce(sum(bytes), 0)
  into v_used
  from example_objects
  where tenant_id = p_tenant;
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function check_dataset_references() owner to slipway_system;
alter function is_own_dataset(uuid) owner to slipway_system;
alter function check_objects_of_deleted_examples() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function check_dataset_references() from public;
revoke execute on function is_own_dataset(uuid) from public;
grant execute on function is_own_dataset(uuid) to slipway_app;
revoke execute on function check_objects_of_deleted_examples() from public;
reset role;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on datasets to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on datasets
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'datasets');
reset role;
revoke trigger on datasets from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array['datasets', 'dataset_versions', 'examples', 'example_objects'] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
  foreach v_table in array array['datasets', 'example_objects'] loop
    execute format(
      'create policy own on %I to slipway_app
        using (tenant_id = current_tenant())
        with check (tenant_id = current_tenant() and organization_id = current_organization())',
      v_table
    );
  end loop;
  foreach v_table in array array['dataset_versions', 'examples'] loop
    execute format(
      'create policy own on %I to slipway_app
        using (tenant_id = current_tenant())
        with check (
          tenant_id = current_tenant()
          and organization_id = current_organization()
          and is_own_dataset(dataset_id)
        )',
      v_table
    );
  end loop;
end $$;
grant select, insert, delete, update (
    name, description, data_type, inputs_schema_definition, outputs_schema_definition, externally_managed, metadata,
    baseline_experiment_id, tag_value_ids, share_token, last_number, example_count, examples_at, version, created_at,
    updated_at
  ) on datasets to slipway_app;
grant select, insert, update (tags) on dataset_versions to slipway_app;
grant select, insert, delete, update (until) on examples to slipway_app;
grant select, insert on example_objects to slipway_app;
