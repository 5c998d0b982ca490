-- Feedback about runs and projects, views of projects, and the retention that new projects start with.

create table feedbacks (
  organization_id uuid not null,
  tenant_id uuid not null,
  id uuid not null,
  run_id uuid,
  trace_id uuid,
  session_id uuid,
  start_time timestamptz,
  is_attached boolean not null,
  key text not null,
  score numeric(14, 4),
  value text,
  category text,
  comment text,
  correction text,
  source_type text not null
    constraint feedbacks_source_type check (source_type in ('api', 'model', 'app', 'auto_eval')),
  source_metadata text,
  actor_id uuid default current_actor(),
  actor_name text default event_actor_name(),
  feedback_group_id uuid,
  comparative_experiment_id uuid,
  is_error boolean default false not null,
  extends_retention boolean not null,
  is_upgraded boolean default false not null,
  created_at timestamptz default clock() not null,
  modified_at timestamptz default clock() not null,
  received_at timestamptz default clock() not null,
  constraint feedbacks_tenant_id_id_pk primary key (tenant_id, id)
);
create index feedbacks_page on feedbacks (tenant_id, created_at desc, id desc);
create index feedbacks_run on feedbacks (tenant_id, run_id);
create index feedbacks_session on feedbacks (tenant_id, session_id, created_at);
create index feedbacks_waiting on feedbacks (tenant_id, run_id) where not is_attached;
create index feedbacks_to_upgrade on feedbacks (received_at)
  where extends_retention and is_attached and not is_upgraded;
create index feedbacks_age on feedbacks (received_at);
--> statement-breakpoint
create table feedback_configs (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  key text not null,
  config json not null,
  is_lower_score_better boolean default false not null,
  modified_at timestamptz default clock() not null,
  constraint feedback_configs_key unique (tenant_id, key)
);
--> statement-breakpoint
-- The id is the secret of the link. It is shown to those who may create feedback, and that of the feedback to others.
create table feedback_tokens (
  id uuid primary key default gen_random_uuid() not null,
  feedback_id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  run_id uuid not null,
  key text not null,
  created_at timestamptz default clock() not null,
  expires_at timestamptz not null
);
create index feedback_tokens_run on feedback_tokens (tenant_id, run_id, created_at desc, id desc);
create index feedback_tokens_age on feedback_tokens (expires_at);
--> statement-breakpoint
create table filter_views (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  display_name text not null,
  description text,
  type text default 'runs' not null
    constraint filter_views_type check (type in ('runs', 'threads', 'single_run')),
  filter_string text,
  trace_filter_string text,
  tree_filter_string text,
  start_time timestamptz,
  end_time timestamptz,
  duration text,
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint filter_views_session_id_projects_id_fk foreign key (session_id) references projects (id) on delete cascade
);
create index filter_views_page on filter_views (session_id, created_at desc, id desc);
--> statement-breakpoint
-- Of a workspace, or of the organization where `tenant_id` is null.
create table ttl_settings (
  id uuid primary key default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid,
  default_trace_tier text constraint ttl_settings_tier check (default_trace_tier in ('shortlived', 'longlived')),
  longlived_ttl_days integer constraint ttl_settings_days check (longlived_ttl_days between 14 and 400),
  created_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint ttl_settings_one unique nulls not distinct (organization_id, tenant_id),
  constraint ttl_settings_organization_id_organizations_id_fk
    foreign key (organization_id) references organizations (id) on delete cascade,
  constraint ttl_settings_tenant_id_workspaces_id_fk
    foreign key (tenant_id) references workspaces (id) on delete cascade
);
create index ttl_settings_tenant on ttl_settings (tenant_id);
--> statement-breakpoint
-- For projects that are created without a tier.
create function default_trace_tier() returns text
language plpgsql stable as $$
begin
  return coalesce(
    (
      select t.default_trace_tier
      from ttl_settings t
      where t.organization_id = current_organization()
        and (t.tenant_id = current_tenant() or t.tenant_id is null)
        and t.default_trace_tier is not null
      order by t.tenant_id nulls last
      limit 1
    ),
    'shortlived'
  );
end $$;
--> statement-breakpoint
alter table projects
  alter column trace_tier set default default_trace_tier(),
  add column num_examples integer,
  add column num_repetitions integer,
  add column evaluator_keys text[],
  add constraint projects_longlived_ttl_days check (longlived_ttl_days between 14 and 400) not valid;
