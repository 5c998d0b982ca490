-- Comparisons of experiments on one dataset. Feedback about runs names them.

create table comparative_experiments (
  -- Its name is the code of the error.
  id uuid default gen_random_uuid() not null constraint comparative_experiment_exists primary key,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  name text,
  description text,
  experiment_ids uuid[] not null,
  extra json,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint comparative_experiments_dataset_id_datasets_id_fk
    foreign key (dataset_id) references datasets (id) on delete cascade
);
create index comparative_experiments_page on comparative_experiments (dataset_id, created_at desc, id desc);
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on comparative_experiments to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on comparative_experiments
  referencing new table as added
  for each statement execute function enforce_quota('dataset_id', '1000', 'true', 'comparative_experiments');
reset role;
revoke trigger on comparative_experiments from slipway_system;
--> statement-breakpoint
alter table comparative_experiments enable row level security, force row level security;
create policy everything on comparative_experiments to slipway_system using (true) with check (true);
grant select, insert, update, delete on comparative_experiments to slipway_system;
create policy own on comparative_experiments to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_dataset(dataset_id)
  );
grant select, insert, delete on comparative_experiments to slipway_app;
create policy admitted on comparative_experiments as restrictive to slipway_limited
  using (
    not (select hides('dataset'))
    or exists (select from datasets d where d.id = comparative_experiments.dataset_id)
  )
  with check (true);
