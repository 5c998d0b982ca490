-- Inputs and outputs in a table of their own: a change of metadata or splits makes versions of thousands of examples,
-- and must not copy what they hold. No route has written examples yet.
create table example_contents (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  inputs text not null,
  outputs text,
  constraint example_contents_dataset_id_datasets_id_fk
    foreign key (dataset_id) references datasets (id) on delete cascade
);
create index example_contents_dataset on example_contents (dataset_id);
alter table examples
  drop column inputs,
  drop column outputs,
  add column contents_id uuid not null
    constraint examples_contents_id_example_contents_id_fk references example_contents (id);
create index examples_contents on examples (contents_id);
--> statement-breakpoint
create function is_own_example_contents(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (
    select from example_contents
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function is_own_example_contents(uuid) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function is_own_example_contents(uuid) from public;
grant execute on function is_own_example_contents(uuid) to slipway_app;
reset role;
--> statement-breakpoint
alter table example_contents enable row level security, force row level security;
create policy everything on example_contents to slipway_system using (true) with check (true);
grant select, insert, update, delete on example_contents to slipway_system;
create policy own on example_contents to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
  );
grant select, insert, delete on example_contents to slipway_app;
drop policy own on examples;
create policy own on examples to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
    and is_own_example_contents(contents_id)
  );
create policy admitted on example_contents as restrictive to slipway_limited
  using (not (select hides('dataset')) or exists (select from datasets d where d.id = example_contents.dataset_id))
  with check (true);