create index projects_start on projects (tenant_id, start_time desc, id desc);
grant update (num_examples, num_repetitions, evaluator_keys) on projects to slipway_app;
--> statement-breakpoint
alter table projects validate constraint projects_longlived_ttl_days;
--> statement-breakpoint

-- Whether a score is what the configuration of its key allows.
create function score_fits(p_config json, p_score numeric) returns boolean
language sql immutable
return case
  when p_score is null then true
  when p_config ->> 'type' = 'continuous' then
    p_score >= coalesce((p_config ->> 'min')::numeric, p_score)
    and p_score <= coalesce((p_config ->> 'max')::numeric, p_score)
  when p_config ->> 'type' = 'categorical' then
    exists (
      select from json_array_elements(p_config -> 'categories') c
      where (c ->> 'value')::numeric = p_score
    )
  else true
end;
--> statement-breakpoint
create function is_own_project(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from projects
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
--> statement-breakpoint
-- However a project is deleted: alone, with its deployment or with its workspace.
create function record_deleted_project() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into deleted_projects (id, organization_id, tenant_id)
  select id, organization_id, tenant_id
  from deleted
  on conflict do nothing;
  return null;
end $$;
--> statement-breakpoint
create trigger record_deleted
  after delete on projects
  referencing old table as deleted
  for each statement execute function record_deleted_project();
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function is_own_project(uuid) owner to slipway_system;
alter function record_deleted_project() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function is_own_project(uuid), record_deleted_project() from public;
grant execute on function is_own_project(uuid) to slipway_app;
reset role;
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on feedback_configs, filter_views to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on feedback_configs
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '1000', 'true', 'feedback_configs');
create trigger enforce_quota
  after insert on filter_views
  referencing new table as added
  for each statement execute function enforce_quota('session_id', '100', 'true', 'filter_views');
reset role;
revoke trigger on feedback_configs, filter_views from slipway_system;
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array[
    'feedbacks', 'feedback_configs', 'feedback_tokens', 'filter_views', 'ttl_settings'
  ] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
  end loop;
  foreach v_table in array array['feedback_configs', 'feedback_tokens'] loop
    execute format(
      'create policy own on %I to slipway_app
        using (tenant_id = current_tenant())
        with check (tenant_id = current_tenant() and organization_id = current_organization())',
      v_table
    );
  end loop;
end $$;
create policy own on feedbacks to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
    and is_own_key(actor_id)
  );
create policy own on filter_views to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
-- Each workspace sees the settings of its organization, which it inherits.
create policy own on ttl_settings to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
  );
alter policy own on projects
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_deployment(deployment_id)
    and is_own_dataset(default_dataset_id)
    and is_own_dataset(reference_dataset_id)
  );
grant select, insert, delete, update (
    trace_id, session_id, start_time, is_attached, score, value, category, comment, correction, source_type,
    source_metadata, is_error, extends_retention, is_upgraded, modified_at
  ) on feedbacks to slipway_app;
grant select, insert, delete, update (config, is_lower_score_better, modified_at) on feedback_configs to slipway_app;
grant select, insert, delete on feedback_tokens to slipway_app;
grant select, insert, delete, update (
    display_name, description, type, filter_string, trace_filter_string, tree_filter_string, start_time, end_time,
    duration, updated_at
  ) on filter_views to slipway_app;
grant select, insert, delete, update (default_trace_tier, longlived_ttl_days, updated_at)
  on ttl_settings to slipway_app;
--> statement-breakpoint
-- Callers that access policies limit. Feedback is hidden with the project of its run, or with its project.
create policy admitted on feedbacks as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or session_id is null
    or exists (select from projects p where p.id = feedbacks.session_id)
  )
  with check (true);
create policy admitted on filter_views as restrictive to slipway_limited
  using (
    not (select hides('project'))
    or exists (select from projects p where p.id = filter_views.session_id)
  )
  with check (true);
do $$
declare
  v_table text;
begin
  foreach v_table in array array['feedback_configs', 'feedback_tokens', 'ttl_settings'] loop
    execute format(
      'create policy admitted on %I as restrictive to slipway_limited
        using ((select setting(''by_policy'')) is distinct from ''true'')',
      v_table
    );
  end loop;
end $$;
