-- Insights: jobs that sort the runs of a project into clusters, their saved configs, and the calls they made.

create table insight_configs (
  -- Its name is the code of the error.
  id uuid default gen_random_uuid() not null constraint insight_config_exists primary key,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  name text not null,
  description text,
  config json not null,
  schedule_cron text,
  next_start_at timestamptz,
  last_started_at timestamptz,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint insight_configs_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade,
  constraint insight_configs_session_id_projects_id_fk
    foreign key (session_id) references projects (id) on delete cascade
);
create index insight_configs_page on insight_configs (session_id, created_at desc, id desc);
create index insight_configs_due on insight_configs (next_start_at) where next_start_at is not null;
--> statement-breakpoint
create table insight_jobs (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  config_id uuid,
  name text not null,
  status text default 'queued' not null
    constraint insight_jobs_status check (status in ('queued', 'running', 'success', 'error')),
  method text not null constraint insight_jobs_method check (method in ('model', 'lexical')),
  request json not null,
  is_scheduled boolean default false not null,
  summary_configuration_id uuid,
  cluster_configuration_id uuid,
  start_time timestamptz,
  end_time timestamptz,
  num_runs integer,
  metadata json default '{}' not null,
  report json,
  error text,
  lease integer default 0 not null,
  leased_until timestamptz default clock() not null,
  attempts integer default 0 not null,
  started_at timestamptz,
  finished_at timestamptz,
  version integer default 1 not null,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint insight_jobs_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade,
  constraint insight_jobs_session_id_projects_id_fk
    foreign key (session_id) references projects (id) on delete cascade,
  constraint insight_jobs_config_id_insight_configs_id_fk
    foreign key (config_id) references insight_configs (id) on delete set null
);
create index insight_jobs_page on insight_jobs (session_id, created_at desc, id desc);
create index insight_jobs_config on insight_jobs (config_id);
create index insight_jobs_due on insight_jobs (leased_until) where status in ('queued', 'running');
--> statement-breakpoint
create table insight_clusters (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  job_id uuid not null,
  parent_id uuid,
  level integer not null,
  place integer not null,
  name text not null,
  description text not null,
  num_runs integer not null,
  stats json,
  constraint insight_clusters_job_id_insight_jobs_id_fk
    foreign key (job_id) references insight_jobs (id) on delete cascade,
  constraint insight_clusters_parent_id_insight_clusters_id_fk
    foreign key (parent_id) references insight_clusters (id) on delete cascade
);
create index insight_clusters_job on insight_clusters (job_id, level desc, place);
create index insight_clusters_parent on insight_clusters (parent_id);
--> statement-breakpoint
create table insight_runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  job_id uuid not null,
  run_id uuid not null,
  place integer not null,
  summary text,
  attributes json,
  is_excluded boolean default false not null,
  cluster_id uuid,
  constraint insight_runs_job_id_run_id_pk primary key (job_id, run_id),
  constraint insight_runs_job_id_insight_jobs_id_fk
    foreign key (job_id) references insight_jobs (id) on delete cascade,
  constraint insight_runs_cluster_id_insight_clusters_id_fk
    foreign key (cluster_id) references insight_clusters (id) on delete set null
);
create index insight_runs_place on insight_runs (job_id, place);
create index insight_runs_cluster on insight_runs (cluster_id);
create index insight_runs_run on insight_runs (tenant_id, run_id);
--> statement-breakpoint
create table insight_steps (
  organization_id uuid not null,
  tenant_id uuid not null,
  job_id uuid not null,
  key text not null,
  state text default 'waiting' not null
    constraint insight_steps_state check (state in ('waiting', 'answered', 'failed')),
  attempts integer default 0 not null,
  answer json,
  error text,
  run_id uuid,
  updated_at timestamptz default clock() not null,
  constraint insight_steps_job_id_key_pk primary key (job_id, key),
  constraint insight_steps_job_id_insight_jobs_id_fk
    foreign key (job_id) references insight_jobs (id) on delete cascade
);
--> statement-breakpoint

create function is_own_insight_config(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (select from insight_configs where id = p_id and tenant_id is distinct from current_tenant());
end $$;
create function is_own_insight_job(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (select from insight_jobs where id = p_id and tenant_id is distinct from current_tenant());
end $$;
create function is_own_insight_cluster(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (select from insight_clusters where id = p_id and tenant_id is distinct from current_tenant());
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function is_own_insight_config(uuid) owner to slipway_system;
alter function is_own_insight_job(uuid) owner to slipway_system;
alter function is_own_insight_cluster(uuid) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function
  is_own_insight_config(uuid), is_own_insight_job(uuid), is_own_insight_cluster(uuid)
  from public;
grant execute on function
  is_own_insight_config(uuid), is_own_insight_job(uuid), is_own_insight_cluster(uuid)
  to slipway_app;
reset role;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on insight_configs, insight_jobs to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on insight_configs
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '100', 'true', 'insight_configs');
create trigger enforce_quota
  after insert on insight_jobs
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '1000', 'true', 'insight_jobs');
reset role;
revoke trigger on insight_configs, insight_jobs from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array[
    'insight_configs', 'insight_jobs', 'insight_clusters', 'insight_runs', 'insight_steps'
  ] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
end $$;
create policy own on insight_configs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
create policy own on insight_jobs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
    and is_own_insight_config(config_id)
  );
create policy own on insight_clusters to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
    and is_own_insight_cluster(parent_id)
  );
create policy own on insight_runs to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
    and is_own_insight_cluster(cluster_id)
  );
create policy own on insight_steps to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_insight_job(job_id)
  );
grant select, insert, delete, update (
    name, description, config, schedule_cron, next_start_at, last_started_at, version, updated_at
  ) on insight_configs to slipway_app;
grant select, insert, delete, update (
    name, status, num_runs, metadata, report, error, lease, leased_until, attempts, started_at, finished_at, version,
    updated_at
  ) on insight_jobs to slipway_app;
grant select, insert, delete, update (parent_id, num_runs, stats) on insight_clusters to slipway_app;
grant select, insert, delete, update (summary, attributes, is_excluded, cluster_id) on insight_runs to slipway_app;
grant select, insert, delete, update (state, attempts, answer, error, run_id, updated_at)
  on insight_steps to slipway_app;
--> statement-breakpoint
-- Callers that access policies limit see insights with their project.
create policy admitted on insight_configs as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  with check (true);
create policy admitted on insight_jobs as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = session_id))
  with check (true);
do $$
declare
  v_table text;
begin
  foreach v_table in array array['insight_clusters', 'insight_runs', 'insight_steps'] loop
    execute format(
      'create policy admitted on %I as restrictive to slipway_limited
        using (not (select hides(''project'')) or exists (select from insight_jobs j where j.id = job_id))
        with check (true)',
      v_table
    );
  end loop;
end $$;
