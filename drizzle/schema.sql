-- The database as it is. `npm run db:generate` writes this file, and a test compares it with the migrations.
set check_function_bodies = off;
grant create on schema public to slipway_system;
create type access_condition as (
  rule integer,
  is_deny boolean,
  known uuid[],
  matching uuid[],
  is_negated boolean,
  if_exists boolean
);
create type access as (
  may boolean,
  hides boolean,
  conditions access_condition[]
);
create type new_event as (
  type text,
  subject_id uuid,
  data json,
  changes json
);
create or replace function setting(name text)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN NULLIF(current_setting(('app.'::text || name), true), ''::text);
create or replace function clock()
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (now() + (COALESCE(setting('clock_offset'::text), '0'::text))::interval);

create table organizations (
  id uuid default gen_random_uuid() not null,
  display_name text not null,
  rbac_enabled boolean default false not null,
  assume_s256 text[] default '{}'::text[] not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint organizations_pkey PRIMARY KEY (id)
);

create table workspaces (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  display_name text not null,
  require_if_match boolean default false not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  owner_channel_at timestamp with time zone,
  constraint workspaces_pkey PRIMARY KEY (id),
  constraint workspace_name_taken UNIQUE (organization_id, display_name),
  constraint workspaces_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table listeners (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid,
  compute_type text not null,
  compute_id text not null,
  compute_config json not null,
  agent_id text,
  agent_version text,
  fence bigint default 0 not null,
  lease_expires_at timestamp with time zone,
  last_seen_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  templates text[],
  template_descriptions json,
  verified_hosts_only boolean default false not null,
  holds_removals_since timestamp with time zone,
  policy json,
  lost_at timestamp with time zone,
  constraint listeners_pkey PRIMARY KEY (id),
  constraint listener_exists UNIQUE NULLS NOT DISTINCT (tenant_id, compute_id),
  constraint listeners_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint listeners_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table deployments (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  name_fold text generated always as (lower(name)) stored not null,
  source text not null,
  deployment_type text not null,
  status text not null,
  image_version text,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  source_config json not null,
  source_revision_config json not null,
  secrets json not null,
  secret_references json,
  generation integer default 1 not null,
  acknowledged integer default 0 not null,
  remote_reconciled boolean default false not null,
  revisions integer default 1 not null,
  latest_revision_id uuid,
  active_revision_id uuid,
  in_flight_revision_id uuid,
  waiting_revision_id uuid,
  hold json,
  parent_deployment_id uuid,
  preview json,
  repo_key text generated always as (regexp_replace(regexp_replace(lower((source_config ->> 'repo_url'::text)), '^https?://'::text, ''::text), '/*(\.git)?/*$'::text, ''::text)) stored,
  deleting_at timestamp with time zone,
  listener_id uuid,
  url text,
  healthy boolean,
  last_request_at timestamp with time zone,
  custom_host text,
  custom_path text,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  recorded_healthy boolean,
  trace_key_version integer default 1 not null,
  owner text,
  reported_health text,
  health_reason text,
  health text,
  health_since timestamp with time zone,
  health_changes json,
  recorded_health text,
  incidents json,
  incidents_due timestamp with time zone,
  incidents_recorded_at timestamp with time zone,
  dormant_parts text[],
  health_processes json,
  cleared_stores text[],
  local_url text,
  protection json,
  traffic json,
  applied_traffic json,
  rollout json,
  rollout_secret text,
  rollout_due_at timestamp with time zone,
  request_logs json,
  constraint deployments_pkey PRIMARY KEY (id),
  constraint deployments_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  constraint listener_in_use FOREIGN KEY (listener_id) REFERENCES listeners(id)
) with (fillfactor=90, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_insert_scale_factor=0.02);
create type patch_plan as (
  next deployments,
  reasons text[],
  in_place text[],
  immutable text[],
  refused text[],
  kept_secrets text[],
  unknown_masks text[]
);
create type tenant_event as (
  tenant_id uuid,
  organization_id uuid,
  type text,
  subject_id uuid,
  data json,
  changes json
);

create table access_policies (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  name text not null,
  description text,
  effect text not null,
  condition_groups jsonb not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint access_policies_pkey PRIMARY KEY (id),
  constraint access_policy_effect CHECK ((effect = ANY (ARRAY['allow'::text, 'deny'::text]))),
  constraint access_policies_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX access_policies_page ON public.access_policies USING btree (organization_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function enforce_quota()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_limit bigint := coalesce(setting('max_' || tg_argv[3]), tg_argv[1])::bigint;
  v_owner uuid;
  v_count bigint;
begin
  if coalesce(current_setting('role', true), '') not in ('slipway_app', 'slipway_limited') then return null; end if;
  for v_owner in execute format('select distinct %1$I from added where %1$I is not null', tg_argv[0]) loop
    execute format(
      'select count(*) from (select from %I where %I = $1 and %s limit $2 + 1) counted',
      tg_table_name, tg_argv[0], tg_argv[2]
    ) into v_count using v_owner, v_limit;
    if v_count > v_limit then perform refuse('quota_full', v_limit || ' ' || replace(tg_argv[3], '_', ' ')); end if;
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.access_policies REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '200', 'true', 'access_policies');
alter table access_policies enable row level security, force row level security;
create policy admitted on access_policies as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on access_policies to slipway_system
  using (true)
  with check (true);
create or replace function current_organization()
 RETURNS uuid
 LANGUAGE sql
 STABLE
RETURN (setting('organization_id'::text))::uuid;
create policy own on access_policies to slipway_app
  using ((organization_id = current_organization()));
grant delete, insert, select on access_policies to slipway_app;
grant delete, insert, select, update on access_policies to slipway_system;

create table roles (
  id uuid default gen_random_uuid() not null,
  organization_id uuid,
  scope text not null,
  display_name text not null,
  description text default ''::text not null,
  permissions text[] not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  owner text,
  constraint roles_pkey PRIMARY KEY (id),
  constraint role_name_taken UNIQUE NULLS NOT DISTINCT (organization_id, display_name),
  constraint role_scope CHECK ((scope = ANY (ARRAY['workspace'::text, 'organization'::text]))),
  constraint roles_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table role_access_policies (
  organization_id uuid not null,
  access_policy_id uuid not null,
  role_id uuid not null,
  created_at timestamp with time zone default clock() not null,
  constraint role_access_policies_access_policy_id_role_id_pk PRIMARY KEY (access_policy_id, role_id),
  constraint role_access_policies_access_policy_id_access_policies_id_fk FOREIGN KEY (access_policy_id) REFERENCES access_policies(id) ON DELETE CASCADE,
  constraint role_access_policies_role_id_roles_id_fk FOREIGN KEY (role_id) REFERENCES roles(id) ON DELETE CASCADE
);

create table access_rules (
  organization_id uuid not null,
  role_id uuid not null,
  access_policy_id uuid not null,
  place integer not null,
  effect text not null,
  permission text not null,
  conditions jsonb not null,
  constraint access_rules_access_policy_id_role_id_place_pk PRIMARY KEY (access_policy_id, role_id, place),
  constraint access_rules_access_policy_id_role_id_fk FOREIGN KEY (access_policy_id, role_id) REFERENCES role_access_policies(access_policy_id, role_id) ON DELETE CASCADE
);
CREATE INDEX access_rules_role ON public.access_rules USING btree (role_id, organization_id, permission);
alter table access_rules enable row level security, force row level security;
create policy everything on access_rules to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on access_rules to slipway_system;
set role slipway_system;
create or replace function event_actor_name()
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select coalesce(
    setting('actor_name'),
    (select l.compute_id from listeners l where l.id = current_listener()),
    (select a.description from api_keys a where a.id = current_actor())
  )
$function$;
reset role;

create table alert_mutes (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  reason text not null,
  rule_ids uuid[] default '{}'::uuid[] not null,
  deployment_ids uuid[] default '{}'::uuid[] not null,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  starts_at timestamp with time zone,
  ends_at timestamp with time zone,
  weekly jsonb,
  created_by_name text default event_actor_name(),
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint alert_mutes_pkey PRIMARY KEY (id),
  constraint alert_mutes_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX alert_mutes_ended ON public.alert_mutes USING btree (ends_at) WHERE (ends_at IS NOT NULL);
CREATE INDEX alert_mutes_page ON public.alert_mutes USING btree (tenant_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function check_alert_mute_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from alert_rules r where r.id = any(new.rule_ids) and r.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a mute refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids, rule_ids ON public.alert_mutes FOR EACH ROW EXECUTE FUNCTION check_alert_mute_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.alert_mutes REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'alert_mutes');
alter table alert_mutes enable row level security, force row level security;
create policy everything on alert_mutes to slipway_system
  using (true)
  with check (true);
create or replace function current_tenant()
 RETURNS uuid
 LANGUAGE sql
 STABLE
RETURN (setting('tenant_id'::text))::uuid;
create policy own on alert_mutes to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (version, updated_at) on alert_mutes to slipway_app;
grant delete, insert, select, update on alert_mutes to slipway_system;
create or replace function default_trace_tier()
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
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
end $function$;

create table projects (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid,
  name text not null,
  created_at timestamp with time zone default clock() not null,
  description text,
  start_time timestamp with time zone default clock() not null,
  end_time timestamp with time zone,
  extra json,
  default_dataset_id uuid,
  reference_dataset_id uuid,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  trace_tier text default default_trace_tier() not null,
  earlier_tiers jsonb default '[]'::jsonb not null,
  longlived_ttl_days integer,
  updated_at timestamp with time zone default clock() not null,
  num_examples integer,
  num_repetitions integer,
  evaluator_keys text[],
  version integer default 1 not null,
  constraint project_id_taken PRIMARY KEY (id),
  constraint project_name_taken UNIQUE (tenant_id, name),
  constraint projects_longlived_ttl_days CHECK (((longlived_ttl_days >= 14) AND (longlived_ttl_days <= 400))),
  constraint projects_trace_tier CHECK ((trace_tier = ANY (ARRAY['shortlived'::text, 'longlived'::text]))),
  constraint projects_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table alert_rules (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  built_in text,
  enabled boolean default true not null,
  kind text not null,
  condition jsonb not null,
  deployment_ids uuid[] default '{}'::uuid[] not null,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  project_id uuid,
  for_seconds integer not null,
  resolve_after_seconds integer not null,
  severity text not null,
  channel_ids uuid[] default '{}'::uuid[] not null,
  next_look_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint alert_rules_pkey PRIMARY KEY (id),
  constraint alert_rule_name_taken UNIQUE (tenant_id, name),
  constraint alert_rules_project_id_projects_id_fk FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE,
  constraint alert_rules_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX alert_rules_kind ON public.alert_rules USING btree (tenant_id, kind) WHERE enabled;
CREATE INDEX alert_rules_look ON public.alert_rules USING btree (next_look_at) WHERE (enabled AND (next_look_at IS NOT NULL));
CREATE INDEX alert_rules_page ON public.alert_rules USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX alert_rules_project ON public.alert_rules USING btree (project_id) WHERE (project_id IS NOT NULL);
set role slipway_system;
create or replace function check_alert_rule_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from channels c where c.id = any(new.channel_ids) and c.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'an alert rule refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids, channel_ids ON public.alert_rules FOR EACH ROW EXECUTE FUNCTION check_alert_rule_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.alert_rules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'alert_rules');
set role slipway_system;
create or replace function look_at_changed_rule()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update alert_states set due_at = clock(), version = version + 1 where rule_id = new.id;
  return null;
end $function$;
reset role;
CREATE TRIGGER look_at_changed_rule AFTER UPDATE OF enabled, condition, deployment_ids, tag_value_ids ON public.alert_rules FOR EACH ROW EXECUTE FUNCTION look_at_changed_rule();
alter table alert_rules enable row level security, force row level security;
create or replace function access_to(p_type text)
 RETURNS access
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (setting(('access_'::text || p_type)))::access;
create or replace function hides(p_type text)
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN COALESCE((access_to(p_type)).hides, false);
create policy admitted on alert_rules as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (project_id IS NULL) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = alert_rules.project_id)))));
create policy everything on alert_rules to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_project(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from projects
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on alert_rules to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(project_id)));
grant delete, insert, select, update (name, enabled, kind, condition, deployment_ids, tag_value_ids, project_id, for_seconds, resolve_after_seconds, severity, channel_ids, next_look_at, version, created_at, updated_at) on alert_rules to slipway_app;
grant delete, insert, select, update on alert_rules to slipway_system;

create table alert_settings (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  defaults_enabled boolean default true not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint alert_settings_pkey PRIMARY KEY (id),
  constraint alert_settings_one UNIQUE (tenant_id),
  constraint alert_settings_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
alter table alert_settings enable row level security, force row level security;
create policy everything on alert_settings to slipway_system
  using (true)
  with check (true);
create policy own on alert_settings to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant insert, select, update (defaults_enabled, version, created_at, updated_at) on alert_settings to slipway_app;
grant delete, insert, select, update on alert_settings to slipway_system;

create table alert_signals (
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  subject_id uuid not null,
  at timestamp with time zone not null,
  count integer not null,
  cause text,
  lines text[] default '{}'::text[] not null,
  constraint alert_signals_rule_id_subject_id_at_pk PRIMARY KEY (rule_id, subject_id, at),
  constraint alert_signals_rule_id_alert_rules_id_fk FOREIGN KEY (rule_id) REFERENCES alert_rules(id) ON DELETE CASCADE
);
CREATE INDEX alert_signals_age ON public.alert_signals USING brin (at);
alter table alert_signals enable row level security, force row level security;
create policy everything on alert_signals to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on alert_signals to slipway_system;

create table alert_states (
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  subject_id uuid not null,
  subject_type text not null,
  phase text default 'ok'::text not null,
  since timestamp with time zone,
  relapses integer default 0 not null,
  sampled_at timestamp with time zone,
  due_at timestamp with time zone,
  version integer default 1 not null,
  constraint alert_states_rule_id_subject_id_pk PRIMARY KEY (rule_id, subject_id),
  constraint alert_states_rule_id_alert_rules_id_fk FOREIGN KEY (rule_id) REFERENCES alert_rules(id) ON DELETE CASCADE
);
CREATE INDEX alert_states_due ON public.alert_states USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX alert_states_subject ON public.alert_states USING btree (subject_id);
alter table alert_states enable row level security, force row level security;
create policy everything on alert_states to slipway_system
  using (true)
  with check (true);
create policy own on alert_states to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select, update (phase, since, relapses, sampled_at, due_at, version) on alert_states to slipway_app;
grant delete, insert, select, update on alert_states to slipway_system;

create table datasets (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  description text,
  data_type text default 'kv'::text not null,
  inputs_schema_definition json,
  outputs_schema_definition json,
  externally_managed boolean default false not null,
  metadata jsonb,
  baseline_experiment_id uuid,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  share_token uuid,
  last_number integer default 0 not null,
  example_count integer default 0 not null,
  examples_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint dataset_exists PRIMARY KEY (id),
  constraint dataset_name_taken UNIQUE (tenant_id, name),
  constraint datasets_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table annotation_queues (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  description text,
  default_dataset_id uuid,
  num_reviewers_per_item integer default 1,
  enable_reservations boolean default true not null,
  reservation_minutes integer default 1 not null,
  reviewer_access_mode text default 'any'::text not null,
  reviewer_ids uuid[] default '{}'::uuid[] not null,
  rubric_instructions text,
  rubric_items json,
  metadata jsonb,
  tag_value_ids uuid[] default '{}'::uuid[] not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint annotation_queue_exists PRIMARY KEY (id),
  constraint annotation_queues_access CHECK ((reviewer_access_mode = ANY (ARRAY['any'::text, 'assigned'::text]))),
  constraint annotation_queues_default_dataset_id_datasets_id_fk FOREIGN KEY (default_dataset_id) REFERENCES datasets(id) ON DELETE SET NULL,
  constraint annotation_queues_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table annotation_queue_items (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  queue_id uuid not null,
  place bigint generated by default as identity not null,
  session_id uuid not null,
  run_id uuid,
  trace_id uuid,
  thread_id text,
  start_time timestamp with time zone,
  source_proposed_example_id uuid,
  added_at timestamp with time zone default clock() not null,
  last_reviewed_time timestamp with time zone,
  extends_retention boolean default false not null,
  is_upgraded boolean default false not null,
  check_at timestamp with time zone not null,
  created_at timestamp with time zone default clock() not null,
  constraint annotation_queue_items_pkey PRIMARY KEY (id),
  constraint annotation_queue_items_run UNIQUE (queue_id, run_id),
  constraint annotation_queue_items_thread UNIQUE (queue_id, session_id, thread_id),
  constraint annotation_queue_items_kind CHECK ((num_nonnulls(run_id, thread_id) = 1)),
  constraint annotation_queue_items_queue_id_annotation_queues_id_fk FOREIGN KEY (queue_id) REFERENCES annotation_queues(id) ON DELETE CASCADE,
  constraint annotation_queue_items_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX annotation_queue_items_check ON public.annotation_queue_items USING btree (check_at);
CREATE INDEX annotation_queue_items_of_run ON public.annotation_queue_items USING btree (tenant_id, run_id);
CREATE INDEX annotation_queue_items_session ON public.annotation_queue_items USING btree (session_id);
CREATE INDEX annotation_queue_items_to_upgrade ON public.annotation_queue_items USING btree (created_at) WHERE (extends_retention AND (NOT is_upgraded));
alter table annotation_queue_items enable row level security, force row level security;
create policy admitted on annotation_queue_items as restrictive to slipway_limited
  using ((((NOT ( SELECT hides('queue'::text) AS hides)) OR (EXISTS ( SELECT
   FROM annotation_queues q
  WHERE (q.id = annotation_queue_items.queue_id)))) AND ((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = annotation_queue_items.session_id))))))
  with check (true);
create policy everything on annotation_queue_items to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_annotation_queue(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return not exists (select from annotation_queues where id = p_id and tenant_id is distinct from current_tenant());
end $function$;
reset role;
create policy own on annotation_queue_items to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_annotation_queue(queue_id) AND is_own_project(session_id)));
grant delete, insert, select, update (added_at, last_reviewed_time, extends_retention, is_upgraded) on annotation_queue_items to slipway_app;
grant delete, insert, select, update on annotation_queue_items to slipway_system;
grant select on annotation_queue_items_place_seq to slipway_system;
create or replace function current_actor()
 RETURNS uuid
 LANGUAGE sql
 STABLE
RETURN (setting('actor_id'::text))::uuid;

create table annotation_queue_reviews (
  organization_id uuid not null,
  tenant_id uuid not null,
  item_id uuid not null,
  reviewer_id uuid default current_actor() not null,
  status text,
  override_added_at timestamp with time zone,
  updated_at timestamp with time zone default clock() not null,
  constraint annotation_queue_reviews_item_id_reviewer_id_pk PRIMARY KEY (item_id, reviewer_id),
  constraint annotation_queue_reviews_status CHECK ((status = ANY (ARRAY['viewed'::text, 'completed'::text]))),
  constraint annotation_queue_reviews_item_id_annotation_queue_items_id_fk FOREIGN KEY (item_id) REFERENCES annotation_queue_items(id) ON DELETE CASCADE
);
alter table annotation_queue_reviews enable row level security, force row level security;
create policy admitted on annotation_queue_reviews as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM annotation_queue_items i
  WHERE (i.id = annotation_queue_reviews.item_id))))
  with check (true);
create policy everything on annotation_queue_reviews to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_annotation_queue_item(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return not exists (
    select from annotation_queue_items
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_key(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null
    or not exists (
      select from api_keys
      where id = p_id and organization_id is distinct from current_organization()
    )
    and not exists (
      select from members
      where id = p_id and organization_id is distinct from current_organization()
    );
end $function$;
reset role;
create policy own on annotation_queue_reviews to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_annotation_queue_item(item_id) AND is_own_key(reviewer_id)));
grant delete, insert, select, update (status, override_added_at, updated_at) on annotation_queue_reviews to slipway_app;
grant delete, insert, select, update on annotation_queue_reviews to slipway_system;
CREATE INDEX annotation_queues_dataset ON public.annotation_queues USING btree (default_dataset_id);
CREATE INDEX annotation_queues_page ON public.annotation_queues USING btree (tenant_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function check_annotation_queue_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from datasets d where d.id = new.default_dataset_id and d.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'an annotation queue refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF tag_value_ids, default_dataset_id ON public.annotation_queues FOR EACH ROW EXECUTE FUNCTION check_annotation_queue_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.annotation_queues REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'true', 'annotation_queues');
alter table annotation_queues enable row level security, force row level security;
create or replace function is_admitted(p_access access, p_tags uuid[])
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE PARALLEL SAFE
AS $function$
declare
  v_condition access_condition;
  v_is_allowed boolean := p_access.may;
  v_rule integer := 0;
  v_holds boolean := false;
  v_is_deny boolean := false;
begin
  if p_access.may is null then return true; end if;
  foreach v_condition in array p_access.conditions loop
    if v_condition.rule <> v_rule then
      if v_holds and v_is_deny then return false; end if;
      v_is_allowed := v_is_allowed or v_holds;
      v_rule := v_condition.rule;
      v_is_deny := v_condition.is_deny;
      v_holds := true;
    end if;
    v_holds := v_holds and case
      when p_tags && v_condition.known then (p_tags && v_condition.matching) <> v_condition.is_negated
      else v_condition.if_exists
    end;
  end loop;
  return not (v_holds and v_is_deny) and (v_is_allowed or v_holds);
end $function$;
create policy admitted on annotation_queues as restrictive to slipway_limited
  using (is_admitted(( SELECT access_to('queue'::text) AS access_to), tag_value_ids));
create policy everything on annotation_queues to slipway_system
  using (true)
  with check (true);
create policy own on annotation_queues to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, description, default_dataset_id, num_reviewers_per_item, enable_reservations, reservation_minutes, reviewer_access_mode, reviewer_ids, rubric_instructions, rubric_items, metadata, tag_value_ids, version, created_at, updated_at) on annotation_queues to slipway_app;
grant delete, insert, select, update on annotation_queues to slipway_system;

create table members (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  email text not null,
  full_name text,
  role_id uuid not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint members_pkey PRIMARY KEY (id),
  constraint member_exists UNIQUE (organization_id, email),
  constraint members_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint role_in_use FOREIGN KEY (role_id) REFERENCES roles(id)
);

create table api_keys (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid,
  listener_id uuid,
  description text not null,
  hint text not null,
  key_hash text not null,
  role_id uuid not null,
  permissions text[],
  expires_at timestamp with time zone,
  revoked_at timestamp with time zone,
  last_used_at timestamp with time zone,
  created_by uuid,
  budget_id uuid,
  created_at timestamp with time zone default clock() not null,
  member_id uuid,
  trusted_issuer_id uuid,
  is_verified boolean default false not null,
  constraint api_keys_pkey PRIMARY KEY (id),
  constraint api_keys_hash UNIQUE (key_hash),
  constraint api_keys_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE,
  constraint api_keys_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint api_keys_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint api_keys_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE,
  constraint role_in_use FOREIGN KEY (role_id) REFERENCES roles(id)
);
CREATE INDEX api_keys_ended ON public.api_keys USING btree (LEAST(revoked_at, expires_at)) WHERE (LEAST(revoked_at, expires_at) IS NOT NULL);
CREATE INDEX api_keys_exchanged ON public.api_keys USING btree (trusted_issuer_id, expires_at) WHERE (trusted_issuer_id IS NOT NULL);
CREATE INDEX api_keys_exchanged_ended ON public.api_keys USING btree (expires_at) WHERE (trusted_issuer_id IS NOT NULL);
CREATE INDEX api_keys_made_by ON public.api_keys USING btree (created_by, created_at DESC, id DESC);
CREATE INDEX api_keys_member ON public.api_keys USING btree (member_id);
CREATE INDEX api_keys_page ON public.api_keys USING btree (organization_id, created_at DESC, id DESC);
CREATE INDEX api_keys_page_of_workspace ON public.api_keys USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX api_keys_role ON public.api_keys USING btree (role_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.api_keys REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '10000', 'revoked_at is null and (expires_at is null or expires_at > clock())', 'api_keys');
CREATE TRIGGER enforce_workspace_quota AFTER INSERT ON public.api_keys REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'organization_id = (select w.organization_id from workspaces w where w.id = $1)
      and revoked_at is null and (expires_at is null or expires_at > clock())', 'api_keys_of_a_workspace');
set role slipway_system;
create or replace function inherit_budget()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_creator api_keys;
begin
  if new.created_by is not null then
    select m.*
    into v_creator
    from api_keys m
    where m.id = new.created_by
    for share;
    if not found then perform refuse('key_unknown'); end if;
    if v_creator.revoked_at is not null then perform refuse('key_revoked'); end if;
    -- The access token of a connected client was replaced while this request waited for the lock.
    if v_creator.id = current_actor() and setting('session_id') is null
      and v_creator.key_hash <> setting('credential')
    then
      perform refuse('key_unknown');
    end if;
    if v_creator.member_id <> new.member_id then
      raise exception using errcode = '42501', message = 'a key of one member creates a key of another one';
    end if;
    new.member_id := coalesce(v_creator.member_id, new.member_id);
  end if;
  new.budget_id := case
    when setting('actor_kind') = 'session' and current_actor() is not null
      then budget_of_child_key(current_actor(), null, new.tenant_id, new.listener_id)
    when new.created_by is null then coalesce(new.listener_id, new.id)
    else budget_of_child_key(v_creator.budget_id, v_creator.tenant_id, new.tenant_id, new.listener_id)
  end;
  return new;
end $function$;
reset role;
CREATE TRIGGER inherit_budget BEFORE INSERT ON public.api_keys FOR EACH ROW EXECUTE FUNCTION inherit_budget();
alter table api_keys enable row level security, force row level security;
create policy admitted on api_keys as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on api_keys to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_listener(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from listeners
    where id = p_id and tenant_id is not null
      and (
        organization_id is distinct from current_organization()
        or tenant_id <> coalesce(current_tenant(), tenant_id)
      )
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_member(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from members
    where id = p_id and organization_id is distinct from current_organization()
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_role(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from roles
    where id = p_id and organization_id <> current_organization()
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_workspace(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from workspaces
    where id = p_id and (
        organization_id is distinct from current_organization()
        or id <> coalesce(current_tenant(), id)
      )
  );
end $function$;
reset role;
create policy own on api_keys to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant()))))
  with check (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant())) AND is_own_workspace(tenant_id) AND is_own_role(role_id) AND is_own_listener(listener_id) AND is_own_key(created_by) AND is_own_member(member_id)));
set role slipway_system;
create or replace function is_own_trusted_issuer(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from trusted_issuers
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own_trusted_issuer on api_keys as restrictive for insert to slipway_app
  with check (is_own_trusted_issuer(trusted_issuer_id));
grant insert, select, update (description, hint, key_hash, permissions, expires_at, revoked_at, last_used_at, created_at) on api_keys to slipway_app;
grant delete, insert, select, update on api_keys to slipway_system;

create table attempt_windows (
  key_id uuid not null,
  started_at timestamp with time zone not null,
  attempts integer not null,
  constraint attempt_windows_pkey PRIMARY KEY (key_id)
);
alter table attempt_windows enable row level security, force row level security;
create policy everything on attempt_windows to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on attempt_windows to slipway_system;

create table audit_attempts (
  id bigint generated by default as identity not null,
  organization_id uuid not null,
  tenant_id uuid,
  operation text not null,
  status integer not null,
  code text,
  actor_id uuid not null,
  actor_name text not null,
  request_id text not null,
  request json not null,
  left_out integer default 0 not null,
  created_at timestamp with time zone default clock() not null,
  actor_kind text default 'key'::text not null,
  constraint audit_attempts_pkey PRIMARY KEY (id)
);
CREATE INDEX audit_attempts_actor ON public.audit_attempts USING btree (actor_id, created_at DESC, id DESC);
CREATE INDEX audit_attempts_age ON public.audit_attempts USING brin (created_at);
CREATE INDEX audit_attempts_page ON public.audit_attempts USING btree (organization_id, created_at DESC, id DESC);
alter table audit_attempts enable row level security, force row level security;
create policy admitted on audit_attempts as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on audit_attempts to slipway_system
  using (true)
  with check (true);
create policy own on audit_attempts for select to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant()))));
grant select on audit_attempts to slipway_app;
grant delete, insert, select, update on audit_attempts to slipway_system;
grant select on audit_attempts_id_seq to slipway_system;

create table evaluators (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  structured json not null,
  feedback_keys text[] not null,
  metadata json,
  created_by_name text default event_actor_name(),
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint evaluators_pkey PRIMARY KEY (id),
  constraint evaluator_exists UNIQUE (tenant_id, name),
  constraint evaluators_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table run_rules (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  display_name text not null,
  is_enabled boolean default true not null,
  session_id uuid,
  dataset_id uuid,
  sampling_rate double precision not null,
  filter text,
  trace_filter text,
  tree_filter text,
  add_to_annotation_queue_id uuid,
  add_to_dataset_id uuid,
  add_to_dataset_prefer_correction boolean default false not null,
  extend_only boolean default false not null,
  webhooks json default '[]'::json not null,
  webhook_secret text not null,
  "position" bigint not null,
  backfill_id uuid,
  backfill_from timestamp with time zone,
  backfill_until timestamp with time zone,
  backfill_status text,
  backfill_cursor json,
  backfill_completed_at timestamp with time zone,
  next_evaluation_at timestamp with time zone default clock() not null,
  last_sent_at timestamp with time zone default clock() not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  alerts json default '[]'::json not null,
  evaluators json default '[]'::json not null,
  evaluator_id uuid,
  spend_limit_usd double precision,
  spent_usd double precision default 0 not null,
  spent_week date,
  last_judged_at timestamp with time zone default clock() not null,
  constraint run_rules_pkey PRIMARY KEY (id),
  constraint run_rules_scope CHECK ((num_nonnulls(session_id, dataset_id) > 0)),
  constraint evaluator_in_use FOREIGN KEY (evaluator_id) REFERENCES evaluators(id),
  constraint run_rules_add_to_annotation_queue_id_annotation_queues_id_fk FOREIGN KEY (add_to_annotation_queue_id) REFERENCES annotation_queues(id) ON DELETE SET NULL,
  constraint run_rules_add_to_dataset_id_datasets_id_fk FOREIGN KEY (add_to_dataset_id) REFERENCES datasets(id) ON DELETE SET NULL,
  constraint run_rules_dataset_id_datasets_id_fk FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE CASCADE,
  constraint run_rules_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE,
  constraint run_rules_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table channels (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  kind text not null,
  member_id uuid,
  run_rule_id uuid,
  config jsonb not null,
  credentials text not null,
  deploys text default 'none'::text not null,
  is_default boolean default false not null,
  enabled boolean default true not null,
  confirmed_at timestamp with time zone default clock(),
  confirmation_hash text,
  confirmation_expires_at timestamp with time zone,
  unsubscribe_hash text,
  "position" bigint default 0 not null,
  failing_since timestamp with time zone,
  disabled_reason text,
  disabled_at timestamp with time zone,
  throttled integer default 0 not null,
  next_send_at timestamp with time zone default clock() not null,
  attempted_at timestamp with time zone,
  last_error text,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint channels_pkey PRIMARY KEY (id),
  constraint channel_name_taken UNIQUE NULLS NOT DISTINCT (tenant_id, member_id, run_rule_id, name),
  constraint channels_confirmation UNIQUE (confirmation_hash),
  constraint channels_unsubscribe UNIQUE (unsubscribe_hash),
  constraint channels_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint channels_run_rule_id_run_rules_id_fk FOREIGN KEY (run_rule_id) REFERENCES run_rules(id) ON DELETE CASCADE,
  constraint channels_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX channels_member ON public.channels USING btree (member_id);
CREATE INDEX channels_page ON public.channels USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX channels_run_rule ON public.channels USING btree (run_rule_id);
set role slipway_system;
create or replace function check_channel_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from run_rules r where r.id = new.run_rule_id and r.tenant_id <> new.tenant_id)
    or exists (select from members m where m.id = new.member_id and m.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a channel refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF run_rule_id, member_id ON public.channels FOR EACH ROW EXECUTE FUNCTION check_channel_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.channels REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'run_rule_id is null', 'channels');
alter table channels enable row level security, force row level security;
create policy everything on channels to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function actor_member()
 RETURNS uuid
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select case
    when setting('actor_kind') = 'session' then current_actor()
    else (select a.member_id from api_keys a where a.id = current_actor())
  end
$function$;
reset role;
set role slipway_system;
create or replace function is_own_rule(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from run_rules
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on channels to slipway_app
  using (((tenant_id = current_tenant()) AND ((member_id IS NULL) OR (member_id = ( SELECT actor_member() AS actor_member)))))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND ((member_id IS NULL) OR (member_id = ( SELECT actor_member() AS actor_member))) AND is_own_rule(run_rule_id)));
create or replace function current_listener()
 RETURNS uuid
 LANGUAGE sql
 STABLE
RETURN (setting('listener_id'::text))::uuid;
create policy served on channels for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = channels.tenant_id) AND (d.listener_id = current_listener())))));
grant select (tenant_id, deploys, enabled) on channels to slipway_agent;
grant delete, insert, select, update (name, config, credentials, deploys, is_default, enabled, confirmed_at, confirmation_hash, confirmation_expires_at, unsubscribe_hash, "position", failing_since, disabled_reason, disabled_at, throttled, next_send_at, attempted_at, last_error, version, created_at, updated_at) on channels to slipway_app;
grant delete, insert, select, update on channels to slipway_system;

create table commit_statuses (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  sha text not null,
  revision_id uuid not null,
  notified_state text,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone default clock() not null,
  created_at timestamp with time zone default clock() not null,
  constraint commit_statuses_pkey PRIMARY KEY (id),
  constraint commit_statuses_one UNIQUE (deployment_id, sha),
  constraint commit_statuses_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX commit_statuses_age ON public.commit_statuses USING btree (created_at);
CREATE INDEX commit_statuses_due ON public.commit_statuses USING btree (next_attempt_at);
alter table commit_statuses enable row level security, force row level security;
create policy admitted on commit_statuses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = commit_statuses.deployment_id)))))
  with check (true);
create policy everything on commit_statuses to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_deployment(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from deployments
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_revision(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from revisions
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on commit_statuses to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_revision(revision_id)));
grant insert, select, update (revision_id, notified_state, attempts, next_attempt_at) on commit_statuses to slipway_app;
grant delete, insert, select, update on commit_statuses to slipway_system;

create table comparative_experiments (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  name text,
  description text,
  experiment_ids uuid[] not null,
  extra json,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint comparative_experiment_exists PRIMARY KEY (id),
  constraint comparative_experiments_dataset_id_datasets_id_fk FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE CASCADE
);
CREATE INDEX comparative_experiments_page ON public.comparative_experiments USING btree (dataset_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.comparative_experiments REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('dataset_id', '1000', 'true', 'comparative_experiments');
alter table comparative_experiments enable row level security, force row level security;
create policy admitted on comparative_experiments as restrictive to slipway_limited
  using (((NOT ( SELECT hides('dataset'::text) AS hides)) OR (EXISTS ( SELECT
   FROM datasets d
  WHERE (d.id = comparative_experiments.dataset_id)))))
  with check (true);
create policy everything on comparative_experiments to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_dataset(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from datasets
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on comparative_experiments to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_dataset(dataset_id)));
grant delete, insert, select on comparative_experiments to slipway_app;
grant delete, insert, select, update on comparative_experiments to slipway_system;

create table custom_hosts (
  id uuid default gen_random_uuid() not null,
  host text not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  verified_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  certificate_failed_at timestamp with time zone,
  unreachable_since timestamp with time zone,
  constraint custom_hosts_pkey PRIMARY KEY (id),
  constraint custom_host_taken UNIQUE (host),
  constraint custom_hosts_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX custom_hosts_page ON public.custom_hosts USING btree (tenant_id, created_at DESC, id DESC);
alter table custom_hosts enable row level security, force row level security;
create policy admitted on custom_hosts as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.custom_host = custom_hosts.host)))))
  with check (true);
create policy everything on custom_hosts to slipway_system
  using (true)
  with check (true);
create policy own on custom_hosts for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy reported on custom_hosts for update to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.custom_host = custom_hosts.host) AND (d.tenant_id = custom_hosts.tenant_id) AND (d.listener_id = current_listener())))));
create policy served on custom_hosts for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = custom_hosts.tenant_id) AND (d.listener_id = current_listener())))));
grant select, update (certificate_failed_at, unreachable_since) on custom_hosts to slipway_agent;
grant select on custom_hosts to slipway_app;
grant delete, insert, select, update on custom_hosts to slipway_system;

create table dataset_versions (
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  as_of timestamp with time zone not null,
  tags text[] default '{}'::text[] not null,
  constraint dataset_versions_dataset_id_as_of_pk PRIMARY KEY (dataset_id, as_of),
  constraint dataset_versions_dataset_id_datasets_id_fk FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE CASCADE
);
alter table dataset_versions enable row level security, force row level security;
create policy admitted on dataset_versions as restrictive to slipway_limited
  using (((NOT ( SELECT hides('dataset'::text) AS hides)) OR (EXISTS ( SELECT
   FROM datasets p
  WHERE (p.id = dataset_versions.dataset_id)))))
  with check (true);
create policy everything on dataset_versions to slipway_system
  using (true)
  with check (true);
create policy own on dataset_versions to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_dataset(dataset_id)));
grant insert, select, update (tags) on dataset_versions to slipway_app;
grant delete, insert, select, update on dataset_versions to slipway_system;
CREATE INDEX datasets_page ON public.datasets USING btree (tenant_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX datasets_share_token ON public.datasets USING btree (share_token);
set role slipway_system;
create or replace function check_dataset_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
    or exists (select from projects p where p.id = new.baseline_experiment_id and p.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a dataset refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF tag_value_ids, baseline_experiment_id ON public.datasets FOR EACH ROW EXECUTE FUNCTION check_dataset_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.datasets REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'datasets');
alter table datasets enable row level security, force row level security;
create policy admitted on datasets as restrictive to slipway_limited
  using (is_admitted(( SELECT access_to('dataset'::text) AS access_to), tag_value_ids));
create policy everything on datasets to slipway_system
  using (true)
  with check (true);
create policy own on datasets to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, description, data_type, inputs_schema_definition, outputs_schema_definition, externally_managed, metadata, baseline_experiment_id, tag_value_ids, share_token, last_number, example_count, examples_at, version, created_at, updated_at) on datasets to slipway_app;
grant delete, insert, select, update on datasets to slipway_system;

create table deleted_deployments (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  created_at timestamp with time zone not null,
  deleted_at timestamp with time zone not null,
  constraint deleted_deployments_pkey PRIMARY KEY (id)
);
CREATE INDEX deleted_deployments_age ON public.deleted_deployments USING btree (deleted_at);
CREATE INDEX deleted_deployments_of_workspace ON public.deleted_deployments USING btree (tenant_id, deleted_at);
alter table deleted_deployments enable row level security, force row level security;
create policy everything on deleted_deployments to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on deleted_deployments to slipway_system;

create table deleted_projects (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deleted_at timestamp with time zone default clock() not null,
  is_swept boolean default false not null,
  constraint deleted_projects_pkey PRIMARY KEY (id)
);
CREATE INDEX deleted_projects_age ON public.deleted_projects USING btree (deleted_at);
alter table deleted_projects enable row level security, force row level security;
create policy everything on deleted_projects to slipway_system
  using (true)
  with check (true);
create policy own on deleted_projects to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant insert, select on deleted_projects to slipway_app;
grant delete, insert, select, update on deleted_projects to slipway_system;

create table deploy_hooks (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  name text not null,
  token_hash text not null,
  refs text[] not null,
  last_used_at timestamp with time zone,
  window_at timestamp with time zone,
  window_uses integer default 0 not null,
  last_key text,
  last_revision_id uuid,
  created_at timestamp with time zone default clock() not null,
  constraint deploy_hooks_pkey PRIMARY KEY (id),
  constraint deploy_hook_name_taken UNIQUE (deployment_id, name),
  constraint deploy_hooks_token UNIQUE (token_hash),
  constraint deploy_hooks_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX deploy_hooks_page ON public.deploy_hooks USING btree (deployment_id, created_at DESC, id DESC);
alter table deploy_hooks enable row level security, force row level security;
create policy admitted on deploy_hooks as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = deploy_hooks.deployment_id)))))
  with check (true);
create policy everything on deploy_hooks to slipway_system
  using (true)
  with check (true);
create policy own on deploy_hooks to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
grant delete, insert, select, update (last_used_at, window_at, window_uses, last_key, last_revision_id) on deploy_hooks to slipway_app;
grant delete, insert, select, update on deploy_hooks to slipway_system;

create table deployment_heads (
  deployment_id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  queried_at timestamp with time zone not null,
  gone_ref text,
  constraint deployment_heads_pkey PRIMARY KEY (deployment_id),
  constraint deployment_heads_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
alter table deployment_heads enable row level security, force row level security;
create policy admitted on deployment_heads as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = deployment_heads.deployment_id)))))
  with check (true);
create policy everything on deployment_heads to slipway_system
  using (true)
  with check (true);
create policy own on deployment_heads to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
grant delete, insert, select, update (queried_at, gone_ref) on deployment_heads to slipway_app;
grant delete, insert, select, update on deployment_heads to slipway_system;

create table deployment_secrets (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  name text not null,
  version integer not null,
  sealed text not null,
  created_at timestamp with time zone default clock() not null,
  fingerprint text,
  constraint deployment_secrets_deployment_id_name_version_pk PRIMARY KEY (deployment_id, name, version),
  constraint deployment_secrets_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
alter table deployment_secrets enable row level security, force row level security;
create policy admitted on deployment_secrets as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = deployment_secrets.deployment_id)))))
  with check (true);
create policy everything on deployment_secrets to slipway_system
  using (true)
  with check (true);
create policy own on deployment_secrets to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
create policy served on deployment_secrets to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = deployment_secrets.deployment_id) AND (d.listener_id = current_listener())))));
grant select on deployment_secrets to slipway_agent;
grant delete, insert, select, update (name, version, sealed, created_at) on deployment_secrets to slipway_app;
grant delete, insert, select, update on deployment_secrets to slipway_system;
CREATE UNIQUE INDEX deployment_name_taken ON public.deployments USING btree (tenant_id, name) WHERE (deleting_at IS NULL);
CREATE INDEX deployments_custom_host ON public.deployments USING btree (custom_host) WHERE (custom_host IS NOT NULL);
CREATE INDEX deployments_health_unjournaled ON public.deployments USING btree (id) WHERE ((health = ANY (ARRAY['healthy'::text, 'degraded'::text, 'crash_looping'::text, 'unhealthy'::text])) AND (health <> COALESCE(recorded_health, 'healthy'::text)));
CREATE INDEX deployments_idle ON public.deployments USING brin (updated_at);
CREATE INDEX deployments_incidents_due ON public.deployments USING btree (incidents_due) WHERE (incidents_due IS NOT NULL);
CREATE INDEX deployments_list ON public.deployments USING btree (tenant_id, created_at DESC, id DESC) INCLUDE (status, deployment_type, image_version, remote_reconciled, name_fold, tag_value_ids, health);
CREATE INDEX deployments_owner ON public.deployments USING btree (tenant_id, owner, created_at DESC, id DESC) WHERE (owner IS NOT NULL);
CREATE INDEX deployments_page ON public.deployments USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX deployments_previews ON public.deployments USING btree (parent_deployment_id) WHERE (parent_deployment_id IS NOT NULL);
CREATE INDEX deployments_repository ON public.deployments USING btree (repo_key) WHERE (repo_key IS NOT NULL);
CREATE INDEX deployments_rollout_due ON public.deployments USING btree (rollout_due_at) WHERE (rollout_due_at IS NOT NULL);
CREATE INDEX deployments_served ON public.deployments USING btree (listener_id, tenant_id) WHERE (listener_id IS NOT NULL);
CREATE INDEX deployments_unknown ON public.deployments USING btree (listener_id) WHERE ((status || ''::text) = 'UNKNOWN'::text);
CREATE INDEX deployments_unserved ON public.deployments USING btree (id) WHERE (listener_id IS NULL);
set role slipway_system;
create or replace function check_deployment_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (
      select from revisions r
      where r.tenant_id <> new.tenant_id
        and r.id in (new.latest_revision_id, new.active_revision_id, new.in_flight_revision_id, new.waiting_revision_id)
    )
    or exists (select from listeners l where l.id = new.listener_id and l.tenant_id <> new.tenant_id)
    or exists (select from deployments d where d.id = new.parent_deployment_id and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a deployment refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references_on_insert AFTER INSERT ON public.deployments FOR EACH ROW EXECUTE FUNCTION check_deployment_references();
CREATE TRIGGER check_references_on_update AFTER UPDATE ON public.deployments FOR EACH ROW WHEN (((new.latest_revision_id IS DISTINCT FROM old.latest_revision_id) OR (new.active_revision_id IS DISTINCT FROM old.active_revision_id) OR (new.in_flight_revision_id IS DISTINCT FROM old.in_flight_revision_id) OR (new.waiting_revision_id IS DISTINCT FROM old.waiting_revision_id) OR (new.listener_id IS DISTINCT FROM old.listener_id) OR (new.tag_value_ids IS DISTINCT FROM old.tag_value_ids))) EXECUTE FUNCTION check_deployment_references();
set role slipway_system;
create or replace function claim_custom_host()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before text := case when tg_op = 'UPDATE' then old.custom_host end;
begin
  new.custom_host := case when new.deleting_at is null then custom_host(new.source_config ->> 'custom_url') end;
  new.custom_path := case when new.custom_host is not null then custom_path(new.source_config ->> 'custom_url') end;
  if tg_op = 'UPDATE'
    and (new.custom_host, new.custom_path) is not distinct from (old.custom_host, old.custom_path) then
    return new;
  end if;
  -- In the order of the names, so two deployments that swap hosts cannot deadlock.
  perform from custom_hosts where host in (v_before, new.custom_host) order by host for update;
  if new.custom_host is not null then
    -- The no-op update locks an existing row, whichever workspace owns it.
    insert into custom_hosts as h (host, organization_id, tenant_id)
    values (new.custom_host, new.organization_id, new.tenant_id)
    on conflict (host) do update set host = excluded.host;
    perform require_free_custom_url(new.tenant_id, new.id, new.custom_host, new.custom_path);
  end if;
  if v_before is distinct from new.custom_host then
    delete from custom_hosts h
    where h.host = v_before and h.tenant_id = new.tenant_id
      and not exists (
        select from deployments d
        where d.custom_host = v_before and d.tenant_id = new.tenant_id and d.id <> new.id
      );
  end if;
  return new;
end $function$;
reset role;
CREATE TRIGGER claim_custom_host_on_insert BEFORE INSERT ON public.deployments FOR EACH ROW WHEN (((new.source_config ->> 'custom_url'::text) IS NOT NULL)) EXECUTE FUNCTION claim_custom_host();
CREATE TRIGGER claim_custom_host_on_update BEFORE UPDATE OF source_config, deleting_at ON public.deployments FOR EACH ROW WHEN ((((new.source_config ->> 'custom_url'::text) IS DISTINCT FROM (old.source_config ->> 'custom_url'::text)) OR (new.deleting_at IS DISTINCT FROM old.deleting_at))) EXECUTE FUNCTION claim_custom_host();
set role slipway_system;
create or replace function claim_deployment_labels()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if new.listener_id is null or new.deleting_at is not null then return null; end if;
  perform claim_host_label(new, deployment_labels(new.name, new.id), 'deployment');
  perform claim_commit_label(new, r) from revisions r where r.id = new.latest_revision_id;
  return null;
end $function$;
reset role;
CREATE TRIGGER claim_labels_on_insert AFTER INSERT ON public.deployments FOR EACH ROW EXECUTE FUNCTION claim_deployment_labels();
CREATE TRIGGER claim_labels_on_update AFTER UPDATE OF listener_id ON public.deployments FOR EACH ROW WHEN ((new.listener_id IS DISTINCT FROM old.listener_id)) EXECUTE FUNCTION claim_deployment_labels();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.deployments REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'deployments');
create or replace function follow_health()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_changes json;
begin
  new.health := deployment_health(new);
  if tg_op = 'UPDATE' then
    if new.active_revision_id is not distinct from old.active_revision_id then
      v_changes := old.health_changes;
    end if;
    new.health_changes := v_changes;
  end if;
  if tg_op = 'UPDATE' and new.health is not distinct from old.health then return new; end if;
  new.health_since := clock();
  -- To fall asleep and to wake is no fault, however often.
  if tg_op = 'UPDATE' and old.health in ('healthy', 'sleeping') and new.health in ('healthy', 'sleeping') then
    return new;
  end if;
  new.health_changes := (
    select json_agg(at order by place)
    from (
      select at, row_number() over () as place
      from (
        select clock()::text as at
        union all
        select json_array_elements_text(v_changes)
      ) changes
      limit 6
    ) latest
  );
  return new;
end $function$;
CREATE TRIGGER follow_health BEFORE INSERT OR UPDATE OF status, active_revision_id, healthy, reported_health ON public.deployments FOR EACH ROW EXECUTE FUNCTION follow_health();
create or replace function keep_cleared_stores()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
declare
  v_before text[] := stores_of((old.source_config -> 'resource_spec')::jsonb);
  v_after text[] := stores_of((new.source_config -> 'resource_spec')::jsonb)
    || planned_stores(new.id, new.active_revision_id);
begin
  new.cleared_stores := array(
    select distinct s
    from unnest(old.cleared_stores || v_before) s
    where s <> all (v_after)
    order by s
    limit 200
  );
  return new;
end $function$;
CREATE TRIGGER keep_cleared_stores BEFORE UPDATE OF source_config ON public.deployments FOR EACH ROW WHEN (((old.source_config)::text IS DISTINCT FROM (new.source_config)::text)) EXECUTE FUNCTION keep_cleared_stores();
set role slipway_system;
create or replace function keep_deleted_deployments()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into deleted_deployments (id, organization_id, tenant_id, created_at, deleted_at)
  select d.id, d.organization_id, d.tenant_id, d.created_at, coalesce(d.deleting_at, clock())
  from removed d
  where exists (select from workspaces w where w.id = d.tenant_id);
  return null;
end $function$;
reset role;
CREATE TRIGGER keep_deleted_deployments AFTER DELETE ON public.deployments REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION keep_deleted_deployments();
set role slipway_system;
create or replace function look_at_deleted_deployment()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update alert_states set due_at = clock(), version = version + 1 where subject_id = new.id;
  return null;
end $function$;
reset role;
CREATE TRIGGER look_at_deleted_deployment AFTER UPDATE OF deleting_at ON public.deployments FOR EACH ROW WHEN (((old.deleting_at IS NULL) AND (new.deleting_at IS NOT NULL))) EXECUTE FUNCTION look_at_deleted_deployment();
set role slipway_system;
create or replace function signal_health()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_incident record;
begin
  if new.health is distinct from old.health and new.health is not null then
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || new.health, new.id,
      json_strip_nulls(json_build_object('message', new.health_reason)), clock()
    );
  end if;
  for v_incident in
    select k.kind, k.message
    from json_to_recordset(new.incidents) as k(kind text, pending integer, message text)
    left join json_to_recordset(old.incidents) as b(kind text, pending integer) on b.kind = k.kind
    where k.pending > coalesce(b.pending, 0)
  loop
    perform signal_alert_rules(
      new.tenant_id, 'deployment.' || v_incident.kind, new.id,
      json_strip_nulls(json_build_object('message', v_incident.message)), clock()
    );
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_health AFTER UPDATE ON public.deployments FOR EACH ROW WHEN (((new.health IS DISTINCT FROM old.health) OR ((new.incidents)::text IS DISTINCT FROM (old.incidents)::text))) EXECUTE FUNCTION signal_health();
set role slipway_system;
create or replace function sync_after_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_items sync_items[];
begin
  if current_listener() is not null then
    perform delete_sync_items(array(select id from before));
  else
    v_items := (
      select array_agg((i.deployment_id, i.listener_id, 0, i.generation + 1)::sync_items)
      from before b
      join sync_items i on i.deployment_id = b.id
    );
    if v_items is not null then perform record_sync_items(v_items); end if;
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER sync_after_delete AFTER DELETE ON public.deployments REFERENCING OLD TABLE AS before FOR EACH STATEMENT EXECUTE FUNCTION sync_after_delete();
set role slipway_system;
create or replace function sync_after_insert()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select array_agg((id, listener_id, 0, generation)::sync_items), array_agg(distinct tenant_id)
  into v_items, v_tenants
  from after
  where listener_id is not null;
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER sync_after_insert AFTER INSERT ON public.deployments REFERENCING NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION sync_after_insert();
set role slipway_system;
create or replace function sync_after_update()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_items sync_items[];
  v_tenants uuid[];
begin
  select
    array_agg((a.id, a.listener_id, 0, a.generation)::sync_items),
    -- A listener that adopts deployments writes no events of theirs.
    array_agg(distinct a.tenant_id) filter (where a.generation <> b.generation)
  into v_items, v_tenants
  from after a
  join before b on b.id = a.id
  where a.listener_id is not null
    and (a.generation <> b.generation or a.listener_id is distinct from b.listener_id);
  if v_items is not null then
    perform from journals j where j.scope_id = any(v_tenants) order by j.scope_id for no key update;
    perform record_sync_items(v_items);
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER sync_after_update AFTER UPDATE ON public.deployments REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION sync_after_update();
alter table deployments enable row level security, force row level security;
create policy admitted on deployments as restrictive to slipway_limited
  using (is_admitted(( SELECT access_to('deployment'::text) AS access_to), tag_value_ids));
create policy everything on deployments to slipway_system
  using (true)
  with check (true);
create policy own on deployments to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
create policy served on deployments to slipway_agent
  using (((listener_id = current_listener()) OR ((listener_id IS NULL) AND (setting('platform'::text) = 'true'::text))));
grant delete, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at, updated_at, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes, local_url, traffic, applied_traffic, rollout, rollout_due_at) on deployments to slipway_agent;
grant delete, insert, select, update (name, name_fold, source, deployment_type, status, image_version, tag_value_ids, source_config, source_revision_config, secrets, secret_references, generation, acknowledged, remote_reconciled, revisions, latest_revision_id, active_revision_id, in_flight_revision_id, waiting_revision_id, hold, preview, repo_key, deleting_at, listener_id, url, healthy, last_request_at, custom_host, custom_path, version, created_at, updated_at, trace_key_version, owner, reported_health, health_reason, incidents, incidents_due, dormant_parts, health_processes, local_url, protection, traffic, applied_traffic, rollout, rollout_secret, rollout_due_at, request_logs) on deployments to slipway_app;
grant delete, insert, select, update on deployments to slipway_system;

create table device_requests (
  id uuid default gen_random_uuid() not null,
  device_code_hash text not null,
  user_code text not null,
  device_name text,
  permissions text[],
  client_address text,
  client_network text,
  user_agent text,
  interval_seconds integer default 5 not null,
  polled_at timestamp with time zone,
  organization_id uuid,
  member_id uuid,
  tenant_id uuid,
  role_id uuid,
  decided_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  expires_at timestamp with time zone default (clock() + '00:10:00'::interval) not null,
  made_by_key uuid,
  is_verified boolean default false not null,
  constraint device_requests_pkey PRIMARY KEY (id),
  constraint device_requests_device_code UNIQUE (device_code_hash),
  constraint device_requests_user_code UNIQUE (user_code),
  constraint device_requests_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint device_requests_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint device_requests_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX device_requests_age ON public.device_requests USING btree (expires_at);
CREATE INDEX device_requests_member ON public.device_requests USING btree (member_id);
CREATE INDEX device_requests_network ON public.device_requests USING btree (client_network);
CREATE INDEX device_requests_organization ON public.device_requests USING btree (organization_id);
CREATE INDEX device_requests_tenant ON public.device_requests USING btree (tenant_id);
set role slipway_system;
create or replace function remember_maker_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  new.made_by_key := (maker_key()).id;
  return new;
end $function$;
reset role;
CREATE TRIGGER remember_maker_key BEFORE UPDATE OF decided_at ON public.device_requests FOR EACH ROW EXECUTE FUNCTION remember_maker_key();
alter table device_requests enable row level security, force row level security;
create policy everything on device_requests to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on device_requests to slipway_system;

create table drains (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  kind text not null,
  url text not null,
  compression text not null,
  header_names text[] not null,
  headers text,
  signals text[] not null,
  deployment_ids uuid[] not null,
  tag_value_ids uuid[] not null,
  min_level text,
  processes text[] not null,
  contains text,
  sampling_rate double precision not null,
  enabled boolean default true not null,
  "position" bigint default 0 not null,
  trace_position bigint default 0 not null,
  next_send_at timestamp with time zone default clock() not null,
  failures integer default 0 not null,
  sent bigint default 0 not null,
  dropped bigint default 0 not null,
  last_sent_at timestamp with time zone,
  failing_since timestamp with time zone,
  error text,
  owner text,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint drains_pkey PRIMARY KEY (id),
  constraint drains_kind CHECK ((kind = ANY (ARRAY['otlp'::text, 'ndjson'::text, 'loki'::text, 'syslog'::text]))),
  constraint drains_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table drain_states (
  drain_id uuid not null,
  listener_id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  epoch uuid not null,
  epoch_sent bigint default 0 not null,
  epoch_dropped bigint default 0 not null,
  waiting bigint default 0 not null,
  waiting_bytes bigint default 0 not null,
  sent bigint default 0 not null,
  dropped bigint default 0 not null,
  last_sent_at timestamp with time zone,
  failing_since timestamp with time zone,
  error text,
  reported_at timestamp with time zone default clock() not null,
  constraint drain_states_drain_id_listener_id_pk PRIMARY KEY (drain_id, listener_id),
  constraint drain_states_drain_id_drains_id_fk FOREIGN KEY (drain_id) REFERENCES drains(id) ON DELETE CASCADE,
  constraint drain_states_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE
);
CREATE INDEX drain_states_listener ON public.drain_states USING btree (listener_id);
alter table drain_states enable row level security, force row level security;
create policy everything on drain_states to slipway_system
  using (true)
  with check (true);
create policy own on drain_states for select to slipway_app
  using ((tenant_id = current_tenant()));
grant select on drain_states to slipway_app;
grant delete, insert, select, update on drain_states to slipway_system;
CREATE UNIQUE INDEX drain_name_taken ON public.drains USING btree (tenant_id, lower(name));
CREATE INDEX drains_due ON public.drains USING btree (next_send_at) WHERE (enabled AND (signals && '{events,traces}'::text[]));
CREATE INDEX drains_page ON public.drains USING btree (tenant_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function check_drain_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a drain refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids ON public.drains FOR EACH ROW EXECUTE FUNCTION check_drain_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.drains REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '20', 'true', 'drains');
alter table drains enable row level security, force row level security;
create policy everything on drains to slipway_system
  using (true)
  with check (true);
create policy own on drains to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, url, compression, header_names, headers, signals, deployment_ids, tag_value_ids, min_level, processes, contains, sampling_rate, enabled, "position", trace_position, next_send_at, failures, sent, dropped, last_sent_at, failing_since, error, owner, version, created_at, updated_at) on drains to slipway_app;
grant delete, insert, select, update on drains to slipway_system;
CREATE INDEX evaluators_page ON public.evaluators USING btree (tenant_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.evaluators REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'evaluators');
alter table evaluators enable row level security, force row level security;
create policy admitted on evaluators as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on evaluators to slipway_system
  using (true)
  with check (true);
create policy own on evaluators to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, structured, feedback_keys, metadata, version, created_at, updated_at) on evaluators to slipway_app;
grant delete, insert, select, update on evaluators to slipway_system;

create table events (
  scope_id uuid not null,
  seq bigint not null,
  organization_id uuid not null,
  tenant_id uuid,
  type text not null,
  subject_id uuid not null,
  actor_kind text not null,
  actor_id uuid,
  actor_name text default event_actor_name(),
  request_id text not null,
  data json not null,
  created_at timestamp with time zone default clock() not null,
  request json default (setting('request'::text))::json,
  changes json,
  part_of bigint,
  hash text,
  constraint events_scope_id_seq_pk PRIMARY KEY (scope_id, seq)
);
CREATE INDEX events_age ON public.events USING brin (created_at);
CREATE INDEX events_audit ON public.events USING btree (organization_id, created_at DESC, scope_id DESC, seq DESC, type, actor_id, tenant_id) WHERE (part_of IS NULL);
CREATE INDEX events_of_subject ON public.events USING btree (subject_id, scope_id, seq);
CREATE INDEX events_parts ON public.events USING btree (scope_id, part_of) WHERE (part_of IS NOT NULL);
set role slipway_system;
create or replace function chain_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_previous text;
begin
  select e.hash
  into v_previous
  from events e
  where e.scope_id = new.scope_id and e.seq = new.seq - 1;
  if not found then
    select c.hash
    into v_previous
    from journal_checkpoints c
    where c.scope_id = new.scope_id and c.seq = new.seq - 1;
  end if;
  new.hash := encode(
    sha256(convert_to(
      coalesce(v_previous, '') || new.seq || array[
        new.scope_id::text,
        new.organization_id::text,
        new.tenant_id::text,
        new.type,
        new.subject_id::text,
        new.actor_kind,
        new.actor_id::text,
        new.actor_name,
        new.request_id,
        new.request::text,
        new.data::text,
        new.changes::text,
        new.part_of::text,
        extract(epoch from new.created_at)::text
      ]::text,
      'UTF8'
    )),
    'base64'
  );
  return new;
end $function$;
reset role;
CREATE TRIGGER chain_event BEFORE INSERT ON public.events FOR EACH ROW EXECUTE FUNCTION chain_event();
set role slipway_system;
create or replace function signal_event()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform signal_alert_rules(
    new.tenant_id, new.type, new.subject_id, new.data, new.created_at + new.seq % 1000 * interval '1 microsecond'
  );
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_event AFTER INSERT ON public.events FOR EACH ROW WHEN (((new.tenant_id IS NOT NULL) AND (new.type !~~ 'incident.%'::text) AND (new.type !~~ 'alert%'::text))) EXECUTE FUNCTION signal_event();
alter table events enable row level security, force row level security;
create or replace function is_shown_event(p_type text, p_subject uuid, p_data json)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_kind text := split_part(p_type, '.', 1);
  v_resource record;
  v_id uuid;
  v_is_shown boolean;
begin
  for v_resource in
    values
      ('deployment', 'deployments', '{deployment, preview_policy}'::text[], 'deployment_id'),
      ('deployment', 'revisions', '{revision}', null),
      ('deployment', 'previews', '{preview}', null),
      ('deployment', 'custom_hosts', '{custom_host}', null),
      ('project', 'projects', '{project}', 'project_id'),
      ('project', 'run_rules', '{rule}', null),
      ('dataset', 'run_rules', '{rule}', null),
      ('dataset', 'datasets', '{dataset}', 'dataset_id'),
      ('queue', 'annotation_queues', '{annotation_queue}', 'queue_id')
  loop
    continue when not hides(v_resource.column1);
    v_id := case
      when p_data ->> v_resource.column4 ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
        then (p_data ->> v_resource.column4)::uuid
      when v_kind = any(v_resource.column3) then p_subject
    end;
    continue when v_id is null;
    execute format('select exists (select from %I where id = $1)', v_resource.column2) into v_is_shown using v_id;
    if not v_is_shown then return false; end if;
  end loop;
  return true;
end $function$;
create policy admitted on events as restrictive to slipway_limited
  using (((( SELECT setting('shows_events'::text) AS setting) IS DISTINCT FROM 'true'::text) OR is_shown_event(type, subject_id, data)))
  with check (true);
create policy everything on events to slipway_system
  using (true)
  with check (true);
create or replace function current_scope()
 RETURNS uuid
 LANGUAGE sql
 STABLE
RETURN (COALESCE(setting('tenant_id'::text), setting('organization_id'::text)))::uuid;
create policy own on events to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant()))))
  with check (((scope_id = current_scope()) AND (organization_id = current_organization()) AND (NOT (tenant_id IS DISTINCT FROM current_tenant())) AND (NOT (actor_id IS DISTINCT FROM current_actor()))));
create policy served on events to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = events.tenant_id) AND (d.listener_id = current_listener())))))
  with check (((scope_id = tenant_id) AND ((actor_id IS NULL) OR (actor_id = ANY (ARRAY[current_actor(), current_listener()]))) AND (EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = events.tenant_id) AND (d.organization_id = events.organization_id) AND (d.listener_id = current_listener()))))));
grant insert on events to slipway_agent;
grant insert, select on events to slipway_app;
grant delete, insert, select, update on events to slipway_system;

create table example_contents (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  inputs text not null,
  outputs text,
  constraint example_contents_pkey PRIMARY KEY (id),
  constraint example_contents_dataset_id_datasets_id_fk FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE CASCADE
);
CREATE INDEX example_contents_dataset ON public.example_contents USING btree (dataset_id);
alter table example_contents enable row level security, force row level security;
create policy admitted on example_contents as restrictive to slipway_limited
  using (((NOT ( SELECT hides('dataset'::text) AS hides)) OR (EXISTS ( SELECT
   FROM datasets d
  WHERE (d.id = example_contents.dataset_id)))))
  with check (true);
create policy everything on example_contents to slipway_system
  using (true)
  with check (true);
create policy own on example_contents to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_dataset(dataset_id)));
grant delete, insert, select on example_contents to slipway_app;
grant delete, insert, select, update on example_contents to slipway_system;

create table example_objects (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  bytes bigint not null,
  check_at timestamp with time zone default (clock() + '1 day'::interval),
  created_at timestamp with time zone default clock() not null,
  constraint example_objects_pkey PRIMARY KEY (id)
);
CREATE INDEX example_objects_check ON public.example_objects USING btree (check_at);
CREATE INDEX example_objects_tenant ON public.example_objects USING btree (tenant_id);
alter table example_objects enable row level security, force row level security;
create policy everything on example_objects to slipway_system
  using (true)
  with check (true);
create policy own on example_objects to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant insert, select on example_objects to slipway_app;
grant delete, insert, select, update on example_objects to slipway_system;

create table examples (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  dataset_id uuid not null,
  since timestamp with time zone not null,
  until timestamp with time zone,
  number integer not null,
  metadata jsonb not null,
  source_run_id uuid,
  attachments json,
  object_ids uuid[] default '{}'::uuid[] not null,
  created_at timestamp with time zone default clock() not null,
  contents_id uuid not null,
  constraint examples_tenant_id_id_since_pk PRIMARY KEY (tenant_id, id, since),
  constraint examples_contents_id_example_contents_id_fk FOREIGN KEY (contents_id) REFERENCES example_contents(id),
  constraint examples_dataset_id_datasets_id_fk FOREIGN KEY (dataset_id) REFERENCES datasets(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX example_exists ON public.examples USING btree (tenant_id, id) WHERE (until IS NULL);
CREATE INDEX examples_contents ON public.examples USING btree (contents_id);
CREATE INDEX examples_current ON public.examples USING btree (dataset_id, since DESC, number) WHERE (until IS NULL);
CREATE INDEX examples_objects ON public.examples USING gin (object_ids);
CREATE INDEX examples_page ON public.examples USING btree (dataset_id, since DESC, number);
CREATE INDEX examples_source_run ON public.examples USING btree (tenant_id, source_run_id) WHERE ((source_run_id IS NOT NULL) AND (until IS NULL));
set role slipway_system;
create or replace function check_objects_of_deleted_examples()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  update example_objects o
  set check_at = clock() + interval '1 hour'
  from (select distinct unnest(object_ids) as id from deleted) d
  where o.id = d.id;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_objects AFTER DELETE ON public.examples REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION check_objects_of_deleted_examples();
alter table examples enable row level security, force row level security;
create policy admitted on examples as restrictive to slipway_limited
  using (((NOT ( SELECT hides('dataset'::text) AS hides)) OR (EXISTS ( SELECT
   FROM datasets p
  WHERE (p.id = examples.dataset_id)))))
  with check (true);
create policy everything on examples to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_example_contents(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return not exists (
    select from example_contents
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on examples to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_dataset(dataset_id) AND is_own_example_contents(contents_id)));
grant delete, insert, select, update (until) on examples to slipway_app;
grant delete, insert, select, update on examples to slipway_system;

create table exchanged_tokens (
  token_hash text not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  expires_at timestamp with time zone not null,
  constraint exchanged_tokens_pkey PRIMARY KEY (token_hash),
  constraint exchanged_tokens_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX exchanged_tokens_age ON public.exchanged_tokens USING btree (expires_at);
CREATE INDEX exchanged_tokens_tenant ON public.exchanged_tokens USING btree (tenant_id);
alter table exchanged_tokens enable row level security, force row level security;
create policy everything on exchanged_tokens to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on exchanged_tokens to slipway_system;

create table feedback_configs (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  key text not null,
  config json not null,
  is_lower_score_better boolean default false not null,
  modified_at timestamp with time zone default clock() not null,
  constraint feedback_configs_pkey PRIMARY KEY (id),
  constraint feedback_configs_key UNIQUE (tenant_id, key),
  constraint feedback_configs_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.feedback_configs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'true', 'feedback_configs');
alter table feedback_configs enable row level security, force row level security;
create policy admitted on feedback_configs as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on feedback_configs to slipway_system
  using (true)
  with check (true);
create policy own on feedback_configs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (config, is_lower_score_better, modified_at) on feedback_configs to slipway_app;
grant delete, insert, select, update on feedback_configs to slipway_system;

create table feedback_tokens (
  id uuid default gen_random_uuid() not null,
  feedback_id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  run_id uuid not null,
  key text not null,
  created_at timestamp with time zone default clock() not null,
  expires_at timestamp with time zone not null,
  constraint feedback_tokens_pkey PRIMARY KEY (id)
);
CREATE INDEX feedback_tokens_age ON public.feedback_tokens USING btree (expires_at);
CREATE INDEX feedback_tokens_run ON public.feedback_tokens USING btree (tenant_id, run_id, created_at DESC, id DESC);
alter table feedback_tokens enable row level security, force row level security;
create policy admitted on feedback_tokens as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on feedback_tokens to slipway_system
  using (true)
  with check (true);
create policy own on feedback_tokens to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select on feedback_tokens to slipway_app;
grant delete, insert, select, update on feedback_tokens to slipway_system;

create table feedbacks (
  organization_id uuid not null,
  tenant_id uuid not null,
  id uuid not null,
  run_id uuid,
  trace_id uuid,
  session_id uuid,
  start_time timestamp with time zone,
  is_attached boolean not null,
  key text not null,
  score numeric(14,4),
  value text,
  category text,
  comment text,
  correction text,
  source_type text not null,
  source_metadata text,
  actor_id uuid default current_actor(),
  actor_name text default event_actor_name(),
  feedback_group_id uuid,
  comparative_experiment_id uuid,
  is_error boolean default false not null,
  extends_retention boolean not null,
  is_upgraded boolean default false not null,
  created_at timestamp with time zone default clock() not null,
  modified_at timestamp with time zone default clock() not null,
  received_at timestamp with time zone default clock() not null,
  constraint feedbacks_tenant_id_id_pk PRIMARY KEY (tenant_id, id),
  constraint feedbacks_source_type CHECK ((source_type = ANY (ARRAY['api'::text, 'model'::text, 'app'::text, 'auto_eval'::text])))
);
CREATE INDEX feedbacks_age ON public.feedbacks USING btree (received_at);
CREATE INDEX feedbacks_page ON public.feedbacks USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX feedbacks_run ON public.feedbacks USING btree (tenant_id, run_id);
CREATE INDEX feedbacks_session ON public.feedbacks USING btree (tenant_id, session_id, created_at);
CREATE INDEX feedbacks_to_upgrade ON public.feedbacks USING btree (received_at) WHERE (extends_retention AND is_attached AND (NOT is_upgraded));
CREATE INDEX feedbacks_unattached ON public.feedbacks USING btree (received_at) WHERE (NOT is_attached);
CREATE INDEX feedbacks_waiting ON public.feedbacks USING btree (tenant_id, run_id) WHERE (NOT is_attached);
set role slipway_system;
create or replace function queue_runs_with_feedback()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_tenant uuid;
begin
  for v_tenant in
    select tenant_id
    from (select distinct tenant_id from added where run_id is not null and is_attached) t
    where exists (select from run_rules r where r.tenant_id = t.tenant_id and r.is_enabled)
    order by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || v_tenant, 0));
    insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
    select distinct on (f.run_id)
      f.organization_id, f.tenant_id, f.session_id, f.run_id, f.trace_id, coalesce(f.start_time, f.created_at)
    from added f
    join projects p on p.tenant_id = v_tenant and p.id = f.session_id
    where f.tenant_id = v_tenant
      and f.is_attached
      and f.run_id is not null
      and f.trace_id is not null
      and exists (
        select from run_rules q
        where q.tenant_id = v_tenant
          and q.is_enabled
          and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
      )
    order by f.run_id;
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER queue_runs_with_changed_feedback AFTER UPDATE ON public.feedbacks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_runs_with_feedback();
CREATE TRIGGER queue_runs_with_new_feedback AFTER INSERT ON public.feedbacks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_runs_with_feedback();
alter table feedbacks enable row level security, force row level security;
create policy admitted on feedbacks as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (session_id IS NULL) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = feedbacks.session_id)))))
  with check (true);
create policy everything on feedbacks to slipway_system
  using (true)
  with check (true);
create policy own on feedbacks to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id) AND is_own_key(actor_id)));
grant delete, insert, select, update (trace_id, session_id, start_time, is_attached, score, value, category, comment, correction, source_type, source_metadata, is_error, extends_retention, is_upgraded, modified_at) on feedbacks to slipway_app;
grant delete, insert, select, update on feedbacks to slipway_system;

create table filter_views (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  display_name text not null,
  description text,
  type text default 'runs'::text not null,
  filter_string text,
  trace_filter_string text,
  tree_filter_string text,
  start_time timestamp with time zone,
  end_time timestamp with time zone,
  duration text,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  version integer default 1 not null,
  constraint filter_views_pkey PRIMARY KEY (id),
  constraint filter_views_type CHECK ((type = ANY (ARRAY['runs'::text, 'threads'::text, 'single_run'::text]))),
  constraint filter_views_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX filter_views_page ON public.filter_views USING btree (session_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.filter_views REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('session_id', '100', 'true', 'filter_views');
alter table filter_views enable row level security, force row level security;
create policy admitted on filter_views as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = filter_views.session_id)))))
  with check (true);
create policy everything on filter_views to slipway_system
  using (true)
  with check (true);
create policy own on filter_views to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id)));
grant delete, insert, select, update (display_name, description, type, filter_string, trace_filter_string, tree_filter_string, start_time, end_time, duration, updated_at, version) on filter_views to slipway_app;
grant delete, insert, select, update on filter_views to slipway_system;

create table finished_runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  id bigint generated by default as identity not null,
  run_id uuid not null,
  trace_id uuid not null,
  order_time timestamp with time zone not null,
  created_at timestamp with time zone default clock() not null,
  constraint finished_runs_tenant_id_session_id_id_pk PRIMARY KEY (tenant_id, session_id, id)
);
alter table finished_runs enable row level security, force row level security;
create policy admitted on finished_runs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = finished_runs.session_id)))))
  with check (true);
create policy everything on finished_runs to slipway_system
  using (true)
  with check (true);
create policy own on finished_runs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select on finished_runs to slipway_app;
grant delete, insert, select, update on finished_runs to slipway_system;
grant select on finished_runs_id_seq to slipway_system;

create table integrations (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  host text not null,
  base_url text not null,
  app_id text,
  installation_id text not null,
  account_id text not null,
  name text not null,
  state text default 'active'::text not null,
  credentials text,
  token text,
  token_expires_at timestamp with time zone,
  created_by uuid,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  problem json,
  ssh json,
  constraint integrations_pkey PRIMARY KEY (id),
  constraint integrations_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table followed_repositories (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  integration_id uuid not null,
  repo_key text not null,
  url text not null,
  host_id text,
  heard_at timestamp with time zone,
  compared_at timestamp with time zone,
  next_compare_at timestamp with time zone default clock() not null,
  attempts integer default 0 not null,
  error text,
  webhook_id text,
  webhook_error text,
  etags json default '{}'::json not null,
  followers text,
  created_at timestamp with time zone default clock() not null,
  branch_heads json,
  listener_id uuid,
  look_at timestamp with time zone,
  look_started_at timestamp with time zone,
  look_failures integer default 0 not null,
  look_fence bigint,
  seen json,
  seen_at timestamp with time zone,
  unreachable_since timestamp with time zone,
  constraint followed_repositories_pkey PRIMARY KEY (id),
  constraint followed_repositories_one UNIQUE (integration_id, repo_key),
  constraint followed_repositories_integration_id_integrations_id_fk FOREIGN KEY (integration_id) REFERENCES integrations(id) ON DELETE CASCADE
);
CREATE INDEX followed_repositories_due ON public.followed_repositories USING btree (next_compare_at);
CREATE INDEX followed_repositories_id ON public.followed_repositories USING btree (integration_id, host_id);
CREATE INDEX followed_repositories_looks ON public.followed_repositories USING btree (listener_id, look_at) WHERE (listener_id IS NOT NULL);
alter table followed_repositories enable row level security, force row level security;
create policy admitted on followed_repositories as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on followed_repositories to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_integration(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from integrations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on followed_repositories to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_integration(integration_id)));
grant select on followed_repositories to slipway_app;
grant delete, insert, select, update on followed_repositories to slipway_system;

create table githost_deliveries (
  id uuid default gen_random_uuid() not null,
  receiver text not null,
  delivery_id text not null,
  event json not null,
  state text default 'waiting'::text not null,
  attempts integer default 1 not null,
  unfinished_attempts integer default 0 not null,
  next_attempt_at timestamp with time zone not null,
  error text,
  created_at timestamp with time zone default clock() not null,
  constraint githost_deliveries_pkey PRIMARY KEY (id),
  constraint githost_deliveries_one UNIQUE (receiver, delivery_id)
);
CREATE INDEX githost_deliveries_age ON public.githost_deliveries USING btree (created_at);
CREATE INDEX githost_deliveries_due ON public.githost_deliveries USING btree (next_attempt_at) WHERE (state = 'waiting'::text);
alter table githost_deliveries enable row level security, force row level security;
create policy everything on githost_deliveries to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on githost_deliveries to slipway_system;

create table host_labels (
  listener_id uuid not null,
  label text not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  kind text not null,
  revision_id uuid,
  created_at timestamp with time zone default clock() not null,
  constraint host_labels_listener_id_label_pk PRIMARY KEY (listener_id, label),
  constraint host_labels_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint host_labels_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE
);
CREATE INDEX host_labels_deployment ON public.host_labels USING btree (deployment_id);
alter table host_labels enable row level security, force row level security;
create policy admitted on host_labels as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = host_labels.deployment_id)))))
  with check (true);
create policy everything on host_labels to slipway_system
  using (true)
  with check (true);
create policy own on host_labels for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on host_labels for select to slipway_agent
  using ((listener_id = current_listener()));
grant select on host_labels to slipway_agent;
grant select on host_labels to slipway_app;
grant delete, insert, select, update on host_labels to slipway_system;

create table idempotency_keys (
  actor_id uuid not null,
  key text not null,
  fingerprint text not null,
  result json not null,
  created_at timestamp with time zone default clock() not null,
  constraint idempotency_keys_actor_id_key_pk PRIMARY KEY (actor_id, key)
);
CREATE INDEX idempotency_keys_age ON public.idempotency_keys USING btree (created_at);
alter table idempotency_keys enable row level security, force row level security;
create policy everything on idempotency_keys to slipway_system
  using (true)
  with check (true);
create policy own on idempotency_keys to slipway_app
  using ((actor_id = current_actor()));
grant insert, select on idempotency_keys to slipway_app;
grant delete, insert, select, update on idempotency_keys to slipway_system;

create table identities (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid not null,
  issuer text not null,
  subject text not null,
  created_at timestamp with time zone default clock() not null,
  constraint identities_pkey PRIMARY KEY (id),
  constraint identities_member UNIQUE (member_id, issuer),
  constraint identities_subject UNIQUE (issuer, subject, organization_id),
  constraint identities_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint identities_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX identities_organization ON public.identities USING btree (organization_id);
alter table identities enable row level security, force row level security;
create policy everything on identities to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on identities to slipway_system;

create table incidents (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid,
  run_rule_id uuid,
  rule_name text not null,
  subject_type text not null,
  subject_id uuid not null,
  subject_name text not null,
  deployment_id uuid,
  project_id uuid,
  severity text not null,
  title text not null,
  cause text not null,
  state text default 'open'::text not null,
  value double precision,
  evidence jsonb not null,
  channel_ids uuid[] not null,
  reopened integer default 0 not null,
  muted_until timestamp with time zone,
  tell_at timestamp with time zone,
  is_told boolean default false not null,
  sequence integer default 0 not null,
  opened_at timestamp with time zone default clock() not null,
  last_at timestamp with time zone default clock() not null,
  resolved_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint incidents_pkey PRIMARY KEY (id),
  constraint incidents_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint incidents_project_id_projects_id_fk FOREIGN KEY (project_id) REFERENCES projects(id) ON DELETE CASCADE,
  constraint incidents_rule_id_alert_rules_id_fk FOREIGN KEY (rule_id) REFERENCES alert_rules(id) ON DELETE SET NULL,
  constraint incidents_run_rule_id_run_rules_id_fk FOREIGN KEY (run_rule_id) REFERENCES run_rules(id) ON DELETE SET NULL,
  constraint incidents_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table incident_changes (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  incident_id uuid not null,
  kind text not null,
  value double precision,
  message text,
  actor_id uuid default current_actor(),
  actor_name text default event_actor_name(),
  created_at timestamp with time zone default clock() not null,
  constraint incident_changes_pkey PRIMARY KEY (id),
  constraint incident_changes_incident_id_incidents_id_fk FOREIGN KEY (incident_id) REFERENCES incidents(id) ON DELETE CASCADE
);
CREATE INDEX incident_changes_incident ON public.incident_changes USING btree (incident_id, created_at);
alter table incident_changes enable row level security, force row level security;
create policy admitted on incident_changes as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM incidents i
  WHERE (i.id = incident_changes.incident_id))))
  with check (true);
create policy everything on incident_changes to slipway_system
  using (true)
  with check (true);
create policy own on incident_changes to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_key(actor_id) AND (EXISTS ( SELECT
   FROM incidents i
  WHERE ((i.id = incident_changes.incident_id) AND (i.tenant_id = current_tenant()))))));
grant insert, select on incident_changes to slipway_app;
grant delete, insert, select, update on incident_changes to slipway_system;
CREATE INDEX incidents_age ON public.incidents USING btree (resolved_at) WHERE (state = 'resolved'::text);
CREATE INDEX incidents_deployment ON public.incidents USING btree (deployment_id);
CREATE UNIQUE INDEX incidents_open ON public.incidents USING btree (rule_id, subject_id) WHERE (state <> 'resolved'::text);
CREATE UNIQUE INDEX incidents_open_run_rule ON public.incidents USING btree (run_rule_id) WHERE (state <> 'resolved'::text);
CREATE INDEX incidents_page ON public.incidents USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX incidents_project ON public.incidents USING btree (project_id);
CREATE INDEX incidents_rule ON public.incidents USING btree (rule_id, subject_id, resolved_at);
CREATE INDEX incidents_run_rule ON public.incidents USING btree (run_rule_id);
CREATE INDEX incidents_tell ON public.incidents USING btree (tell_at) WHERE (tell_at IS NOT NULL);
alter table incidents enable row level security, force row level security;
create policy admitted on incidents as restrictive to slipway_limited
  using ((((NOT ( SELECT hides('deployment'::text) AS hides)) OR (deployment_id IS NULL) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = incidents.deployment_id)))) AND ((NOT ( SELECT hides('project'::text) AS hides)) OR (project_id IS NULL) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = incidents.project_id))))));
create policy everything on incidents to slipway_system
  using (true)
  with check (true);
create policy own on incidents to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_project(project_id) AND is_own_rule(run_rule_id)));
grant select, update (severity, cause, state, value, evidence, reopened, muted_until, tell_at, is_told, sequence, last_at, resolved_at, version, created_at, updated_at) on incidents to slipway_app;
grant delete, insert, select, update on incidents to slipway_system;

create table insight_configs (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  name text not null,
  description text,
  config json not null,
  schedule_cron text,
  next_start_at timestamp with time zone,
  last_started_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint insight_config_exists PRIMARY KEY (id),
  constraint insight_configs_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE,
  constraint insight_configs_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table insight_jobs (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  config_id uuid,
  name text not null,
  status text default 'queued'::text not null,
  method text not null,
  request json not null,
  is_scheduled boolean default false not null,
  summary_configuration_id uuid,
  cluster_configuration_id uuid,
  start_time timestamp with time zone,
  end_time timestamp with time zone,
  num_runs integer,
  metadata json default '{}'::json not null,
  report json,
  error text,
  lease integer default 0 not null,
  leased_until timestamp with time zone default clock() not null,
  attempts integer default 0 not null,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint insight_jobs_pkey PRIMARY KEY (id),
  constraint insight_jobs_method CHECK ((method = ANY (ARRAY['model'::text, 'lexical'::text]))),
  constraint insight_jobs_status CHECK ((status = ANY (ARRAY['queued'::text, 'running'::text, 'success'::text, 'error'::text]))),
  constraint insight_jobs_config_id_insight_configs_id_fk FOREIGN KEY (config_id) REFERENCES insight_configs(id) ON DELETE SET NULL,
  constraint insight_jobs_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE,
  constraint insight_jobs_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table insight_clusters (
  id uuid default gen_random_uuid() not null,
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
  constraint insight_clusters_pkey PRIMARY KEY (id),
  constraint insight_clusters_job_id_insight_jobs_id_fk FOREIGN KEY (job_id) REFERENCES insight_jobs(id) ON DELETE CASCADE,
  constraint insight_clusters_parent_id_insight_clusters_id_fk FOREIGN KEY (parent_id) REFERENCES insight_clusters(id) ON DELETE CASCADE
);
CREATE INDEX insight_clusters_job ON public.insight_clusters USING btree (job_id, level DESC, place);
CREATE INDEX insight_clusters_parent ON public.insight_clusters USING btree (parent_id);
alter table insight_clusters enable row level security, force row level security;
create policy admitted on insight_clusters as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM insight_jobs j
  WHERE (j.id = insight_clusters.job_id)))))
  with check (true);
create policy everything on insight_clusters to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_insight_cluster(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null
    or not exists (select from insight_clusters where id = p_id and tenant_id is distinct from current_tenant());
end $function$;
reset role;
set role slipway_system;
create or replace function is_own_insight_job(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return not exists (select from insight_jobs where id = p_id and tenant_id is distinct from current_tenant());
end $function$;
reset role;
create policy own on insight_clusters to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_insight_job(job_id) AND is_own_insight_cluster(parent_id)));
grant delete, insert, select, update (parent_id, num_runs, stats) on insight_clusters to slipway_app;
grant delete, insert, select, update on insight_clusters to slipway_system;
CREATE INDEX insight_configs_due ON public.insight_configs USING btree (next_start_at) WHERE (next_start_at IS NOT NULL);
CREATE INDEX insight_configs_page ON public.insight_configs USING btree (session_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.insight_configs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('session_id', '100', 'true', 'insight_configs');
alter table insight_configs enable row level security, force row level security;
create policy admitted on insight_configs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = insight_configs.session_id)))))
  with check (true);
create policy everything on insight_configs to slipway_system
  using (true)
  with check (true);
create policy own on insight_configs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id)));
grant delete, insert, select, update (name, description, config, schedule_cron, next_start_at, last_started_at, version, updated_at) on insight_configs to slipway_app;
grant delete, insert, select, update on insight_configs to slipway_system;
CREATE INDEX insight_jobs_config ON public.insight_jobs USING btree (config_id);
CREATE INDEX insight_jobs_due ON public.insight_jobs USING btree (leased_until) WHERE (status = ANY (ARRAY['queued'::text, 'running'::text]));
CREATE INDEX insight_jobs_organization ON public.insight_jobs USING btree (organization_id) WHERE (status = ANY (ARRAY['queued'::text, 'running'::text]));
CREATE INDEX insight_jobs_page ON public.insight_jobs USING btree (session_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.insight_jobs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('session_id', '1000', 'true', 'insight_jobs');
alter table insight_jobs enable row level security, force row level security;
create policy admitted on insight_jobs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = insight_jobs.session_id)))))
  with check (true);
create policy everything on insight_jobs to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_insight_config(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null
    or not exists (select from insight_configs where id = p_id and tenant_id is distinct from current_tenant());
end $function$;
reset role;
create policy own on insight_jobs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id) AND is_own_insight_config(config_id)));
grant delete, insert, select, update (name, status, num_runs, metadata, report, error, lease, leased_until, attempts, started_at, finished_at, version, updated_at) on insight_jobs to slipway_app;
grant delete, insert, select, update on insight_jobs to slipway_system;

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
  constraint insight_runs_job_id_run_id_pk PRIMARY KEY (job_id, run_id),
  constraint insight_runs_cluster_id_insight_clusters_id_fk FOREIGN KEY (cluster_id) REFERENCES insight_clusters(id) ON DELETE SET NULL,
  constraint insight_runs_job_id_insight_jobs_id_fk FOREIGN KEY (job_id) REFERENCES insight_jobs(id) ON DELETE CASCADE
);
CREATE INDEX insight_runs_cluster ON public.insight_runs USING btree (cluster_id);
CREATE INDEX insight_runs_place ON public.insight_runs USING btree (job_id, place);
CREATE INDEX insight_runs_run ON public.insight_runs USING btree (tenant_id, run_id);
alter table insight_runs enable row level security, force row level security;
create policy admitted on insight_runs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM insight_jobs j
  WHERE (j.id = insight_runs.job_id)))))
  with check (true);
create policy everything on insight_runs to slipway_system
  using (true)
  with check (true);
create policy own on insight_runs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_insight_job(job_id) AND is_own_insight_cluster(cluster_id)));
grant delete, insert, select, update (summary, attributes, is_excluded, cluster_id) on insight_runs to slipway_app;
grant delete, insert, select, update on insight_runs to slipway_system;

create table insight_steps (
  organization_id uuid not null,
  tenant_id uuid not null,
  job_id uuid not null,
  key text not null,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  answer json,
  error text,
  run_id uuid,
  updated_at timestamp with time zone default clock() not null,
  constraint insight_steps_job_id_key_pk PRIMARY KEY (job_id, key),
  constraint insight_steps_state CHECK ((state = ANY (ARRAY['waiting'::text, 'answered'::text, 'failed'::text]))),
  constraint insight_steps_job_id_insight_jobs_id_fk FOREIGN KEY (job_id) REFERENCES insight_jobs(id) ON DELETE CASCADE
);
alter table insight_steps enable row level security, force row level security;
create policy admitted on insight_steps as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM insight_jobs j
  WHERE (j.id = insight_steps.job_id)))))
  with check (true);
create policy everything on insight_steps to slipway_system
  using (true)
  with check (true);
create policy own on insight_steps to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_insight_job(job_id)));
grant delete, insert, select, update (state, attempts, answer, error, run_id, updated_at) on insight_steps to slipway_app;
grant delete, insert, select, update on insight_steps to slipway_system;

create table integration_installs (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  actor_id uuid,
  expires_at timestamp with time zone not null,
  created_at timestamp with time zone default clock() not null,
  constraint integration_installs_pkey PRIMARY KEY (id),
  constraint integration_installs_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX integration_installs_expiry ON public.integration_installs USING btree (expires_at);
alter table integration_installs enable row level security, force row level security;
create policy admitted on integration_installs as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on integration_installs to slipway_system
  using (true)
  with check (true);
create policy own on integration_installs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_key(actor_id)));
grant delete, insert, select, update (expires_at, created_at) on integration_installs to slipway_app;
grant delete, insert, select, update on integration_installs to slipway_system;

create table integration_listings (
  integration_id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  pages json not null,
  fetched_at timestamp with time zone not null,
  constraint integration_listings_pkey PRIMARY KEY (integration_id),
  constraint integration_listings_integration_id_integrations_id_fk FOREIGN KEY (integration_id) REFERENCES integrations(id) ON DELETE CASCADE
);
alter table integration_listings enable row level security, force row level security;
create policy admitted on integration_listings as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on integration_listings to slipway_system
  using (true)
  with check (true);
create policy own on integration_listings to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_integration(integration_id)));
grant delete, insert, select, update (pages, fetched_at) on integration_listings to slipway_app;
grant delete, insert, select, update on integration_listings to slipway_system;
CREATE UNIQUE INDEX integration_claimed ON public.integrations USING btree (base_url, installation_id) WHERE ((host = 'github'::text) AND (state <> 'revoked'::text));
CREATE UNIQUE INDEX integration_taken ON public.integrations USING btree (tenant_id, host, base_url, installation_id) WHERE (state <> 'revoked'::text);
CREATE INDEX integrations_page ON public.integrations USING btree (tenant_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.integrations REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'integrations');
alter table integrations enable row level security, force row level security;
create policy everything on integrations to slipway_system
  using (true)
  with check (true);
create policy own on integrations to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_key(created_by)));
create policy served on integrations for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.listener_id = current_listener()) AND (d.tenant_id = integrations.tenant_id) AND ((d.source_config ->> 'integration_id'::text) = (integrations.id)::text)))));
grant select on integrations to slipway_agent;
grant delete, insert, select, update (host, base_url, app_id, installation_id, account_id, name, state, credentials, token, token_expires_at, version, created_at, updated_at, problem, ssh) on integrations to slipway_app;
grant delete, insert, select, update on integrations to slipway_system;

create table jobs (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  schedule_id uuid,
  due_at timestamp with time zone,
  attempt integer default 1 not null,
  retries integer default 0 not null,
  status text not null,
  command json not null,
  timeout_seconds integer not null,
  deadline_seconds integer not null,
  is_serial boolean default false not null,
  not_before timestamp with time zone default clock() not null,
  overdue_at timestamp with time zone not null,
  missed_until timestamp with time zone,
  missed_count integer,
  revision_id uuid,
  actor_kind text not null,
  actor_id uuid,
  actor_name text default event_actor_name(),
  exit_code integer,
  reason text,
  cancel_requested_at timestamp with time zone,
  dispatched_at timestamp with time zone,
  listener_id uuid,
  seq bigint,
  started_at timestamp with time zone,
  finished_at timestamp with time zone,
  lines integer default 0 not null,
  bytes bigint default 0 not null,
  stream uuid,
  next_line integer,
  created_at timestamp with time zone default clock() not null,
  process text,
  action jsonb,
  constraint jobs_pkey PRIMARY KEY (id),
  constraint jobs_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);

create table job_lines (
  organization_id uuid not null,
  tenant_id uuid not null,
  job_id uuid not null,
  number integer not null,
  "timestamp" timestamp with time zone not null,
  severity integer not null,
  message text not null,
  bytes_before bigint not null,
  constraint job_lines_job_id_number_pk PRIMARY KEY (job_id, number),
  constraint job_lines_job_id_jobs_id_fk FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);
alter table job_lines enable row level security, force row level security;
create policy admitted on job_lines as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM jobs j
  WHERE (j.id = job_lines.job_id)))))
  with check (true);
create policy everything on job_lines to slipway_system
  using (true)
  with check (true);
create policy own on job_lines for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on job_lines to slipway_agent
  using ((EXISTS ( SELECT
   FROM jobs j
  WHERE (j.id = job_lines.job_id))))
  with check ((EXISTS ( SELECT
   FROM jobs j
  WHERE ((j.id = job_lines.job_id) AND (j.tenant_id = job_lines.tenant_id) AND (j.organization_id = job_lines.organization_id)))));
grant delete, insert, select on job_lines to slipway_agent;
grant select on job_lines to slipway_app;
grant delete, insert, select, update on job_lines to slipway_system;
CREATE INDEX jobs_changed ON public.jobs USING btree (listener_id, seq) WHERE (seq IS NOT NULL);
CREATE UNIQUE INDEX jobs_due ON public.jobs USING btree (schedule_id, due_at, attempt) WHERE (due_at IS NOT NULL);
CREATE INDEX jobs_finished ON public.jobs USING btree (finished_at) WHERE (finished_at IS NOT NULL);
CREATE INDEX jobs_of_schedule ON public.jobs USING btree (schedule_id, created_at DESC, id DESC) WHERE (schedule_id IS NOT NULL);
CREATE INDEX jobs_open ON public.jobs USING btree (tenant_id, schedule_id) WHERE (status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text]));
CREATE INDEX jobs_overdue ON public.jobs USING btree (overdue_at) WHERE (status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text]));
CREATE INDEX jobs_page ON public.jobs USING btree (deployment_id, created_at DESC, id DESC);
CREATE INDEX jobs_running ON public.jobs USING btree (tenant_id) WHERE ((status = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text])) AND (dispatched_at IS NOT NULL));
CREATE INDEX jobs_waiting ON public.jobs USING btree (tenant_id, not_before) WHERE ((status = 'QUEUED'::text) AND (dispatched_at IS NULL));
alter table jobs enable row level security, force row level security;
create policy admitted on jobs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = jobs.deployment_id)))))
  with check (true);
create policy everything on jobs to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_schedule(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from schedules
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on jobs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_revision(revision_id) AND is_own_schedule(schedule_id) AND is_own_listener(listener_id) AND is_own_key(actor_id)));
create policy served on jobs to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = jobs.deployment_id) AND (d.listener_id = current_listener())))));
grant select, update (lines, bytes, stream, next_line) on jobs to slipway_agent;
grant insert, select, update (cancel_requested_at) on jobs to slipway_app;
grant delete, insert, select, update on jobs to slipway_system;

create table journal_checkpoints (
  scope_id uuid not null,
  seq bigint not null,
  hash text,
  expired_before timestamp with time zone not null,
  signature text not null,
  constraint journal_checkpoints_pkey PRIMARY KEY (scope_id)
);
alter table journal_checkpoints enable row level security, force row level security;
create policy everything on journal_checkpoints to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on journal_checkpoints to slipway_system;

create table journal_heads (
  scope_id uuid not null,
  seq bigint not null,
  hash text not null,
  signed_at timestamp with time zone not null,
  signature text not null,
  constraint journal_heads_scope_id_seq_pk PRIMARY KEY (scope_id, seq)
);
alter table journal_heads enable row level security, force row level security;
create policy everything on journal_heads to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on journal_heads to slipway_system;

create table journals (
  scope_id uuid not null,
  organization_id uuid not null,
  seq bigint not null,
  day date,
  today bigint default 0 not null,
  signed_seq bigint default 0 not null,
  signed_at timestamp with time zone,
  constraint journals_pkey PRIMARY KEY (scope_id)
);
alter table journals enable row level security, force row level security;
create policy everything on journals to slipway_system
  using (true)
  with check (true);
create policy own on journals to slipway_app
  using ((scope_id = current_scope()))
  with check (((scope_id = current_scope()) AND (organization_id = current_organization())));
create policy served on journals to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = journals.scope_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = journals.scope_id) AND (d.organization_id = journals.organization_id) AND (d.listener_id = current_listener())))));
grant insert, select, update (seq, day, today) on journals to slipway_agent;
grant insert, select, update (seq, day, today) on journals to slipway_app;
grant delete, insert, select, update on journals to slipway_system;
CREATE INDEX listeners_page ON public.listeners USING btree (tenant_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.listeners REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'listeners');
alter table listeners enable row level security, force row level security;
create policy agents_own on listeners to slipway_agent
  using ((id = current_listener()));
create policy everything on listeners to slipway_system
  using (true)
  with check (true);
create policy own on listeners to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
create policy shared on listeners for select to slipway_app
  using (((tenant_id IS NULL) AND (current_organization() IS NOT NULL)));
grant select, update (compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at, version, created_at, updated_at, templates, template_descriptions, verified_hosts_only, policy) on listeners to slipway_agent;
grant delete, insert, select, update (compute_type, compute_id, compute_config, agent_id, agent_version, fence, lease_expires_at, last_seen_at, version, created_at, updated_at) on listeners to slipway_app;
grant delete, insert, select, update on listeners to slipway_system;

create table log_archive_settings (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid,
  enabled boolean,
  retention_days integer,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint log_archive_settings_pkey PRIMARY KEY (id),
  constraint log_archive_settings_one UNIQUE NULLS NOT DISTINCT (tenant_id, deployment_id),
  constraint log_archive_settings_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint log_archive_settings_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX log_archive_settings_deployment ON public.log_archive_settings USING btree (deployment_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.log_archive_settings REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10001', 'true', 'log_archive_settings');
alter table log_archive_settings enable row level security, force row level security;
create policy admitted on log_archive_settings as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (deployment_id IS NULL) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archive_settings.deployment_id)))))
  with check (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archive_settings.deployment_id)))));
create policy everything on log_archive_settings to slipway_system
  using (true)
  with check (true);
create policy own on log_archive_settings to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
create policy served on log_archive_settings for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = log_archive_settings.tenant_id) AND (d.listener_id = current_listener())))));
grant select on log_archive_settings to slipway_agent;
grant insert, select, update (enabled, retention_days, updated_at) on log_archive_settings to slipway_app;
grant delete, insert, select, update on log_archive_settings to slipway_system;

create table log_archives (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid,
  hour timestamp with time zone not null,
  object_path text not null,
  lines integer not null,
  bytes bigint not null,
  created_at timestamp with time zone default clock() not null,
  expires_at timestamp with time zone not null,
  constraint log_archives_pkey PRIMARY KEY (id),
  constraint log_archives_path UNIQUE (object_path),
  constraint log_archives_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE SET NULL
);
CREATE INDEX log_archives_expiry ON public.log_archives USING btree (expires_at);
CREATE INDEX log_archives_newest ON public.log_archives USING btree (deployment_id, created_at DESC, id DESC);
CREATE INDEX log_archives_workspace ON public.log_archives USING btree (tenant_id);
alter table log_archives enable row level security, force row level security;
create policy admitted on log_archives as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_archives.deployment_id)))))
  with check (true);
create policy everything on log_archives to slipway_system
  using (true)
  with check (true);
create policy own on log_archives for select to slipway_app
  using ((tenant_id = current_tenant()));
grant select on log_archives to slipway_app;
grant delete, insert, select, update on log_archives to slipway_system;

create table revisions (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  number integer not null,
  source text not null,
  source_config json not null,
  source_revision_config json not null,
  secrets json not null,
  secret_references json,
  status text not null,
  status_message text,
  status_since timestamp with time zone default clock() not null,
  reasons text[] not null,
  from_revision_id uuid,
  commit json,
  actor_kind text not null,
  actor_id uuid,
  actor_name text default event_actor_name(),
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  states json,
  build_plan json,
  rollout json,
  constraint revisions_pkey PRIMARY KEY (id),
  constraint revisions_number UNIQUE (deployment_id, number),
  constraint revisions_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);

create table log_batches (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  kind text not null,
  number integer not null,
  skipped integer not null,
  lines integer not null,
  bytes integer not null,
  content text not null,
  for_store boolean not null,
  for_archive boolean not null,
  received_at timestamp with time zone default clock() not null,
  claimed_until timestamp with time zone,
  attempts integer default 0 not null,
  constraint log_batches_pkey PRIMARY KEY (id),
  constraint log_batches_revision_id_revisions_id_fk FOREIGN KEY (revision_id) REFERENCES revisions(id) ON DELETE CASCADE
);
CREATE INDEX log_batches_for_archive ON public.log_batches USING btree (deployment_id, received_at) WHERE for_archive;
CREATE INDEX log_batches_for_store ON public.log_batches USING btree (received_at) WHERE for_store;
CREATE INDEX log_batches_of_deployment ON public.log_batches USING btree (deployment_id, received_at);
CREATE INDEX log_batches_revision ON public.log_batches USING btree (revision_id);
alter table log_batches enable row level security, force row level security;
create policy everything on log_batches to slipway_system
  using (true)
  with check (true);
create policy served on log_batches to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_batches.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_batches.revision_id) AND (d.id = log_batches.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = log_batches.tenant_id) AND (d.organization_id = log_batches.organization_id)))));
grant insert, select on log_batches to slipway_agent;
grant delete, insert, select, update on log_batches to slipway_system;

create table log_counters (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  arrival bigint not null,
  constraint log_counters_pkey PRIMARY KEY (deployment_id),
  constraint log_counters_revision_id_revisions_id_fk FOREIGN KEY (revision_id) REFERENCES revisions(id) ON DELETE CASCADE
) with (fillfactor=50);
alter table log_counters enable row level security, force row level security;
create policy admitted on log_counters as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_counters.deployment_id)))))
  with check (true);
create policy everything on log_counters to slipway_system
  using (true)
  with check (true);
create policy own on log_counters to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on log_counters to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_counters.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_counters.revision_id) AND (d.id = log_counters.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = log_counters.tenant_id) AND (d.organization_id = log_counters.organization_id)))));
grant insert, select, update (arrival) on log_counters to slipway_agent;
grant select on log_counters to slipway_app;
grant delete, insert, select, update on log_counters to slipway_system;

create table log_lines (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  kind text not null,
  number integer not null,
  "timestamp" timestamp with time zone not null,
  severity integer not null,
  message text not null,
  bytes_before bigint not null,
  arrival bigint,
  process text,
  attributes jsonb,
  request_id text,
  trace_id text,
  constraint log_lines_revision_id_kind_number_pk PRIMARY KEY (revision_id, kind, number),
  constraint log_lines_revision_id_revisions_id_fk FOREIGN KEY (revision_id) REFERENCES revisions(id) ON DELETE CASCADE
) with (autovacuum_vacuum_cost_delay=0);
CREATE INDEX log_lines_arrival ON public.log_lines USING btree (deployment_id, kind, arrival);
CREATE INDEX log_lines_of_deployment ON public.log_lines USING btree (deployment_id, kind, "timestamp", revision_id, number);
CREATE INDEX log_lines_of_request ON public.log_lines USING btree (tenant_id, request_id, "timestamp") WHERE (request_id IS NOT NULL);
CREATE INDEX log_lines_of_revision ON public.log_lines USING btree (revision_id, kind, "timestamp", number);
CREATE INDEX log_lines_of_trace ON public.log_lines USING btree (tenant_id, trace_id, "timestamp") WHERE (trace_id IS NOT NULL);
CREATE INDEX log_lines_of_workspace ON public.log_lines USING btree (tenant_id, kind, "timestamp", revision_id, number);
set role slipway_system;
create or replace function signal_log_lines()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  r alert_rules;
  v_tenant uuid := (select a.tenant_id from added a limit 1);
  v_deployment uuid := (select a.deployment_id from added a limit 1);
  v_tags uuid[];
  v_messages text[];
  v_lowered text[];
  v_severities integer[];
  v_processes text[];
  v_count integer;
  v_lines text[];
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = v_tenant and a.kind = 'log' and a.enabled
    order by a.id
  loop
    if v_messages is null then
      v_tags := (select d.tag_value_ids from deployments d where d.id = v_deployment);
      select
        coalesce(array_agg(left(a.message, 1000) order by a.number desc), '{}'),
        array_agg(lower(a.message) order by a.number desc),
        array_agg(a.severity::integer order by a.number desc),
        array_agg(a.process order by a.number desc)
      into v_messages, v_lowered, v_severities, v_processes
      from added a
      where a.kind = 'deploy' and a.number > 0;
    end if;
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    select count(*), (array_agg(a.message order by a.nth))[1:5]
    into v_count, v_lines
    from unnest(v_messages, v_lowered, v_severities, v_processes)
      with ordinality as a(message, lowered, severity, process, nth)
    where strpos(a.lowered, lower(r.condition ->> 'contains')) > 0
      and a.severity >= coalesce(
        array_position('{DEBUG, INFO, WARNING, ERROR, CRITICAL}', r.condition ->> 'level') - 1, 0
      )
      and (r.condition ->> 'process' is null or a.process = r.condition ->> 'process');
    continue when v_count = 0;
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, lines)
    values (
      r.organization_id, r.tenant_id, r.id, v_deployment, date_bin('10 seconds', clock(), 'epoch'), v_count, v_lines
    )
    on conflict (rule_id, subject_id, at) do update set
      count = g.count + excluded.count,
      lines = (excluded.lines || g.lines)[1:5];
    perform mark_alert_due(r, v_deployment, 'deployment');
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER signal_log_lines AFTER INSERT ON public.log_lines REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION signal_log_lines();
alter table log_lines enable row level security, force row level security;
create policy admitted on log_lines as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_lines.deployment_id)))))
  with check (true);
create policy everything on log_lines to slipway_system
  using (true)
  with check (true);
create policy own on log_lines to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_revision(revision_id)));
create policy served on log_lines to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_lines.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_lines.revision_id) AND (d.id = log_lines.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = log_lines.tenant_id) AND (d.organization_id = log_lines.organization_id)))));
grant delete, insert, select, update (kind, number, "timestamp", severity, message, bytes_before, arrival, process, attributes, request_id, trace_id) on log_lines to slipway_agent;
grant delete, insert, select, update (kind, number, "timestamp", severity, message, bytes_before, arrival, process, attributes, request_id, trace_id) on log_lines to slipway_app;
grant delete, insert, select, update on log_lines to slipway_system;

create table log_losses (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  hour timestamp with time zone not null,
  lines bigint not null,
  constraint log_losses_revision_id_hour_pk PRIMARY KEY (revision_id, hour),
  constraint log_losses_revision_id_revisions_id_fk FOREIGN KEY (revision_id) REFERENCES revisions(id) ON DELETE CASCADE
);
CREATE INDEX log_losses_hour ON public.log_losses USING btree (deployment_id, hour);
alter table log_losses enable row level security, force row level security;
create policy admitted on log_losses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = log_losses.deployment_id)))))
  with check (true);
create policy everything on log_losses to slipway_system
  using (true)
  with check (true);
create policy own on log_losses for select to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on log_losses to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = log_losses.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = log_losses.revision_id) AND (d.id = log_losses.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = log_losses.tenant_id) AND (d.organization_id = log_losses.organization_id)))));
grant insert, select, update (lines) on log_losses to slipway_agent;
grant select on log_losses to slipway_app;
grant delete, insert, select, update on log_losses to slipway_system;

create table logs (
  organization_id uuid not null,
  tenant_id uuid not null,
  revision_id uuid not null,
  kind text not null,
  lines integer not null,
  bytes bigint not null,
  stream uuid,
  next_line integer,
  check_at timestamp with time zone default (clock() + '1 day'::interval) not null,
  constraint logs_revision_id_kind_pk PRIMARY KEY (revision_id, kind),
  constraint logs_revision_id_revisions_id_fk FOREIGN KEY (revision_id) REFERENCES revisions(id) ON DELETE CASCADE
);
CREATE INDEX logs_check ON public.logs USING btree (check_at);
alter table logs enable row level security, force row level security;
create policy admitted on logs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM revisions p
  WHERE (p.id = logs.revision_id)))))
  with check (true);
create policy everything on logs to slipway_system
  using (true)
  with check (true);
create policy own on logs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_revision(revision_id)));
create policy served on logs to slipway_agent
  using ((EXISTS ( SELECT
   FROM revisions r
  WHERE (r.id = logs.revision_id))))
  with check ((EXISTS ( SELECT
   FROM revisions r
  WHERE ((r.id = logs.revision_id) AND (r.tenant_id = logs.tenant_id) AND (r.organization_id = logs.organization_id)))));
grant insert, select, update (kind, lines, bytes, stream, next_line) on logs to slipway_agent;
grant delete, insert, select, update (kind, lines, bytes, stream, next_line) on logs to slipway_app;
grant delete, insert, select, update on logs to slipway_system;

create table mail_windows (
  scope text not null,
  started_at timestamp with time zone default clock() not null,
  mails integer not null,
  constraint mail_windows_pkey PRIMARY KEY (scope)
);
CREATE INDEX mail_windows_age ON public.mail_windows USING btree (started_at);
alter table mail_windows enable row level security, force row level security;
create policy everything on mail_windows to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on mail_windows to slipway_system;
CREATE INDEX members_page ON public.members USING btree (organization_id, created_at DESC, id DESC);
CREATE INDEX members_role ON public.members USING btree (role_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.members REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '10000', 'true', 'members');
set role slipway_system;
create or replace function require_organization_admin()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000004';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  perform from organizations where id = old.organization_id for update;
  if found and not exists (select from members where organization_id = old.organization_id and role_id = v_admin) then
    perform refuse('last_organization_admin');
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER require_organization_admin AFTER DELETE OR UPDATE OF role_id ON public.members FOR EACH ROW EXECUTE FUNCTION require_organization_admin();
alter table members enable row level security, force row level security;
create policy admitted on members as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on members to slipway_system
  using (true)
  with check (true);
create policy own on members to slipway_app
  using ((organization_id = current_organization()))
  with check (((organization_id = current_organization()) AND is_own_role(role_id)));
grant delete, insert, select, update (email, full_name, role_id, version, created_at, updated_at) on members to slipway_app;
grant delete, insert, select, update on members to slipway_system;

create table metric_points (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  seconds integer not null,
  at timestamp with time zone not null,
  cpu_minutes bigint not null,
  memory_minutes bigint not null,
  copies integer not null,
  memory_peak_bytes bigint,
  restarts bigint,
  cpu_ms bigint,
  memory_bytes bigint,
  unreached bigint,
  status_1xx bigint,
  status_2xx bigint,
  status_3xx bigint,
  status_4xx bigint,
  status_5xx bigint,
  latency_1 bigint,
  latency_2 bigint,
  latency_5 bigint,
  latency_10 bigint,
  latency_20 bigint,
  latency_50 bigint,
  latency_100 bigint,
  latency_200 bigint,
  latency_500 bigint,
  latency_1000 bigint,
  latency_2000 bigint,
  latency_5000 bigint,
  latency_10000 bigint,
  latency_20000 bigint,
  latency_60000 bigint,
  latency_more bigint,
  queue bigint,
  constraint metric_points_deployment_id_seconds_at_revision_id_pk PRIMARY KEY (deployment_id, seconds, at, revision_id),
  constraint metric_points_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
) with (fillfactor=80);
CREATE INDEX metric_points_age ON public.metric_points USING btree (seconds, at);
alter table metric_points enable row level security, force row level security;
create policy admitted on metric_points as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = metric_points.deployment_id)))))
  with check (true);
create policy everything on metric_points to slipway_system
  using (true)
  with check (true);
create policy own on metric_points to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on metric_points to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = metric_points.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = metric_points.revision_id) AND (d.id = metric_points.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = metric_points.tenant_id) AND (d.organization_id = metric_points.organization_id)))));
grant insert, select, update (cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms, memory_bytes, unreached, status_1xx, status_2xx, status_3xx, status_4xx, status_5xx, latency_1, latency_2, latency_5, latency_10, latency_20, latency_50, latency_100, latency_200, latency_500, latency_1000, latency_2000, latency_5000, latency_10000, latency_20000, latency_60000, latency_more, queue) on metric_points to slipway_agent;
grant select on metric_points to slipway_app;
grant delete, insert, select, update on metric_points to slipway_system;

create table model_budgets (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid,
  period text not null,
  limit_usd double precision,
  limit_tokens bigint,
  limit_calls bigint,
  period_start timestamp with time zone not null,
  spent_usd double precision default 0 not null,
  spent_tokens bigint default 0 not null,
  spent_calls bigint default 0 not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  told_percent integer default 0 not null,
  constraint model_budgets_pkey PRIMARY KEY (id),
  constraint model_budget_exists UNIQUE NULLS NOT DISTINCT (tenant_id, deployment_id, period),
  constraint model_budgets_limits CHECK ((num_nonnulls(limit_usd, limit_tokens, limit_calls) >= 1)),
  constraint model_budgets_period CHECK ((period = ANY (ARRAY['day'::text, 'week'::text, 'month'::text]))),
  constraint model_budgets_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE,
  constraint model_budgets_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX model_budgets_deployment ON public.model_budgets USING btree (deployment_id);
CREATE INDEX model_budgets_page ON public.model_budgets USING btree (tenant_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.model_budgets REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'true', 'model_budgets');
alter table model_budgets enable row level security, force row level security;
create policy admitted on model_budgets as restrictive to slipway_limited
  using (((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text) AND ((deployment_id IS NULL) OR (NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = model_budgets.deployment_id))))));
create policy confined on model_budgets as restrictive to slipway_confined
  using (((deployment_id IS NULL) OR (deployment_id = ( SELECT current_actor() AS current_actor))));
create policy everything on model_budgets to slipway_system
  using (true)
  with check (true);
create policy own on model_budgets to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
grant delete, insert, select, update (limit_usd, limit_tokens, limit_calls, period_start, spent_usd, spent_tokens, spent_calls, version, created_at, updated_at) on model_budgets to slipway_app;
grant delete, insert, select, update on model_budgets to slipway_system;

create table model_configurations (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  provider text not null,
  base_url text not null,
  model text not null,
  auth_type text not null,
  secret text,
  token_url text,
  client_id text,
  scope text,
  audience text,
  input_price double precision,
  output_price double precision,
  trace_project text,
  deployment_ids uuid[],
  last_test json,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint model_configurations_pkey PRIMARY KEY (id),
  constraint model_configurations_auth CHECK ((auth_type = ANY (ARRAY['none'::text, 'secret'::text, 'jwt'::text, 'oauth_client_credentials'::text]))),
  constraint model_configurations_provider CHECK ((provider = ANY (ARRAY['openai'::text, 'anthropic'::text, 'openai_compatible'::text]))),
  constraint model_configurations_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX model_configurations_page ON public.model_configurations USING btree (tenant_id, created_at DESC, id DESC);
CREATE UNIQUE INDEX model_exists ON public.model_configurations USING btree (tenant_id, lower(name));
set role slipway_system;
create or replace function check_model_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a model configuration refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids ON public.model_configurations FOR EACH ROW EXECUTE FUNCTION check_model_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.model_configurations REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '200', 'true', 'model_configurations');
alter table model_configurations enable row level security, force row level security;
create policy admitted on model_configurations as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy confined on model_configurations as restrictive to slipway_confined
  using (((deployment_ids IS NULL) OR (( SELECT current_actor() AS current_actor) = ANY (deployment_ids))));
create policy everything on model_configurations to slipway_system
  using (true)
  with check (true);
create policy own on model_configurations to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (name, provider, base_url, model, auth_type, secret, token_url, client_id, scope, audience, input_price, output_price, trace_project, deployment_ids, last_test, version, created_at, updated_at) on model_configurations to slipway_app;
grant delete, insert, select, update on model_configurations to slipway_system;

create table model_proxy_settings (
  organization_id uuid not null,
  enabled boolean default true not null,
  audience text,
  allowed_urls text default 'configurations'::text not null,
  patterns text[] default '{}'::text[] not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint model_proxy_settings_pkey PRIMARY KEY (organization_id),
  constraint model_proxy_settings_allowed_urls CHECK ((allowed_urls = ANY (ARRAY['configurations'::text, 'all'::text, 'none'::text, 'list'::text]))),
  constraint model_proxy_settings_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
alter table model_proxy_settings enable row level security, force row level security;
create policy admitted on model_proxy_settings as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on model_proxy_settings to slipway_system
  using (true)
  with check (true);
create policy own on model_proxy_settings to slipway_app
  using ((organization_id = current_organization()))
  with check ((organization_id = current_organization()));
grant insert, select, update (enabled, audience, allowed_urls, patterns, version, created_at, updated_at) on model_proxy_settings to slipway_app;
grant delete, insert, select, update on model_proxy_settings to slipway_system;

create table model_usage (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  day date not null,
  configuration_id uuid not null,
  configuration_name text not null,
  deployment_id uuid,
  actor_kind text not null,
  calls bigint default 0 not null,
  failed bigint default 0 not null,
  input_tokens bigint default 0 not null,
  output_tokens bigint default 0 not null,
  cost_usd double precision,
  constraint model_usage_pkey PRIMARY KEY (id),
  constraint model_usage_one UNIQUE NULLS NOT DISTINCT (tenant_id, day, configuration_id, deployment_id, actor_kind),
  constraint model_usage_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX model_usage_day ON public.model_usage USING btree (day);
alter table model_usage enable row level security, force row level security;
create policy admitted on model_usage as restrictive to slipway_limited
  using (((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text) AND ((deployment_id IS NULL) OR (NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments d
  WHERE (d.id = model_usage.deployment_id))))));
create policy confined on model_usage as restrictive to slipway_confined
  using ((deployment_id = ( SELECT current_actor() AS current_actor)));
create policy everything on model_usage to slipway_system
  using (true)
  with check (true);
create policy own on model_usage for select to slipway_app
  using ((tenant_id = current_tenant()));
grant select on model_usage to slipway_app;
grant delete, insert, select, update on model_usage to slipway_system;

create table notices (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  channel_id uuid not null,
  thread text not null,
  sequence bigint not null,
  phase text not null,
  content jsonb not null,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone default clock(),
  attempted_at timestamp with time zone,
  remote jsonb,
  answer_status integer,
  duration_ms integer,
  error text,
  created_at timestamp with time zone default clock() not null,
  constraint notices_pkey PRIMARY KEY (id),
  constraint notices_once UNIQUE (channel_id, thread, sequence),
  constraint notices_channel_id_channels_id_fk FOREIGN KEY (channel_id) REFERENCES channels(id) ON DELETE CASCADE
);
CREATE INDEX notices_age ON public.notices USING brin (created_at);
CREATE INDEX notices_due ON public.notices USING btree (channel_id, next_attempt_at) WHERE (state = 'waiting'::text);
CREATE INDEX notices_page ON public.notices USING btree (channel_id, created_at DESC, id DESC);
alter table notices enable row level security, force row level security;
create policy everything on notices to slipway_system
  using (true)
  with check (true);
create policy own on notices for select to slipway_app
  using (((tenant_id = current_tenant()) AND (EXISTS ( SELECT
   FROM channels c
  WHERE (c.id = notices.channel_id)))));
grant select on notices to slipway_app;
grant delete, insert, select, update on notices to slipway_system;

create table oauth_providers (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  provider_id text not null,
  name text not null,
  client_id text not null,
  client_secret text,
  client_secret_expires_at timestamp with time zone,
  auth_url text not null,
  token_url text not null,
  revocation_url text,
  uses_pkce boolean not null,
  code_challenge_method text,
  provider_type text,
  mcp_server_url text,
  token_endpoint_auth_method text not null,
  registration text not null,
  registration_client_uri text,
  registration_access_token text,
  redirect_uri text not null,
  issuer text,
  issuer_in_answers boolean default false not null,
  resource text,
  scopes text[] default '{}'::text[] not null,
  warnings json default '[]'::json not null,
  trace json default '[]'::json not null,
  health text default 'healthy'::text not null,
  health_detail text,
  checked_at timestamp with time zone default clock() not null,
  made_by_workspace uuid,
  client_secret_urls text[] default '{}'::text[] not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  owner text,
  constraint oauth_providers_pkey PRIMARY KEY (id),
  constraint provider_id_conflict UNIQUE (organization_id, provider_id),
  constraint oauth_providers_made_by_workspace_workspaces_id_fk FOREIGN KEY (made_by_workspace) REFERENCES workspaces(id) ON DELETE SET NULL,
  constraint oauth_providers_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);

create table oauth_flows (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  provider_id uuid not null,
  user_id text not null,
  scopes text[] not null,
  state_hash text not null,
  verifier text,
  bound_to text not null,
  status text default 'pending'::text not null,
  failure text,
  expires_at timestamp with time zone not null,
  created_at timestamp with time zone default clock() not null,
  constraint oauth_flows_pkey PRIMARY KEY (id),
  constraint oauth_flows_state UNIQUE (state_hash),
  constraint oauth_flows_provider_id_oauth_providers_id_fk FOREIGN KEY (provider_id) REFERENCES oauth_providers(id) ON DELETE CASCADE,
  constraint oauth_flows_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX oauth_flows_expiry ON public.oauth_flows USING btree (expires_at);
alter table oauth_flows enable row level security, force row level security;
create policy admitted on oauth_flows as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on oauth_flows to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_provider(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from oauth_providers
    where id = p_id and organization_id is distinct from current_organization()
  );
end $function$;
reset role;
create policy own on oauth_flows to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_provider(provider_id)));
grant delete, insert, select, update (user_id, scopes, state_hash, verifier, bound_to, status, failure, expires_at, created_at) on oauth_flows to slipway_app;
grant delete, insert, select, update on oauth_flows to slipway_system;

create table oauth_grants (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  member_id uuid not null,
  role_id uuid not null,
  permissions text[] not null,
  client_id text not null,
  client_name text not null,
  redirect_uri text not null,
  resource text not null,
  code_hash text not null,
  code_challenge text not null,
  key_id uuid,
  token_family text,
  refresh_hash text,
  previous_refresh_hash text,
  refreshed_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  expires_at timestamp with time zone default (clock() + '00:05:00'::interval) not null,
  made_by_key uuid,
  constraint oauth_grants_pkey PRIMARY KEY (id),
  constraint oauth_grants_code UNIQUE (code_hash),
  constraint oauth_grants_key UNIQUE (key_id),
  constraint oauth_grants_token_family UNIQUE (token_family),
  constraint oauth_grants_key_id_api_keys_id_fk FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE,
  constraint oauth_grants_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint oauth_grants_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint oauth_grants_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX oauth_grants_age ON public.oauth_grants USING btree (expires_at);
CREATE INDEX oauth_grants_member ON public.oauth_grants USING btree (member_id, tenant_id);
CREATE INDEX oauth_grants_organization ON public.oauth_grants USING btree (organization_id);
CREATE INDEX oauth_grants_tenant ON public.oauth_grants USING btree (tenant_id);
CREATE TRIGGER remember_maker_key BEFORE INSERT ON public.oauth_grants FOR EACH ROW EXECUTE FUNCTION remember_maker_key();
alter table oauth_grants enable row level security, force row level security;
create policy everything on oauth_grants to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on oauth_grants to slipway_system;
CREATE INDEX oauth_providers_checked ON public.oauth_providers USING btree (checked_at);
CREATE INDEX oauth_providers_made_by_workspace ON public.oauth_providers USING btree (made_by_workspace);
create or replace function bind_provider_secrets()
 RETURNS trigger
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if tg_op = 'INSERT' or new.client_secret is distinct from old.client_secret then
    new.client_secret_urls := case
      when new.client_secret is null then '{}'
      else array_remove(array[new.token_url, new.revocation_url], null)
    end;
  end if;
  if tg_op = 'UPDATE' and new.registration_client_uri is distinct from old.registration_client_uri
    and new.registration_access_token = old.registration_access_token then
    new.registration_access_token := null;
  end if;
  return new;
end $function$;
CREATE TRIGGER bind_provider_secrets BEFORE INSERT OR UPDATE ON public.oauth_providers FOR EACH ROW EXECUTE FUNCTION bind_provider_secrets();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.oauth_providers REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '1000', 'true', 'oauth_providers');
CREATE TRIGGER enforce_workspace_quota AFTER INSERT ON public.oauth_providers REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('made_by_workspace', '200', 'true', 'oauth_providers_of_a_workspace');
alter table oauth_providers enable row level security, force row level security;
create policy admitted on oauth_providers as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on oauth_providers to slipway_system
  using (true)
  with check (true);
create policy maker on oauth_providers as restrictive for insert to slipway_app
  with check ((NOT (made_by_workspace IS DISTINCT FROM current_tenant())));
create policy own on oauth_providers to slipway_app
  using ((organization_id = current_organization()));
grant delete, insert, select, update (provider_id, name, client_id, client_secret, client_secret_expires_at, auth_url, token_url, revocation_url, uses_pkce, code_challenge_method, provider_type, mcp_server_url, token_endpoint_auth_method, registration, registration_client_uri, registration_access_token, redirect_uri, issuer, issuer_in_answers, resource, scopes, warnings, trace, health, health_detail, checked_at, client_secret_urls, version, created_at, updated_at, owner) on oauth_providers to slipway_app;
grant delete, insert, select, update on oauth_providers to slipway_system;

create table oauth_reservations (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  provider_id text not null,
  expires_at timestamp with time zone not null,
  constraint oauth_reservations_pkey PRIMARY KEY (id),
  constraint oauth_reservations_one UNIQUE (organization_id, provider_id),
  constraint oauth_reservations_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
alter table oauth_reservations enable row level security, force row level security;
create policy admitted on oauth_reservations as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on oauth_reservations to slipway_system
  using (true)
  with check (true);
create policy own on oauth_reservations to slipway_app
  using ((organization_id = current_organization()));
grant delete, insert, select, update (id, provider_id, expires_at) on oauth_reservations to slipway_app;
grant delete, insert, select, update on oauth_reservations to slipway_system;

create table oauth_tokens (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  provider_id uuid not null,
  user_id text not null,
  scopes text[] not null,
  access_token text not null,
  refresh_token text,
  token_type text not null,
  bound_to text not null,
  expires_at timestamp with time zone,
  generation integer default 1 not null,
  leased_until timestamp with time zone,
  revoked_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint oauth_tokens_pkey PRIMARY KEY (id),
  constraint oauth_tokens_one UNIQUE (tenant_id, provider_id, user_id),
  constraint oauth_tokens_provider_id_oauth_providers_id_fk FOREIGN KEY (provider_id) REFERENCES oauth_providers(id) ON DELETE CASCADE,
  constraint oauth_tokens_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX oauth_tokens_page ON public.oauth_tokens USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX oauth_tokens_provider ON public.oauth_tokens USING btree (provider_id);
alter table oauth_tokens enable row level security, force row level security;
create policy admitted on oauth_tokens as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on oauth_tokens to slipway_system
  using (true)
  with check (true);
create policy own on oauth_tokens to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_provider(provider_id)));
grant delete, insert, select, update (user_id, scopes, access_token, refresh_token, token_type, bound_to, expires_at, generation, leased_until, revoked_at, created_at, updated_at) on oauth_tokens to slipway_app;
grant delete, insert, select, update on oauth_tokens to slipway_system;

create table open_runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  trace_tier text not null,
  trace_id uuid not null,
  trace_time timestamp with time zone not null,
  order_time timestamp with time zone not null,
  dotted_order text not null,
  parent_run_id uuid,
  created_at timestamp with time zone default clock() not null,
  constraint open_runs_tenant_id_id_pk PRIMARY KEY (tenant_id, id)
);
CREATE INDEX open_runs_age ON public.open_runs USING btree (created_at);
set role slipway_system;
create or replace function check_projects()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if exists (
    select from (select distinct tenant_id, session_id from added where session_id is not null) a
    where not exists (select from projects p where p.id = a.session_id and p.tenant_id = a.tenant_id)
  ) then
    raise foreign_key_violation using constraint = tg_table_name || '_session_id_projects_id_fk';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_projects AFTER INSERT ON public.open_runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_projects();
alter table open_runs enable row level security, force row level security;
create or replace function confined_project()
 RETURNS uuid
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN (setting('confined_project'::text))::uuid;
create policy confined on open_runs as restrictive to slipway_confined
  using ((session_id = ( SELECT confined_project() AS confined_project)));
create policy everything on open_runs to slipway_system
  using (true)
  with check (true);
create policy own on open_runs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select on open_runs to slipway_app;
grant delete, insert, select, update on open_runs to slipway_system;
alter table organizations enable row level security, force row level security;
create policy everything on organizations to slipway_system
  using (true)
  with check (true);
create policy own on organizations to slipway_app
  using ((id = current_organization()));
grant select, update (display_name, rbac_enabled, assume_s256, version, created_at, updated_at) on organizations to slipway_app;
grant delete, insert, select, update on organizations to slipway_system;

create table otlp_spans (
  organization_id uuid not null,
  tenant_id uuid not null,
  trace uuid not null,
  span uuid not null,
  parent uuid,
  run_id uuid not null,
  order_time timestamp with time zone not null,
  dotted_order text not null,
  is_root boolean not null,
  is_fixed boolean not null,
  created_at timestamp with time zone default clock() not null,
  session_id uuid,
  constraint otlp_spans_tenant_id_trace_span_pk PRIMARY KEY (tenant_id, trace, span)
);
CREATE INDEX otlp_spans_age ON public.otlp_spans USING btree (created_at);
CREATE INDEX otlp_spans_children ON public.otlp_spans USING btree (tenant_id, parent, trace);
CREATE INDEX otlp_spans_roots ON public.otlp_spans USING btree (tenant_id, trace) WHERE is_root;
CREATE TRIGGER check_projects AFTER INSERT ON public.otlp_spans REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_projects();
alter table otlp_spans enable row level security, force row level security;

create table runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  id uuid not null,
  trace_id uuid not null,
  trace_time timestamp with time zone not null,
  order_time timestamp with time zone not null,
  trace_tier text not null,
  dotted_order text not null,
  parent_run_id uuid,
  name text,
  run_type text,
  start_time timestamp with time zone,
  end_time timestamp with time zone,
  first_token_time timestamp with time zone,
  status text generated always as (
CASE
    WHEN (error IS NOT NULL) THEN 'error'::text
    WHEN (end_time IS NOT NULL) THEN 'success'::text
    ELSE 'pending'::text
END) stored,
  error text,
  tags text[],
  metadata jsonb,
  thread_id text,
  reference_example_id uuid,
  extra text,
  serialized text,
  inputs text,
  outputs text,
  events text,
  inputs_preview text,
  outputs_preview text,
  objects json,
  prompt_tokens bigint,
  completion_tokens bigint,
  total_tokens bigint,
  prompt_cost numeric,
  completion_cost numeric,
  total_cost numeric,
  usage_details json,
  patched integer default 0 not null,
  received_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint runs_tenant_id_id_order_time_trace_tier_pk PRIMARY KEY (tenant_id, id, order_time, trace_tier)
) partition by LIST (trace_tier);
create policy admitted on otlp_spans as restrictive to slipway_limited
  using (
CASE
    WHEN (session_id IS NOT NULL) THEN (EXISTS ( SELECT
       FROM projects p
      WHERE (p.id = otlp_spans.session_id)))
    ELSE (NOT (EXISTS ( SELECT
       FROM runs r
      WHERE ((r.tenant_id = otlp_spans.tenant_id) AND (r.id = otlp_spans.run_id) AND (r.order_time = otlp_spans.order_time) AND (NOT (EXISTS ( SELECT
               FROM projects p
              WHERE (p.id = r.session_id))))))))
END);
create policy confined on otlp_spans as restrictive to slipway_confined
  using (((session_id = ( SELECT confined_project() AS confined_project)) OR (EXISTS ( SELECT
   FROM runs r
  WHERE ((r.tenant_id = otlp_spans.tenant_id) AND (r.id = otlp_spans.run_id) AND (r.order_time = otlp_spans.order_time))))));
create policy everything on otlp_spans to slipway_system
  using (true)
  with check (true);
create policy own on otlp_spans to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant insert, select, update (dotted_order) on otlp_spans to slipway_app;
grant delete, insert, select, update on otlp_spans to slipway_system;

create table previews (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  parent_id uuid not null,
  number integer,
  state text not null,
  deployment_id uuid,
  branch text not null,
  head_sha text,
  fork boolean not null,
  approved_sha text,
  approved_by uuid,
  changed_at timestamp with time zone not null,
  expires_at timestamp with time zone not null,
  notified_state text,
  comment_id text,
  notify_attempts integer default 0 not null,
  next_notify_at timestamp with time zone default clock() not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  commit json,
  end_reason text,
  pending_sha text,
  kind text default 'pull_request'::text not null,
  request json,
  problem text,
  constraint previews_pkey PRIMARY KEY (id),
  constraint previews_one UNIQUE (parent_id, number),
  constraint previews_parent_id_deployments_id_fk FOREIGN KEY (parent_id) REFERENCES deployments(id) ON DELETE CASCADE
);

create table preview_hooks (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  preview_id uuid not null,
  url text not null,
  parent_id uuid not null,
  secret text not null,
  body json not null,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone default clock() not null,
  error text,
  created_at timestamp with time zone default clock() not null,
  constraint preview_hooks_pkey PRIMARY KEY (id),
  constraint preview_hooks_preview_id_previews_id_fk FOREIGN KEY (preview_id) REFERENCES previews(id) ON DELETE CASCADE
);
CREATE INDEX preview_hooks_due ON public.preview_hooks USING btree (next_attempt_at);
CREATE INDEX preview_hooks_organization ON public.preview_hooks USING btree (organization_id);
alter table preview_hooks enable row level security, force row level security;
create policy admitted on preview_hooks as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = preview_hooks.parent_id)))))
  with check (true);
create policy everything on preview_hooks to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_preview(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from previews
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on preview_hooks to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_preview(preview_id) AND is_own_deployment(parent_id)));
grant delete, insert, select, update (url, secret, body, attempts, next_attempt_at, error, created_at) on preview_hooks to slipway_app;
grant delete, insert, select, update on preview_hooks to slipway_system;

create table preview_policies (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  branches text[] not null,
  ttl_seconds integer not null,
  max integer not null,
  forks text not null,
  secrets json not null,
  resource_spec json,
  on_create text,
  on_delete text,
  hook_secret text,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  kinds text[] default '{pull_requests}'::text[] not null,
  inherited_secrets text[] default '{}'::text[] not null,
  protection json,
  database json,
  existing_branches json,
  constraint preview_policies_pkey PRIMARY KEY (id),
  constraint preview_policies_id_deployments_id_fk FOREIGN KEY (id) REFERENCES deployments(id) ON DELETE CASCADE
);
alter table preview_policies enable row level security, force row level security;
create policy admitted on preview_policies as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = preview_policies.id)))))
  with check (true);
create policy everything on preview_policies to slipway_system
  using (true)
  with check (true);
create policy own on preview_policies to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(id)));
grant delete, insert, select, update (branches, ttl_seconds, max, forks, secrets, resource_spec, on_create, on_delete, hook_secret, version, created_at, updated_at, kinds, inherited_secrets, protection, database, existing_branches) on preview_policies to slipway_app;
grant delete, insert, select, update on preview_policies to slipway_system;
CREATE INDEX previews_child ON public.previews USING btree (deployment_id);
CREATE INDEX previews_ended ON public.previews USING btree (updated_at) WHERE (state = 'ended'::text);
CREATE INDEX previews_expiry ON public.previews USING btree (expires_at) WHERE (state <> 'ended'::text);
CREATE UNIQUE INDEX previews_of_branch ON public.previews USING btree (parent_id, branch) WHERE (number IS NULL);
CREATE INDEX previews_of_workspace ON public.previews USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX previews_page ON public.previews USING btree (parent_id, created_at DESC, id DESC);
alter table previews enable row level security, force row level security;
create policy admitted on previews as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = previews.parent_id)))))
  with check (true);
create policy everything on previews to slipway_system
  using (true)
  with check (true);
create policy own on previews to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(parent_id) AND is_own_deployment(deployment_id) AND is_own_key(approved_by)));
grant delete, insert, select, update (number, state, deployment_id, branch, head_sha, fork, approved_sha, approved_by, changed_at, expires_at, notified_state, comment_id, notify_attempts, next_notify_at, created_at, updated_at, commit, end_reason, pending_sha, kind, request, problem) on previews to slipway_app;
grant delete, insert, select, update on previews to slipway_system;

create table process_points (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  process text not null,
  seconds integer not null,
  at timestamp with time zone not null,
  cpu_minutes bigint not null,
  memory_minutes bigint not null,
  copies integer not null,
  memory_peak_bytes bigint,
  restarts bigint,
  cpu_ms bigint,
  memory_bytes bigint,
  constraint process_points_deployment_id_seconds_at_revision_id_process_pk PRIMARY KEY (deployment_id, seconds, at, revision_id, process),
  constraint process_points_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX process_points_age ON public.process_points USING btree (seconds, at);
alter table process_points enable row level security, force row level security;
create policy admitted on process_points as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = process_points.deployment_id)))))
  with check (true);
create policy everything on process_points to slipway_system
  using (true)
  with check (true);
create policy own on process_points to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on process_points to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = process_points.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM (revisions r
     JOIN deployments d ON ((d.id = r.deployment_id)))
  WHERE ((r.id = process_points.revision_id) AND (d.id = process_points.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = process_points.tenant_id) AND (d.organization_id = process_points.organization_id)))));
grant insert, select, update (cpu_minutes, memory_minutes, copies, memory_peak_bytes, restarts, cpu_ms, memory_bytes) on process_points to slipway_agent;
grant select on process_points to slipway_app;
grant delete, insert, select, update on process_points to slipway_system;
CREATE INDEX projects_deployment ON public.projects USING btree (deployment_id);
CREATE INDEX projects_page ON public.projects USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX projects_reference_dataset ON public.projects USING btree (reference_dataset_id);
CREATE INDEX projects_start ON public.projects USING btree (tenant_id, start_time DESC, id DESC);
set role slipway_system;
create or replace function check_tags()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a resource has a tag of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_tags_on_insert AFTER INSERT ON public.projects FOR EACH ROW WHEN ((new.tag_value_ids <> '{}'::uuid[])) EXECUTE FUNCTION check_tags();
CREATE TRIGGER check_tags_on_update AFTER UPDATE OF tag_value_ids ON public.projects FOR EACH ROW EXECUTE FUNCTION check_tags();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.projects REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'projects');
set role slipway_system;
create or replace function record_deleted_project()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  insert into deleted_projects (id, organization_id, tenant_id)
  select id, organization_id, tenant_id
  from deleted
  on conflict do nothing;
  return null;
end $function$;
reset role;
CREATE TRIGGER record_deleted AFTER DELETE ON public.projects REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION record_deleted_project();
alter table projects enable row level security, force row level security;
create policy admitted on projects as restrictive to slipway_limited
  using (is_admitted(( SELECT access_to('project'::text) AS access_to), tag_value_ids));
create policy confined on projects as restrictive to slipway_confined
  using ((id = ( SELECT confined_project() AS confined_project)));
create policy everything on projects to slipway_system
  using (true)
  with check (true);
create policy own on projects to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_dataset(default_dataset_id) AND is_own_dataset(reference_dataset_id)));
grant delete, insert, select, update (deployment_id, name, created_at, description, start_time, end_time, extra, default_dataset_id, reference_dataset_id, tag_value_ids, trace_tier, earlier_tiers, longlived_ttl_days, updated_at, num_examples, num_repetitions, evaluator_keys, version) on projects to slipway_app;
grant delete, insert, select, update on projects to slipway_system;

create table protection_bypasses (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  kind text not null,
  description text not null,
  token_hash text not null,
  expires_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  constraint protection_bypasses_pkey PRIMARY KEY (id),
  constraint protection_bypasses_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX protection_bypasses_expiry ON public.protection_bypasses USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX protection_bypasses_page ON public.protection_bypasses USING btree (deployment_id, created_at DESC, id DESC);
alter table protection_bypasses enable row level security, force row level security;
create policy admitted on protection_bypasses as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = protection_bypasses.deployment_id)))))
  with check (true);
create policy everything on protection_bypasses to slipway_system
  using (true)
  with check (true);
create policy own on protection_bypasses to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
create policy served on protection_bypasses for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = protection_bypasses.deployment_id) AND (d.listener_id = current_listener())))));
grant select on protection_bypasses to slipway_agent;
grant delete, insert, select on protection_bypasses to slipway_app;
grant delete, insert, select, update on protection_bypasses to slipway_system;

create unlogged table rate_windows (
  key_id uuid not null,
  started_at timestamp with time zone not null,
  requests integer not null,
  constraint rate_windows_pkey PRIMARY KEY (key_id)
) with (fillfactor=50);
alter table rate_windows enable row level security, force row level security;
create policy everything on rate_windows to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on rate_windows to slipway_system;
CREATE INDEX revisions_archive ON public.revisions USING btree (((source_revision_config ->> 'source_tarball_path'::text))) WHERE ((source_revision_config ->> 'source_tarball_path'::text) IS NOT NULL);
CREATE INDEX revisions_page ON public.revisions USING btree (deployment_id, created_at DESC, id DESC);
CREATE INDEX revisions_pending ON public.revisions USING btree (status_since) WHERE (status = ANY (ARRAY['CREATING'::text, 'AWAITING_BUILD'::text, 'BUILDING'::text, 'AWAITING_DEPLOY'::text, 'DEPLOYING'::text]));
CREATE INDEX revisions_pending_of_organization ON public.revisions USING btree (organization_id) WHERE (status = ANY (ARRAY['CREATING'::text, 'AWAITING_BUILD'::text, 'BUILDING'::text, 'AWAITING_DEPLOY'::text, 'DEPLOYING'::text]));
set role slipway_system;
create or replace function check_revision_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (
      select from deployments d
      where d.id = new.deployment_id
        and (d.tenant_id <> new.tenant_id or d.organization_id <> new.organization_id)
    )
    or exists (select from revisions r where r.id = new.from_revision_id and r.tenant_id <> new.tenant_id)
    or exists (select from api_keys k where k.id = new.actor_id and k.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a revision refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references_on_insert AFTER INSERT ON public.revisions FOR EACH ROW EXECUTE FUNCTION check_revision_references();
set role slipway_system;
create or replace function claim_revision_label()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform claim_commit_label(d, new)
  from deployments d
  where d.id = new.deployment_id and d.parent_deployment_id is not null;
  return null;
end $function$;
reset role;
CREATE TRIGGER claim_label_on_insert AFTER INSERT ON public.revisions FOR EACH ROW WHEN (((new.commit IS NOT NULL) AND (new.status <> 'SKIPPED'::text))) EXECUTE FUNCTION claim_revision_label();
create or replace function record_revision_state()
 RETURNS trigger
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jsonb := '[]';
begin
  if tg_op = 'UPDATE' then
    v_before := coalesce(old.states::jsonb, jsonb_build_object('status', old.status, 'since', old.status_since));
  end if;
  new.states := v_before || jsonb_build_array(jsonb_build_object('status', new.status, 'since', new.status_since));
  return new;
end $function$;
CREATE TRIGGER record_first_state BEFORE INSERT ON public.revisions FOR EACH ROW EXECUTE FUNCTION record_revision_state();
CREATE TRIGGER record_next_state BEFORE UPDATE OF status ON public.revisions FOR EACH ROW WHEN ((old.status IS DISTINCT FROM new.status)) EXECUTE FUNCTION record_revision_state();
alter table revisions enable row level security, force row level security;
create policy admitted on revisions as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = revisions.deployment_id)))))
  with check (true);
create policy everything on revisions to slipway_system
  using (true)
  with check (true);
create policy own on revisions to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
create policy served on revisions to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = revisions.deployment_id) AND (d.listener_id = current_listener())))));
grant select, update (number, source, source_config, source_revision_config, secrets, secret_references, status, status_message, status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at, build_plan, rollout) on revisions to slipway_agent;
grant delete, insert, select, update (number, source, source_config, source_revision_config, secrets, secret_references, status, status_message, status_since, reasons, commit, actor_kind, actor_name, created_at, updated_at, build_plan, rollout) on revisions to slipway_app;
grant delete, insert, select, update on revisions to slipway_system;
CREATE INDEX role_access_policies_role ON public.role_access_policies USING btree (role_id);
set role slipway_system;
create or replace function attach_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into access_rules (organization_id, role_id, access_policy_id, place, effect, permission, conditions)
  select p.organization_id, new.role_id, p.id, g.place, p.effect, g.value ->> 'permission', g.value -> 'conditions'
  from access_policies p
  cross join lateral jsonb_array_elements(p.condition_groups) with ordinality g(value, place)
  where p.id = new.access_policy_id;
  return null;
end $function$;
reset role;
CREATE TRIGGER attach_rules AFTER INSERT ON public.role_access_policies FOR EACH ROW EXECUTE FUNCTION attach_rules();
alter table role_access_policies enable row level security, force row level security;
create policy admitted on role_access_policies as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on role_access_policies to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_access_policy(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from access_policies
    where id = p_id and organization_id is distinct from current_organization()
  );
end $function$;
reset role;
create policy own on role_access_policies to slipway_app
  using ((organization_id = current_organization()))
  with check (((organization_id = current_organization()) AND is_own_role(role_id) AND is_own_access_policy(access_policy_id)));
grant delete, insert, select on role_access_policies to slipway_app;
grant delete, insert, select, update on role_access_policies to slipway_system;
CREATE TRIGGER enforce_quota AFTER INSERT ON public.roles REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '200', 'true', 'roles');
alter table roles enable row level security, force row level security;
create policy admitted on roles as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy built_in on roles for select to slipway_app
  using ((organization_id IS NULL));
create policy everything on roles to slipway_system
  using (true)
  with check (true);
create policy own on roles to slipway_app
  using ((organization_id = current_organization()));
grant delete, insert, select, update (scope, display_name, description, permissions, version, created_at, updated_at, owner) on roles to slipway_app;
grant delete, insert, select, update on roles to slipway_system;

create table rule_applications (
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  run_id uuid not null,
  run_session_id uuid not null,
  run_name text,
  run_type text,
  start_time timestamp with time zone,
  end_time timestamp with time zone,
  thread_id text,
  is_backfill boolean not null,
  outcomes json not null,
  delivery_ids uuid[] default '{}'::uuid[] not null,
  created_at timestamp with time zone default clock() not null,
  constraint rule_applications_rule_id_run_id_pk PRIMARY KEY (rule_id, run_id),
  constraint rule_applications_rule_id_run_rules_id_fk FOREIGN KEY (rule_id) REFERENCES run_rules(id) ON DELETE CASCADE
);
CREATE INDEX rule_applications_age ON public.rule_applications USING brin (created_at);
CREATE INDEX rule_applications_page ON public.rule_applications USING btree (rule_id, created_at DESC, run_id DESC);
alter table rule_applications enable row level security, force row level security;
create policy admitted on rule_applications as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = rule_applications.run_session_id)))))
  with check (true);
create policy everything on rule_applications to slipway_system
  using (true)
  with check (true);
create policy own on rule_applications to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_rule(rule_id)));
grant insert, select on rule_applications to slipway_app;
grant delete, insert, select, update on rule_applications to slipway_system;

create table rule_deliveries (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  target_id uuid not null,
  run_ids uuid[] not null,
  start_time timestamp with time zone,
  end_time timestamp with time zone,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone default clock(),
  attempted_at timestamp with time zone,
  answer_status integer,
  error text,
  created_at timestamp with time zone default clock() not null,
  kind text default 'webhook'::text not null,
  constraint rule_deliveries_pkey PRIMARY KEY (id),
  constraint rule_deliveries_rule_id_run_rules_id_fk FOREIGN KEY (rule_id) REFERENCES run_rules(id) ON DELETE CASCADE
);
CREATE INDEX rule_deliveries_age ON public.rule_deliveries USING brin (created_at);
CREATE INDEX rule_deliveries_due ON public.rule_deliveries USING btree (rule_id, next_attempt_at) WHERE (state = 'waiting'::text);
CREATE INDEX rule_deliveries_rule ON public.rule_deliveries USING btree (rule_id);
alter table rule_deliveries enable row level security, force row level security;
create policy admitted on rule_deliveries as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM run_rules r
  WHERE (r.id = rule_deliveries.rule_id))))
  with check (true);
create policy everything on rule_deliveries to slipway_system
  using (true)
  with check (true);
create policy own on rule_deliveries to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_rule(rule_id)));
grant insert, select on rule_deliveries to slipway_app;
grant delete, insert, select, update on rule_deliveries to slipway_system;

create table rule_evaluations (
  id uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  rule_id uuid not null,
  run_id uuid not null,
  evaluator_id uuid not null,
  is_of_evaluator boolean not null,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone default clock(),
  attempted_at timestamp with time zone,
  verdicts json,
  call_run_id uuid,
  cost_usd double precision,
  error text,
  message text,
  created_at timestamp with time zone default clock() not null,
  constraint rule_evaluations_pkey PRIMARY KEY (id),
  constraint rule_evaluations_once UNIQUE (rule_id, run_id, evaluator_id),
  constraint rule_evaluations_rule_id_run_rules_id_fk FOREIGN KEY (rule_id) REFERENCES run_rules(id) ON DELETE CASCADE
);
CREATE INDEX rule_evaluations_age ON public.rule_evaluations USING brin (created_at);
CREATE INDEX rule_evaluations_days ON public.rule_evaluations USING btree (rule_id, created_at);
CREATE INDEX rule_evaluations_due ON public.rule_evaluations USING btree (rule_id, next_attempt_at) WHERE (state = 'waiting'::text);
alter table rule_evaluations enable row level security, force row level security;
create policy admitted on rule_evaluations as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM run_rules r
  WHERE (r.id = rule_evaluations.rule_id))))
  with check (true);
create policy everything on rule_evaluations to slipway_system
  using (true)
  with check (true);
create policy own on rule_evaluations to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_rule(rule_id)));
grant insert, select on rule_evaluations to slipway_app;
grant delete, insert, select, update on rule_evaluations to slipway_system;
CREATE INDEX run_rules_dataset ON public.run_rules USING btree (dataset_id);
CREATE INDEX run_rules_evaluator ON public.run_rules USING btree (evaluator_id);
CREATE INDEX run_rules_page ON public.run_rules USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX run_rules_session ON public.run_rules USING btree (session_id);
CREATE INDEX run_rules_target_dataset ON public.run_rules USING btree (add_to_dataset_id);
CREATE INDEX run_rules_target_queue ON public.run_rules USING btree (add_to_annotation_queue_id);
set role slipway_system;
create or replace function check_rule_evaluator()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from evaluators e where e.id = new.evaluator_id and e.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a rule refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_evaluator AFTER INSERT OR UPDATE OF evaluator_id ON public.run_rules FOR EACH ROW EXECUTE FUNCTION check_rule_evaluator();
set role slipway_system;
create or replace function check_rule_queue()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (
    select from annotation_queues q
    where q.id = new.add_to_annotation_queue_id and q.tenant_id <> new.tenant_id
  ) then
    raise exception using errcode = '42501', message = 'a rule refers to a queue of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_queue AFTER INSERT OR UPDATE OF add_to_annotation_queue_id ON public.run_rules FOR EACH ROW EXECUTE FUNCTION check_rule_queue();
set role slipway_system;
create or replace function check_rule_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from projects p where p.id = new.session_id and p.tenant_id <> new.tenant_id)
    or exists (
      select from datasets d
      where d.id in (new.dataset_id, new.add_to_dataset_id) and d.tenant_id <> new.tenant_id
    )
  then
    raise exception using errcode = '42501', message = 'a rule refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF session_id, dataset_id, add_to_dataset_id ON public.run_rules FOR EACH ROW EXECUTE FUNCTION check_rule_references();
set role slipway_system;
create or replace function delete_channels_of_alerts()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  delete from channels c
  where c.run_rule_id = new.id
    and not exists (select from json_array_elements(new.alerts) a where a ->> 'id' = c.id::text);
  return null;
end $function$;
reset role;
CREATE TRIGGER delete_channels_of_alerts AFTER UPDATE OF alerts ON public.run_rules FOR EACH ROW EXECUTE FUNCTION delete_channels_of_alerts();
alter table run_rules enable row level security, force row level security;
create policy admitted on run_rules as restrictive to slipway_limited
  using ((((session_id IS NULL) OR (NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = run_rules.session_id)))) AND ((dataset_id IS NULL) OR (NOT ( SELECT hides('dataset'::text) AS hides)) OR (EXISTS ( SELECT
   FROM datasets d
  WHERE (d.id = run_rules.dataset_id))))))
  with check (true);
create policy everything on run_rules to slipway_system
  using (true)
  with check (true);
create policy own on run_rules to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (display_name, is_enabled, sampling_rate, filter, trace_filter, tree_filter, add_to_annotation_queue_id, add_to_dataset_id, add_to_dataset_prefer_correction, extend_only, webhooks, "position", backfill_status, backfill_cursor, backfill_completed_at, next_evaluation_at, version, created_at, updated_at, alerts, evaluators, evaluator_id, spend_limit_usd) on run_rules to slipway_app;
grant delete, insert, select, update on run_rules to slipway_system;

create table run_shares (
  share_token uuid not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  run_id uuid not null,
  trace_id uuid not null,
  created_at timestamp with time zone default clock() not null,
  constraint run_shares_pkey PRIMARY KEY (share_token),
  constraint run_shares_run UNIQUE (tenant_id, run_id)
);
CREATE INDEX run_shares_trace ON public.run_shares USING btree (tenant_id, trace_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.run_shares REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'run_shares');
alter table run_shares enable row level security, force row level security;
create policy admitted on run_shares as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = run_shares.session_id)))))
  with check (true);
create policy everything on run_shares to slipway_system
  using (true)
  with check (true);
create policy own on run_shares to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id)));
grant delete, insert, select on run_shares to slipway_app;
grant delete, insert, select, update on run_shares to slipway_system;
CREATE INDEX runs_page ON public.runs USING btree (tenant_id, session_id, order_time DESC, id DESC);
CREATE INDEX runs_reference_examples ON public.runs USING btree (tenant_id, reference_example_id) WHERE (reference_example_id IS NOT NULL);
CREATE INDEX runs_roots ON public.runs USING btree (tenant_id, session_id, order_time DESC, id DESC) WHERE (id = trace_id);
CREATE INDEX runs_threads ON public.runs USING btree (tenant_id, session_id, thread_id, order_time DESC, id DESC) WHERE ((id = trace_id) AND (thread_id IS NOT NULL));
CREATE INDEX runs_trace ON public.runs USING btree (tenant_id, trace_id);
CREATE TRIGGER check_projects AFTER INSERT ON public.runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_projects();
set role slipway_system;
create or replace function count_runs_of_delete()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from removed limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, -1 as count from removed) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
CREATE TRIGGER count_deleted_runs AFTER DELETE ON public.runs REFERENCING OLD TABLE AS removed FOR EACH STATEMENT EXECUTE FUNCTION count_runs_of_delete();
set role slipway_system;
create or replace function count_runs_of_insert()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from added limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, 1 as count from added) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
CREATE TRIGGER count_inserted_runs AFTER INSERT ON public.runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_runs_of_insert();
set role slipway_system;
create or replace function count_runs_of_update()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
      declare
        v_tenant uuid := (select tenant_id from added limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (select *, 1 as count from added union all select *, -1 from removed) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $function$;
reset role;
CREATE TRIGGER count_updated_runs AFTER UPDATE ON public.runs REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION count_runs_of_update();
create or replace function expire_replaced_objects()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
  if exists (select from removed where objects is not null) then
    update trace_objects o
    set expires_at = clock() + interval '1 hour'
    from removed r
    join added a on a.tenant_id = r.tenant_id and a.id = r.id and a.order_time = r.order_time
    where r.objects is not null
      and o.tenant_id = r.tenant_id
      and o.trace_id = r.trace_id
      and o.run_id = r.id
      and strpos(r.objects::text, o.path) > 0
      and coalesce(strpos(a.objects::text, o.path), 0) = 0;
  end if;
  return null;
end $function$;
CREATE TRIGGER expire_replaced_objects AFTER UPDATE ON public.runs REFERENCING OLD TABLE AS removed NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION expire_replaced_objects();
set role slipway_system;
create or replace function queue_finished_runs()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_tenant uuid;
begin
  for v_tenant in
    select tenant_id
    from (
      select distinct tenant_id
      from added
      where name is not null and (end_time is not null or error is not null)
    ) t
    where exists (select from run_rules r where r.tenant_id = t.tenant_id and r.is_enabled)
      or drains_traces(t.tenant_id)
    order by tenant_id
  loop
    perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || v_tenant, 0));
    insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
    select a.organization_id, a.tenant_id, a.session_id, a.id, a.trace_id, a.order_time
    from added a
    where a.tenant_id = v_tenant
      and a.name is not null
      and a.run_type is not null
      and (a.end_time is not null or a.error is not null)
      and a.session_id in (
        select p.id
        from (select distinct session_id from added where tenant_id = v_tenant) s
        join projects p on p.id = s.session_id
        where drains_traces(v_tenant) or exists (
          select from run_rules r
          where r.tenant_id = v_tenant
            and r.is_enabled
            and (r.session_id = p.id or r.dataset_id = p.reference_dataset_id)
        )
      );
  end loop;
  return null;
end $function$;
reset role;
CREATE TRIGGER queue_inserted_runs AFTER INSERT ON public.runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_finished_runs();
CREATE TRIGGER queue_updated_runs AFTER UPDATE ON public.runs REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION queue_finished_runs();
alter table runs enable row level security, force row level security;
create policy admitted on runs as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = runs.session_id)))))
  with check (true);
create policy confined on runs as restrictive to slipway_confined
  using ((session_id = ( SELECT confined_project() AS confined_project)));
create policy everything on runs to slipway_system
  using (true)
  with check (true);
create policy own on runs to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (trace_id, trace_time, trace_tier, dotted_order, parent_run_id, name, run_type, start_time, end_time, first_token_time, error, tags, metadata, thread_id, reference_example_id, extra, serialized, inputs, outputs, events, inputs_preview, outputs_preview, objects, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, usage_details, patched, updated_at) on runs to slipway_app;
grant delete, insert, select, update on runs to slipway_system;

create table runs_longlived partition of runs FOR VALUES IN ('longlived') partition by RANGE (order_time);
alter table runs_longlived enable row level security, force row level security;

create table runs_longlived_other partition of runs_longlived DEFAULT;
CREATE INDEX runs_longlived_other_order_time_idx ON public.runs_longlived_other USING btree (order_time);
alter table runs_longlived_other enable row level security, force row level security;
create policy everything on runs_longlived_other to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on runs_longlived_other to slipway_system;

create table runs_shortlived partition of runs FOR VALUES IN ('shortlived') partition by RANGE (order_time);
alter table runs_shortlived enable row level security, force row level security;

create table runs_shortlived_other partition of runs_shortlived DEFAULT;
CREATE INDEX runs_shortlived_other_order_time_idx ON public.runs_shortlived_other USING btree (order_time);
alter table runs_shortlived_other enable row level security, force row level security;
create policy everything on runs_shortlived_other to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on runs_shortlived_other to slipway_system;

create table schedules (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  name text not null,
  cron text not null,
  time_zone text not null,
  command json not null,
  timeout_seconds integer not null,
  overlap text not null,
  jitter_seconds integer not null,
  retries integer not null,
  deadline_seconds integer not null,
  enabled boolean not null,
  next_due_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  process text,
  is_declared boolean default false not null,
  owner text,
  action jsonb,
  constraint schedules_pkey PRIMARY KEY (id),
  constraint schedule_name_taken UNIQUE (deployment_id, name),
  constraint schedules_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX schedules_due ON public.schedules USING btree (next_due_at) WHERE (next_due_at IS NOT NULL);
CREATE INDEX schedules_of_workspace ON public.schedules USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX schedules_page ON public.schedules USING btree (deployment_id, created_at DESC, id DESC);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.schedules REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '1000', 'true', 'schedules');
alter table schedules enable row level security, force row level security;
create policy admitted on schedules as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = schedules.deployment_id)))))
  with check (true);
create policy everything on schedules to slipway_system
  using (true)
  with check (true);
create policy own on schedules to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id)));
grant delete, insert, select, update (name, cron, time_zone, command, timeout_seconds, overlap, jitter_seconds, retries, deadline_seconds, enabled, next_due_at, version, updated_at, process, owner, action) on schedules to slipway_app;
grant delete, insert, select, update on schedules to slipway_system;

create table session_minutes (
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  minute timestamp with time zone not null,
  slot integer not null,
  runs bigint default 0 not null,
  roots bigint default 0 not null,
  ended bigint default 0 not null,
  errors bigint default 0 not null,
  streamed bigint default 0 not null,
  prompt_tokens bigint default 0 not null,
  completion_tokens bigint default 0 not null,
  total_tokens bigint default 0 not null,
  prompt_cost numeric default '0'::numeric not null,
  completion_cost numeric default '0'::numeric not null,
  total_cost numeric default '0'::numeric not null,
  latencies integer[] default '{}'::integer[] not null,
  first_token_latencies integer[] default '{}'::integer[] not null,
  last_start_time timestamp with time zone,
  bytes bigint,
  constraint session_minutes_tenant_id_session_id_minute_slot_pk PRIMARY KEY (tenant_id, session_id, minute, slot)
) with (fillfactor=70);
CREATE INDEX session_minutes_age ON public.session_minutes USING btree (minute);
CREATE INDEX session_minutes_to_add_up ON public.session_minutes USING btree (minute) WHERE (slot >= 0);
alter table session_minutes enable row level security, force row level security;
create policy admitted on session_minutes as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = session_minutes.session_id)))))
  with check (true);
create policy everything on session_minutes to slipway_system
  using (true)
  with check (true);
create policy own on session_minutes to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select on session_minutes to slipway_app;
grant delete, insert, select, update on session_minutes to slipway_system;

create table sessions (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid,
  key_id uuid,
  owner_id uuid generated always as (COALESCE(key_id, member_id)) stored not null,
  token_hash text not null,
  method text not null,
  client_address text,
  user_agent text,
  created_at timestamp with time zone default clock() not null,
  last_seen_at timestamp with time zone default clock() not null,
  expires_at timestamp with time zone default (clock() + '30 days'::interval) not null,
  revoked_at timestamp with time zone,
  made_by text,
  is_verified boolean default false not null,
  constraint sessions_pkey PRIMARY KEY (id),
  constraint sessions_token_hash UNIQUE (token_hash),
  constraint sessions_key_id_api_keys_id_fk FOREIGN KEY (key_id) REFERENCES api_keys(id) ON DELETE CASCADE,
  constraint sessions_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint sessions_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX sessions_age ON public.sessions USING btree (expires_at);
CREATE INDEX sessions_key ON public.sessions USING btree (key_id);
CREATE INDEX sessions_member ON public.sessions USING btree (member_id);
CREATE INDEX sessions_organization ON public.sessions USING btree (organization_id);
CREATE INDEX sessions_page ON public.sessions USING btree (owner_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function refuse_temporary_key()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  -- The foreign key takes this lock after the journal's, and another request of the key takes them in this order.
  perform from api_keys a where a.id = new.key_id for key share;
  -- Row-level security refuses the key of another organization, and says nothing about it.
  if is_own_key(new.key_id) and is_temporary_key(new.key_id) then perform refuse('temporary_key'); end if;
  return new;
end $function$;
reset role;
CREATE TRIGGER refuse_temporary_key BEFORE INSERT ON public.sessions FOR EACH ROW WHEN ((new.key_id IS NOT NULL)) EXECUTE FUNCTION refuse_temporary_key();
alter table sessions enable row level security, force row level security;
create policy admitted on sessions as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on sessions to slipway_system
  using (true)
  with check (true);
create policy own on sessions to slipway_app
  using (((organization_id = current_organization()) AND (owner_id = current_actor())))
  with check (((organization_id = current_organization()) AND (owner_id = current_actor()) AND is_own_member(member_id) AND is_own_key(key_id)));
grant insert, select, update (revoked_at) on sessions to slipway_app;
grant delete, insert, select, update on sessions to slipway_system;
set role slipway_system;
create or replace function own_credential()
 RETURNS text
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select case setting('actor_kind')
    when 'key' then (select a.key_hash from api_keys a where a.id = current_actor())
    when 'session' then (select s.token_hash from sessions s where s.id = setting('session_id')::uuid)
  end
$function$;
reset role;

create table sign_in_links (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  member_id uuid not null,
  token_hash text not null,
  expires_at timestamp with time zone default (clock() + '00:15:00'::interval) not null,
  used_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  made_by text default own_credential(),
  constraint sign_in_links_pkey PRIMARY KEY (id),
  constraint sign_in_links_token_hash UNIQUE (token_hash),
  constraint sign_in_links_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint sign_in_links_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE
);
CREATE INDEX sign_in_links_age ON public.sign_in_links USING btree (expires_at);
CREATE INDEX sign_in_links_member ON public.sign_in_links USING btree (member_id);
CREATE INDEX sign_in_links_organization ON public.sign_in_links USING btree (organization_id);
alter table sign_in_links enable row level security, force row level security;
create policy admitted on sign_in_links as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on sign_in_links to slipway_system
  using (true)
  with check (true);
create policy own on sign_in_links to slipway_app
  using ((organization_id = current_organization()))
  with check (((organization_id = current_organization()) AND is_own_member(member_id)));
grant insert, select on sign_in_links to slipway_app;
grant delete, insert, select, update on sign_in_links to slipway_system;

create table snapshots (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  deployment_name text not null,
  listener_id uuid not null,
  store text not null,
  size_bytes bigint not null,
  reason text not null,
  expires_at timestamp with time zone,
  deleting_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  constraint snapshots_pkey PRIMARY KEY (id),
  constraint snapshots_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE,
  constraint snapshots_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX snapshots_expiry ON public.snapshots USING btree (expires_at);
CREATE INDEX snapshots_held ON public.snapshots USING btree (listener_id, id);
CREATE INDEX snapshots_of_deployment ON public.snapshots USING btree (deployment_id, created_at DESC, id DESC);
CREATE INDEX snapshots_page ON public.snapshots USING btree (tenant_id, created_at DESC, id DESC);
alter table snapshots enable row level security, force row level security;
create policy admitted on snapshots as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = snapshots.deployment_id)))))
  with check (true);
create policy everything on snapshots to slipway_system
  using (true)
  with check (true);
create policy own on snapshots to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select, update (deleting_at) on snapshots to slipway_app;
grant delete, insert, select, update on snapshots to slipway_system;

create table store_points (
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  store text not null,
  seconds integer not null,
  at timestamp with time zone not null,
  bytes bigint,
  connections bigint,
  constraint store_points_deployment_id_seconds_at_store_pk PRIMARY KEY (deployment_id, seconds, at, store),
  constraint store_points_deployment_id_deployments_id_fk FOREIGN KEY (deployment_id) REFERENCES deployments(id) ON DELETE CASCADE
);
CREATE INDEX store_points_age ON public.store_points USING btree (seconds, at);
alter table store_points enable row level security, force row level security;
create policy admitted on store_points as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = store_points.deployment_id)))))
  with check (true);
create policy everything on store_points to slipway_system
  using (true)
  with check (true);
create policy own on store_points to slipway_app
  using ((tenant_id = current_tenant()));
create policy served on store_points to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = store_points.deployment_id) AND (d.listener_id = current_listener())))))
  with check ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = store_points.deployment_id) AND (d.listener_id = current_listener()) AND (d.tenant_id = store_points.tenant_id) AND (d.organization_id = store_points.organization_id)))));
grant insert, select, update (bytes, connections) on store_points to slipway_agent;
grant select on store_points to slipway_app;
grant delete, insert, select, update on store_points to slipway_system;

create table sweep_runs (
  name text not null,
  done_at timestamp with time zone,
  failed_at timestamp with time zone,
  ms integer not null,
  constraint sweep_runs_pkey PRIMARY KEY (name)
);
alter table sweep_runs enable row level security, force row level security;
create policy everything on sweep_runs to slipway_system
  using (true)
  with check (true);
grant delete, insert, select, update on sweep_runs to slipway_system;

create table sync_cursors (
  listener_id uuid not null,
  seq bigint not null,
  digest bigint not null,
  constraint sync_cursors_pkey PRIMARY KEY (listener_id),
  constraint sync_cursors_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE
);
alter table sync_cursors enable row level security, force row level security;
create policy everything on sync_cursors to slipway_system
  using (true)
  with check (true);
create policy own on sync_cursors to slipway_agent
  using ((listener_id = current_listener()));
grant select, update (seq, digest) on sync_cursors to slipway_agent;
grant delete, insert, select, update on sync_cursors to slipway_system;

create table sync_items (
  deployment_id uuid not null,
  listener_id uuid not null,
  seq bigint not null,
  generation integer not null,
  constraint sync_items_pkey PRIMARY KEY (deployment_id),
  constraint sync_items_listener_id_listeners_id_fk FOREIGN KEY (listener_id) REFERENCES listeners(id) ON DELETE CASCADE
);
CREATE INDEX sync_items_changed ON public.sync_items USING btree (listener_id, seq);
alter table sync_items enable row level security, force row level security;
create policy everything on sync_items to slipway_system
  using (true)
  with check (true);
create policy own on sync_items to slipway_agent
  using ((listener_id = current_listener()));
grant delete, select on sync_items to slipway_agent;
grant delete, insert, select, update on sync_items to slipway_system;

create table tag_keys (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  key text not null,
  created_at timestamp with time zone default clock() not null,
  description text,
  updated_at timestamp with time zone default clock() not null,
  version integer default 1 not null,
  constraint tag_keys_pkey PRIMARY KEY (id),
  constraint tag_key_taken UNIQUE (tenant_id, key),
  constraint tag_keys_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX tag_keys_page ON public.tag_keys USING btree (tenant_id, created_at DESC, id DESC);
alter table tag_keys enable row level security, force row level security;
create policy everything on tag_keys to slipway_system
  using (true)
  with check (true);
create policy own on tag_keys to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (key, created_at, description, updated_at, version) on tag_keys to slipway_app;
grant delete, insert, select, update on tag_keys to slipway_system;

create table tag_values (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  tag_key_id uuid not null,
  value text not null,
  created_at timestamp with time zone default clock() not null,
  description text,
  updated_at timestamp with time zone default clock() not null,
  version integer default 1 not null,
  constraint tag_values_pkey PRIMARY KEY (id),
  constraint tag_value_taken UNIQUE (tag_key_id, value),
  constraint tag_values_tag_key_id_tag_keys_id_fk FOREIGN KEY (tag_key_id) REFERENCES tag_keys(id) ON DELETE CASCADE,
  constraint tag_values_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX tag_values_page ON public.tag_values USING btree (tenant_id, tag_key_id, created_at DESC, id DESC);
alter table tag_values enable row level security, force row level security;
create policy everything on tag_values to slipway_system
  using (true)
  with check (true);
set role slipway_system;
create or replace function is_own_tag_key(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return p_id is null or not exists (
    select from tag_keys
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
create policy own on tag_values to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_tag_key(tag_key_id)));
grant delete, insert, select, update (value, created_at, description, updated_at, version) on tag_values to slipway_app;
grant delete, insert, select, update on tag_values to slipway_system;

create table thread_shares (
  share_token uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  thread_id text not null,
  created_at timestamp with time zone default clock() not null,
  constraint thread_shares_pkey PRIMARY KEY (share_token),
  constraint thread_shares_thread UNIQUE (tenant_id, session_id, thread_id),
  constraint thread_shares_session_id_projects_id_fk FOREIGN KEY (session_id) REFERENCES projects(id) ON DELETE CASCADE
);
CREATE INDEX thread_shares_session ON public.thread_shares USING btree (session_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.thread_shares REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '10000', 'true', 'thread_shares');
alter table thread_shares enable row level security, force row level security;
create policy admitted on thread_shares as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = thread_shares.session_id)))))
  with check (true);
create policy everything on thread_shares to slipway_system
  using (true)
  with check (true);
create policy own on thread_shares to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_project(session_id)));
grant delete, insert, select on thread_shares to slipway_app;
grant delete, insert, select, update on thread_shares to slipway_system;

create table trace_objects (
  organization_id uuid not null,
  tenant_id uuid not null,
  path text not null,
  trace_id uuid not null,
  session_id uuid,
  run_id uuid not null,
  expires_at timestamp with time zone not null,
  bytes bigint not null,
  constraint trace_objects_tenant_id_path_pk PRIMARY KEY (tenant_id, path)
);
CREATE INDEX trace_objects_expired ON public.trace_objects USING btree (expires_at);
CREATE INDEX trace_objects_trace ON public.trace_objects USING btree (tenant_id, trace_id);
CREATE TRIGGER check_projects AFTER INSERT ON public.trace_objects REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_projects();
alter table trace_objects enable row level security, force row level security;
create policy admitted on trace_objects as restrictive to slipway_limited
  using (((NOT ( SELECT hides('project'::text) AS hides)) OR (EXISTS ( SELECT
   FROM projects p
  WHERE (p.id = trace_objects.session_id)))))
  with check (true);
create policy confined on trace_objects as restrictive to slipway_confined
  using ((session_id = ( SELECT confined_project() AS confined_project)));
create policy everything on trace_objects to slipway_system
  using (true)
  with check (true);
create policy own on trace_objects to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select, update (trace_id, expires_at, bytes) on trace_objects to slipway_app;
grant delete, insert, select, update on trace_objects to slipway_system;

create table trusted_issuers (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  name text not null,
  issuer text not null,
  audience text not null,
  subject text not null,
  claims jsonb default '{}'::jsonb not null,
  role_id uuid not null,
  key_minutes integer default 15 not null,
  expires_at timestamp with time zone,
  granted_by uuid,
  last_used_at timestamp with time zone,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint trusted_issuers_pkey PRIMARY KEY (id),
  constraint trusted_issuer_exists UNIQUE (tenant_id, name),
  constraint role_in_use FOREIGN KEY (role_id) REFERENCES roles(id),
  constraint trusted_issuers_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX trusted_issuers_page ON public.trusted_issuers USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX trusted_issuers_role ON public.trusted_issuers USING btree (role_id);
CREATE TRIGGER enforce_quota AFTER INSERT ON public.trusted_issuers REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '100', 'true', 'trusted_issuers');
alter table trusted_issuers enable row level security, force row level security;
create policy admitted on trusted_issuers as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on trusted_issuers to slipway_system
  using (true)
  with check (true);
create policy own on trusted_issuers to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_role(role_id) AND is_own_key(granted_by)));
grant delete, insert, select, update (name, issuer, audience, subject, claims, role_id, key_minutes, expires_at, granted_by, last_used_at, version, created_at, updated_at) on trusted_issuers to slipway_app;
grant delete, insert, select, update on trusted_issuers to slipway_system;

create table ttl_settings (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid,
  default_trace_tier text,
  longlived_ttl_days integer,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint ttl_settings_pkey PRIMARY KEY (id),
  constraint ttl_settings_one UNIQUE NULLS NOT DISTINCT (organization_id, tenant_id),
  constraint ttl_settings_days CHECK (((longlived_ttl_days >= 14) AND (longlived_ttl_days <= 400))),
  constraint ttl_settings_tier CHECK ((default_trace_tier = ANY (ARRAY['shortlived'::text, 'longlived'::text]))),
  constraint ttl_settings_organization_id_organizations_id_fk FOREIGN KEY (organization_id) REFERENCES organizations(id) ON DELETE CASCADE,
  constraint ttl_settings_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX ttl_settings_tenant ON public.ttl_settings USING btree (tenant_id);
alter table ttl_settings enable row level security, force row level security;
create policy admitted on ttl_settings as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on ttl_settings to slipway_system
  using (true)
  with check (true);
create policy own on ttl_settings to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id IS NULL) OR (tenant_id = current_tenant()))))
  with check (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant())) AND is_own_workspace(tenant_id)));
grant delete, insert, select, update (default_trace_tier, longlived_ttl_days, updated_at) on ttl_settings to slipway_app;
grant delete, insert, select, update on ttl_settings to slipway_system;

create table tunnels (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid not null,
  listener_id uuid not null,
  is_terminal boolean not null,
  request json,
  actor_kind text default setting('actor_kind'::text) not null,
  actor_id uuid default current_actor(),
  actor_name text default event_actor_name(),
  expires_at timestamp with time zone not null,
  instance text,
  address text,
  joined_at timestamp with time zone,
  offered_at timestamp with time zone,
  opened_at timestamp with time zone,
  fence bigint,
  seen_at timestamp with time zone,
  bytes_in bigint default 0 not null,
  bytes_out bigint default 0 not null,
  ended_at timestamp with time zone,
  end_reason text,
  exit_code integer,
  exit_signal text,
  created_at timestamp with time zone default clock() not null,
  constraint tunnels_pkey PRIMARY KEY (id),
  constraint tunnels_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX tunnels_ended ON public.tunnels USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX tunnels_of_listener ON public.tunnels USING btree (listener_id) WHERE (ended_at IS NULL);
CREATE INDEX tunnels_open ON public.tunnels USING btree (tenant_id) WHERE (ended_at IS NULL);
alter table tunnels enable row level security, force row level security;
create policy admitted on tunnels as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = tunnels.deployment_id)))))
  with check (true);
create policy everything on tunnels to slipway_system
  using (true)
  with check (true);
create policy made on tunnels as restrictive for insert to slipway_app
  with check ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.id = tunnels.deployment_id) AND (d.tenant_id = current_tenant()) AND (d.active_revision_id = tunnels.revision_id) AND (d.listener_id = tunnels.listener_id)))));
create policy own on tunnels to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_key(actor_id)));
create policy served on tunnels to slipway_agent
  using ((listener_id = current_listener()));
grant select, update (offered_at, opened_at, fence) on tunnels to slipway_agent;
grant insert, select, update (instance, address, joined_at, seen_at, bytes_in, bytes_out) on tunnels to slipway_app;
grant delete, insert, select, update on tunnels to slipway_system;

create table upgraded_traces (
  organization_id uuid not null,
  tenant_id uuid not null,
  trace_id uuid not null,
  trace_time timestamp with time zone not null,
  upgraded_at timestamp with time zone default clock() not null,
  constraint upgraded_traces_tenant_id_trace_id_pk PRIMARY KEY (tenant_id, trace_id)
);
CREATE INDEX upgraded_traces_age ON public.upgraded_traces USING btree (trace_time);
alter table upgraded_traces enable row level security, force row level security;
create policy everything on upgraded_traces to slipway_system
  using (true)
  with check (true);
create policy own on upgraded_traces to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select on upgraded_traces to slipway_app;
grant delete, insert, select, update on upgraded_traces to slipway_system;

create table uploads (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deployment_id uuid,
  object_path text not null,
  state text default 'offered'::text not null,
  size bigint,
  reserved bigint,
  sha256 text,
  actor_kind text default 'key'::text not null,
  actor_id uuid,
  expires_at timestamp with time zone not null,
  used_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  made_by text default own_credential(),
  settings json,
  build_plan json,
  build_refusal text,
  constraint uploads_pkey PRIMARY KEY (id),
  constraint uploads_path UNIQUE (object_path)
);
CREATE INDEX uploads_expiry ON public.uploads USING btree (expires_at);
CREATE INDEX uploads_of_workspace ON public.uploads USING btree (tenant_id, state);
alter table uploads enable row level security, force row level security;
create policy admitted on uploads as restrictive to slipway_limited
  using (((NOT ( SELECT hides('deployment'::text) AS hides)) OR (EXISTS ( SELECT
   FROM deployments p
  WHERE (p.id = uploads.deployment_id)))))
  with check (true);
create policy everything on uploads to slipway_system
  using (true)
  with check (true);
create policy own on uploads to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization()) AND is_own_deployment(deployment_id) AND is_own_key(actor_id)));
create policy served on uploads to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = uploads.tenant_id) AND (d.listener_id = current_listener())))));
grant select on uploads to slipway_agent;
grant delete, insert, select, update (object_path, state, size, reserved, sha256, actor_kind, expires_at, used_at, created_at) on uploads to slipway_app;
grant delete, insert, select, update on uploads to slipway_system;

create table waiting_patches (
  organization_id uuid not null,
  tenant_id uuid not null,
  id bigint generated by default as identity not null,
  run_id uuid not null,
  patch json not null,
  created_at timestamp with time zone default clock() not null,
  constraint waiting_patches_tenant_id_run_id_id_pk PRIMARY KEY (tenant_id, run_id, id)
);
CREATE INDEX waiting_patches_age ON public.waiting_patches USING btree (created_at);
alter table waiting_patches enable row level security, force row level security;
create policy everything on waiting_patches to slipway_system
  using (true)
  with check (true);
create policy own on waiting_patches to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant delete, insert, select on waiting_patches to slipway_app;
grant delete, insert, select, update on waiting_patches to slipway_system;
grant select on waiting_patches_id_seq to slipway_system;

create table webhooks (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  url text not null,
  description text not null,
  event_types text[] not null,
  deployment_ids uuid[] not null,
  tag_value_ids uuid[] not null,
  enabled boolean default true not null,
  secret text not null,
  previous_secret text,
  previous_secret_until timestamp with time zone,
  signing_key text not null,
  public_key text not null,
  "position" bigint not null,
  failing_since timestamp with time zone,
  disabled_reason text,
  disabled_at timestamp with time zone,
  throttled integer default 0 not null,
  next_send_at timestamp with time zone default clock() not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  owner text,
  constraint webhooks_pkey PRIMARY KEY (id),
  constraint webhooks_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);

create table webhook_deliveries (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  webhook_id uuid not null,
  seq bigint not null,
  type text not null,
  deployment json,
  state text default 'waiting'::text not null,
  attempts integer default 0 not null,
  next_attempt_at timestamp with time zone,
  attempted_at timestamp with time zone,
  request_headers json,
  answer_status integer,
  answer_body text,
  duration_ms integer,
  error text,
  created_at timestamp with time zone default clock() not null,
  constraint webhook_deliveries_pkey PRIMARY KEY (id),
  constraint webhook_deliveries_one UNIQUE (webhook_id, seq),
  constraint webhook_deliveries_webhook_id_webhooks_id_fk FOREIGN KEY (webhook_id) REFERENCES webhooks(id) ON DELETE CASCADE
);
CREATE INDEX webhook_deliveries_age ON public.webhook_deliveries USING brin (created_at);
CREATE INDEX webhook_deliveries_new ON public.webhook_deliveries USING btree (webhook_id, seq) WHERE ((state = 'waiting'::text) AND (attempts = 0));
CREATE INDEX webhook_deliveries_page ON public.webhook_deliveries USING btree (webhook_id, created_at DESC, id DESC);
CREATE INDEX webhook_deliveries_retries ON public.webhook_deliveries USING btree (webhook_id, next_attempt_at) WHERE (state = 'waiting'::text);
alter table webhook_deliveries enable row level security, force row level security;
create policy admitted on webhook_deliveries as restrictive to slipway_limited
  using ((EXISTS ( SELECT
   FROM events e
  WHERE ((e.scope_id = webhook_deliveries.tenant_id) AND (e.seq = webhook_deliveries.seq)))));
create policy everything on webhook_deliveries to slipway_system
  using (true)
  with check (true);
create policy own on webhook_deliveries to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
grant select, update (state, attempts, next_attempt_at, attempted_at, request_headers, answer_status, answer_body, duration_ms, error) on webhook_deliveries to slipway_app;
grant delete, insert, select, update on webhook_deliveries to slipway_system;
CREATE INDEX webhooks_page ON public.webhooks USING btree (tenant_id, created_at DESC, id DESC);
set role slipway_system;
create or replace function check_webhook_references()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if exists (select from deployments d where d.id = any(new.deployment_ids) and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id)
  then
    raise exception using errcode = '42501', message = 'a webhook refers to a row of another workspace';
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER check_references AFTER INSERT OR UPDATE OF deployment_ids, tag_value_ids ON public.webhooks FOR EACH ROW EXECUTE FUNCTION check_webhook_references();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.webhooks REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('tenant_id', '100', 'true', 'webhooks');
alter table webhooks enable row level security, force row level security;
create policy everything on webhooks to slipway_system
  using (true)
  with check (true);
create policy own on webhooks to slipway_app
  using ((tenant_id = current_tenant()))
  with check (((tenant_id = current_tenant()) AND (organization_id = current_organization())));
create policy served on webhooks for select to slipway_agent
  using ((EXISTS ( SELECT
   FROM deployments d
  WHERE ((d.tenant_id = webhooks.tenant_id) AND (d.listener_id = current_listener())))));
grant select (tenant_id, enabled) on webhooks to slipway_agent;
grant delete, insert, select, update (url, description, event_types, deployment_ids, tag_value_ids, enabled, secret, previous_secret, previous_secret_until, "position", failing_since, disabled_reason, disabled_at, throttled, next_send_at, version, created_at, updated_at, owner) on webhooks to slipway_app;
grant delete, insert, select, update on webhooks to slipway_system;

create table workspace_members (
  id uuid default gen_random_uuid() not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  member_id uuid not null,
  role_id uuid not null,
  version integer default 1 not null,
  created_at timestamp with time zone default clock() not null,
  updated_at timestamp with time zone default clock() not null,
  constraint workspace_members_pkey PRIMARY KEY (id),
  constraint workspace_member_exists UNIQUE (tenant_id, member_id),
  constraint role_in_use FOREIGN KEY (role_id) REFERENCES roles(id),
  constraint workspace_members_member_id_members_id_fk FOREIGN KEY (member_id) REFERENCES members(id) ON DELETE CASCADE,
  constraint workspace_members_tenant_id_workspaces_id_fk FOREIGN KEY (tenant_id) REFERENCES workspaces(id) ON DELETE CASCADE
);
CREATE INDEX workspace_members_member ON public.workspace_members USING btree (member_id);
CREATE INDEX workspace_members_page ON public.workspace_members USING btree (tenant_id, created_at DESC, id DESC);
CREATE INDEX workspace_members_role ON public.workspace_members USING btree (role_id);
set role slipway_system;
create or replace function delete_own_channels()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  delete from channels c where c.tenant_id = old.tenant_id and c.member_id = old.member_id;
  return null;
end $function$;
reset role;
CREATE TRIGGER delete_own_channels AFTER DELETE ON public.workspace_members FOR EACH ROW EXECUTE FUNCTION delete_own_channels();
set role slipway_system;
create or replace function require_workspace_admin()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_admin constant uuid := '00000000-0000-4000-8000-000000000001';
begin
  if old.role_id <> v_admin or (tg_op = 'UPDATE' and new.role_id = v_admin) then return null; end if;
  -- The lock serializes two removals. A workspace that is itself being deleted is not found.
  perform from workspaces where id = old.tenant_id for no key update;
  if found and not exists (select from workspace_members where tenant_id = old.tenant_id and role_id = v_admin) then
    perform refuse('last_admin');
  end if;
  return null;
end $function$;
reset role;
CREATE TRIGGER require_workspace_admin AFTER DELETE OR UPDATE OF role_id ON public.workspace_members FOR EACH ROW EXECUTE FUNCTION require_workspace_admin();
alter table workspace_members enable row level security, force row level security;
create policy admitted on workspace_members as restrictive to slipway_limited
  using ((( SELECT setting('by_policy'::text) AS setting) IS DISTINCT FROM 'true'::text));
create policy everything on workspace_members to slipway_system
  using (true)
  with check (true);
create policy own on workspace_members to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant()))))
  with check (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (tenant_id = current_tenant())) AND is_own_workspace(tenant_id) AND is_own_member(member_id) AND is_own_role(role_id)));
grant delete, insert, select, update (role_id, version, created_at, updated_at) on workspace_members to slipway_app;
grant delete, insert, select, update on workspace_members to slipway_system;
CREATE INDEX workspaces_page ON public.workspaces USING btree (organization_id, created_at DESC, id DESC);
CREATE INDEX workspaces_without_owner_channel ON public.workspaces USING btree (created_at) WHERE (owner_channel_at IS NULL);
set role slipway_system;
create or replace function add_default_alert_rules()
 RETURNS trigger
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into alert_rules (
    organization_id, tenant_id, built_in, name, kind, condition, for_seconds, resolve_after_seconds, severity
  )
  select
    new.organization_id, new.id, r.built_in, r.name, r.condition ->> 'kind', r.condition,
    -- A copy that ends once and is back within seconds is no incident, unless it was killed for its memory.
    case r.built_in when 'unhealthy' then 5 else 0 end, r.resolve_after, r.severity
  from default_alert_rules() r
  on conflict do nothing;
  return null;
end $function$;
reset role;
CREATE TRIGGER add_default_alert_rules AFTER INSERT ON public.workspaces FOR EACH ROW EXECUTE FUNCTION add_default_alert_rules();
CREATE TRIGGER enforce_quota AFTER INSERT ON public.workspaces REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION enforce_quota('organization_id', '1000', 'true', 'workspaces');
alter table workspaces enable row level security, force row level security;
create policy everything on workspaces to slipway_system
  using (true)
  with check (true);
create policy own on workspaces to slipway_app
  using (((organization_id = current_organization()) AND ((current_tenant() IS NULL) OR (id = current_tenant()))));
grant delete, insert, select, update (display_name, require_if_match, version, created_at, updated_at) on workspaces to slipway_app;
grant delete, insert, select, update on workspaces to slipway_system;
create or replace function acknowledge_incident(p_incident uuid, p_message text)
 RETURNS SETOF incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state = 'resolved' then perform refuse('incident_resolved'); end if;
  if i.state = 'open' then
    update incidents
    set state = 'acknowledged', version = i.version + 1, updated_at = clock()
    where id = i.id and tenant_id = i.tenant_id
    returning * into i;
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'acknowledged', i.value, p_message);
    if i.is_told then
      i := tell_incident(i, 'update', coalesce(p_message, i.cause), coalesce(event_actor_name(), 'a person'));
    end if;
  end if;
  return next i;
end $function$;
create or replace function acquire_lease(p_agent text, p_fence bigint, p_version text, p_templates text[], p_descriptions json, p_verified_hosts_only boolean, p_policy json)
 RETURNS listeners
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for no key update;
  if p_fence is null then
    if v_listener.agent_id is distinct from p_agent and v_listener.lease_expires_at > clock() then
      perform refuse(
        'lease_held',
        greatest(1, ceil(extract(epoch from v_listener.lease_expires_at - clock())))::integer::text
      );
    end if;
  elsif (v_listener.fence, v_listener.agent_id) is distinct from (p_fence, p_agent) then
    perform refuse('fence_stale');
  end if;
  update listeners l
  set
    fence = l.fence + (p_fence is null)::integer,
    agent_id = p_agent,
    agent_version = coalesce(p_version, l.agent_version),
    templates = coalesce(p_templates, l.templates),
    template_descriptions = coalesce(p_descriptions, l.template_descriptions),
    verified_hosts_only = p_verified_hosts_only,
    policy = case when p_fence is null then p_policy else l.policy end,
    last_seen_at = clock(),
    lease_expires_at = clock() + interval '60 seconds'
  where l.id = v_listener.id
  returning l.* into v_listener;
  return v_listener;
end $function$;
create or replace function act_as_client(p_grant oauth_grants)
 RETURNS void
 LANGUAGE sql
AS $function$
  select
    set_config('app.organization_id', p_grant.organization_id::text, true),
    set_config('app.tenant_id', p_grant.tenant_id::text, true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', p_grant.key_id::text, true),
    set_config('app.actor_name', p_grant.client_name, true)
$function$;
create or replace function act_as_member(p_member uuid)
 RETURNS void
 LANGUAGE sql
AS $function$
  select
    set_config('app.organization_id', m.organization_id::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', m.id::text, true),
    set_config('app.actor_name', coalesce(m.full_name, m.email), true)
  from members m
  where m.id = p_member
$function$;
set role slipway_system;
create or replace function actor_key()
 RETURNS api_keys
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select a
  from api_keys a
  where a.id = current_actor()
$function$;
reset role;
set role slipway_system;
create or replace function actor_permissions()
 RETURNS text[]
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select
    case
      when setting('actor_kind') = 'session' then member_permissions(current_actor(), current_tenant())
      else (
        select
          case
            when a.member_id is not null then bound_key_permissions(a.id)
            when a.permissions is null then r.permissions
            else array(select unnest(r.permissions) intersect select unnest(a.permissions))
          end
        from api_keys a
        join roles r on r.id = a.role_id
        where a.id = current_actor()
      )
    end
$function$;
reset role;
set role slipway_system;
create or replace function actor_policy_roles()
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_is_member boolean := setting('actor_kind') = 'session';
begin
  return policy_roles(
    case when not v_is_member then current_actor() end, case when v_is_member then current_actor() end, current_tenant()
  );
end $function$;
reset role;
create or replace function add_counts(p_one integer[], p_other integer[])
 RETURNS integer[]
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_one = '{}'::integer[]) THEN p_other WHEN (p_other = '{}'::integer[]) THEN p_one ELSE ARRAY(SELECT (COALESCE(c.one, 0) + COALESCE(c.other, 0)) FROM UNNEST(add_counts.p_one, add_counts.p_other) WITH ORDINALITY c(one, other, place) ORDER BY c.place) END;
create or replace function add_default_tag_keys()
 RETURNS void
 LANGUAGE sql
AS $function$
  insert into tag_keys (organization_id, tenant_id, key)
  select w.organization_id, w.id, d.key
  from workspaces w
  cross join unnest('{Application, Environment}'::text[]) d(key)
  where w.id = current_tenant()
    and not exists (select from tag_keys k where k.tenant_id = w.id and k.key = d.key)
  on conflict do nothing
$function$;
create or replace function add_incidents(d deployments, p_reported jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_reported is null then return d; end if;
  select json_agg(json_build_object(
    'kind', coalesce(n.kind, k.kind),
    'count', coalesce(n.count, k.count),
    'last_at', coalesce(n.last_at, k.last_at),
    'message', case when n.kind is null then k.message else n.message end,
    -- An agent may report any total, at any rate.
    'pending', least(2147483647, coalesce(k.pending, 0)::bigint + case
      when n.kind is null or n.last_at = k.last_at then 0
      when n.count > k.count then n.count - k.count
      else n.count
    end)
  ))
  into d.incidents
  from jsonb_to_recordset(p_reported) as n(kind text, count integer, last_at text, message text)
  full join json_to_recordset(d.incidents) as k(kind text, count integer, last_at text, message text, pending integer)
    on k.kind = n.kind;
  if d.incidents_due is null
    and exists (select from json_to_recordset(d.incidents) as i(pending integer) where i.pending > 0) then
    d.incidents_due := greatest(clock(), d.incidents_recorded_at + interval '10 minutes');
  end if;
  return d;
end $function$;
create or replace function admitted(p_type text, p_tags uuid[])
 RETURNS boolean
 LANGUAGE sql
 STABLE PARALLEL SAFE
RETURN is_admitted(access_to(p_type), p_tags);
create or replace function adopt_deployments(p_listener listeners)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if p_listener.tenant_id is not null then return; end if;
  update deployments d
  set listener_id = p_listener.id
  where d.id in (
    select c.id
    from deployments c
    where c.listener_id is null
      and may_serve(p_listener, c.protection)
    order by c.id
    limit 100
    for update skip locked
  );
end $function$;
create or replace function advance_rollout(d deployments, p_requests bigint, p_gates jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
  v_step integer := (v_progress ->> 'step')::integer;
begin
  update revisions r
  set rollout = (coalesce(r.rollout::jsonb, '{"failure": null}') || jsonb_build_object(
    'steps',
    coalesce(r.rollout::jsonb -> 'steps', '[]') || jsonb_build_array(jsonb_build_object(
      'step', v_step,
      'share', rollout_share(v_progress -> 'policy', v_step),
      'since', v_progress -> 'since',
      'until', clock(),
      'requests', p_requests,
      'gates', p_gates
    ))
  ))::json
  where r.id = d.in_flight_revision_id and r.deployment_id = d.id and r.tenant_id = d.tenant_id;
  d := with_rollout(
    d,
    v_progress - 'asked' || jsonb_build_object('step', v_step + 1, 'since', clock(), 'passed', false),
    rollout_share(v_progress -> 'policy', v_step + 1)
  );
  d.generation := d.generation + 1;
  return d;
end $function$;
create or replace function alert_channels(p_tenant uuid, p_named uuid[])
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (p_named <> '{}'::uuid[]) THEN p_named ELSE ARRAY(SELECT c.id FROM channels c WHERE ((c.tenant_id = alert_channels.p_tenant) AND c.is_default AND c.enabled) ORDER BY c.id) END;
create or replace function answer_of_grant(p_grant oauth_grants, p_key api_keys)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select json_build_object(
    'api_key_id', p_key.id,
    'workspace_id', p_key.tenant_id,
    'organization_id', p_key.organization_id,
    'permissions', coalesce(bound_key_permissions(p_key.id), '{}'),
    'expires_in', greatest(extract(epoch from p_key.expires_at - clock())::integer, 0)
  )
$function$;
create or replace function append_job_lines(p_job uuid, p_stream uuid, p_from integer, p_lines jsonb, p_max_lines integer, p_max_bytes bigint)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  j jobs;
  v_next integer := p_from + jsonb_array_length(p_lines);
  v_known integer;
  v_lines integer;
  v_bytes bigint;
begin
  select c.* into j from jobs c where c.id = p_job and c.listener_id = current_listener() for update;
  if not found then return null; end if;
  v_known := case when j.stream = p_stream then j.next_line else 0 end;
  with received as (
    select
      g.*,
      row_number() over (order by g.place) as nth,
      sum(octet_length(g.message)) over (order by g.place) - octet_length(g.message) as before
    from rows from (
      jsonb_to_recordset(p_lines) as (timestamp timestamptz, severity integer, message text)
    ) with ordinality g(timestamp, severity, message, place)
    where p_from + g.place > v_known
  ),
  inserted as (
    insert into job_lines (organization_id, tenant_id, job_id, number, timestamp, severity, message, bytes_before)
    select
      j.organization_id, j.tenant_id, j.id, j.lines + r.nth, r.timestamp, r.severity, r.message, j.bytes + r.before
    from received r
    returning octet_length(message) as bytes
  )
  select j.lines + count(*), j.bytes + coalesce(sum(bytes), 0)
  into v_lines, v_bytes
  from inserted;
  update jobs c
  set lines = v_lines, bytes = v_bytes, stream = p_stream, next_line = greatest(v_next, v_known)
  where c.id = j.id;
  delete from job_lines l
  where l.job_id = j.id and (l.number <= v_lines - p_max_lines or l.bytes_before < v_bytes - p_max_bytes);
  return greatest(v_next, v_known);
end $function$;
create or replace function apply_alert_decisions(p_decisions jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v jsonb;
  v_state alert_states;
  v_events tenant_event[] := '{}';
  v_written integer := 0;
  v_before text;
  r alert_rules;
  i incidents;
begin
  for v in
    select d.value
    from jsonb_array_elements(p_decisions) d
    order by d.value ->> 'subject_id', d.value ->> 'rule_id'
  loop
    select * into r from alert_rules a where a.id = (v ->> 'rule_id')::uuid for key share;
    continue when not found;
    v_state := jsonb_populate_record(null::alert_states, v || jsonb_build_object(
      'organization_id', r.organization_id, 'tenant_id', r.tenant_id, 'version', (v ->> 'version')::integer + 1
    ));
    if v_state.version = 1 then
      insert into alert_states select v_state.* on conflict do nothing;
    elsif v_state.phase = 'ok' and v_state.due_at is null then
      delete from alert_states s
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    else
      update alert_states s
      set phase = v_state.phase, since = v_state.since, relapses = v_state.relapses, sampled_at = v_state.sampled_at,
        due_at = v_state.due_at, version = v_state.version
      where s.rule_id = r.id and s.subject_id = v_state.subject_id and s.version = v_state.version - 1;
    end if;
    continue when not found;
    v_written := v_written + 1;
    if v ->> 'action' = 'open' then
      i := open_incident(r, v);
      continue when i.id is null;
      i := begin_incident(i);
      v_events := v_events || opened_event(i);
    elsif v ->> 'action' = 'resolve' then
      select *
      into i
      from incidents k
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
      for no key update;
      continue when not found;
      v_before := i.state;
      i := resolve_incident(i, v ->> 'message');
      v_events := v_events || incident_event(i, 'incident.resolved', v_before);
    elsif v ->> 'value' is not null then
      update incidents k
      set value = (v ->> 'value')::double precision,
        last_at = case when v_state.phase = 'firing' then clock() else k.last_at end
      where k.rule_id = r.id and k.subject_id = v_state.subject_id and k.state <> 'resolved'
        and k.value is distinct from (v ->> 'value')::double precision;
    end if;
  end loop;
  perform journal_tenant_events(v_events, null);
  return v_written;
end $function$;
create or replace function apply_job_reports(p_agent text, p_fence bigint, p_reports jsonb, p_event_room bigint)
 RETURNS TABLE(job_id uuid, code text, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_failed jobs[] := '{}';
  v_tenants uuid[] := '{}';
  v_events tenant_event[] := '{}';
  v_event_count integer;
begin
  perform from jobs c
  where c.id = any(array(select (g ->> 'job_id')::uuid from jsonb_array_elements(p_reports) g))
  order by c.id
  for update;

  for v in
    select g.*, c as job, r.id as known_revision
    from rows from (
      jsonb_to_recordset(p_reports) as (job_id uuid, state text, revision_id uuid, exit_code integer, reason text)
    ) with ordinality g(job_id, state, revision_id, exit_code, reason, place)
    left join jobs c on c.id = g.job_id and c.listener_id = v_listener.id
    left join revisions r on r.id = g.revision_id and r.deployment_id = c.deployment_id
    order by g.place
  loop
    v_before := v.job;
    job_id := v.job_id;
    code := null;
    hooked_tenant := null;
    v_event_count := cardinality(v_events);
    if v_before.id is null then
      code := 'job_unknown';
    elsif v.state = 'running' then
      if v_before.status = 'QUEUED' and v_before.dispatched_at is not null then
        j := v_before;
        j.status := 'RUNNING';
        j.revision_id := coalesce(v.known_revision, j.revision_id);
        j.started_at := clock();
        -- Some time for an agent that restarts, or is cut off, before its end is given up.
        j.overdue_at := clock() + j.timeout_seconds * interval '1 second' + interval '10 minutes';
        v_jobs := v_jobs || j;
        if j.schedule_id is null then v_events := v_events || job_event('job.started', v_before, j); end if;
      elsif v_before.status <> 'RUNNING' then
        code := 'job_ended';
      end if;
    elsif v_before.status in ('QUEUED', 'RUNNING')
      or v_before.status = 'LOST' and v.state <> 'lost' then
      j := end_job(v_before, upper(v.state), v.reason, v.exit_code);
      j.revision_id := coalesce(v.known_revision, j.revision_id);
      v_jobs := v_jobs || j;
      v_tenants := v_tenants || j.tenant_id;
      if j.status in ('FAILED', 'TIMED_OUT')
        and v_before.status <> 'LOST'
        and v_before.cancel_requested_at is null
        and j.attempt <= j.retries then
        v_failed := v_failed || j;
      end if;
      -- Schedules that work well must not use up the events of a day.
      if j.schedule_id is null or j.status <> 'SUCCEEDED' or p_event_room is null or not exists (
        select from journals c
        where c.scope_id = j.tenant_id and c.day = journal_day() and c.today >= p_event_room / 2
      ) then
        v_events := v_events || job_event('job.' || v.state, v_before, j);
      end if;
    elsif v_before.status <> upper(v.state) then
      code := 'job_ended';
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(v_before.tenant_id) then
      hooked_tenant := v_before.tenant_id;
    end if;
    return next;
  end loop;

  perform write_jobs(v_jobs);
  foreach j in array v_failed loop
    perform insert_retry(j);
  end loop;
  -- No daily limit: each of these ends something that a limited request or a schedule began.
  perform journal_tenant_events(v_events, null);
  if v_tenants <> '{}' then
    perform dispatch_jobs(array(select distinct t from unnest(v_tenants) t order by t));
  end if;
end $function$;
create or replace function apply_judged_rollout(d deployments)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
  v_judged jsonb := rollout_judged(d);
begin
  if v_judged is null
    or rollout_work(v_progress) is null
    or v_progress -> 'passed' = 'true'
  then
    return d;
  end if;
  if not is_judged_passed(v_progress, v_judged) then
    -- The first look at the scores of the first step.
    d.rollout_due_at := coalesce(d.rollout_due_at, rollout_due(v_progress));
    return d;
  end if;
  if v_progress -> 'paused' = 'true' or asks_control_plane(v_progress) or minutes_over_at(v_progress) > clock() then
    return with_rollout(
      d, v_progress || '{"passed": true}', (d.traffic #>> '{beside, share}')::integer
    );
  end if;
  return advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
end $function$;
create or replace function apply_reports(p_agent text, p_fence bigint, p_reports jsonb, p_daily_limit bigint, p_unused_after interval)
 RETURNS TABLE(deployment_id uuid, revision_id uuid, code text, generation integer, hooked_tenant uuid)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v record;
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_was_served boolean;
  v_path text[];
  v_reached integer;
  v_event_count integer;
  v_successor integer;
  v_is_sent_back boolean;
  v_generation integer;
  v_events tenant_event[] := '{}';
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_removed uuid[] := '{}';
  v_forgotten uuid[] := '{}';
begin
  perform from deployments c
  where c.id = any(array(select (g ->> 'deployment_id')::uuid from jsonb_array_elements(p_reports) g))
    and c.listener_id = v_listener.id
  order by c.id
  for update;
  -- In one order, because several listeners may serve a host.
  perform from custom_hosts h
  where h.host = any(array(
      select g #>> '{custom_host,host}'
      from jsonb_array_elements(p_reports) g
      where g #>> '{custom_host,host}' is not null
    ))
  order by h.host
  for update;

  for v in
    select g.*, c as deployment, n as revision
    from rows from (
      jsonb_to_recordset(p_reports) as (
        deployment_id uuid, revision_id uuid, generation integer, state text, message text, commit jsonb,
        image_uri text, url text, healthy boolean, last_request_at timestamptz, application_version text,
        build_plan json, health jsonb, incidents jsonb, local_url text, awaits_database boolean, traffic json,
        custom_host jsonb
      )
    ) with ordinality g(
      deployment_id, revision_id, generation, state, message, commit, image_uri, url, healthy, last_request_at,
      application_version, build_plan, health, incidents, local_url, awaits_database, traffic, custom_host, place
    )
    left join deployments c on c.id = g.deployment_id and c.listener_id = v_listener.id
    left join revisions n on n.id = g.revision_id and n.deployment_id = c.id
    order by g.place
  loop
    v_before := v.deployment;
    d := v.deployment;
    r := v.revision;
    v_event_count := cardinality(v_events);
    deployment_id := v.deployment_id;
    revision_id := v.revision_id;
    generation := d.generation;
    hooked_tenant := null;
    if d.id is null then
      v_was_served := exists (
        select from sync_items i where i.deployment_id = v.deployment_id and i.listener_id = v_listener.id
      );
    end if;
    code := report_code(v.state, v.generation, v.revision_id, d, r, v_was_served);
    if code is not null then
      return next;
      continue;
    end if;

    if v.state = 'removed' then
      generation := null;
      if d.id is null then
        v_forgotten := v_forgotten || v.deployment_id;
      else
        v_removed := v_removed || d.id;
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'deployment.removed',
          d.id,
          '{}',
          changed_members(jsonb_build_object('status', d.status), null)
        )::tenant_event;
      end if;
    else
      v_path := case
        when v.state in ('building', 'built', 'deploying', 'deployed', 'failed') then report_path(r.status, v.state)
      end;
      -- One that has a share of the traffic never ends by itself, so the next one would wait for ever.
      v_successor := case
        when v.state = 'deploying' and d.in_flight_revision_id = r.id and v.traffic ->> 'revision_id' = r.id::text
          then (select w.number from revisions w where w.id = d.waiting_revision_id and w.status = 'QUEUED')
      end;
      if v_successor is not null then v_path := '{INTERRUPTED}'; end if;
      -- Only a revision that had its share was judged. One that never started ends without a hold.
      v_is_sent_back := v.state = 'failed' and v_path = '{DEPLOY_FAILED}' and d.in_flight_revision_id = r.id
        and rollout_of(d) is not null
        and r.id::text in (v.traffic ->> 'revision_id', d.applied_traffic ->> 'revision_id');
      if v_is_sent_back then
        d := fail_rollout(
          d, r, v.message, coalesce(nullif((v.traffic -> 'rollout')::jsonb, 'null'), judged_health(v.message))
        );
        v_events := v_events || rollout_event(
          'deployment.rollout_failed', v_before, d, jsonb_build_object('message', v.message)
        );
      end if;
      if cardinality(v_path) > 0
        or v.state = 'deploying' and r.status = 'DEPLOYING' and v.message is distinct from r.status_message then
        v_next := r;
        v_next.status_message := case
          when v_successor is not null then 'Superseded by revision ' || v_successor
          when v.state in ('deploying', 'failed') then v.message
        end;
        v_next.source_revision_config :=
          r.source_revision_config::jsonb || resolved_config(r, v.commit, v.image_uri);
        v_next.commit := coalesce('{"message": null, "author": null}' || v.commit, r.commit::jsonb);
        v_next.build_plan := coalesce(v.build_plan, r.build_plan);
        v_next.status := coalesce(v_path[cardinality(v_path)], r.status);
        v_events := v_events || step_events(
          r, v_next, v_path, case v.state when 'failed' then v.message end, v.commit ->> 'sha'
        );
        v_revisions := v_revisions || v_next;
        d := follow_revision(d, r, v_next);
        if d.active_revision_id = v_next.id and v_before.active_revision_id is distinct from v_next.id then
          v_events := v_events || declare_schedules(d, v_next.build_plan);
        end if;
      end if;

      -- The tag is the version of an image that the user names.
      if r.id = d.latest_revision_id and r.source not in ('internal_container', 'external_container') then
        d.image_version := coalesce(v.application_version, d.image_version);
      end if;
      d.url := coalesce(v.url, d.url);
      d.local_url := case when v.url is not null then v.local_url else d.local_url end;
      d.healthy := coalesce(v.healthy, d.healthy);
      if v.health is not null or v.state in ('serving', 'deployed') then
        d.reported_health := v.health ->> 'state';
        d.health_processes := v.health -> 'processes';
        d.health_reason := coalesce(v.health ->> 'reason', case v.state when 'serving' then v.message end);
      end if;
      -- A revision that had its share has it again once its copies run, such as after a start of its agent or of the
      -- machine. So it keeps having no deadline.
      if v.state = 'deploying' and v.traffic ->> 'revision_id' is null
        and d.applied_traffic ->> 'revision_id' = r.id::text
      then
        d.applied_traffic := json_build_object('revision_id', r.id, 'share', 0);
      elsif v.state in ('deploying', 'deployed', 'serving') then
        d.applied_traffic := v.traffic;
      end if;
      v_generation := d.generation;
      if v.state = 'deploying' then d := apply_judged_rollout(d); end if;
      d := add_incidents(d, v.incidents);
      v_events := v_events || follow_custom_host(d, v.custom_host);
      -- `least` ignores nulls: without a time, it would be now.
      if v.last_request_at is not null then
        d.last_request_at := greatest(d.last_request_at, least(v.last_request_at, clock()));
      end if;
      d.status := case
        when v.state = 'database_ready' and d.status = 'AWAITING_DATABASE' then 'READY'
        when v.awaits_database and d.status = 'READY' then 'AWAITING_DATABASE'
        when d.status = 'UNUSED' and v.last_request_at > clock() - p_unused_after then 'READY'
        else d.status
      end;
      if v.state = 'database_ready' then d := with_database_copied(d, v_listener); end if;
      v_reached := reached_generation(v.state, v.generation, v.revision_id, v_before);
      -- The end of a revision without a successor: the agent has reached the next generation with it.
      if v_reached = v_before.generation
        -- The next step of a rollout is still to come.
        and d.generation = v_generation
        and nullif(d.in_flight_revision_id, v_before.in_flight_revision_id) is null then
        d.acknowledged := d.generation;
      else
        d.acknowledged := greatest(d.acknowledged, v_reached);
      end if;
      v_deployments := v_deployments || d;
      v_events := v_events || deployment_events(v_before, d);
      generation := d.generation;
    end if;
    if cardinality(v_events) > v_event_count and has_webhooks(d.tenant_id) then hooked_tenant := d.tenant_id; end if;
    return next;
  end loop;

  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, case when v_listener.tenant_id is not null then p_daily_limit end);
  perform write_moved_deployments(v_deployments);
  delete from deployments c where c.id = any(v_removed) and c.listener_id = v_listener.id;
  if cardinality(v_forgotten) > 0 then perform delete_sync_items(v_forgotten); end if;
end $function$;
set role slipway_system;
create or replace function approve_client(p_tenant uuid, p_role uuid, p_scope text[], p_client_id text, p_client_name text, p_redirect_uri text, p_resource text, p_code_challenge text, p_code_hash text)
 RETURNS SETOF oauth_grants
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_permissions text[];
begin
  if setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
  v_permissions := grantable_permissions(p_scope, p_tenant, p_role);
  if v_permissions is null then perform refuse('workspace_forbidden'); end if;
  delete from oauth_grants g
  where g.id in (
    select o.id
    from oauth_grants o
    where o.member_id = current_actor() and o.key_id is null
    order by o.created_at desc, o.id
    offset 19
  );
  return query
  insert into oauth_grants (
    organization_id, tenant_id, member_id, role_id, permissions, client_id, client_name, redirect_uri, resource,
    code_hash, code_challenge
  )
  values (
    current_organization(), p_tenant, current_actor(), p_role, v_permissions, p_client_id, p_client_name,
    p_redirect_uri, p_resource, p_code_hash, p_code_challenge
  )
  returning *;
end $function$;
reset role;
create or replace function asks_control_plane(p_progress jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_progress #> '{policy,gates,scores}'::text[]) <> '[]'::jsonb) OR (NULLIF((p_progress #> '{policy,gates,webhook}'::text[]), 'null'::jsonb) IS NOT NULL));
create or replace function attach_runs_partition(p_tier text, p_from timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  execute format(
    'alter table %I attach partition %I for values from (%L) to (%L)',
    'runs_' || p_tier, partition_name(p_tier, p_from), p_from, partition_end(p_tier, p_from)
  );
end $function$;
create or replace function awaits_database_copy(d deployments)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN ((((d).preview #>> '{database_copy,from_deployment_id}'::text[]) IS NOT NULL) AND (((d).preview #>> '{database_copy,copied_at}'::text[]) IS NULL));
set role slipway_system;
create or replace function become_listener(p_key uuid)
 RETURNS uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_listener record;
begin
  select l.id, l.tenant_id
  into v_listener
  from api_keys a
  join listeners l on l.id = a.listener_id
  where a.id = p_key;
  if not found then perform refuse('listener_not_found'); end if;
  perform
    set_config('app.listener_id', v_listener.id::text, true),
    set_config('app.platform', (v_listener.tenant_id is null)::text, true);
  return v_listener.id;
end $function$;
reset role;
create or replace function begin_incident(i incidents)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
  values (
    i.organization_id, i.tenant_id, i.id, case when i.reopened > 0 then 'reopened' else 'opened' end, i.value,
    nullif(i.cause, '')
  );
  if i.muted_until is not null then
    insert into incident_changes (organization_id, tenant_id, incident_id, kind)
    values (i.organization_id, i.tenant_id, i.id, 'muted');
  elsif i.tell_at is null then
    i := tell_incident(i, 'open', i.cause);
  end if;
  return i;
end $function$;
create or replace function begin_rollout(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((d).rollout IS NOT NULL) THEN jsonb_build_object('step', 0, 'since', clock(), 'paused', false, 'passed', false, 'policy', (d).rollout, 'signed', ((d).rollout_secret IS NOT NULL)) ELSE NULL::jsonb END;
create or replace function bound_expiry(p_until timestamp with time zone, p_key uuid)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
AS $function$
  select least(p_until, (select a.expires_at from api_keys a where a.id = p_key))
$function$;
set role slipway_system;
create or replace function bound_key_permissions(p_key uuid)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return (
    select nullif(
      array(
        select permission
        from unnest(r.permissions) permission
        where (a.permissions is null or permission = any(a.permissions))
          and (permission = any(o.permissions) or permission = any(w.permissions))
      ),
      '{}'
    )
    from api_keys a
    join roles r on r.id = a.role_id
    join members m on m.id = a.member_id
    join roles o on o.id = m.role_id
    left join workspace_members wm on wm.member_id = m.id and wm.tenant_id = a.tenant_id
    left join roles w on w.id = wm.role_id
    where a.id = p_key and (wm.id is not null or o.permissions && '{workspaces:read, deployments:read}')
  );
end $function$;
reset role;
create or replace function budget_of_child_key(p_creator uuid, p_creator_tenant uuid, p_tenant uuid, p_listener uuid)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(p_listener, CASE WHEN (p_tenant IS DISTINCT FROM p_creator_tenant) THEN (md5(((p_creator || ' '::text) || p_tenant)))::uuid ELSE p_creator END);
create or replace function budgets_of(p_hashes text[])
 RETURNS TABLE(hash text, budget_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  select a.key_hash, a.budget_id
  from api_keys a
  where a.key_hash = any(p_hashes)
    and (a.revoked_at is null or a.revoked_at > clock() - interval '10 seconds')
    and (a.expires_at is null or a.expires_at > clock() - interval '10 seconds')
  union all
  select s.token_hash, coalesce(a.budget_id, s.member_id)
  from sessions s
  left join api_keys a on a.id = s.key_id
  where s.token_hash = any(p_hashes)
    and (is_alive(s) or least(s.revoked_at, s.expires_at) > clock() - interval '10 seconds')
  union all
  select k.key, d.id
  from unnest(p_hashes) k(key)
  join deployments d on d.id = trace_key_deployment(k.key)
  where split_part(k.key, '.', 2) in (d.trace_key_version::text, (d.trace_key_version - 1)::text)
    and d.deleting_at is null
$function$;
create or replace function build_job(d deployments, p_new jsonb)
 RETURNS jobs
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_start timestamptz := coalesce((p_new ->> 'not_before')::timestamptz, clock());
begin
  return jsonb_populate_record(
    null::jobs,
    jsonb_build_object(
      'id', gen_random_uuid(),
      'organization_id', d.organization_id,
      'tenant_id', d.tenant_id,
      'deployment_id', d.id,
      'revision_id', d.active_revision_id,
      'status', 'QUEUED',
      'attempt', 1,
      'retries', 0,
      'is_serial', false,
      'not_before', v_start,
      'overdue_at', v_start + (p_new ->> 'deadline_seconds')::integer * interval '1 second',
      'lines', 0,
      'bytes', 0,
      'created_at', clock()
    ) || p_new
  );
end $function$;
create or replace function cancel_job(p_deployment uuid, p_job uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jobs;
  v_after jobs;
begin
  select j.*
  into v_before
  from jobs j
  where j.id = p_job and j.deployment_id = p_deployment and j.tenant_id = current_tenant()
  for update;
  if not found then return; end if;
  if v_before.status not in ('QUEUED', 'RUNNING') then perform refuse('job_ended', v_before.status); end if;
  v_after := v_before;
  if v_before.status = 'QUEUED' then
    v_after := end_job(v_before, 'CANCELLED', 'Cancelled on request.');
  else
    v_after.cancel_requested_at := coalesce(v_before.cancel_requested_at, clock());
  end if;
  perform write_jobs(array[v_after]);
  answer := to_json(v_after);
  has_webhooks := conclude_write(
    answer,
    to_new_events(array[job_event(
      case v_after.status when 'CANCELLED' then 'job.cancelled' else 'job.cancel_requested' end, v_before, v_after
    )]),
    p_request
  );
  if v_after.status = 'RUNNING' then perform record_sync_jobs(array[v_after.id]); end if;
  perform dispatch_jobs(array[v_after.tenant_id]);
  return next;
end $function$;
create or replace function changed_members(p_before jsonb, p_after jsonb)
 RETURNS json
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_key text;
  v_name text;
  v_before jsonb;
  v_after jsonb;
  v_one jsonb;
  v_other jsonb;
  v_paths text[] := '{}';
  v_changes text[] := '{}';
begin
  for v_key in select jsonb_object_keys(coalesce(p_before, '{}') || coalesce(p_after, '{}')) loop
    v_before := p_before -> v_key;
    v_after := p_after -> v_key;
    -- Most members are equal as they are.
    continue when v_before is not distinct from v_after;
    v_before := nullif(nullif(v_before, 'null'), '{}');
    v_after := nullif(nullif(v_after, 'null'), '{}');
    continue when v_before is not distinct from v_after;
    if jsonb_typeof(v_before) <> 'object' or jsonb_typeof(v_after) <> 'object' then
      v_paths := v_paths || v_key;
      v_changes := v_changes || member_change(v_key, v_before, v_after);
      continue;
    end if;
    for v_name in select jsonb_object_keys(coalesce(v_before, '{}') || coalesce(v_after, '{}')) loop
      v_one := nullif(nullif(v_before -> v_name, 'null'), '{}');
      v_other := nullif(nullif(v_after -> v_name, 'null'), '{}');
      continue when v_one is not distinct from v_other;
      v_paths := v_paths || concat(v_key, '.', v_name);
      v_changes := v_changes || member_change(concat(v_key, '.', v_name), v_one, v_other);
    end loop;
  end loop;
  if cardinality(v_paths) < 2 then return '[' || v_changes[1] || ']'; end if;
  return (
    select concat('[', string_agg(c.change, ', ' order by c.path), ']')
    from unnest(v_paths, v_changes) c(path, change)
  );
end $function$;
set role slipway_system;
create or replace function claim_commit_label(d deployments, r revisions)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_sha text := r.commit ->> 'sha';
  v_label text := (
    select h.label
    from host_labels h
    where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
  );
begin
  if v_sha is null or v_label is null or d.parent_deployment_id is null then return; end if;
  perform claim_host_label(d, array[prefixed_label(left(v_sha, 7), v_label)], 'commit', r.id);
  -- The newest are kept: all of them go to the agent with each change.
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'commit'
    and h.label not in (
      select n.label
      from host_labels n
      where n.deployment_id = d.id and n.kind = 'commit'
      order by n.created_at desc, n.label
      limit 20
    );
end $function$;
reset role;
set role slipway_system;
create or replace function claim_host_label(d deployments, p_labels text[], p_kind text, p_revision uuid DEFAULT NULL::uuid)
 RETURNS text
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_label text;
begin
  if d.listener_id is null then return null; end if;
  foreach v_label in array p_labels loop
    insert into host_labels as h (listener_id, label, organization_id, tenant_id, deployment_id, kind, revision_id)
    values (d.listener_id, v_label, d.organization_id, d.tenant_id, d.id, p_kind, p_revision)
    on conflict (listener_id, label) do update
      set
        deployment_id = excluded.deployment_id,
        kind = excluded.kind,
        revision_id = excluded.revision_id,
        created_at = excluded.created_at
      where h.tenant_id = excluded.tenant_id
        and (
          h.deployment_id = excluded.deployment_id and h.kind = excluded.kind
          or exists (select from deployments o where o.id = h.deployment_id and o.deleting_at is not null)
        );
    if found then return v_label; end if;
  end loop;
  return null;
end $function$;
reset role;
create or replace function claim_rollout(p_deployment uuid)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
begin
  select c.*
  into d
  from deployments c
  where c.id = p_deployment and c.rollout_due_at <= clock() and c.deleting_at is null
  for update skip locked;
  if not found then return null; end if;
  update deployments c
  set rollout_due_at = case when rollout_of(d) is not null then clock() + interval '2 minutes' end
  where c.id = d.id;
  if rollout_of(d) is null then return null; end if;
  return json_build_object(
    'deployment_id', d.id,
    'organization_id', d.organization_id,
    'tenant_id', d.tenant_id,
    'name', d.name,
    'project_id', (select p.id from projects p where p.tenant_id = d.tenant_id and p.name = d.name),
    'lower_keys', (
      select coalesce(json_agg(f.key), '[]')
      from feedback_configs f
      where f.tenant_id = d.tenant_id
        and f.is_lower_score_better
        and (rollout_of(d) #> '{policy, gates, scores}') @> jsonb_build_array(jsonb_build_object('key', f.key))
    ),
    'revision_id', d.in_flight_revision_id,
    'serving_id', d.active_revision_id,
    'number', (select r.number from revisions r where r.id = d.in_flight_revision_id),
    'share', d.traffic #> '{beside, share}',
    'progress', rollout_of(d),
    'judged', rollout_judged(d),
    -- The secret is for the address that the policy has now.
    'is_webhook_kept', has_webhook_of(d, rollout_of(d)),
    'secret', case when has_webhook_of(d, rollout_of(d)) then d.rollout_secret end
  );
end $function$;
set role slipway_system;
create or replace function claim_traffic_labels(d deployments, p_active jsonb, p_beside jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_active text := p_active ->> 'label';
  v_beside text := p_beside ->> 'label';
begin
  delete from host_labels h
  where h.deployment_id = d.id and h.kind = 'revision'
    and h.label is distinct from v_active and h.label is distinct from v_beside;
  return (v_active is null or claim_host_label(d, array[v_active], 'revision', d.active_revision_id) is not null)
    and (
      v_beside is null or p_beside ->> 'revision_id' is null
      or claim_host_label(d, array[v_beside], 'revision', (p_beside ->> 'revision_id')::uuid) is not null
    );
end $function$;
reset role;
set role slipway_system;
create or replace function client_of_key(p_key uuid)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return (
    select json_build_object('id', g.client_id, 'name', g.client_name, 'expires_at', g.expires_at)
    from oauth_grants g
    where g.key_id = p_key and g.organization_id = current_organization()
  );
end $function$;
reset role;
create or replace function commands_of(p_config jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_build_array(NULLIF((p_config -> 'install_command'::text), 'null'::jsonb), NULLIF((p_config -> 'build_command'::text), 'null'::jsonb), NULLIF(NULLIF(((p_config -> 'resource_spec'::text) -> 'init_containers'::text), 'null'::jsonb), '[]'::jsonb), NULLIF(NULLIF(((p_config -> 'resource_spec'::text) -> 'sidecars'::text), 'null'::jsonb), '[]'::jsonb));
create or replace function compare_secrets(p_stored deployments, p_sent jsonb, OUT next json, OUT has_changes boolean, OUT kept text[], OUT unknown text[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  with compared as (
    select
      i.name,
      i.place,
      k.version,
      i.masked and k.name is null as is_unknown,
      k.name is not null and (
        i.masked
        or exists (
          select from deployment_secrets s
          where s.deployment_id = p_stored.id and s.tenant_id = p_stored.tenant_id
            and s.name = k.name and s.version = k.version and i.fingerprints ? s.fingerprint
        )
      ) as is_kept
    from rows from (
      jsonb_to_recordset(p_sent) as (name text, masked boolean, fingerprints jsonb)
    ) with ordinality i(name, masked, fingerprints, place)
    left join json_to_recordset(p_stored.secrets) k(name text, version integer) on k.name = i.name
  )
  select
    coalesce(
      json_agg(
        json_build_object('name', name, 'version', case when is_kept then version else p_stored.revisions + 1 end)
        order by place
      ),
      '[]'
    ),
    not coalesce(bool_and(is_kept), true) or count(*) <> json_array_length(p_stored.secrets),
    coalesce(array_agg(name) filter (where is_kept), '{}'),
    coalesce(array_agg(name) filter (where is_unknown), '{}')
  into next, has_changes, kept, unknown
  from compared;
end $function$;
create or replace function conclude_rollout(p_deployment uuid, p_revision uuid, p_step integer, p_outcome text, p_gates jsonb, p_message text)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
  v_progress jsonb;
  v_judged jsonb;
  v_events tenant_event[] := '{}';
begin
  select c.* into v_before from deployments c where c.id = p_deployment and c.deleting_at is null for update;
  v_progress := rollout_of(v_before);
  if v_progress is null or v_before.in_flight_revision_id <> p_revision
    or (v_progress ->> 'step')::integer <> p_step then return false; end if;
  d := v_before;
  v_judged := coalesce(rollout_judged(d), '{}');
  v_judged := v_judged || jsonb_build_object('gates', coalesce(v_judged -> 'gates', '[]') || p_gates);
  select n.* into r from revisions n where n.id = p_revision and n.deployment_id = d.id;
  if p_outcome = 'failed' then
    v_next := r;
    v_next.status := 'DEPLOY_FAILED';
    v_next.status_message := p_message;
    d := follow_revision(fail_rollout(d, r, p_message, v_judged), r, v_next);
    perform write_moved_revisions(array[v_next]);
    v_events := array[
      rollout_event('deployment.rollout_failed', v_before, d, jsonb_build_object('message', p_message)),
      revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
    ];
  elsif p_outcome = 'passed' and v_progress -> 'passed' = 'true' and v_progress -> 'paused' = 'false' then
    d := advance_rollout(d, (v_judged ->> 'requests')::bigint, v_judged -> 'gates');
  else
    d.traffic := jsonb_set(d.traffic::jsonb, '{beside, rollout, asked}', p_gates);
    d.rollout_due_at := case when rollout_due(v_progress) is not null then clock() + interval '1 minute' end;
  end if;
  v_events := v_events || deployment_events(v_before, d);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(array[d]);
  return has_webhooks(d.tenant_id);
end $function$;
create or replace function conclude_write(p_changed json, p_events new_event[], p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  return conclude_writes(array[p_changed], p_events, p_request);
end $function$;
create or replace function conclude_writes(p_changed json[], p_events new_event[], p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform journal(
    array_agg(e.type),
    array_agg(e.subject_id),
    array_agg(e.data),
    array_agg(e.changes),
    (p_request ->> 'event_limit')::bigint,
    greatest(
      (p_request ->> 'body_bytes')::bigint, (select sum(octet_length(c::text)) from unnest(p_changed) c)
    )
  )
  from unnest(p_events) e
  having count(*) > 0;
  if p_request ->> 'idempotency_key' is not null and cardinality(p_changed) > 0 then
    insert into idempotency_keys (actor_id, key, fingerprint, result)
    values (
      current_actor(), p_request ->> 'idempotency_key', p_request ->> 'fingerprint', array_to_json(p_changed)
    );
  end if;
  return has_webhooks(current_tenant());
end $function$;
create or replace function copies_databases(p_listener listeners)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((((p_listener).policy)::jsonb -> 'features'::text) @> '"database_copies"'::jsonb), false);
set role slipway_system;
create or replace function count_address_failures(p_addresses text[], p_failures integer[], p_clock_offset text, p_limit integer)
 RETURNS TABLE(address text, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.address, md5('address ' || g.address)::uuid as window_id, g.failures
    from unnest(p_addresses, p_failures) as g(address, failures)
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select g.window_id, clock(), g.failures
    from given g
    order by g.window_id
    -- A window that begins later than now is of a clock that was set back.
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at =
        case when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at else clock() end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select g.address, c.reset
  from given g
  join counted c on c.key_id = g.window_id
  where c.requests >= p_limit;
end $function$;
reset role;
set role slipway_system;
create or replace function count_answered_requests(p_budget text, p_hashes text[], p_requests integer[], p_clock_offset text, p_counts boolean)
 RETURNS TABLE(key_hash text, budget_id uuid, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  update api_keys a
  set last_used_at = clock()
  where a.id in (
    select k.id
    from (
      select i.id from api_keys i where i.key_hash = any(p_hashes)
      union
      select o.key_id from sessions o where o.token_hash = any(p_hashes) and is_alive(o)
    ) used
    join api_keys k on k.id = used.id
    where k.revoked_at is null and (k.last_used_at is null or k.last_used_at < clock() - interval '1 minute')
    order by k.id
    for no key update of k skip locked
  );
  update sessions s
  set last_seen_at = clock()
  where s.id in (
    select o.id from sessions o
    where o.token_hash = any(p_hashes) and is_alive(o) and o.last_seen_at < clock() - interval '1 minute'
    order by o.id
    for no key update skip locked
  );
  return query
  with alive as (
    select
      g.key_hash,
      b.budget_id,
      case p_budget when 'ingestion' then ingestion_window(b.budget_id) else b.budget_id end as window_id,
      g.requests
    from unnest(p_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_hashes) b on b.hash = g.key_hash
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.window_id, clock(), sum(a.requests)::integer
    from alive a
    where p_counts
    group by a.window_id
    order by a.window_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at = case
        when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at
        else excluded.started_at
      end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, a.budget_id, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $function$;
reset role;
create or replace function count_bucket(p_counts integer[], p_bucket integer, p_count integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_missing integer := p_bucket - cardinality(p_counts);
begin
  if v_missing > 0 then p_counts := p_counts || array_fill(0, array[v_missing]); end if;
  p_counts[p_bucket] := p_counts[p_bucket] + p_count;
  return p_counts;
end $function$;
set role slipway_system;
create or replace function count_ingestion(p_key_hash text, p_clock_offset text, p_limit integer)
 RETURNS TABLE(remaining integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = ingestion_window(a.budget_id)
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_ingestion_of_keys(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $function$;
reset role;
set role slipway_system;
create or replace function count_ingestion_of_keys(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
 RETURNS TABLE(key_hash text, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with alive as (
    select a.key_hash, ingestion_window(a.budget_id) as window_id, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.window_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.window_id
    order by a.window_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $function$;
reset role;
set role slipway_system;
create or replace function count_request(p_key_hash text, p_clock_offset text, p_limit integer)
 RETURNS TABLE(remaining integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = a.budget_id
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $function$;
reset role;
set role slipway_system;
create or replace function count_requests(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
 RETURNS TABLE(key_hash text, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.key_hash, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
  ),
  alive as (
    select a.key_hash, a.budget_id, g.requests
    from given g
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $function$;
reset role;
set role slipway_system;
create or replace function count_requests_of_callers(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
 RETURNS TABLE(key_hash text, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with alive as (
    select g.key_hash, b.budget_id, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_key_hashes) b on b.hash = g.key_hash
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $function$;
reset role;
set role slipway_system;
create or replace function count_session_request(p_token_hash text, p_clock_offset text, p_limit integer)
 RETURNS TABLE(remaining integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from budgets_of(array[p_token_hash]) b
  join rate_windows w on w.key_id = b.budget_id
  where w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests_of_callers(array[p_token_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $function$;
reset role;
create or replace function create_bypass(p_deployment uuid, p_new json, p_sealed text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  if d.id is null or d.deleting_at is not null then return; end if;
  if (select count(*) from protection_bypasses o where o.deployment_id = d.id and o.tenant_id = d.tenant_id) >= 50 then
    perform refuse('bypasses_full');
  end if;
  insert into protection_bypasses (
    organization_id, tenant_id, deployment_id, kind, description, token_hash, expires_at
  )
  values (
    d.organization_id,
    d.tenant_id,
    d.id,
    p_new ->> 'kind',
    p_new ->> 'description',
    p_new ->> 'token_hash',
    (p_new ->> 'expires_at')::timestamptz
  )
  returning * into b;
  perform tell_bypasses(d.id);
  answer := to_jsonb(b) || jsonb_build_object('url', d.url, 'sealed', p_sealed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.created', b.id, json_build_object('deployment_id', d.id), changed_members(null, recorded_bypass(b))
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function create_deployment(p_deployment uuid, p_revision uuid, p_new json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_inserted record;
begin
  -- The foreign key would lock this row only after the journal: deleting the workspace meanwhile could deadlock.
  perform from workspaces w where w.id = current_tenant() for key share;
  select *
  into v_inserted
  from insert_deployment(p_deployment, p_revision, p_new, require_allowed_creation(p_new));
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $function$;
create or replace function create_job(p_deployment uuid, p_new jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  s schedules;
  j jobs;
  v_action jsonb := p_new -> 'action';
  v_obstacle text;
  v_events tenant_event[] := '{}';
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant() for share;
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  if p_new ->> 'schedule_id' is not null then
    select c.*
    into s
    from schedules c
    where c.id = (p_new ->> 'schedule_id')::uuid and c.deployment_id = d.id and c.tenant_id = current_tenant()
    for update;
    if not found then perform refuse('schedule_not_found'); end if;
    v_action := s.action;
    p_new := p_new || jsonb_build_object(
      'action', s.action,
      'command', s.command,
      'timeout_seconds', s.timeout_seconds,
      'deadline_seconds', s.deadline_seconds,
      'process', s.process,
      'retries', s.retries,
      'is_serial', s.overlap <> 'allow'
    );
  end if;
  if v_action is null then
    perform require_command_permission();
  else
    perform require_allowed_action(d, v_action);
  end if;
  v_obstacle := job_obstacle(d, p_new ->> 'process', v_action);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  if p_new ->> 'planned_number' is not null and not exists (
    select from revisions r
    where r.id = d.active_revision_id and r.deployment_id = d.id and r.number = (p_new ->> 'planned_number')::integer
  ) then
    perform refuse('plan_stale');
  end if;
  -- Counts under this lock, so that concurrent requests take turns.
  perform from journals c where c.scope_id = d.tenant_id for no key update;
  if number_of_open_jobs(d.tenant_id) >= max_open_jobs() then
    perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run');
  end if;
  if s.overlap = 'skip' and has_open_job(s) then perform refuse('schedule_running'); end if;
  if s.overlap = 'replace' then v_events := replace_jobs(s); end if;

  j := build_job(d, p_new || jsonb_build_object(
    'actor_kind', setting('actor_kind'),
    'actor_id', current_actor(),
    'actor_name', event_actor_name()
  ));
  insert into jobs values (j.*);
  answer := to_json(j);
  has_webhooks := conclude_write(
    answer, to_new_events(job_event('job.created', null, j) || v_events), p_request
  );
  if s.overlap = 'replace' then perform send_cancellations(array[s.tenant_id], array[s.id]); end if;
  perform dispatch_jobs(array[d.tenant_id]);
  return next;
end $function$;
create or replace function create_preview(p_deployment uuid, p_revision uuid, p_new json, p_read previews, p_max integer, p_column json, p_commit json, p_url text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_parent deployments := lock_deployment(p_read.parent_id);
  v_preview previews;
  v_inserted record;
begin
  if p_new ->> 'source' = 'githost' then
    perform require_active_integration((p_new -> 'source_config' ->> 'integration_id')::uuid);
  end if;
  if not exists (
    select from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id = p_read.id
      and v.state <> 'ended'
      and (v.head_sha, v.deployment_id, v.approved_sha, v.kind, v.request::jsonb)
        is not distinct from
        (p_read.head_sha, p_read.deployment_id, p_read.approved_sha, p_read.kind, p_read.request::jsonb)
  ) then
    perform refuse('preview_moved');
  end if;
  perform require_preview_database(v_parent, (p_new -> 'database')::jsonb, (p_new -> 'database_needs')::jsonb);
  if (
    select count(*)
    from previews v
    where v.parent_id = v_parent.id and v.tenant_id = current_tenant()
      and v.id <> p_read.id and v.state <> 'ended' and v.deployment_id is not null
  ) >= p_max then
    perform refuse('previews_full');
  end if;
  -- The policy may have been set, and the parent created, when the agent allowed more.
  perform require_listener_allows(v_parent.listener_id, (p_new -> 'policy_needs')::jsonb);

  select *
  into v_inserted
  from insert_deployment(
    p_deployment,
    p_revision,
    p_new,
    p_listener => v_parent.listener_id,
    p_parent => v_parent,
    p_preview => p_column,
    p_commit => p_commit
  );
  -- A branch with a pull request is at its own label, too.
  perform claim_host_label(
    v_inserted.created, array(select json_array_elements_text(p_new -> 'branch_labels')), 'branch'
  )
  where p_new ->> 'branch_labels' is not null;
  update previews v
  set
    state = 'live',
    deployment_id = p_deployment,
    expires_at = (p_column ->> 'expires_at')::timestamptz,
    updated_at = clock()
  where v.parent_id = v_parent.id and v.tenant_id = current_tenant() and v.id = p_read.id
  returning v.* into v_preview;
  insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
  select
    h.organization_id, h.tenant_id, v_preview.id, h.on_create, h.id, h.hook_secret,
    preview_hook_body(v_preview, 'preview.created', p_url)
  from preview_policies h
  where h.id = v_parent.id and h.tenant_id = current_tenant()
    and h.on_create is not null and h.hook_secret is not null;
  answer := to_json(v_inserted.created);
  has_webhooks := conclude_write(answer, v_inserted.events, p_request);
  return next;
end $function$;
create or replace function create_runs_partition(p_tier text, p_from timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_name constant text := partition_name(p_tier, p_from);
begin
  execute format('create table %I (like %I including all)', v_name, 'runs_' || p_tier);
  execute format('alter table %I enable row level security, force row level security', v_name);
  execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_name);
  execute format('grant select, insert, update, delete on %I to slipway_system', v_name);
end $function$;
create or replace function created_event(p_revision revisions)
 RETURNS new_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    'revision.created',
    p_revision.id,
    json_build_object('deployment_id', p_revision.deployment_id, 'status', p_revision.status),
    changed_members(null, recorded_revision(p_revision))
  )::new_event;
end $function$;
create or replace function credential_permission(p_key text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (split_part(p_key, '.'::text, 3) = 'models'::text) THEN 'models:invoke'::text ELSE 'runs:create'::text END;
create or replace function custom_host(p_url text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN NULLIF(lower(split_part(split_part(regexp_replace(p_url, '^https?://'::text, ''::text), '/'::text, 1), ':'::text, 1)), ''::text);
set role slipway_system;
create or replace function custom_host_owner(p_host text)
 RETURNS SETOF custom_hosts
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select *
  from custom_hosts
  where host = p_host
$function$;
reset role;
create or replace function custom_path(p_url text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(NULLIF(rtrim("substring"(regexp_replace(p_url, '^https?://'::text, ''::text), '/.*$'::text), '/'::text), ''::text), '/'::text);
create or replace function database_copy_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_after.preview #>> '{database_copy, copied_at}' is not distinct from
    p_before.preview #>> '{database_copy, copied_at}' then
    return '{}';
  end if;
  return array[(
    p_after.tenant_id,
    p_after.organization_id,
    'deployment.database_copied',
    p_after.id,
    json_build_object('from_deployment_id', p_after.preview #> '{database_copy, from_deployment_id}'),
    changed_members(
      jsonb_build_object('preview', p_before.preview), jsonb_build_object('preview', p_after.preview)
    )
  )::tenant_event];
end $function$;
set role slipway_system;
create or replace function decide_device_request(p_user_code text, p_tenant uuid, p_role uuid)
 RETURNS SETOF device_requests
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_request device_requests;
  v_permissions text[];
begin
  select * into v_request from find_device_request(p_user_code);
  if not found then return; end if;
  if p_tenant is not null then
    v_permissions := device_permissions(v_request, p_tenant, p_role);
    if v_permissions is null then perform refuse('workspace_forbidden'); end if;
    -- Approving takes no permission to create keys, so it must not use up the limit of the workspace.
    if 100 <= (
      select count(*)
      from api_keys a
      where a.member_id = current_actor() and a.tenant_id = p_tenant
        and a.created_by is null and a.revoked_at is null and a.expires_at > clock()
    ) then
      perform refuse('quota_full', '100 api keys of a member');
    end if;
  end if;
  return query
  update device_requests d
  set organization_id = current_organization(), member_id = current_actor(), tenant_id = p_tenant, role_id = p_role,
    permissions = v_permissions, decided_at = clock(),
    is_verified = exists (select from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
  where d.id = v_request.id and d.decided_at is null
  returning d.*;
end $function$;
reset role;
create or replace function deciding_rule(p_roles uuid[], p_organization uuid, p_tenant uuid, p_permission text, p_tags uuid[])
 RETURNS TABLE(access_policy_id uuid, name text, effect text, place integer)
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if setting('policies_off') = 'true' then return; end if;
  return query
  select p.id, p.name, x.effect, x.place
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = p_organization and x.permission = p_permission
    and is_admitted(
      row(false, false, array(
        select resolve_condition(p_tenant, 1, false, c.value) from jsonb_array_elements(x.conditions) c
      ))::access,
      p_tags
    )
  order by x.effect = 'deny' desc, p.created_at, p.id, x.place
  limit 1;
end $function$;
set role slipway_system;
create or replace function declare_schedules(d deployments, p_plan json)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v record;
  v_before schedules;
  s schedules;
  v_events tenant_event[] := '{}';
begin
  if json_typeof(p_plan -> 'schedules') is distinct from 'array' then return '{}'; end if;
  for v_before in
    select c.*
    from schedules c
    where c.deployment_id = d.id
      and c.is_declared
      and not exists (select from json_array_elements(p_plan -> 'schedules') g where g ->> 'name' = c.name)
    order by c.id
    for update
  loop
    delete from schedules c where c.id = v_before.id;
    v_events := v_events || schedule_event('schedule.deleted', d, v_before, null);
  end loop;
  for v in
    select g as declared
    from json_populate_recordset(null::schedules, p_plan -> 'schedules') g
    order by g.name
  loop
    select c.* into v_before from schedules c where c.deployment_id = d.id and c.name = (v.declared).name for update;
    s := v.declared;
    if v_before.id is null then
      -- The limit of requests: enforce_quota() does not count what agents bring.
      if (select count(*) from schedules c where c.tenant_id = d.tenant_id)
        >= coalesce(setting('max_schedules'), '1000')::bigint then
        v_events := v_events || (
          d.tenant_id,
          d.organization_id,
          'schedule.refused',
          d.id,
          json_build_object('deployment_id', d.id, 'name', s.name, 'reason', 'quota_full'),
          null
        )::tenant_event;
        continue;
      end if;
      s.id := gen_random_uuid();
      s.organization_id := d.organization_id;
      s.tenant_id := d.tenant_id;
      s.deployment_id := d.id;
      s.enabled := true;
      s.next_due_at := clock();
      s.version := 1;
      s.created_at := clock();
      s.is_declared := true;
      s.updated_at := s.created_at;
      insert into schedules values (s.*);
      v_events := v_events || schedule_event('schedule.created', d, null, s);
      continue;
    end if;
    s.id := v_before.id;
    s.enabled := v_before.enabled;
    continue when v_before.is_declared and recorded_schedule(s) = recorded_schedule(v_before);
    update schedules c
    set
      cron = s.cron,
      time_zone = s.time_zone,
      command = s.command,
      action = null,
      timeout_seconds = s.timeout_seconds,
      overlap = s.overlap,
      jitter_seconds = s.jitter_seconds,
      retries = s.retries,
      deadline_seconds = s.deadline_seconds,
      process = s.process,
      owner = null,
      is_declared = true,
      -- A due time whose job may exist already is not due again.
      next_due_at = case
        when (c.cron, c.time_zone) = (s.cron, s.time_zone) or c.next_due_at is null then c.next_due_at
        else clock() + interval '1 second'
      end,
      version = c.version + 1,
      updated_at = clock()
    where c.id = s.id;
    v_events := v_events || schedule_event('schedule.updated', d, v_before, s);
  end loop;
  return v_events;
end $function$;
reset role;
create or replace function default_alert_rules()
 RETURNS TABLE(built_in text, name text, severity text, resolve_after integer, condition jsonb)
 LANGUAGE sql
 IMMUTABLE
AS $function$
  values
    ('unhealthy', 'Not healthy', 'critical', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["deployment.crash_looping", "deployment.unhealthy", "deployment.health_flapping"]'::jsonb,
      'ends', '["deployment.healthy", "deployment.degraded", "deployment.removed"]'::jsonb
    )),
    ('error_rate', 'Many requests fail', 'error', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'error_rate', 'operator', 'above', 'threshold', 0.05, 'clear_threshold', 0.02,
      'window_seconds', 300, 'min_requests', 20
    )),
    ('out_of_memory', 'Out of memory', 'error', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.out_of_memory"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('disk_nearly_full', 'Disk nearly full', 'warning', 300, jsonb_build_object(
      'kind', 'metric', 'metric', 'disk', 'operator', 'above', 'threshold', 0.9, 'clear_threshold', 0.85,
      'window_seconds', 300, 'min_requests', 0
    )),
    ('disk_full', 'Disk full', 'critical', 1800, jsonb_build_object(
      'kind', 'event', 'types', '["deployment.disk_full"]'::jsonb, 'ends', '[]'::jsonb
    )),
    ('listener_lost', 'Listener lost', 'critical', 60, jsonb_build_object(
      'kind', 'event', 'types', '["listener.lost"]'::jsonb, 'ends', '["listener.found", "listener.deleted"]'::jsonb
    )),
    ('certificate', 'Certificate or domain', 'error', 60, jsonb_build_object(
      'kind', 'event',
      'types', '["custom_host.lost", "custom_host.certificate_failed", "custom_host.unreachable"]'::jsonb,
      'ends', '["custom_host.verified", "custom_host.certificate_issued", "custom_host.reachable"]'::jsonb
    ))
$function$;
set role slipway_system;
create or replace function default_channel_count()
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select count(*)
  from channels c
  where c.tenant_id = current_tenant() and c.is_default and c.enabled and c.confirmed_at is not null
$function$;
reset role;
create or replace function default_key_role(p_scope text)
 RETURNS uuid
 LANGUAGE sql
 STABLE
AS $function$
  select case when p_scope = 'key' or r.scope = 'workspace' then r.id else '00000000-0000-4000-8000-000000000001' end
  from roles r
  where r.id = case
    when setting('actor_kind') <> 'session' then (actor_key()).role_id
    else coalesce(
      (
        select m.role_id
        from workspace_members m
        where p_scope = 'workspace' and m.member_id = current_actor() and m.tenant_id = current_tenant()
      ),
      (select m.role_id from members m where m.id = current_actor())
    )
  end
$function$;
create or replace function default_member_role()
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if (select rbac_enabled from organizations where id = current_organization()) then
    perform refuse('role_required');
  end if;
  return '00000000-0000-4000-8000-000000000001';
end $function$;
create or replace function delete_deployments(p_deployments uuid[], p_deletes_projects boolean, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  -- The order of the ids keeps two requests for the same deployments from a deadlock.
  v_stored deployments[] := array(
    select d
    from deployments d
    where d.id = any(p_deployments) and d.tenant_id = current_tenant()
    order by d.id
    for update
  );
  v_ids uuid[];
  v_deleted json[];
begin
  v_stored := array(select d::deployments from unnest(v_stored) d where d.deleting_at is null);
  v_ids := array(select d.id from unnest(v_stored) d);
  perform require_version(d.version, p_request) from unnest(v_stored) d;
  if p_deletes_projects then
    delete from projects p where p.deployment_id = any(v_ids) and p.tenant_id = current_tenant();
  else
    update projects p
    set deployment_id = null
    where p.deployment_id = any(v_ids) and p.tenant_id = current_tenant();
  end if;
  with deleted as (
    update deployments d
    set
      status = 'AWAITING_DELETE',
      deleting_at = clock(),
      generation = d.generation + 1,
      remote_reconciled = false,
      version = d.version + 1,
      updated_at = clock()
    where d.id = any(v_ids) and d.tenant_id = current_tenant()
    returning d.*
  )
  select coalesce(array_agg(to_json(d) order by d.id), '{}') into v_deleted from deleted d;
  has_webhooks := conclude_writes(
    v_deleted,
    array(
      select ('deployment.deleted', d.id, '{}', changed_members(recorded_deployment(d::deployments), null))::new_event
      from unnest(v_stored) d
    ),
    p_request
  );
  return query select unnest(v_deleted), has_webhooks;
end $function$;
set role slipway_system;
create or replace function delete_sync_items(p_deployments uuid[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  with gone as (
    delete from sync_items
    where deployment_id = any(p_deployments) and listener_id = current_listener()
    returning *
  )
  update sync_cursors c
  set digest = c.digest # g.digest
  from (
    select listener_id, bit_xor(sync_item_hash(deployment_id, generation)) as digest
    from gone
    group by listener_id
  ) g
  where c.listener_id = g.listener_id
$function$;
reset role;
create or replace function deploy_push(p_deployment uuid, p_revision uuid, p_refs text[], p_queried_at timestamp with time zone, p_commit json, p_ignores_build_on_push boolean, p_data json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_sha text := p_commit ->> 'sha';
  v_stored deployments;
  v_head deployment_heads;
  v_next deployments;
  v_changed deployments;
  v_queued record;
  v_message text;
  v_held revisions;
  v_outcome text := 'unchanged';
  v_events new_event[] := '{}';
begin
  select d.*
  into v_stored
  from deployments d
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.deleting_at is null
    and (p_ignores_build_on_push or (d.source_config ->> 'build_on_push') = 'true')
    and d.source_revision_config ->> 'repo_ref' = any(p_refs)
  for update;
  if not found then return; end if;
  select h.* into v_head from deployment_heads h where h.deployment_id = v_stored.id and h.tenant_id = current_tenant();
  if v_head.queried_at >= p_queried_at then return; end if;

  v_next := v_stored;
  v_changed := v_stored;
  v_next.source_revision_config :=
    v_stored.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_sha);
  if v_stored.source_revision_config ->> 'repo_commit_sha' is distinct from v_sha then
    v_message := held_back_message(v_stored, v_sha);
    if v_message is null then
      v_outcome := 'created';
      v_next.hold := null;
      select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{pushed}', v_stored.source, p_commit);
      v_changed := v_queued.changed;
      v_events := v_queued.events;
      if v_stored.hold is not null then
        v_events := v_events || (
          'deployment.hold_released',
          v_stored.id,
          '{}',
          changed_members(jsonb_build_object('hold', v_stored.hold), jsonb_build_object('hold', v_changed.hold))
        )::new_event;
      end if;
    elsif not exists (
      select from revisions r
      where r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
        and r.number = v_stored.revisions and 'held' = any(r.reasons) and r.commit ->> 'sha' = v_sha
    ) then
      v_outcome := 'held_back';
      update deployments d
      set revisions = v_stored.revisions + 1
      where d.id = v_stored.id and d.tenant_id = current_tenant()
      returning d.* into v_changed;
      v_next.revisions := v_changed.revisions;
      -- Recorded as a skipped revision, which is never the deployment's latest.
      v_held := insert_revision(
        p_revision, v_next, 'SKIPPED', v_message, '{pushed, held}', v_stored.source, p_commit, null, clock()
      );
      v_events := array[(
        'revision.created',
        v_held.id,
        json_build_object('deployment_id', v_stored.id, 'status', v_held.status, 'message', v_message),
        changed_members(null, recorded_revision(v_held))
      )::new_event];
    end if;
  end if;
  if v_outcome = 'created' and v_stored.parent_deployment_id is null then
    insert into commit_statuses (organization_id, tenant_id, deployment_id, sha, revision_id)
    values (v_stored.organization_id, v_stored.tenant_id, v_stored.id, v_sha, p_revision)
    on conflict (deployment_id, sha) do update
      set revision_id = excluded.revision_id, attempts = 0, next_attempt_at = clock();
  end if;
  if v_outcome <> 'unchanged' then
    v_events := deployment_event('deployment.pushed', v_stored, v_changed, p_data) || v_events;
  end if;
  if v_head.gone_ref is not null then
    v_events := v_events || (
      'deployment.ref_found', v_stored.id, json_build_object('ref', v_head.gone_ref), null
    )::new_event;
  end if;

  insert into deployment_heads (deployment_id, organization_id, tenant_id, queried_at)
  values (v_stored.id, v_stored.organization_id, v_stored.tenant_id, p_queried_at)
  on conflict (deployment_id) do update set queried_at = excluded.queried_at, gone_ref = null;
  answer := to_json(v_outcome);
  has_webhooks := conclude_write(to_json(v_changed), v_events, p_request);
  return next;
end $function$;
create or replace function deployment_event(p_type text, p_before deployments, p_after deployments, p_data json DEFAULT '{}'::json)
 RETURNS new_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    p_type,
    p_after.id,
    p_data,
    changed_members(recorded_deployment(p_before), recorded_deployment(p_after))
  )::new_event;
end $function$;
create or replace function deployment_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_started uuid := nullif(p_after.in_flight_revision_id, p_before.in_flight_revision_id);
  v_status text;
  v_events tenant_event[] := '{}';
begin
  if v_started is not null then
    v_status := (select r.status from revisions r where r.id = v_started and r.deployment_id = p_after.id);
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'revision.' || lower(v_status),
      v_started,
      json_build_object('deployment_id', p_after.id),
      changed_members('{"status": "QUEUED"}', jsonb_build_object('status', v_status))
    )::tenant_event;
  end if;
  if p_after.active_revision_id is distinct from p_before.active_revision_id then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.activated',
      p_after.id,
      json_build_object('revision_id', p_after.active_revision_id),
      changed_members(
        jsonb_build_object('active_revision_id', p_before.active_revision_id),
        jsonb_build_object('active_revision_id', p_after.active_revision_id)
      )
    )::tenant_event;
  end if;
  if p_after.status <> p_before.status then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.' || lower(p_after.status),
      p_after.id,
      '{}',
      changed_members(
        jsonb_build_object('status', p_before.status), jsonb_build_object('status', p_after.status)
      )
    )::tenant_event;
  end if;
  if p_after.url is distinct from p_before.url then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.located',
      p_after.id,
      '{}',
      changed_members(jsonb_build_object('url', p_before.url), jsonb_build_object('url', p_after.url))
    )::tenant_event;
  end if;
  return v_events || rollout_events(p_before, p_after) || database_copy_events(p_before, p_after);
end $function$;
create or replace function deployment_health(d deployments)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((d).status = 'UNKNOWN'::text) THEN NULL::text WHEN ((d).active_revision_id IS NULL) THEN 'nothing_serves'::text ELSE COALESCE((d).reported_health, CASE (d).healthy WHEN true THEN 'healthy'::text WHEN false THEN 'unhealthy'::text ELSE NULL::text END) END;
create or replace function deployment_labels(p_name text, p_id uuid)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY[p_name, (("left"(p_name, 54) || '-'::text) || "left"((p_id)::text, 8)), (("left"(p_name, 26) || '-'::text) || (p_id)::text)];
create or replace function device_permissions(p_request device_requests, p_tenant uuid, p_role uuid)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_own text[] := reachable_permissions(current_actor(), p_tenant);
begin
  return (
    select nullif(
      array(
        select permission
        from unnest(r.permissions) permission
        where permission = any(v_own) and permission = any(coalesce(p_request.permissions, r.permissions))
        order by permission
      ),
      '{}'
    )
    from roles r
    where r.id = p_role
  );
end $function$;
set role slipway_system;
create or replace function dispatch_jobs(p_tenants uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid;
  v_free bigint;
  v_chosen uuid[] := '{}';
begin
  perform from journals j where j.scope_id = any(p_tenants) order by j.scope_id for no key update;
  foreach v_tenant in array p_tenants loop
    v_free := free_job_places(v_tenant);
    continue when v_free <= 0;
    v_chosen := v_chosen || array(
      select j.id
      from jobs j
      join deployments d on d.id = j.deployment_id
      where j.tenant_id = v_tenant
        and j.status = 'QUEUED'
        and j.dispatched_at is null
        and j.not_before <= clock() + interval '1 minute'
        and d.listener_id is not null
        and d.deleting_at is null
        and not (j.is_serial and exists (
          select from jobs o
          where o.tenant_id = v_tenant
            and o.schedule_id = j.schedule_id
            and o.id <> j.id
            and o.status in ('QUEUED', 'RUNNING')
            and (o.dispatched_at is not null or (o.created_at, o.id) < (j.created_at, j.id))
        ))
      order by j.not_before, j.created_at, j.id
      limit v_free
      for update of j skip locked
    );
  end loop;
  if v_chosen = '{}' then return; end if;
  update jobs j
  set dispatched_at = clock(), listener_id = d.listener_id
  from deployments d
  where j.id = any(v_chosen) and d.id = j.deployment_id;
  perform record_sync_jobs(v_chosen);
end $function$;
reset role;
create or replace function dispatch_waiting_jobs(p_after uuid, p_limit integer)
 RETURNS uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid := p_after;
  v_next uuid;
  v_soonest timestamptz;
  v_tenants uuid[] := '{}';
begin
  for i in 1..p_limit loop
    v_next := null;
    select j.tenant_id, j.not_before
    into v_next, v_soonest
    from jobs j
    where j.status = 'QUEUED' and j.dispatched_at is null and j.tenant_id > v_tenant
    order by j.tenant_id, j.not_before
    limit 1;
    exit when v_next is null;
    v_tenant := v_next;
    if v_soonest <= clock() + interval '1 minute' and free_job_places(v_tenant) > 0 then
      v_tenants := v_tenants || v_tenant;
    end if;
  end loop;
  if v_tenants <> '{}' then perform dispatch_jobs(v_tenants); end if;
  return case when v_next is not null then v_tenant end;
end $function$;
create or replace function drained_deployments(d drains, p_listener uuid)
 RETURNS uuid[]
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (((d).deployment_ids = '{}'::uuid[]) AND ((d).tag_value_ids = '{}'::uuid[])) THEN NULL::uuid[] ELSE ARRAY(SELECT x.id FROM deployments x WHERE ((x.tenant_id = (drained_deployments.d).tenant_id) AND (x.listener_id = drained_deployments.p_listener) AND (x.deleting_at IS NULL) AND ((x.id = ANY ((drained_deployments.d).deployment_ids)) OR (x.tag_value_ids && (drained_deployments.d).tag_value_ids))) ORDER BY x.id LIMIT 10000) END;
set role slipway_system;
create or replace function drains_traces(p_tenant uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM drains d
           WHERE ((d.tenant_id = drains_traces.p_tenant) AND d.enabled AND ('traces'::text = ANY (d.signals))))) AS "exists";
END;
reset role;
create or replace function drop_expired_runs(p_now timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
 SET lock_timeout TO '500ms'
AS $function$
declare
  v_tier text;
  v_from timestamptz;
begin
  for v_tier, v_from in
    select tier, (rpad(digits, 8, '01') || ' UTC')::timestamptz
    from (
      select substring(relname, '^runs_([a-z]+)_') as tier, substring(relname, '_(\d{6,8})$') as digits
      from pg_class
      where relispartition and relkind = 'r' and relnamespace = 'public'::regnamespace
        and relname ~ '^runs_(shortlived_\d{8}|longlived_\d{6})$'
    ) partitions
    where partition_end(tier, (rpad(digits, 8, '01') || ' UTC')::timestamptz) <= p_now - kept_for(tier)
    order by 2
  loop
    perform drop_runs_partition(v_tier, v_from);
  end loop;
  return true;
exception when lock_not_available then
  return false;
end $function$;
create or replace function drop_runs_partition(p_tier text, p_from timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  execute format('drop table %I', partition_name(p_tier, p_from));
end $function$;
create or replace function due_looks(p_listener uuid, p_limit integer)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  -- Most listeners have none.
  if not exists (
    select from followed_repositories f where f.listener_id = p_listener and f.look_at <= clock()
  ) then
    return;
  end if;
  return query
  with known as (
    select f.id, f.tenant_id, f.look_at, is_looking(f, l.fence) as is_looking, l.tenant_id is null as is_shared
    from listeners l
    join followed_repositories f on f.listener_id = l.id
    join integrations i on i.id = f.integration_id
    where l.id = p_listener
      and f.look_at <= clock() + interval '2 minutes'
      and i.state = 'active'
      and i.ssh is not null
      -- The key of a repository goes only to an agent that builds it.
      and exists (
        select
        from deployments d
        where d.repo_key = f.repo_key
          and d.tenant_id = f.tenant_id
          and d.listener_id = p_listener
          and d.source_config ->> 'integration_id' = f.integration_id::text
          and d.deleting_at is null
      )
  ),
  due as (
    select
      k.id,
      k.look_at,
      k.is_shared,
      k.looking + row_number() over (partition by k.tenant_id order by k.look_at, k.id) as place
    from (
      select k.*, count(*) filter (where k.is_looking) over (partition by k.tenant_id) as looking
      from known k
    ) k
    where k.look_at <= clock() and not k.is_looking
  )
  select d.id
  from due d
  where not d.is_shared or d.place <= 2
  order by d.look_at
  limit p_limit;
end $function$;
create or replace function end_access_token(p_key uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform revoke_key_tree(a.id)
  from api_keys a
  where a.created_by = p_key and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock());
  update idempotency_keys i
  set fingerprint = 'ended', result = 'null'
  where i.actor_id = p_key and i.fingerprint <> 'ended';
end $function$;
create or replace function end_job(p_job jobs, p_status text, p_reason text DEFAULT NULL::text, p_exit_code integer DEFAULT NULL::integer)
 RETURNS jobs
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  p_job.status := p_status;
  p_job.reason := p_reason;
  p_job.exit_code := p_exit_code;
  p_job.finished_at := clock();
  p_job.seq := null;
  return p_job;
end $function$;
set role slipway_system;
create or replace function enqueue_notices(p_tenant uuid, p_channels uuid[], p_thread text, p_phase text, p_sequence bigint, p_content jsonb)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_count integer;
begin
  if p_tenant <> current_tenant() then return 0; end if;
  insert into notices (organization_id, tenant_id, channel_id, thread, sequence, phase, content)
  select c.organization_id, c.tenant_id, c.id, p_thread, p_sequence, p_phase, p_content
  from channels c
  where c.id = any(p_channels) and c.tenant_id = p_tenant and c.enabled and c.confirmed_at is not null
  order by c.id
  on conflict on constraint notices_once do nothing;
  get diagnostics v_count = row_count;
  if v_count > 0 and p_phase in ('update', 'close') then
    update notices n
    set state = 'dropped', next_attempt_at = null, error = 'replaced'
    where n.channel_id = any(p_channels) and n.tenant_id = p_tenant and n.thread = p_thread
      and n.state = 'waiting' and n.phase = 'update' and n.attempts = 0 and n.sequence < p_sequence;
  end if;
  return v_count;
end $function$;
reset role;
set role slipway_system;
create or replace function enter(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_key(
    p_key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
set role slipway_system;
create or replace function enter_by_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_deployment record;
begin
  select
    d.id, d.organization_id, d.tenant_id, p.name as project,
    set_config('app.clock_offset', p_clock_offset, true),
    set_config('app.organization_id', d.organization_id::text, true),
    set_config('app.tenant_id', d.tenant_id::text, true),
    set_config('app.actor_kind', 'deployment', true),
    set_config('app.actor_id', d.id::text, true),
    set_config('app.actor_name', d.name, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.confined_project', p.id::text, true)
  into v_deployment
  from deployments d
  join projects p on p.deployment_id = d.id
  where d.id = trace_key_deployment(p_key)
    and d.trace_key_version = split_part(p_key, '.', 2)::integer
    and d.deleting_at is null;
  if not found then perform refuse('key_revoked'); end if;
  if p_permission is distinct from credential_permission(p_key) then
    if credential_permission(p_key) = 'models:invoke' then perform refuse('model_token_confined'); end if;
    perform refuse('trace_key_confined', v_deployment.project);
  end if;
  if p_workspace <> v_deployment.tenant_id then perform refuse('workspace_forbidden'); end if;
  organization_id := v_deployment.organization_id;
  tenant_id := v_deployment.tenant_id;
  actor_id := v_deployment.id;
  budget_id := v_deployment.id;
  is_limited := false;
  return next;
end $function$;
reset role;
set role slipway_system;
create or replace function enter_by_key(p_key_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_key_tenant uuid;
  v_member uuid;
  v_role uuid;
  v_refusal text;
  v_is_permitted boolean;
  v_can_be_allowed boolean;
  v_has_rules boolean;
  v_bound text[];
  v_roles uuid[];
  v_stored record;
begin
  select
    a.organization_id, coalesce(a.tenant_id, case when p_in_workspace then p_workspace end), a.id, false,
    a.budget_id, a.tenant_id, a.member_id, a.role_id,
    case
      when a.revoked_at is not null then 'key_revoked'
      -- Not clock(), whose setting is made here.
      when a.expires_at <= now() + p_clock_offset::interval then 'key_expired'
    end,
    p_permission = any(r.permissions) and (a.permissions is null or p_permission = any(a.permissions)),
    -- A key that lists its permissions keeps to them, whatever policies allow.
    a.permissions is null or p_permission = any(a.permissions),
    p_access is not null and exists (
      select from access_rules x where x.role_id = a.role_id and x.organization_id = a.organization_id
    ),
    set_config('app.organization_id', a.organization_id::text, true),
    set_config(
      'app.tenant_id', coalesce(a.tenant_id::text, case when p_in_workspace then p_workspace::text end, ''), true
    ),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_id', a.id::text, true),
    set_config('app.request_id', p_request_id, true),
    set_config('app.clock_offset', p_clock_offset, true)
  into
    organization_id, tenant_id, actor_id, is_limited,
    budget_id, v_key_tenant, v_member, v_role, v_refusal, v_is_permitted, v_can_be_allowed, v_has_rules
  from api_keys a
  join roles r on r.id = a.role_id
  where a.key_hash = p_key_hash;
  if not found then perform refuse('key_unknown'); end if;
  if v_refusal is not null then perform refuse(v_refusal); end if;
  if v_member is not null then
    v_bound := bound_key_permissions(actor_id);
    if v_bound is null then perform refuse('key_revoked'); end if;
    v_can_be_allowed := v_is_permitted;
    v_is_permitted := p_permission = any(v_bound);
  end if;

  if v_key_tenant is not null then
    if p_workspace <> v_key_tenant then perform refuse('workspace_forbidden'); end if;
  elsif p_workspace is not null then
    if not exists (
      select from workspaces w where w.id = p_workspace and w.organization_id = enter_by_key.organization_id
    ) then
      perform refuse('workspace_forbidden');
    end if;
  elsif p_in_workspace then
    perform refuse('workspace_required');
  end if;

  if v_member is not null and p_access is not null then
    v_roles := policy_roles(actor_id, null, tenant_id);
    v_has_rules := has_rules(v_roles, organization_id);
  end if;
  if v_has_rules and (v_is_permitted or v_can_be_allowed) then
    is_limited := limit_access(
      p_access, coalesce(v_roles, array[v_role]), organization_id, tenant_id, p_permission, v_is_permitted
    );
  elsif not v_is_permitted then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match then
    if exists (select from workspaces w where w.id = enter_by_key.tenant_id and w.require_if_match) then
      perform refuse('if_match_required');
    end if;
  end if;

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(actor_id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = enter_by_key.actor_id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = enter_by_key.actor_id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      -- An error ends the transaction, so the batch's later statements cannot act twice.
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;
  return next;
end $function$;
reset role;
set role slipway_system;
create or replace function enter_by_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean, budget_id uuid)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_session record;
  v_tenant uuid;
  v_roles uuid[];
  v_may boolean := true;
  v_is_limited boolean := false;
  v_stored record;
begin
  select
    s.id, s.organization_id, s.member_id, s.last_seen_at, s.expires_at, s.revoked_at, s.made_by, a.key_hash,
    p_permission is null or p_permission = any(o.permissions) as is_permitted,
    coalesce(p_permission = any(w.permissions), false) as is_permitted_inside,
    wm.id is not null as is_inside,
    set_config('app.clock_offset', p_clock_offset, true),
    set_config('app.session_id', s.id::text, true),
    -- For a session of a key, enter_by_key() sets all but the name again.
    set_config('app.organization_id', s.organization_id::text, true),
    set_config('app.actor_kind', 'session', true),
    set_config('app.actor_id', coalesce(s.member_id::text, ''), true),
    set_config('app.actor_name', coalesce(m.full_name, m.email, ''), true),
    set_config('app.request_id', p_request_id, true)
  into v_session
  from sessions s
  left join api_keys a on a.id = s.key_id
  left join members m on m.id = s.member_id
  left join roles o on o.id = m.role_id
  left join workspace_members wm on wm.member_id = s.member_id and wm.tenant_id = p_workspace
  left join roles w on w.id = wm.role_id
  where s.token_hash = p_token_hash;
  -- This repeats is_alive(), because a call of it costs time.
  if not found or v_session.revoked_at is not null or v_session.expires_at <= clock()
    or v_session.last_seen_at <= clock() - interval '7 days'
    or v_session.made_by is not null and not is_living_credential(v_session.made_by)
  then
    perform refuse('session_ended');
  end if;

  if v_session.key_hash is not null then
    return query
    select e.organization_id, e.tenant_id, e.actor_id, e.is_limited, e.budget_id
    from enter_by_key(
      v_session.key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset,
      p_without_if_match, p_idempotency_key, p_fingerprint, p_access
    ) e;
    return;
  end if;

  if p_workspace is null and p_in_workspace then perform refuse('workspace_required'); end if;
  if p_workspace is not null and not v_session.is_inside and not exists (
    select from workspaces w where w.id = p_workspace and w.organization_id = v_session.organization_id
  ) then
    perform refuse('workspace_forbidden');
  end if;
  if v_session.is_permitted then
    v_tenant := case when p_in_workspace then p_workspace end;
  else
    if p_workspace is null and exists (
      select from workspace_members wm
      join roles r on r.id = wm.role_id
      where wm.member_id = v_session.member_id and p_permission = any(r.permissions)
    ) then
      perform refuse('workspace_required');
    end if;
    v_tenant := p_workspace;
    v_may := v_session.is_permitted_inside;
  end if;

  perform set_config('app.tenant_id', coalesce(v_tenant::text, ''), true);
  if p_access is not null then
    v_roles := policy_roles(null, v_session.member_id, v_tenant);
  end if;
  if has_rules(v_roles, v_session.organization_id) then
    v_is_limited := limit_access(p_access, v_roles, v_session.organization_id, v_tenant, p_permission, v_may);
  elsif not v_may then
    perform refuse('permission_missing', p_permission);
  end if;
  if p_without_if_match then
    if exists (select from workspaces w where w.id = v_tenant and w.require_if_match) then
      perform refuse('if_match_required');
    end if;
  end if;

  if p_idempotency_key is not null then
    if not pg_try_advisory_xact_lock(hashtextextended(v_session.member_id || ':' || p_idempotency_key, 0)) then
      perform refuse('idempotency_in_flight');
    end if;
    select i.fingerprint, i.result, i.created_at
    into v_stored
    from idempotency_keys i
    where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    if found and v_stored.created_at < clock() - interval '24 hours' then
      delete from idempotency_keys i
      where i.actor_id = v_session.member_id and i.key = p_idempotency_key;
    elsif found and v_stored.fingerprint <> p_fingerprint then
      perform refuse('idempotency_key_reused');
    elsif found then
      raise exception using errcode = 'SW001', message = 'replay', detail = v_stored.result::text;
    end if;
  end if;
  organization_id := v_session.organization_id;
  tenant_id := v_tenant;
  actor_id := v_session.member_id;
  budget_id := v_session.member_id;
  is_limited := v_is_limited;
  return next;
end $function$;
reset role;
set role slipway_system;
create or replace function enter_deployment(p_key text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_deployment(
    p_key, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
set role slipway_system;
create or replace function enter_session(p_token_hash text, p_workspace uuid, p_permission text, p_in_workspace boolean, p_request_id text, p_clock_offset text, p_without_if_match boolean, p_idempotency_key text, p_fingerprint text, p_access jsonb)
 RETURNS TABLE(organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_session(
    p_token_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$function$;
reset role;
create or replace function event_value(p_value jsonb)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (octet_length((p_value)::text) <= 8192) THEN p_value WHEN (p_value IS NOT NULL) THEN jsonb_build_object('omitted_bytes', octet_length((p_value)::text)) ELSE NULL::jsonb END;
create or replace function exchange_token(p_issuer uuid, p_version integer, p_token json, p_permissions text[], p_key_hash text, p_hint text, p_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_trusted trusted_issuers;
  v_key api_keys;
  v_role_permissions text[];
begin
  -- First what the deletion of a workspace locks before the row, in the same order.
  perform from workspaces w
  where w.id = (select t.tenant_id from trusted_issuers t where t.id = p_issuer)
  for key share;
  -- The lock serializes exchanges, so that the number of keys is exact.
  select * into v_trusted from trusted_issuers t where t.id = p_issuer for no key update;
  if not found or v_trusted.version <> p_version then return json_build_object('refusal', 'issuer_changed'); end if;
  -- A revocation of the key that granted the role waits for this lock, and then finds the new key.
  perform from api_keys a where a.id = v_trusted.granted_by for share;
  if is_grant_ended(v_trusted.granted_by, v_trusted.expires_at) then
    return json_build_object('refusal', 'grant_ended');
  end if;
  select r.permissions into v_role_permissions from roles r where r.id = v_trusted.role_id;
  if not p_permissions <@ v_role_permissions then return json_build_object('refusal', 'scope_exceeds_role'); end if;
  if (
    select count(*)
    from (
      select
      from api_keys a
      where a.trusted_issuer_id = v_trusted.id and a.expires_at > clock() and a.revoked_at is null
      limit 1000
    ) active
  ) >= 1000 then
    return json_build_object('refusal', 'too_many_keys');
  end if;
  insert into exchanged_tokens (token_hash, organization_id, tenant_id, expires_at)
  values (
    p_token ->> 'hash', v_trusted.organization_id, v_trusted.tenant_id,
    to_timestamp((p_token ->> 'expires')::double precision)
  )
  on conflict do nothing;
  if not found then return json_build_object('refusal', 'token_replayed'); end if;

  perform
    set_config('app.organization_id', v_trusted.organization_id::text, true),
    set_config('app.tenant_id', v_trusted.tenant_id::text, true),
    set_config('app.actor_kind', 'key', true),
    set_config('app.actor_name', p_token ->> 'subject', true);
  insert into api_keys (
    organization_id, tenant_id, trusted_issuer_id, description, hint, key_hash, role_id, permissions, expires_at,
    created_by
  )
  values (
    v_trusted.organization_id, v_trusted.tenant_id, v_trusted.id, p_token ->> 'description', p_hint, p_key_hash,
    v_trusted.role_id, p_permissions,
    least(clock() + make_interval(mins => least(v_trusted.key_minutes, 15)), v_trusted.expires_at), v_trusted.granted_by
  )
  returning * into v_key;
  -- The member whose key granted the role has lost the workspace.
  if v_key.member_id is not null and bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    delete from exchanged_tokens where token_hash = p_token ->> 'hash';
    return json_build_object('refusal', 'grant_ended');
  end if;
  -- Keys that follow one another share one rate limit.
  if v_trusted.granted_by is null then
    update api_keys set budget_id = v_trusted.id where id = v_key.id;
  end if;
  update trusted_issuers set last_used_at = clock() where id = v_trusted.id;
  perform set_config('app.actor_id', v_key.id::text, true);
  perform journal(
    array['api_key.created'], array[v_key.id],
    array[json_build_object(
      'trusted_issuer_id', v_trusted.id, 'issuer', v_trusted.issuer, 'subject', p_token -> 'subject',
      'audience', v_trusted.audience, 'claims', p_token -> 'claims', 'token_id', p_token -> 'id'
    )],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return json_build_object(
    'api_key_id', v_key.id,
    'workspace_id', v_key.tenant_id,
    'organization_id', v_key.organization_id,
    'permissions', case
      when v_key.member_id is not null then bound_key_permissions(v_key.id)
      else coalesce(v_key.permissions, v_role_permissions)
    end,
    'expires_in', floor(extract(epoch from v_key.expires_at - clock()))::integer
  );
end $function$;
create or replace function exclusive_disks(d deployments, p_resources jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_engine text := (select l.policy ->> 'engine' from listeners l where l.id = d.listener_id);
  v_plan jsonb := (select r.build_plan from revisions r where r.id = d.active_revision_id);
begin
  return (
    select string_agg(distinct disk ->> 'name', ', ')
    from (
      select
        (v -> 'persistentVolumeClaim') || jsonb_build_object('name', v #> '{persistentVolumeClaim, claimName}') as disk
      from jsonb_array_elements(coalesce(nullif(p_resources -> 'volumes', 'null'), '[]')) v
      where nullif(v -> 'persistentVolumeClaim', 'null') is not null
      union all
      select s
      from jsonb_array_elements(coalesce(nullif(v_plan -> 'disks', 'null'), '[]')) s
    ) disks
    where disk ->> 'access_mode' = 'ReadWriteOncePod'
      or v_engine = 'kubernetes' and disk ->> 'storage_gi' is not null
        and disk ->> 'access_mode' is distinct from 'ReadWriteMany'
  );
end $function$;
create or replace function fail_overdue_revisions(p_deadlines jsonb, p_lost jsonb, p_silent_after interval, p_limit integer)
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  -- A deployment that another transaction is changing waits for the next call.
  v_ids uuid[] := array(
    select c.id
    from deployments c
    where c.id in (
      select r.deployment_id
      from revisions r
      join jsonb_to_recordset(p_deadlines) l(status text, after bigint) on l.status = r.status
      -- The condition of the index `revisions_pending`.
      where r.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
        and r.status_since <= clock() - l.after * interval '1 millisecond'
        and not exists (
          select from deployments h
          where h.id = r.deployment_id and h.applied_traffic ->> 'revision_id' = r.id::text
        )
    )
    order by c.id
    limit p_limit
    for update skip locked
  );
  v_before deployments;
  d deployments;
  v record;
  r revisions;
  v_next revisions;
  v_revisions revisions[] := '{}';
  v_deployments deployments[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in select c.* from deployments c where c.id = any(v_ids) order by c.id loop
    d := v_before;
    for v in
      select
        n as revision,
        -- A listener that never polled is silent from its registration on.
        case
          when n.status = 'DEPLOYING' and coalesce(s.last_seen_at, s.created_at) <= clock() - p_silent_after then p_lost
          else l.outcome
        end as outcome
      from revisions n
      join jsonb_array_elements(p_deadlines) l(outcome) on l.outcome ->> 'status' = n.status
      left join listeners s on s.id = d.listener_id
      where n.deployment_id = d.id
        and n.status_since <= clock() - (l.outcome ->> 'after')::bigint * interval '1 millisecond'
        and d.applied_traffic ->> 'revision_id' is distinct from n.id::text
      order by n.number
    loop
      r := v.revision;
      v_next := r;
      v_next.status := v.outcome ->> 'becomes';
      v_next.status_message := v.outcome ->> 'message';
      d := follow_revision(d, r, v_next);
      v_revisions := v_revisions || v_next;
      v_events := v_events || revision_moved(
        r, v_next, json_build_object('deployment_id', d.id, 'message', v_next.status_message)
      );
    end loop;
    v_deployments := v_deployments || d;
    v_events := v_events || deployment_events(v_before, d);
  end loop;
  perform write_moved_revisions(v_revisions);
  perform journal_tenant_events(v_events, null);
  perform write_moved_deployments(v_deployments);
  return v_ids;
end $function$;
create or replace function fail_rollout(d deployments, r revisions, p_message text, p_judged jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_progress jsonb := rollout_of(d);
begin
  update revisions n
  set rollout = (coalesce(n.rollout::jsonb, '{"steps": []}') || jsonb_build_object('failure', jsonb_build_object(
    'step', v_progress -> 'step',
    'share', d.traffic #> '{beside, share}',
    'since', v_progress -> 'since',
    'at', clock(),
    'message', p_message,
    'requests', p_judged -> 'requests',
    'gates', coalesce(nullif(p_judged -> 'gates', 'null'), '[]'),
    'failing_requests', coalesce(nullif(p_judged -> 'failing_requests', 'null'), '[]')
  )))::json
  where n.id = r.id and n.deployment_id = d.id and n.tenant_id = d.tenant_id;
  -- The hold of a rollback stays.
  if d.hold is null or d.hold ->> 'until' = 'newer_commit' then
    d.hold := json_build_object(
      'since', clock(),
      'revision_id', r.id,
      'until', 'released',
      'from_commit', coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha'),
      'reason', 'rollout_failed'
    );
  end if;
  return d;
end $function$;
set role slipway_system;
create or replace function find_device_request(p_user_code text)
 RETURNS SETOF device_requests
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_window record;
begin
  insert into rate_windows as w (key_id, started_at, requests)
  values (md5('device ' || current_actor())::uuid, clock(), 1)
  on conflict (key_id) do update set
    requests = case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end + 1,
    started_at =
      case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
  returning w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window;
  if v_window.requests > 20 then perform refuse('rate_limited', v_window.reset::text); end if;
  return query
  select d.*
  from device_requests d
  where d.user_code = p_user_code and d.decided_at is null and d.expires_at > clock();
  if found and setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
end $function$;
reset role;
create or replace function first_event_since(p_scope uuid, p_time timestamp with time zone)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_before bigint := 0;
  v_since bigint := coalesce((select seq from journals where scope_id = p_scope), 0) + 1;
  v_middle bigint;
  v_at timestamptz;
begin
  while v_since - v_before > 1 loop
    v_middle := (v_before + v_since) / 2;
    select created_at into v_at from events where scope_id = p_scope and seq >= v_middle order by seq limit 1;
    if v_at < p_time then v_before := v_middle; else v_since := v_middle; end if;
  end loop;
  return v_since;
end $function$;
create or replace function fleet_queues(p_organization uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  with waiting (name, since) as (
    (
      select 'webhook_deliveries', q.next_attempt_at
      from webhook_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'webhook_deliveries', q.next_attempt_at
      from workspaces w
      join webhooks h on h.tenant_id = w.id
      join webhook_deliveries q on q.webhook_id = h.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'githost_deliveries', q.next_attempt_at
      from githost_deliveries q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where p_organization is null
      limit 10000
    )
    union all
    (
      select 'preview_hooks', q.next_attempt_at
      from preview_hooks q
      where q.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from rule_evaluations q
      where p_organization is null and q.state = 'waiting'
      limit 10000
    )
    union all
    (
      select 'rule_evaluations', q.next_attempt_at
      from workspaces w
      join run_rules r on r.tenant_id = w.id
      join rule_evaluations q on q.rule_id = r.id and q.state = 'waiting'
      where w.organization_id = p_organization
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where p_organization is null and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'insight_jobs', q.created_at
      from insight_jobs q
      where q.organization_id = p_organization and q.status in ('queued', 'running')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where p_organization is null
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
      limit 10000
    )
    union all
    (
      select 'revisions', q.status_since
      from revisions q
      where q.organization_id = p_organization
        and q.status in ('CREATING', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')
      limit 10000
    )
  )
  select json_agg(
    json_build_object(
      'name', n.name,
      'waiting', (select count(*) from waiting w where w.name = n.name),
      'oldest_seconds', (
        select greatest(0, extract(epoch from clock() - min(w.since)))::bigint from waiting w where w.name = n.name
      )
    )
    order by n.place
  )
  from unnest(array[
    'revisions', 'webhook_deliveries', 'githost_deliveries', 'preview_hooks', 'rule_evaluations', 'insight_jobs'
  ]) with ordinality as n(name, place)
  where p_organization is null or n.name <> 'githost_deliveries'
$function$;
create or replace function fleet_scope(p_admins text[])
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_admins is null then return current_organization(); end if;
  perform require_instance_admin(p_admins);
  return null;
end $function$;
create or replace function fleet_statuses(p_tenant uuid)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(json_object_agg(status, count), '{}')
  from (
    select d.status, count(*) as count
    from deployments d
    where d.tenant_id = p_tenant
    group by d.status
  ) counted
$function$;
create or replace function fleet_traces(p_tenant uuid, p_since timestamp with time zone)
 RETURNS TABLE(traces bigint, bytes bigint)
 LANGUAGE sql
 STABLE
AS $function$
  select coalesce(sum(m.roots), 0)::bigint, greatest(coalesce(sum(m.bytes), 0), 0)::bigint
  from projects p
  join session_minutes m on m.tenant_id = p.tenant_id and m.session_id = p.id and m.minute >= p_since
  where p.tenant_id = p_tenant
$function$;
create or replace function follow_custom_host(d deployments, p_reported jsonb)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before custom_hosts;
  h custom_hosts;
begin
  -- A report may be about the host before.
  if d.custom_host is null or d.custom_host is distinct from p_reported ->> 'host' then return '{}'; end if;
  select * into v_before from custom_hosts c where c.host = d.custom_host and c.tenant_id = d.tenant_id;
  if v_before.id is null then return '{}'; end if;
  h := v_before;
  h.certificate_failed_at := case p_reported ->> 'certificate'
    when 'failed' then coalesce(h.certificate_failed_at, clock())
    when 'valid' then null
    else h.certificate_failed_at
  end;
  h.unreachable_since := case p_reported ->> 'leads_here'
    when 'false' then coalesce(h.unreachable_since, clock())
    when 'true' then null
    else h.unreachable_since
  end;
  if (h.certificate_failed_at, h.unreachable_since)
    is not distinct from (v_before.certificate_failed_at, v_before.unreachable_since) then
    return '{}';
  end if;
  update custom_hosts c
  set certificate_failed_at = h.certificate_failed_at, unreachable_since = h.unreachable_since
  where c.id = h.id;
  return array(
    select (
      d.tenant_id,
      d.organization_id,
      'custom_host.' || case when t.after is null then t.ended else t.begun end,
      h.id,
      json_strip_nulls(json_build_object(
        'host', h.host,
        'deployment_id', d.id,
        'reason', case when t.after is not null then p_reported ->> 'reason' end
      )),
      changed_members(jsonb_build_object(t.name, t.before), jsonb_build_object(t.name, t.after))
    )::tenant_event
    from (
      values
        (
          1, 'unreachable_since', v_before.unreachable_since, h.unreachable_since, 'unreachable', 'reachable'
        ),
        (
          2, 'certificate_failed_at', v_before.certificate_failed_at, h.certificate_failed_at,
          'certificate_failed', 'certificate_issued'
        )
    ) t(place, name, before, after, begun, ended)
    where t.before is distinct from t.after
    order by t.place
  );
end $function$;
create or replace function follow_revision(d deployments, p_before revisions, p_after revisions)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_in_flight uuid := d.in_flight_revision_id;
  v_commit text := p_after.source_revision_config ->> 'repo_commit_sha';
  v_serving integer;
begin
  if not is_in_queue(p_after.status) then
    d.in_flight_revision_id := nullif(d.in_flight_revision_id, p_after.id);
    d.waiting_revision_id := nullif(d.waiting_revision_id, p_after.id);
    if d.traffic #>> '{beside, revision_id}' = p_after.id::text then
      d.traffic := leave_canary(d.traffic, p_after.status = 'DEPLOYED');
      d.rollout_due_at := null;
    end if;
  end if;
  -- A revision that still waits for its artifact (CREATING) keeps its place.
  if d.in_flight_revision_id is null and d.waiting_revision_id is not null then
    update revisions r
    set
      status = start_state(r.source),
      status_since = clock(),
      updated_at = clock()
    where r.id = d.waiting_revision_id and r.deployment_id = d.id and r.status = 'QUEUED';
    if found then
      d.in_flight_revision_id := d.waiting_revision_id;
      d.waiting_revision_id := null;
    end if;
  end if;

  -- An older revision never replaces the one that serves.
  if d.active_revision_id is not null then
    v_serving := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  end if;
  if p_after.status = 'DEPLOYED' and p_after.number > coalesce(v_serving, 0) then
    d.active_revision_id := p_after.id;
    d.updated_at := greatest(clock(), d.updated_at);
    -- The name of the one before it goes over to it, and that of one that was beside it ends.
    if d.traffic is not null then
      perform claim_traffic_labels(d, d.traffic::jsonb -> 'active', d.traffic::jsonb -> 'beside');
    end if;
  end if;
  if d.in_flight_revision_id is distinct from v_in_flight and d.in_flight_revision_id is not null then
    d.traffic := place_canary(
      d,
      d.in_flight_revision_id,
      (select 'rolled_back' = any(r.reasons) from revisions r where r.id = d.in_flight_revision_id)
    );
  end if;
  -- The commit that the ref of the latest revision resolved to.
  if p_after.id = d.latest_revision_id
    and v_commit is distinct from p_before.source_revision_config ->> 'repo_commit_sha' then
    d.source_revision_config := d.source_revision_config::jsonb || jsonb_build_object('repo_commit_sha', v_commit);
    d.updated_at := greatest(clock(), d.updated_at);
  end if;
  -- Another revision in flight, or none any more, is the next generation of what the agent has to do. So is the end of
  -- the latest revision if it was lost with its listener: it was still wanted.
  if d.in_flight_revision_id is distinct from v_in_flight
    or (p_before.status = 'UNKNOWN' and p_after.id = d.latest_revision_id) then
    d.generation := d.generation + 1;
  end if;
  return d;
end $function$;
set role slipway_system;
create or replace function free_job_places(p_tenant uuid)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return max_running_jobs() - (
    select count(*)
    from jobs j
    where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING') and j.dispatched_at is not null
  );
end $function$;
reset role;
create or replace function glob_pattern(p_glob text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN translate(regexp_replace(p_glob, '([\\%_])'::text, '\\\1'::text, 'g'::text), '*?'::text, '%_'::text);
create or replace function glob_patterns(p_globs jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT replace(replace(g.value, '_'::text, '\_'::text), '*'::text, '%'::text) AS replace FROM jsonb_array_elements_text(glob_patterns.p_globs) g(value));
create or replace function grantable_permissions(p_scope text[], p_tenant uuid, p_role uuid)
 RETURNS text[]
 LANGUAGE sql
 STABLE
AS $function$
  select device_permissions(
    jsonb_populate_record(null::device_requests, jsonb_build_object('permissions', p_scope)), p_tenant, p_role
  )
$function$;
set role slipway_system;
create or replace function granting_key()
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_key uuid := (maker_key()).id;
begin
  if is_temporary_key(v_key) then perform refuse('temporary_key'); end if;
  return v_key;
end $function$;
reset role;
create or replace function planned_stores(p_deployment uuid, p_revision uuid)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_plan jsonb := (
    select r.build_plan from revisions r where r.id = p_revision and r.deployment_id = p_deployment
  );
begin
  return array(
    select 'disk:' || (g.disk ->> 'name')
    from jsonb_array_elements(nullif(v_plan -> 'disks', 'null')) g(disk)
    union
    select 'database' where v_plan ->> 'kind' = 'graphs'
  );
end $function$;
create or replace function stores_of(p_resources jsonb)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  return array(
    select 'disk:' || (v.volume #>> '{persistentVolumeClaim, claimName}')
    from jsonb_array_elements(nullif(p_resources -> 'volumes', 'null')) v(volume)
    where v.volume #>> '{persistentVolumeClaim, claimName}' ~ '^[a-z0-9][-a-z0-9.]{0,252}$'
    union
    select 'database' where has_part(p_resources, 'db')
    union
    select 'redis' where has_part(p_resources, 'redis')
  );
end $function$;
create or replace function has_database(d deployments)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN ('database'::text = ANY ((stores_of((((d).source_config -> 'resource_spec'::text))::jsonb) || planned_stores((d).id, (d).active_revision_id))));
set role slipway_system;
create or replace function has_due_look()
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 SELECT (EXISTS ( SELECT
            FROM due_looks(current_listener(), 1) due_looks(due_looks))) AS "exists";
END;
reset role;
create or replace function has_open_job(s schedules)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (
    select from jobs j
    where j.tenant_id = s.tenant_id and j.schedule_id = s.id and j.status in ('QUEUED', 'RUNNING')
  );
end $function$;
create or replace function has_part(p_resources jsonb, p_part text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select exists (
    select from jsonb_each(nullif(p_resources, 'null')) m
    where starts_with(m.key, p_part || '_') and m.value <> 'null'
  )
$function$;
create or replace function has_rules(p_roles uuid[], p_organization uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (select from access_rules x where x.role_id = any(p_roles) and x.organization_id = p_organization);
end $function$;
create or replace function has_webhook_of(d deployments, p_progress jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (NOT (((d).rollout #>> '{gates,webhook,url}'::text[]) IS DISTINCT FROM (p_progress #>> '{policy,gates,webhook,url}'::text[])));
create or replace function has_webhooks(p_tenant uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (select from webhooks w where w.tenant_id = p_tenant and w.enabled)
    or exists (select from channels c where c.tenant_id = p_tenant and c.enabled and c.deploys <> 'none');
end $function$;
create or replace function held_back_message(p_deployment deployments, p_sha text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if was_rolled_back(p_deployment.id, p_sha) then
    return 'Commit ' || left(p_sha, 7) || ' was rolled back and is not deployed again automatically.';
  end if;
  if p_deployment.hold ->> 'until' = 'released' then
    return case p_deployment.hold ->> 'reason'
      when 'rollout_failed' then 'A failed rollout holds automatic deploys: commit '
      else 'A rollback holds automatic deploys: commit '
    end || left(p_sha, 7) || ' was not deployed.';
  end if;
  return null;
end $function$;
create or replace function image_name(p_image text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN regexp_replace(regexp_replace(p_image, '(:[^/:@]*)?(@.*)?$'::text, ''::text), '^(docker[.]io/)?(library/)?'::text, ''::text);
create or replace function image_version(p_image text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN "substring"(split_part(p_image, '@'::text, 1), ':([^:/]+)$'::text);
create or replace function incident_event(i incidents, p_type text, p_before text)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN ROW((i).tenant_id, (i).organization_id, p_type, (i).id, json_strip_nulls(json_build_object('title', "left"((i).title, 300), 'severity', (i).severity, 'rule_id', (i).rule_id, 'deployment_id', (i).deployment_id, 'project_id', (i).project_id, 'cause', "left"((i).cause, 500))), changed_members(CASE WHEN (p_before IS NOT NULL) THEN jsonb_build_object('state', p_before) ELSE NULL::jsonb END, jsonb_build_object('state', (i).state)))::tenant_event;
create or replace function incident_notice(i incidents, p_summary text, p_by text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_strip_nulls(jsonb_build_object('acknowledged_by', "left"(p_by, 200), 'title', "left"((i).title, 300), 'summary', "left"(p_summary, 4000), 'severity', (i).severity, 'url', ((('/ui/'::text || (i).tenant_id) || '/alerts/'::text) || (i).id), 'facts', COALESCE(((i).evidence -> 'facts'::text), '[]'::jsonb), 'lines', COALESCE(((i).evidence -> 'lines'::text), '[]'::jsonb), 'chart', NULLIF(((i).evidence -> 'chart'::text), 'null'::jsonb), 'started_at', to_char(((i).opened_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text), 'ended_at', to_char(((i).resolved_at AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'::text)));
create or replace function ingestion_window(p_budget uuid)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (md5(('ingestion '::text || p_budget)))::uuid;
create or replace function insert_deployment(p_id uuid, p_revision uuid, p_new json, p_listener uuid DEFAULT NULL::uuid, p_parent deployments DEFAULT NULL::deployments, p_preview json DEFAULT NULL::json, p_commit json DEFAULT NULL::json, OUT created deployments, OUT events new_event[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_source text := p_new ->> 'source';
  v_config json := p_new -> 'source_revision_config';
  v_lacks_artifact boolean := lacks_artifact(v_source, v_config);
  v_revision revisions;
begin
  -- This is one statement, whose triggers lock the journal and a cursor at its end.
  with inserted as (
    insert into deployments (
      id, organization_id, tenant_id, name, source, deployment_type, status, source_config, source_revision_config,
      image_version, secrets, secret_references, tag_value_ids, parent_deployment_id, preview, owner, protection,
      listener_id, latest_revision_id, in_flight_revision_id, waiting_revision_id
    )
    values (
      p_id,
      current_organization(),
      current_tenant(),
      p_new ->> 'name',
      v_source,
      p_new -> 'source_config' ->> 'deployment_type',
      case when (p_new ->> 'has_database')::boolean then 'AWAITING_DATABASE' else 'READY' end,
      p_new -> 'source_config',
      v_config,
      image_version(v_config ->> 'image_uri'),
      (
        select coalesce(json_agg(json_build_object('name', s ->> 'name', 'version', 1) order by place), '[]')
        from json_array_elements(p_new -> 'secrets') with ordinality sent(s, place)
      ),
      p_new -> 'secret_references',
      coalesce(p_parent.tag_value_ids, '{}'),
      p_parent.id,
      p_preview,
      p_new ->> 'owner',
      nullif((p_new -> 'protection')::jsonb, 'null')::json,
      p_listener,
      p_revision,
      case when not v_lacks_artifact then p_revision end,
      case when v_lacks_artifact then p_revision end
    )
    returning *
  ),
  project as (
    insert into projects (organization_id, tenant_id, deployment_id, name)
    select i.organization_id, i.tenant_id, i.id, i.name from inserted i
  ),
  sealed as (
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select i.organization_id, i.tenant_id, i.id, s.name, 1, s.sealed, s.fingerprints ->> 0
    from inserted i
    cross join json_to_recordset(p_new -> 'secrets') s(name text, sealed text, fingerprints json)
  )
  select i.* into created from inserted i;
  v_revision := insert_revision(
    p_revision,
    created,
    case when v_lacks_artifact then 'CREATING' else start_state(v_source) end,
    null,
    '{created}',
    v_source,
    p_commit,
    null,
    created.updated_at
  );
  events := array[
    (
      'deployment.created',
      created.id,
      '{}',
      changed_members(
        null,
        recorded_deployment(created)
          || jsonb_build_object('owner', created.owner, 'protection', created.protection)
      )
    )::new_event,
    created_event(v_revision)
  ];
end $function$;
set role slipway_system;
create or replace function insert_retry(p_job jobs)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  j jobs := p_job;
begin
  j.id := gen_random_uuid();
  j.attempt := p_job.attempt + 1;
  j.status := 'QUEUED';
  j.not_before := clock() + least(600, 10 * 2 ^ (p_job.attempt - 1)) * interval '1 second';
  j.overdue_at := j.not_before + j.deadline_seconds * interval '1 second';
  j.exit_code := null;
  j.reason := null;
  j.dispatched_at := null;
  j.listener_id := null;
  j.seq := null;
  j.started_at := null;
  j.finished_at := null;
  j.lines := 0;
  j.bytes := 0;
  j.stream := null;
  j.next_line := null;
  j.created_at := clock();
  insert into jobs values (j.*) on conflict do nothing;
end $function$;
reset role;
create or replace function insert_revision(p_id uuid, p_deployment deployments, p_status text, p_status_message text, p_reasons text[], p_source text, p_commit json, p_from_revision uuid, p_time timestamp with time zone)
 RETURNS revisions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_inserted revisions;
begin
  insert into revisions (
    organization_id, tenant_id, deployment_id, id, number, source, source_config, source_revision_config, secrets,
    secret_references, status, status_message, reasons, from_revision_id, commit, build_plan, actor_kind, actor_id,
    created_at, updated_at
  )
  values (
    p_deployment.organization_id, p_deployment.tenant_id, p_deployment.id, p_id, p_deployment.revisions, p_source,
    p_deployment.source_config, p_deployment.source_revision_config, p_deployment.secrets,
    p_deployment.secret_references, p_status, p_status_message, p_reasons, p_from_revision, p_commit,
    (
      select b.build_plan
      from planned_build(p_source, p_deployment.source_config, p_deployment.source_revision_config) b
    ),
    setting('actor_kind'), current_actor(), p_time, p_time
  )
  returning * into v_inserted;
  return v_inserted;
end $function$;
create or replace function interrupt_revision(p_deployment uuid, p_revision uuid, p_message text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before deployments;
  d deployments;
  r revisions;
  v_next revisions;
begin
  v_before := lock_deployment(p_deployment);
  select n.*
  into r
  from revisions n
  where n.id = p_revision and n.deployment_id = v_before.id and n.tenant_id = current_tenant();
  if not found then return; end if;
  if not is_in_queue(r.status) then
    perform refuse('revision_not_interruptible', r.status || ' to INTERRUPTED');
  end if;

  v_next := r;
  v_next.status := 'INTERRUPTED';
  v_next.status_message := p_message;
  d := follow_revision(v_before, r, v_next);
  perform write_moved_revisions(array[v_next]);
  answer := to_json(v_next);
  has_webhooks := conclude_write(
    answer,
    array(
      select (e.type, e.subject_id, e.data, e.changes)::new_event
      from unnest(
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
        || deployment_events(v_before, d)
      ) e
    ),
    p_request
  );
  perform write_moved_deployments(array[d]);
  return next;
end $function$;
create or replace function is_alert_rule_active(r alert_rules)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return r.enabled and (
    r.built_in is null
    or not exists (select from alert_settings s where s.tenant_id = r.tenant_id and not s.defaults_enabled)
  );
end $function$;
set role slipway_system;
create or replace function is_living_credential(p_hash text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_hash text := p_hash;
  v_session record;
begin
  loop
    select
      coalesce(a.key_hash, s.made_by) as next,
      s.revoked_at is null and s.expires_at > clock() and s.last_seen_at > clock() - interval '7 days' as is_alive
    into v_session
    from sessions s
    left join api_keys a on a.id = s.key_id
    where s.token_hash = v_hash;
    exit when not found;
    if not v_session.is_alive then return false; end if;
    if v_session.next is null then return true; end if;
    v_hash := v_session.next;
  end loop;
  return exists (
    select from api_keys a
    where a.key_hash = v_hash and a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
      and (a.member_id is null or bound_key_permissions(a.id) is not null)
  );
end $function$;
reset role;
create or replace function is_alive(p_session sessions)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((p_session).revoked_at IS NULL) AND ((p_session).expires_at > clock()) AND ((p_session).last_seen_at > (clock() - '7 days'::interval)) AND (((p_session).made_by IS NULL) OR is_living_credential((p_session).made_by)));
set role slipway_system;
create or replace function is_grant_ended(p_key uuid, p_expires_at timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return coalesce(p_expires_at <= clock(), false)
    or (p_key is not null and not exists (select from api_keys a where a.id = p_key and a.revoked_at is null));
end $function$;
reset role;
create or replace function is_in_alert_scope(p_deployment_ids uuid[], p_tag_value_ids uuid[], p_deployment uuid, p_tags uuid[])
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_deployment_ids = '{}'::uuid[]) AND (p_tag_value_ids = '{}'::uuid[])) OR COALESCE((p_deployment = ANY (p_deployment_ids)), false) OR COALESCE((p_tags && p_tag_value_ids), false));
create or replace function is_in_queue(p_status text)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (p_status = ANY (ARRAY['CREATING'::text, 'QUEUED'::text, 'AWAITING_BUILD'::text, 'BUILDING'::text, 'AWAITING_DEPLOY'::text, 'DEPLOYING'::text]));
set role slipway_system;
create or replace function is_instance_admin(p_addresses text[])
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select exists (
    select from members m
    where m.email = any(p_addresses)
      and m.id = case setting('actor_kind')
        when 'session'
          then (select s.member_id from sessions s where s.id = setting('session_id')::uuid and s.is_verified)
        when 'key' then (select a.member_id from api_keys a where a.id = current_actor() and a.is_verified)
      end
  )
$function$;
reset role;
create or replace function rollout_work(p_progress jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((p_progress #> ARRAY['policy'::text, 'steps'::text, (p_progress ->> 'step'::text)]) IS NOT NULL) THEN jsonb_build_object('step', (p_progress -> 'step'::text), 'minutes', (p_progress #> ARRAY['policy'::text, 'steps'::text, (p_progress ->> 'step'::text), 'minutes'::text]), 'requests', (p_progress #> ARRAY['policy'::text, 'steps'::text, (p_progress ->> 'step'::text), 'requests'::text]), 'errors', (p_progress #> '{policy,gates,errors}'::text[]), 'latency', (p_progress #> '{policy,gates,latency}'::text[]), 'restarts', (p_progress #> '{policy,gates,restarts}'::text[])) ELSE NULL::jsonb END;
create or replace function is_judged_passed(p_progress jsonb, p_judged jsonb)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_judged ->> 'outcome'::text) = 'passed'::text) AND (((p_judged ->> 'requests'::text))::numeric >= ((rollout_work(p_progress) ->> 'requests'::text))::numeric) AND (NOT (EXISTS (SELECT FROM jsonb_array_elements((is_judged_passed.p_judged -> 'gates'::text)) g(value) WHERE ((g.value ->> 'verdict'::text) <> 'passed'::text)))) AND (NOT (EXISTS (SELECT FROM unnest('{errors,latency,restarts}'::text[]) name(name) WHERE ((NULLIF((rollout_work(is_judged_passed.p_progress) -> name.name), 'null'::jsonb) IS NOT NULL) AND (NOT ((is_judged_passed.p_judged -> 'gates'::text) @> jsonb_build_array(jsonb_build_object('gate', name.name)))))))));
set role slipway_system;
create or replace function is_lease_held(p_listener uuid, p_fence bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
RETURN (EXISTS (SELECT FROM listeners l WHERE ((l.id = is_lease_held.p_listener) AND (l.fence = is_lease_held.p_fence) AND (l.lease_expires_at > clock()))));
reset role;
create or replace function is_looking(f followed_repositories, p_fence bigint)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN COALESCE((((f).look_fence = p_fence) AND ((f).look_started_at > (clock() - '00:02:00'::interval)) AND (((f).seen_at IS NULL) OR ((f).seen_at < (f).look_started_at))), false);
create or replace function is_maker_ended(p_key uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
  select is_grant_ended(p_key, bound_expiry(null, p_key))
$function$;
set role slipway_system;
create or replace function is_own_model_configuration(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return not exists (
    select from model_configurations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_permitted_for(p_permission text, p_tags uuid[])
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_effect text := (
    select d.effect
    from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags) d
  );
begin
  if v_effect = 'deny' then return false; end if;
  return p_permission = any(actor_permissions()) or coalesce(v_effect, '') = 'allow' and not exists (
    select from api_keys a
    where a.id = current_actor() and not p_permission = any(a.permissions)
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_policy_key(p_key text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return exists (
    select from access_policies p
    cross join lateral jsonb_array_elements(p.condition_groups) g
    cross join lateral jsonb_array_elements(g.value -> 'conditions') c
    where p.organization_id = current_organization() and c.value ->> 'attribute_key' = p_key
  );
end $function$;
reset role;
set role slipway_system;
create or replace function is_temporary_key(p_key uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return exists (
    with recursive makers as (
      select a.id, a.created_by, a.trusted_issuer_id
      from api_keys a
      where a.id = p_key
      union
      select a.id, a.created_by, a.trusted_issuer_id
      from api_keys a
      join makers m on a.id = m.created_by
    )
    select from makers m
    where m.trusted_issuer_id is not null or exists (select from oauth_grants g where g.key_id = m.id)
  );
end $function$;
reset role;
create or replace function is_traffic_split(p_traffic json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((((p_traffic ->> 'starts_at'::text))::integer < 100) OR ((p_traffic #>> '{beside,first}'::text[]) IS NOT NULL)), false);
create or replace function is_tunnel_waiting(p_tunnel tunnels)
 RETURNS boolean
 LANGUAGE sql
 STABLE
RETURN (((p_tunnel).joined_at IS NOT NULL) AND ((p_tunnel).opened_at IS NULL) AND ((p_tunnel).ended_at IS NULL) AND (((p_tunnel).offered_at IS NULL) OR ((p_tunnel).offered_at < (clock() - '00:00:10'::interval))));
set role slipway_system;
create or replace function is_verified_member(p_member uuid)
 RETURNS boolean
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select exists (
    select from members m
    where m.id = p_member and m.organization_id = current_organization()
      and (
        exists (select from identities i where i.member_id = m.id)
        or exists (select from sessions s where s.member_id = m.id and s.is_verified)
      )
  )
$function$;
reset role;
create or replace function job_event(p_type text, p_before jobs, p_after jobs)
 RETURNS tenant_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    p_after.tenant_id,
    p_after.organization_id,
    p_type,
    p_after.id,
    json_strip_nulls(json_build_object(
      'deployment_id', p_after.deployment_id,
      'schedule_id', p_after.schedule_id,
      'due_at', p_after.due_at,
      'attempt', p_after.attempt
    )),
    changed_members(recorded_job(p_before), recorded_job(p_after))
  )::tenant_event;
end $function$;
set role slipway_system;
create or replace function job_obstacle(d deployments, p_process text, p_action jsonb DEFAULT NULL::jsonb)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_policy json := (select l.policy from listeners l where l.id = d.listener_id);
  v_processes json;
begin
  if p_action is null and d.active_revision_id is null then return 'nothing_serves'; end if;
  if p_action is not null and not coalesce(
    (v_policy -> 'features')::jsonb ? snapshot_feature(p_action ->> 'store'), false
  ) then
    return 'snapshots_not_supported';
  end if;
  if p_action ? 'at' and not coalesce((v_policy -> 'features')::jsonb ? 'database_history', false) then
    return 'history_not_supported';
  end if;
  if v_policy ->> 'jobs' is distinct from 'true' then return 'jobs_not_supported'; end if;
  if p_process is not null and v_policy ->> 'job_processes' is distinct from 'true' then
    return 'process_not_supported';
  end if;
  if p_process <> 'web' then
    v_processes := (
      select r.build_plan -> 'processes' from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id
    );
    if json_typeof(v_processes) = 'array'
      and p_process not in ('queue', 'orchestrator', 'executor')
      and not exists (select from json_array_elements(v_processes) p where p ->> 'name' = p_process) then
      return 'process_unknown';
    end if;
  end if;
  return null;
end $function$;
reset role;
create or replace function join_organization(p_email text, p_full_name text)
 RETURNS uuid
 LANGUAGE sql
AS $function$
  insert into members (organization_id, email, full_name, role_id)
  values (current_organization(), p_email, p_full_name, '00000000-0000-4000-8000-000000000005')
  on conflict (organization_id, email) do update set email = excluded.email
  returning id
$function$;
create or replace function journal(p_types text[], p_subjects uuid[], p_data json[], p_changes json[], p_limit bigint, p_bytes bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_count integer := cardinality(p_subjects);
  v_seq bigint;
  v_today bigint;
  v_actor_name text := event_actor_name();
begin
  insert into journals (scope_id, organization_id, seq, day, today)
  values (current_scope(), current_organization(), v_count, journal_day(), v_count + p_bytes / 4096)
  on conflict (scope_id) do update set
    seq = journals.seq + excluded.seq,
    day = excluded.day,
    today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
  returning seq, today into v_seq, v_today;
  perform require_journal_room(v_today, p_limit);
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    current_scope(),
    v_seq - v_count + ordinal,
    current_organization(),
    current_tenant(),
    type,
    subject_id,
    setting('actor_kind'),
    current_actor(),
    v_actor_name,
    setting('request_id'),
    data,
    changes,
    case when ordinal > 1 then v_seq - v_count + 1 end
  from unnest(p_types, p_subjects, p_data, p_changes)
    with ordinality as entry(type, subject_id, data, changes, ordinal);
  return v_seq;
end $function$;
create or replace function journal_day()
 RETURNS date
 LANGUAGE sql
 STABLE
RETURN ((clock() AT TIME ZONE 'UTC'::text))::date;
create or replace function journal_events_of(p_actor_kind text, p_actor_id uuid, p_actor_name text, p_events tenant_event[], p_daily_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if cardinality(p_events) = 0 then return; end if;
  -- The order of the ids keeps two writers from a deadlock.
  with numbered as (
    insert into journals (scope_id, organization_id, seq, day, today)
    select e.tenant_id, e.organization_id, count(*), journal_day(), count(*)
    from unnest(p_events) e
    group by e.tenant_id, e.organization_id
    order by e.tenant_id
    on conflict (scope_id) do update set
      seq = journals.seq + excluded.seq,
      day = excluded.day,
      today = excluded.today + case when journals.day = excluded.day then journals.today else 0 end
    returning scope_id, seq, today
  ),
  placed as (
    select
      e.*,
      row_number() over (partition by e.tenant_id order by e.ordinal) as place,
      count(*) over (partition by e.tenant_id) as count
    from unnest(p_events) with ordinality
      e(tenant_id, organization_id, type, subject_id, data, changes, ordinal)
  )
  insert into events (
    scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, actor_name, request_id, data,
    changes, part_of
  )
  select
    p.tenant_id,
    n.seq - p.count + p.place,
    p.organization_id,
    p.tenant_id,
    p.type,
    p.subject_id,
    p_actor_kind,
    p_actor_id,
    p_actor_name,
    setting('request_id'),
    p.data,
    p.changes,
    case when p.place > 1 and setting('request') is not null then n.seq - p.count + 1 end
  from placed p
  join numbered n on n.scope_id = p.tenant_id
  where require_journal_room(n.today, p_daily_limit);
end $function$;
create or replace function journal_of_identity(p_member uuid, p_issuer text, p_subject text, p_limit bigint)
 RETURNS void
 LANGUAGE sql
AS $function$
  select journal_of_member(
    p_member, 'identity.bound', json_build_object('issuer', p_issuer, 'subject', p_subject),
    changed_members(null, jsonb_build_object('issuer', p_issuer, 'subject', p_subject)), p_limit
  )
$function$;
create or replace function journal_of_member(p_member uuid, p_type text, p_data json, p_changes json, p_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform act_as_member(p_member);
  perform journal(array[p_type], array[p_member], array[p_data], array[p_changes], p_limit, 0);
end $function$;
create or replace function journal_refused_exchange(p_tenant uuid, p_subject uuid, p_data json, p_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_organization uuid;
  v_window constant uuid := md5('token exchange ' || p_tenant)::uuid;
  v_attempts integer;
begin
  -- First the workspace, as its deletion does.
  select w.organization_id into v_organization from workspaces w where w.id = p_tenant for key share;
  -- Without a row lock, so that a flood does not queue for it.
  if not found or exists (
    select from attempt_windows w
    where w.key_id = v_window and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (v_window, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', v_organization::text, true),
    set_config('app.tenant_id', p_tenant::text, true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', coalesce(p_data ->> 'subject', ''), true);
  begin
    perform journal(
      array['token_exchange.refused'], array[coalesce(p_subject, p_tenant)], array[p_data], array[null::json],
      p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The caller gets the same answer as on other days.
    null;
  end;
end $function$;
create or replace function journal_refused_sign_in(p_organization uuid, p_member uuid, p_data json, p_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_attempts integer;
begin
  -- Without a row lock, so that a flood does not queue for it.
  if exists (
    select from attempt_windows w
    where w.key_id = p_organization and w.started_at > clock() - interval '1 hour' and w.attempts >= 60
  ) then
    return;
  end if;
  insert into attempt_windows as w (key_id, started_at, attempts)
  values (p_organization, clock(), 1)
  on conflict (key_id) do update set
    attempts = excluded.attempts + case when w.started_at > clock() - interval '1 hour' then w.attempts else 0 end,
    started_at = case when w.started_at > clock() - interval '1 hour' then w.started_at else excluded.started_at end
  returning attempts into v_attempts;
  if v_attempts > 60 then return; end if;
  perform
    set_config('app.organization_id', p_organization::text, true),
    set_config('app.tenant_id', '', true),
    set_config('app.actor_kind', 'visitor', true),
    set_config('app.actor_id', '', true),
    set_config('app.actor_name', '', true);
  begin
    perform journal(
      array['session.refused'], array[coalesce(p_member, p_organization)], array[p_data], array[null::json], p_limit, 0
    );
  exception when sqlstate 'SW000' then
    -- The journal's day is full. The visitor must not learn from the answer that the address is a member's.
    null;
  end;
end $function$;
create or replace function journal_tenant_events(p_events tenant_event[], p_daily_limit bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if cardinality(p_events) = 0 then return; end if;
  perform journal_events_of(
    case when current_listener() is null then 'cron' else 'listener' end,
    current_listener(),
    event_actor_name(),
    p_events,
    p_daily_limit
  );
end $function$;
create or replace function json_pairs(p_json jsonb)
 RETURNS TABLE(key text, value jsonb)
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
 WITH RECURSIVE nodes(key, value) AS (
          SELECT NULL::text AS text,
             json_pairs.p_json AS p_json
         UNION ALL
          SELECT COALESCE(((n.key || '.'::text) || m.key), m.key, n.key) AS "coalesce",
             m.value
            FROM (nodes n
              CROSS JOIN LATERAL ( SELECT o.key,
                     o.value
                    FROM jsonb_each(
                         CASE jsonb_typeof(n.value)
                             WHEN 'object'::text THEN n.value
                             ELSE NULL::jsonb
                         END) o(key, value)
                 UNION ALL
                  SELECT NULL::text,
                     a.value
                    FROM jsonb_array_elements(
                         CASE jsonb_typeof(n.value)
                             WHEN 'array'::text THEN n.value
                             ELSE NULL::jsonb
                         END) a(value)) m)
         )
  SELECT nodes.key,
     nodes.value
    FROM nodes
   WHERE (nodes.key IS NOT NULL);
END;
create or replace function json_pairs_of(p_json jsonb, p_keys text[])
 RETURNS TABLE(key text, value jsonb)
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE ROWS 2
BEGIN ATOMIC
 SELECT k.key,
     (json_pairs_of.p_json -> k.key)
    FROM unnest(json_pairs_of.p_keys) k(key)
   WHERE jsonb_exists(json_pairs_of.p_json, k.key)
 UNION ALL
  SELECT p.key,
     p.value
    FROM (unnest(json_pairs_of.p_keys) k(key)
      CROSS JOIN LATERAL json_pairs(jsonb_build_object(k.key, (json_pairs_of.p_json -> k.key))) p(key, value))
   WHERE ((jsonb_typeof((json_pairs_of.p_json -> k.key)) = 'array'::text) AND (p.key = k.key) AND (p.value <> (json_pairs_of.p_json -> k.key)));
END;
create or replace function judged_health(p_message text)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN jsonb_build_object('gates', jsonb_build_array(jsonb_build_object('gate', 'health', 'verdict', 'failed', 'message', "left"(p_message, 500))));
create or replace function keep_disk_mounts(p_stored jsonb, p_mounts jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
  select p_mounts || coalesce(jsonb_agg(m.mount order by m.place), '[]')
  from jsonb_array_elements(nullif(p_stored -> 'volume_mounts', 'null')) with ordinality m(mount, place)
  join jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) volume on volume -> 'name' = m.mount -> 'name'
  where nullif(volume -> 'persistentVolumeClaim', 'null') is not null
    and not p_mounts @> jsonb_build_array(jsonb_build_object('name', m.mount -> 'name'))
$function$;
create or replace function keep_disks(p_stored jsonb, p_volumes jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE STRICT
AS $function$
  with disk as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(nullif(p_stored -> 'volumes', 'null')) with ordinality v(volume, place)
    where nullif(v.volume -> 'persistentVolumeClaim', 'null') is not null
  ),
  sent as (
    select v.volume, v.place, v.volume ->> 'name' as name, v.volume #>> '{persistentVolumeClaim, claimName}' as claim
    from jsonb_array_elements(p_volumes) with ordinality v(volume, place)
  )
  select coalesce(
    (
      select jsonb_agg(coalesce(d.volume, s.volume) order by s.place)
      from sent s
      left join disk d on d.name = s.name and d.volume <> s.volume and (d.claim = s.claim) is not true
    ),
    '[]'
  ) || coalesce(
    (
      select jsonb_agg(d.volume order by d.place)
      from disk d
      where not exists (select from sent s where s.name = d.name)
    ),
    '[]'
  )
$function$;
create or replace function kept_for(p_tier text)
 RETURNS interval
 LANGUAGE sql
 IMMUTABLE
RETURN CASE p_tier WHEN 'shortlived'::text THEN '14 days'::interval ELSE '400 days'::interval END;
create or replace function lacks_artifact(p_source text, p_revision_config json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_source = 'internal_container'::text) AND ((p_revision_config ->> 'image_uri'::text) IS NULL)) OR ((p_source = 'internal_source'::text) AND ((p_revision_config ->> 'source_tarball_path'::text) IS NULL)));
create or replace function latency_bucket(p_from timestamp with time zone, p_until timestamp with time zone)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN (1 + (LEAST((239)::numeric, floor(((8)::numeric * log((2)::numeric, GREATEST((1)::numeric, ((1000)::numeric * EXTRACT(epoch FROM (p_until - p_from)))))))))::integer);
create or replace function latest_change(p_agent text, p_fence bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener();
  if (v_listener.fence, v_listener.agent_id) is distinct from (p_fence, p_agent) then
    perform refuse('fence_stale');
  end if;
  perform adopt_deployments(v_listener);
  return coalesce((select c.seq from sync_cursors c where c.listener_id = v_listener.id), 0);
end $function$;
create or replace function leave_canary(p_traffic json, p_is_deployed boolean)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_traffic)::jsonb || CASE WHEN p_is_deployed THEN jsonb_build_object('active', jsonb_build_object('name', (p_traffic #> '{beside,name}'::text[]), 'label', (p_traffic #> '{beside,label}'::text[])), 'beside', NULL::unknown) ELSE jsonb_build_object('beside', (((p_traffic -> 'beside'::text))::jsonb || '{"rollout": null, "revision_id": null}'::jsonb)) END))::json;
create or replace function limit_access(p_access jsonb, p_roles uuid[], p_organization uuid, p_tenant uuid, p_permission text, p_may boolean)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_type jsonb;
  v_own access_condition[];
  v_hidden access_condition[];
  v_is_bound boolean;
  v_allows boolean := false;
  v_is_limited boolean := not p_may;
  v_policy text;
begin
  for v_type in select * from jsonb_array_elements(p_access -> 'types') loop
    v_is_bound := coalesce(v_type ->> 'type' = p_access ->> 'bound', false);
    v_own := '{}';
    v_hidden := '{}';
    if v_is_bound then
      v_own := resolve_rules(p_roles, p_organization, p_tenant, p_permission, '{allow, deny}', 0);
      v_allows := exists (select from unnest(v_own) r where not r.is_deny);
    end if;
    if v_type ->> 'reading' <> p_permission then
      v_hidden := resolve_rules(p_roles, p_organization, p_tenant, v_type ->> 'reading', '{deny}', cardinality(v_own));
    end if;
    if not p_may or exists (select from unnest(v_own || v_hidden) r where r.is_deny) then
      v_is_limited := true;
      perform set_config(
        'app.access_' || (v_type ->> 'type'),
        row(p_may or not v_is_bound, v_type ->> 'reading' is not null, v_own || v_hidden)::access::text,
        true
      );
    end if;
  end loop;
  if not p_may and not (v_allows and (p_access ->> 'can_open')::boolean) then
    perform refuse('permission_missing', p_permission);
  end if;

  select p.name
  into v_policy
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = p_organization and x.effect = 'deny'
    and p_access -> 'everything' ? x.permission
  limit 1;
  if found then perform refuse('denied_by_policy', v_policy); end if;
  if not v_is_limited then return false; end if;

  perform set_config('app.by_policy', (not p_may)::text, true);
  perform set_config('app.shows_events', coalesce(p_access ->> 'shows_events', 'false'), true);
  if p_access ->> 'bound' is not null and p_access ->> 'resource' is not null then
    perform refuse_denied_resource(p_access, p_roles, p_organization, p_tenant, p_permission);
  end if;
  return true;
end $function$;
create or replace function list_protection(d deployments)
 RETURNS json
 LANGUAGE sql
 STABLE
AS $function$
  select json_build_object(
    'open_paths', d.protection -> 'open_paths',
    'bypasses', (
      select coalesce(
        json_agg(json_build_object('kind', b.kind, 'hash', b.token_hash, 'expires_at', b.expires_at) order by b.id),
        '[]'
      )
      from protection_bypasses b
      where b.deployment_id = d.id and coalesce(b.expires_at > clock(), true)
    )
  )
$function$;
create or replace function list_resource_faults(p_resources jsonb, p_pairs jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select array(
    select format('source_config.resource_spec.%s must be at least %s', pair ->> 1, pair ->> 0)
    from jsonb_array_elements(p_pairs) pair
    -- Engines round to thousandths.
    where round((p_resources ->> (pair ->> 0))::numeric, 3) > round((p_resources ->> (pair ->> 1))::numeric, 3)
  ) || array(
    select format('source_config.resource_spec has two containers named %s', name)
    from jsonb_array_elements(
      coalesce(nullif(p_resources -> 'init_containers', 'null'), '[]')
      || coalesce(nullif(p_resources -> 'sidecars', 'null'), '[]')
    ) container
    cross join lateral (select container ->> 'name' as name) named
    where p_pairs is not null
    group by name
    having count(*) > 1
  ) || array(
    select format('source_config.resource_spec.%s has more than 100 items, with those of the disks that stay', name)
    from unnest('{volumes, volume_mounts}'::text[]) name
    where jsonb_array_length(coalesce(nullif(p_resources -> name, 'null'), '[]')) > 100
  ) || array(
    select 'source_config.resource_spec has more than 2 MiB, with the members that stay'
    where octet_length(p_resources::text) > 2097152
  )
$function$;
create or replace function list_token_volumes(p_volumes jsonb)
 RETURNS SETOF text
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select format('resource_spec.volumes.%s.projected.sources.%s.serviceAccountToken', v.place - 1, s.place - 1)
  from jsonb_array_elements(nullif(p_volumes, 'null')) with ordinality v(volume, place)
  cross join jsonb_array_elements(
    case when jsonb_typeof(v.volume #> '{projected, sources}') = 'array' then v.volume #> '{projected, sources}' end
  ) with ordinality s(source, place)
  where nullif(s.source -> 'serviceAccountToken', 'null') is not null
$function$;
create or replace function list_traffic(d deployments)
 RETURNS json
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select json_build_object(
    'revision_id', d.traffic #> '{beside, revision_id}',
    'share', d.traffic #> '{beside, share}',
    'sticky', d.traffic -> 'sticky',
    'rollout', rollout_work(rollout_of(d))
  )
  where d.traffic #>> '{beside, revision_id}' is not null
$function$;
create or replace function list_volume_faults(p_stored jsonb, p_next jsonb, p_sent jsonb)
 RETURNS text[]
 LANGUAGE sql
 IMMUTABLE
AS $function$
  select array(
    select format(
      'source_config.resource_spec.volumes would replace the disk %s: use another name, or clear '
        'resource_spec.volumes first',
      sent ->> 'name'
    )
    from jsonb_array_elements(p_sent) sent
    where not exists (select from jsonb_array_elements(p_next -> 'volumes') kept where kept = sent)
  ) || array(
    select format('source_config.resource_spec.%s mounts %s, which the patch takes away', m.place, m.name)
    from (
      select 'volume_mounts' as place, mount ->> 'name' as name
      from jsonb_array_elements(nullif(p_next -> 'volume_mounts', 'null')) mount
      union
      select member || '.' || (container ->> 'name'), mount ->> 'name'
      from unnest('{init_containers, sidecars}'::text[]) member
      cross join jsonb_array_elements(nullif(p_next -> member, 'null')) container
      cross join jsonb_array_elements(nullif(container -> 'volumeMounts', 'null')) mount
    ) m
    cross join jsonb_build_array(jsonb_build_object('name', m.name)) volume
    where p_stored -> 'volumes' @> volume and not coalesce(p_next -> 'volumes' @> volume, false)
    order by m.place, m.name
  )
$function$;
set role slipway_system;
create or replace function lock_credentials(p_member uuid)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_keys uuid[] := array(
    select a.id from api_keys a where a.member_id = p_member and a.organization_id = current_organization()
  );
begin
  perform from sessions s
  where s.organization_id = current_organization() and (s.member_id = p_member or s.key_id = any(v_keys))
  order by s.id
  for update;
  perform from api_keys a where a.id = any(v_keys) order by a.id for update;
end $function$;
reset role;
create or replace function lock_deployment(p_id uuid)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
begin
  select d.* into v_stored from deployments d where d.id = p_id and d.tenant_id = current_tenant() for update;
  return v_stored;
end $function$;
create or replace function lock_deployment_version(p_deployment uuid, p_request jsonb)
 RETURNS deployments
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.deleting_at is not null then return null; end if;
  perform require_version(v_stored.version, p_request);
  return v_stored;
end $function$;
create or replace function lock_for_admin_checks(p_member uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform from organizations where id = current_organization() for no key update;
  perform from workspaces
  where organization_id = current_organization()
    and id in (select tenant_id from workspace_members where member_id = p_member)
  order by id
  for no key update;
end $function$;
create or replace function lock_key_tree(p_key uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform from api_keys a
  where a.id in (
    with recursive tree as (
      select p_key as id
      union
      select a.id
      from api_keys a
      join tree t on a.created_by = t.id
    )
    select id from tree
  )
  order by a.id
  for no key update;
end $function$;
set role slipway_system;
create or replace function lock_provider_to_change(p_provider_id text)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  p oauth_providers;
begin
  select *
  into p
  from oauth_providers
  where organization_id = current_organization() and provider_id = p_provider_id
  for update;
  if not found or 'organization:manage-providers' = any(actor_permissions()) then return; end if;
  -- A provider without a maker and a caller without a workspace never match.
  if p.made_by_workspace is null or p.made_by_workspace is distinct from current_tenant() then
    perform refuse('provider_not_yours', 'another workspace made it');
  end if;
  if exists (
      select from oauth_tokens t
      where t.provider_id = p.id and t.tenant_id <> current_tenant() and t.revoked_at is null
    )
    or exists (
      select from oauth_flows f
      where f.provider_id = p.id and f.tenant_id <> current_tenant()
        and f.status in ('pending', 'answered') and f.expires_at > clock()
    )
  then
    perform refuse('provider_not_yours', 'other workspaces are connected through it');
  end if;
end $function$;
reset role;
create or replace function longlived_days(p_days integer)
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN COALESCE(p_days, (SELECT t.longlived_ttl_days FROM ttl_settings t WHERE (t.tenant_id = current_tenant())), 400);
create or replace function make_runs_partition(p_tier text, p_from timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
 SET lock_timeout TO '500ms'
AS $function$
declare
  v_until constant timestamptz := partition_end(p_tier, p_from);
  v_columns text;
begin
  if to_regclass(partition_name(p_tier, p_from)) is not null then return true; end if;
  perform create_runs_partition(p_tier, p_from);
  -- A table with rows of the partition does not let it in. Runs whose clock was wrong are few.
  execute format('lock table %I in access exclusive mode', format('runs_%s_other', p_tier));
  select string_agg(attname, ', ') into v_columns
  from pg_attribute
  where attrelid = 'runs'::regclass and attnum > 0 and attgenerated = '' and not attisdropped;
  execute format(
    'with moved as (delete from %1$I where order_time >= $1 and order_time < $2 returning *)
      insert into %2$I (%3$s) select %3$s from moved',
    format('runs_%s_other', p_tier), partition_name(p_tier, p_from), v_columns
  ) using p_from, v_until;
  perform attach_runs_partition(p_tier, p_from);
  return true;
exception when lock_not_available then
  return false;
end $function$;
create or replace function make_runs_partitions(p_now timestamp with time zone)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_from timestamptz;
begin
  for v_from in
    select day at time zone 'UTC'
    from generate_series(date_trunc('day', p_now at time zone 'UTC') - interval '1 day',
      p_now at time zone 'UTC' + interval '7 days', '1 day') day
  loop
    if not make_runs_partition('shortlived', v_from) then return false; end if;
  end loop;
  for v_from in
    select month at time zone 'UTC'
    from generate_series(date_trunc('month', p_now at time zone 'UTC'),
      p_now at time zone 'UTC' + interval '7 days', '1 month') month
  loop
    if not make_runs_partition('longlived', v_from) then return false; end if;
  end loop;
  return true;
end $function$;
set role slipway_system;
create or replace function maker_key()
 RETURNS api_keys
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_hash text := own_credential();
  v_made_by text;
  v_key api_keys;
begin
  loop
    select s.made_by into v_made_by from sessions s where s.token_hash = v_hash;
    exit when not found;
    v_hash := v_made_by;
  end loop;
  select * into v_key from api_keys a where a.key_hash = v_hash;
  return v_key;
end $function$;
reset role;
create or replace function maker_of_session(p_maker_of_link text, p_member uuid)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_hash text := p_maker_of_link;
  v_session record;
begin
  loop
    select s.member_id, s.made_by into v_session from sessions s where s.token_hash = v_hash;
    if not found or v_session.member_id = p_member then return v_hash; end if;
    v_hash := v_session.made_by;
  end loop;
end $function$;
create or replace function mark_alert_due(p_rule alert_rules, p_subject uuid, p_subject_type text)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into alert_states as s (organization_id, tenant_id, rule_id, subject_id, subject_type, due_at)
  values (p_rule.organization_id, p_rule.tenant_id, p_rule.id, p_subject, p_subject_type, clock())
  on conflict (rule_id, subject_id) do update set due_at = clock(), version = s.version + 1;
end $function$;
create or replace function max_open_jobs()
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (COALESCE(setting('max_open_jobs'::text), '1000'::text))::integer;
create or replace function max_running_jobs()
 RETURNS integer
 LANGUAGE sql
 STABLE
RETURN (COALESCE(setting('max_running_jobs'::text), '20'::text))::integer;
create or replace function may_be_told(c channels, p_thread text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return c.member_id is null or (
    member_permissions(c.member_id, c.tenant_id) @> array[
      'channels:read',
      case when p_thread like 'revision %' then 'deployments:read' else 'alerts:read' end
    ]
    and not has_rules(policy_roles(null, c.member_id, c.tenant_id), c.organization_id)
  );
end $function$;
create or replace function may_serve(p_listener listeners, p_protection json)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_protection ->> 'mode'::text) IS DISTINCT FROM 'members'::text) OR COALESCE(((((p_listener).policy)::jsonb -> 'features'::text) @> '"protection"'::jsonb), false));
create or replace function member_change(p_path text, p_before jsonb, p_after jsonb)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN concat('{"path" : ', to_json(p_path), ', "before" : ', COALESCE((event_value(p_before))::text, 'null'::text), ', "after" : ', COALESCE((event_value(p_after))::text, 'null'::text), '}');
set role slipway_system;
create or replace function member_last_seen(p_member uuid)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select max(last_seen_at)
  from sessions
  where member_id = p_member and organization_id = current_organization()
$function$;
reset role;
set role slipway_system;
create or replace function member_permissions(p_member uuid, p_tenant uuid)
 RETURNS text[]
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select array_agg(distinct permission)
  from (
    select unnest(r.permissions) as permission
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union all
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member and m.tenant_id = p_tenant
  ) granted
$function$;
reset role;
create or replace function minutes_over_at(p_progress jsonb)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (((p_progress ->> 'since'::text))::timestamp with time zone + (((rollout_work(p_progress) ->> 'minutes'::text))::double precision * '00:01:00'::interval));
create or replace function model_period(p_period text)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN date_trunc(p_period, clock(), 'UTC'::text);
create or replace function move_preview(p_deployment uuid, p_preview uuid, p_column json, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  update previews v
  set state = 'live', expires_at = (p_column ->> 'expires_at')::timestamptz, updated_at = clock()
  where v.id = p_preview and v.tenant_id = current_tenant()
    and v.head_sha is not distinct from p_column ->> 'head_sha'
    and v.state <> 'ended';
  update deployments d
  set
    preview = (
      p_column::jsonb || case
        when d.preview::jsonb ? 'database_copy' then jsonb_build_object('database_copy', d.preview -> 'database_copy')
        else '{}'
      end
    )::json,
    version = d.version + 1,
    updated_at = greatest(clock(), d.updated_at)
  where d.id = v_stored.id and d.tenant_id = current_tenant()
    and d.deleting_at is null
    and d.preview ->> 'head_sha' is distinct from p_column ->> 'head_sha'
  returning d.* into v_changed;
  if not found then return; end if;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[deployment_event(
      'deployment.preview_moved',
      v_stored,
      v_changed,
      json_build_object('number', p_column -> 'number', 'branch', p_column -> 'branch')
    )],
    p_request
  );
  return next;
end $function$;
create or replace function move_repository(p_integration uuid, p_key text, p_url text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments[] := array(
    select d
    from deployments d
    where d.repo_key = p_key and d.tenant_id = current_tenant()
      and d.source_config ->> 'integration_id' = p_integration::text
      and d.deleting_at is null
    order by d.id
    for update
  );
  v_changed deployments[];
begin
  if cardinality(v_stored) = 0 then return; end if;
  with changed as (
    update deployments d
    set
      source_config = jsonb_set(d.source_config::jsonb, '{repo_url}', to_jsonb(p_url))::json,
      version = d.version + 1,
      updated_at = greatest(clock(), d.updated_at)
    from unnest(v_stored) s
    where d.id = s.id and d.tenant_id = current_tenant()
    returning d
  )
  select array_agg((c.d)::deployments order by (c.d).id) into v_changed from changed c;
  answer := to_json(cardinality(v_changed));
  has_webhooks := conclude_writes(
    array(select to_json(c) from unnest(v_changed) c),
    array(
      select deployment_event('deployment.repository_moved', s, c, json_build_object('repo_url', p_url))
      from unnest(v_stored) s
      join unnest(v_changed) c on c.id = s.id
      order by c.id
    ),
    p_request
  );
  return next;
end $function$;
create or replace function move_rollout(p_deployment uuid, p_action text, p_message text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before deployments := lock_deployment_version(p_deployment, p_request);
  v_progress jsonb := rollout_of(v_before);
  d deployments := v_before;
  r revisions;
  v_next revisions;
  v_events tenant_event[] := '{}';
begin
  if v_before.id is null then return; end if;
  if v_progress is null then perform refuse('rollout_not_running'); end if;
  case p_action
    when 'abort' then
      select n.* into r from revisions n where n.id = d.in_flight_revision_id and n.deployment_id = d.id;
      v_next := r;
      v_next.status := 'INTERRUPTED';
      v_next.status_message := p_message;
      d := follow_revision(v_before, r, v_next);
      perform write_moved_revisions(array[v_next]);
      v_events := array[
        rollout_event('deployment.rollout_aborted', v_before, d),
        revision_moved(r, v_next, json_build_object('deployment_id', d.id, 'message', p_message))
      ];
    when 'promote' then
      if rollout_work(v_progress) is not null then
        d := with_rollout(
          v_before,
          v_progress - 'asked' || jsonb_build_object(
            'step', jsonb_array_length(v_progress #> '{policy, steps}'),
            'since', clock(),
            'paused', false,
            'passed', false
          ),
          100
        );
        d.generation := d.generation + 1;
      end if;
      v_events := array[rollout_event('deployment.rollout_promoted', v_before, d)];
    when 'pause' then
      if v_progress -> 'paused' = 'false' and rollout_work(v_progress) is not null then
        d := with_rollout(d, v_progress || '{"paused": true}', (d.traffic #>> '{beside, share}')::integer);
      end if;
      v_events := array[rollout_event('deployment.rollout_paused', v_before, d)];
    when 'resume' then
      if v_progress -> 'paused' = 'true' then
        d := with_rollout(d, v_progress || '{"paused": false}', (d.traffic #>> '{beside, share}')::integer);
        if v_progress -> 'passed' = 'true' and not asks_control_plane(v_progress)
          and minutes_over_at(v_progress) <= clock() then
          d := advance_rollout(d, (rollout_judged(d) ->> 'requests')::bigint, rollout_judged(d) -> 'gates');
        end if;
      end if;
      v_events := array[rollout_event('deployment.rollout_resumed', v_before, d)];
  end case;
  v_events := v_events || deployment_events(v_before, d);
  if d.traffic::text <> v_before.traffic::text then
    d.updated_at := greatest(clock(), d.updated_at);
    d.version := v_before.version + 1;
  end if;
  answer := to_json(d);
  has_webhooks := conclude_write(
    answer, array(select (e.type, e.subject_id, e.data, e.changes)::new_event from unnest(v_events) e), p_request
  );
  if d.version > v_before.version then perform write_moved_deployments(array[d]); end if;
  return next;
end $function$;
create or replace function new_key_expiry(p_requested timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_own timestamptz := (maker_key()).expires_at;
begin
  if p_requested > v_own then perform refuse('key_outlives_creator', v_own::text); end if;
  return coalesce(p_requested, v_own);
end $function$;
set role slipway_system;
create or replace function number_of_open_jobs(p_tenant uuid)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return (select count(*) from jobs j where j.tenant_id = p_tenant and j.status in ('QUEUED', 'RUNNING'));
end $function$;
reset role;
create or replace function oauth_binding(p oauth_providers)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN md5((json_build_array((p).issuer, (p).client_id, (p).resource, (p).auth_url, (p).token_url, (p).revocation_url, (p).registration_client_uri))::text);
create or replace function object_bytes(p_objects json)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (SELECT COALESCE(sum(((size.size)::text)::bigint), (0)::numeric) AS "coalesce" FROM jsonb_path_query((object_bytes.p_objects)::jsonb, '$.**."bytes"?(@.type() == "number")'::jsonpath) size(size));
set role slipway_system;
create or replace function offer_drains(p_listener listeners, p_digest text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_list json;
  v_digest text;
begin
  if p_digest is null then return null; end if;
  with served as (
    select d as drain, drained_deployments(d, p_listener.id) as deployment_ids
    from drains d
    where d.enabled
      and d.signals && '{logs,requests,metrics}'
      and (p_listener.tenant_id is null or d.tenant_id = p_listener.tenant_id)
      and exists (
        select from deployments x
        where x.tenant_id = d.tenant_id and x.listener_id = p_listener.id and x.deleting_at is null
      )
    -- The first of each workspace before the second of any: no workspace takes the room of others.
    order by row_number() over (partition by d.tenant_id order by d.created_at, d.id), d.created_at, d.id
    limit 500
  )
  select
    json_agg(json_build_object(
      'id', (s.drain).id,
      'tenant_id', (s.drain).tenant_id,
      'kind', (s.drain).kind,
      'url', (s.drain).url,
      'compression', (s.drain).compression,
      'signals', array(
        select g from unnest((s.drain).signals) g where g in ('logs', 'requests', 'metrics')
      ),
      'deployment_ids', s.deployment_ids,
      'filter', json_build_object(
        'min_level', (s.drain).min_level,
        'processes', (s.drain).processes,
        'contains', (s.drain).contains
      ),
      'sampling_rate', (s.drain).sampling_rate,
      'headers', (s.drain).headers
    )),
    coalesce(md5(string_agg(
      concat_ws(' ', (s.drain).id, (s.drain).version, array_to_string(s.deployment_ids, ',')), E'\n'
    )), '')
  into v_list, v_digest
  from served s;
  return json_build_object(
    'digest', v_digest,
    'list', case when v_digest is distinct from p_digest then coalesce(v_list, '[]') end
  );
end $function$;
reset role;
set role slipway_system;
create or replace function offer_looks(p_listener listeners, p_limit integer, p_daily_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_looks json;
  v_events tenant_event[];
begin
  with due as (
    select f.id, f.look_fence
    from followed_repositories f
    where f.id in (select d from due_looks(p_listener.id, p_limit) d)
    for update skip locked
  ),
  claimed as (
    update followed_repositories f
    set
      look_at = clock() + interval '2 minutes',
      look_started_at = clock(),
      look_fence = p_listener.fence
    from due, integrations i
    where f.id = due.id and i.id = f.integration_id and i.state = 'active' and i.ssh is not null
    returning f.id, f.seen, i as integration, due.look_fence is distinct from p_listener.fence as is_new
  )
  select
    coalesce(json_agg(json_build_object(
      'id', c.id,
      'digest', c.seen ->> 'digest',
      'integration', to_json(c.integration)
    )), '[]'),
    array_agg((
      (c.integration).tenant_id,
      (c.integration).organization_id,
      'integration.key_revealed',
      (c.integration).id,
      json_build_object('fence', p_listener.fence),
      null
    )::tenant_event) filter (where c.is_new)
  into v_looks, v_events
  from claimed c;
  if v_events is not null then
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  return v_looks;
end $function$;
reset role;
create or replace function offer_tunnels(p_limit integer)
 RETURNS json
 LANGUAGE sql
 SET plan_cache_mode TO 'force_generic_plan'
BEGIN ATOMIC
 WITH offered AS (
          UPDATE tunnels t SET offered_at = clock()
           WHERE (t.id IN ( SELECT w.id
                    FROM tunnels w
                   WHERE ((w.listener_id = current_listener()) AND (w.ended_at IS NULL) AND is_tunnel_waiting(w.*))
                   ORDER BY w.joined_at
                  LIMIT offer_tunnels.p_limit))
           RETURNING t.id,
             t.deployment_id,
             t.revision_id,
             t.is_terminal,
             t.request,
             t.joined_at
         )
  SELECT COALESCE(json_agg(json_build_object('id', o.id, 'deployment_id', o.deployment_id, 'revision_id', o.revision_id, 'terminal',
         CASE
             WHEN o.is_terminal THEN o.request
             ELSE NULL::json
         END, 'forward',
         CASE
             WHEN (NOT o.is_terminal) THEN o.request
             ELSE NULL::json
         END) ORDER BY o.joined_at), '[]'::json) AS "coalesce"
    FROM offered o;
END;
set role slipway_system;
create or replace function offered_templates()
 RETURNS TABLE(name text, description text, listener_ids uuid[], is_on_platform boolean)
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select
    t.name,
    min(l.template_descriptions ->> t.name),
    coalesce(array_agg(l.id order by l.id) filter (where l.tenant_id is not null), '{}'),
    bool_or(l.tenant_id is null)
  from listeners l
  cross join lateral unnest(l.templates) t(name)
  where l.tenant_id = current_tenant() or l.tenant_id is null
  group by t.name
$function$;
reset role;
set role slipway_system;
create or replace function oldest_event()
 RETURNS bigint
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select seq from events where scope_id = current_tenant() order by seq limit 1
$function$;
reset role;
create or replace function open_incident(r alert_rules, p_decision jsonb)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_type text := p_decision ->> 'subject_type';
  v_subject uuid := (p_decision ->> 'subject_id')::uuid;
begin
  select *
  into i
  from incidents k
  where k.rule_id = r.id and k.subject_id = v_subject and k.state = 'resolved'
    and k.resolved_at > clock() - interval '1 hour'
  order by k.resolved_at desc
  limit 1
  for no key update;
  if found then return reopen_incident(i, p_decision, r.resolve_after_seconds * interval '1 second'); end if;
  insert into incidents (
    organization_id, tenant_id, rule_id, rule_name, subject_type, subject_id, subject_name, deployment_id, project_id,
    severity, title, cause, value, evidence, channel_ids, muted_until, tell_at
  )
  values (
    r.organization_id, r.tenant_id, r.id, r.name, v_type, v_subject, p_decision ->> 'subject_name',
    case when v_type = 'deployment' then v_subject end,
    case when v_type = 'project' then v_subject end,
    r.severity, p_decision ->> 'title', coalesce(p_decision ->> 'cause', ''),
    (p_decision ->> 'value')::double precision, p_decision -> 'evidence',
    alert_channels(r.tenant_id, r.channel_ids),
    (p_decision ->> 'muted_until')::timestamptz, (p_decision ->> 'muted_until')::timestamptz
  )
  on conflict do nothing
  returning * into i;
  return i;
end $function$;
create or replace function open_session(p_member uuid, p_token_hash text, p_method text, p_limit bigint)
 RETURNS sessions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_session sessions;
begin
  perform act_as_member(p_member);
  insert into sessions (organization_id, member_id, token_hash, method, is_verified, client_address, user_agent)
  values (
    current_organization(), p_member, p_token_hash, p_method, p_method = 'oidc',
    setting('request')::json ->> 'client_address', setting('request')::json ->> 'user_agent'
  )
  returning * into v_session;
  perform journal(
    array['session.opened'], array[v_session.id], array[json_build_object('method', p_method)],
    array[changed_members(null, jsonb_build_object('method', p_method, 'expires_at', v_session.expires_at))],
    p_limit, 0
  );
  return v_session;
end $function$;
create or replace function opened_event(i incidents)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN incident_event(i, 'incident.opened'::text, CASE WHEN ((i).reopened > 0) THEN 'resolved'::text ELSE NULL::text END);
set role slipway_system;
create or replace function own_policy_on_key(p_key text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_roles uuid[];
begin
  if setting('policies_off') = 'true' or 'organization:manage' = any(actor_permissions()) then return null; end if;
  v_roles := actor_policy_roles();
  return (
    select p.name
    from access_rules x
    join access_policies p on p.id = x.access_policy_id
    cross join lateral jsonb_array_elements(x.conditions) c
    where x.role_id = any(v_roles) and x.organization_id = current_organization()
      and c.value ->> 'attribute_key' = p_key
    limit 1
  );
end $function$;
reset role;
create or replace function partition_end(p_tier text, p_from timestamp with time zone)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN (((p_from AT TIME ZONE 'UTC'::text) + CASE p_tier WHEN 'shortlived'::text THEN '1 day'::interval ELSE '1 mon'::interval END) AT TIME ZONE 'UTC'::text);
create or replace function partition_name(p_tier text, p_from timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN format('runs_%s_%s'::text, p_tier, to_char((p_from AT TIME ZONE 'UTC'::text), CASE p_tier WHEN 'shortlived'::text THEN 'YYYYMMDD'::text ELSE 'YYYYMM'::text END));
create or replace function patch_deployment(p_deployment uuid, p_revision uuid, p_patch jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_plan patch_plan;
  v_queued record;
  v_changed deployments;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  v_plan := plan_patch(v_stored, p_patch);
  perform require_allowed_patch(v_stored, v_plan, p_patch, p_request);
  if cardinality(v_plan.immutable) > 0 then
    perform refuse('member_immutable', array_to_string(v_plan.immutable, ', '));
  end if;

  v_queued := queue_revision(
    v_stored,
    v_plan.next,
    p_revision,
    v_plan.reasons,
    coalesce(p_patch ->> 'revision_source', v_stored.source),
    p_changes_in_place => cardinality(v_plan.in_place) > 0
  );
  v_changed := v_queued.changed;
  if 'secrets' = any(v_plan.reasons) then
    insert into deployment_secrets (organization_id, tenant_id, deployment_id, name, version, sealed, fingerprint)
    select
      v_changed.organization_id, v_changed.tenant_id, v_changed.id, s.name, w.version, s.sealed, s.fingerprints ->> 0
    from json_to_recordset(v_changed.secrets) w(name text, version integer)
    join jsonb_to_recordset(p_patch -> 'secrets') s(name text, sealed text, fingerprints jsonb) on s.name = w.name
    where w.version = v_changed.revisions;
  end if;

  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer, deployment_event('deployment.patched', v_stored, v_changed) || v_queued.events, p_request
  );
  return next;
end $function$;
create or replace function percentile_of(p_counts bigint[], p_part double precision)
 RETURNS double precision
 LANGUAGE sql
 IMMUTABLE
RETURN (SELECT (power((2)::numeric, (((counts.place)::numeric - 0.5) / (8)::numeric)) / (1000)::numeric) FROM (SELECT c.place, sum(c.n) OVER (ORDER BY c.place) AS upto, sum(c.n) OVER () AS total FROM unnest(percentile_of.p_counts) WITH ORDINALITY c(n, place)) counts WHERE ((counts.upto)::double precision >= GREATEST((1)::double precision, ceil(((counts.total)::double precision * percentile_of.p_part)))) ORDER BY counts.place LIMIT 1);
create or replace function place_canary(d deployments, p_revision uuid, p_is_rollback boolean)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_traffic jsonb := coalesce(
    d.traffic::jsonb,
    case
      when d.rollout is not null then '{"starts_at": 100, "sticky": null, "active": null, "beside": null}'::jsonb
    end
  );
  v_beside jsonb := nullif(v_traffic -> 'beside', 'null');
  v_first integer := case
    when d.rollout is not null then rollout_share(d.rollout::jsonb, 0)
    else coalesce(nullif((v_traffic ->> 'starts_at')::integer, 100), (v_beside ->> 'first')::integer)
  end;
begin
  if v_traffic is null then return null; end if;
  if d.active_revision_id is null or v_first is null or p_is_rollback then
    return v_traffic || jsonb_build_object('beside', null);
  end if;
  if v_beside ->> 'label' is not null then
    perform claim_host_label(d, array[v_beside ->> 'label'], 'revision', p_revision);
  end if;
  return v_traffic || jsonb_build_object('beside', jsonb_build_object(
    'revision_id', p_revision,
    'share', v_first,
    'first', case when d.rollout is null then v_first end,
    'name', v_beside -> 'name',
    'label', v_beside -> 'label',
    'rollout', begin_rollout(d)
  ));
end $function$;
create or replace function plan_job(p_deployment uuid, p_process text)
 RETURNS TABLE(revision_id uuid, revision_number integer, open_jobs bigint, free_places bigint)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments;
  v_obstacle text;
begin
  select c.* into d from deployments c where c.id = p_deployment and c.tenant_id = current_tenant();
  if not found then return; end if;
  if d.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_command_permission();
  v_obstacle := job_obstacle(d, p_process);
  if v_obstacle is not null then perform refuse(v_obstacle); end if;
  open_jobs := number_of_open_jobs(d.tenant_id);
  if open_jobs >= max_open_jobs() then perform refuse('job_queue_full', max_open_jobs() || ' jobs wait or run'); end if;
  revision_id := d.active_revision_id;
  revision_number := (select r.number from revisions r where r.id = d.active_revision_id and r.deployment_id = d.id);
  free_places := greatest(0, free_job_places(d.tenant_id));
  return next;
end $function$;
create or replace function plan_patch(p_stored deployments, p_patch jsonb)
 RETURNS patch_plan
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_stored jsonb := jsonb_build_object(
    'name', p_stored.name,
    'source', p_stored.source,
    'source_config', p_stored.source_config,
    'source_revision_config', p_stored.source_revision_config,
    'secret_references', p_stored.secret_references
  );
  v_next jsonb := v_stored;
  v_resources constant text[] := '{source_config, resource_spec}';
  v_new_parts text[];
  v_written text[];
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  v_next_row deployments := p_stored;
  v_plan patch_plan;
  v_member record;
  v_is_changed boolean;
  v_secrets record;
begin
  v_plan.reasons := '{}';
  v_plan.in_place := '{}';
  v_plan.immutable := '{}';
  v_plan.refused := '{}';
  for v_member in
    select
      m.path,
      string_to_array(m.path, '.') as place,
      -- An empty list is the same as none.
      nullif(
        case m.path
          when 'source_config.resource_spec.volumes' then keep_disks(coalesce(v_stored #> v_resources, '{}'), m.value)
          when 'source_config.resource_spec.volume_mounts'
            then keep_disk_mounts(coalesce(v_stored #> v_resources, '{}'), m.value)
          else m.value
        end,
        '[]'
      ) as value,
      m.effect,
      m.is_always_new,
      m.refused_by
    from jsonb_to_recordset(p_patch -> 'members')
      as m(path text, value jsonb, effect text, is_always_new boolean, refused_by text[])
  loop
    v_is_changed := nullif(v_stored #> v_member.place, 'null') is distinct from v_member.value;
    if v_is_changed and v_source = any(v_member.refused_by) then
      v_plan.refused := v_plan.refused || v_member.path;
    end if;
    continue when not (v_is_changed or v_member.is_always_new);
    case v_member.effect
      when 'revision' then v_plan.reasons := v_plan.reasons || v_member.path;
      when 'in_place' then v_plan.in_place := v_plan.in_place || v_member.path;
      when 'immutable' then v_plan.immutable := v_plan.immutable || v_member.path;
    end case;
    if v_member.value is null then
      v_next := v_next #- v_member.place;
    else
      if v_member.place[1:2] = v_resources and nullif(v_next #> v_resources, 'null') is null then
        v_next := jsonb_set(v_next, v_resources, '{}');
      end if;
      v_next := jsonb_set(v_next, v_member.place, v_member.value);
    end if;
    -- A ref that is sent again resolves again. A preview's commit follows its pull request.
    if v_member.path = 'source_revision_config.repo_ref' and (p_stored.preview is null or v_is_changed) then
      v_next := v_next #- '{source_revision_config, repo_commit_sha}';
    end if;
  end loop;
  -- Resources without a member are none, except for a source that needs them.
  if v_next #> v_resources = '{}' and v_stored #> v_resources <> '{}' and v_source <> 'external_container' then
    v_next := v_next #- v_resources;
  end if;
  if cardinality(v_plan.in_place) > 0 then
    -- A part that comes or goes needs other copies, also if it is by its scale.
    select coalesce(array_agg(p.path), '{}')
    into v_new_parts
    from unnest(v_plan.in_place) p(path)
    join unnest('{queue, orchestrator}'::text[]) part
      on starts_with(p.path, 'source_config.resource_spec.' || part || '_')
    where has_part(v_stored #> v_resources, part) <> has_part(v_next #> v_resources, part);
    v_plan.reasons := v_plan.reasons || v_new_parts;
    v_plan.in_place := array(select path from unnest(v_plan.in_place) path where path <> all (v_new_parts));
  end if;

  -- A dormant part acts once one of its members is written again, also if it stays as it was.
  if p_stored.dormant_parts is not null then
    v_written := array(
      select distinct m.path
      from jsonb_to_recordset(p_patch -> 'members') as m(path text)
      join unnest(p_stored.dormant_parts) part on starts_with(m.path, 'source_config.resource_spec.' || part || '_')
    );
  end if;
  if cardinality(v_written) > 0 then
    v_plan.reasons := v_plan.reasons || array(select p from unnest(v_written) p where p <> all (v_plan.reasons));
    v_plan.in_place := array(select p from unnest(v_plan.in_place) p where p <> all (v_written));
    v_next_row.dormant_parts := nullif(
      array(
        select part
        from unnest(p_stored.dormant_parts) part
        where not exists (
          select from unnest(v_written) p where starts_with(p, 'source_config.resource_spec.' || part || '_')
        )
      ),
      '{}'
    );
  end if;

  v_next_row.source_config := v_next -> 'source_config';
  v_next_row.source_revision_config := v_next -> 'source_revision_config';
  v_next_row.secret_references := nullif(v_next -> 'secret_references', 'null');
  if p_patch -> 'secrets' is not null then
    v_secrets := compare_secrets(p_stored, p_patch -> 'secrets');
    v_plan.kept_secrets := v_secrets.kept;
    v_plan.unknown_masks := v_secrets.unknown;
    if v_secrets.has_changes then
      v_plan.reasons := v_plan.reasons || 'secrets'::text;
      v_next_row.secrets := v_secrets.next;
    end if;
  end if;
  v_plan.next := v_next_row;
  return v_plan;
end $function$;
create or replace function planned_build(p_source text, p_config json, p_revision_config json)
 RETURNS TABLE(build_plan json, build_refusal text)
 LANGUAGE plpgsql
 STABLE
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if p_source <> 'internal_source' or p_revision_config ->> 'source_tarball_path' is null then return; end if;
  return query
    select
      (
        u.build_plan::jsonb || jsonb_strip_nulls(
          jsonb_build_object('install', p_config -> 'install_command', 'build', p_config -> 'build_command')
        )
      )::json,
      u.build_refusal
    from uploads u
    where u.tenant_id = current_tenant()
      and u.object_path = p_revision_config ->> 'source_tarball_path'
      and u.settings ->> 'root_directory' is not distinct from p_config ->> 'root_directory'
      and u.settings ->> 'platform_config_path' is not distinct from p_revision_config ->> 'platform_config_path';
end $function$;
create or replace function policy_roles(p_key uuid, p_member uuid, p_tenant uuid)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_member uuid := coalesce(p_member, (select a.member_id from api_keys a where a.id = p_key));
begin
  return array(
    select a.role_id from api_keys a where a.id = p_key
    union
    select m.role_id from members m where m.id = v_member
    union
    select w.role_id
    from workspace_members w
    where w.member_id = v_member and w.tenant_id = coalesce(p_tenant, w.tenant_id)
  );
end $function$;
create or replace function prefixed_label(p_prefix text, p_label text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN ((p_prefix || '--'::text) || CASE WHEN (((length(p_prefix) + 2) + length(p_label)) <= 63) THEN p_label ELSE ((rtrim("left"(p_label, (52 - length(p_prefix))), '-'::text) || '-'::text) || "left"(md5(p_label), 8)) END);
create or replace function preview_hook_body(p_preview previews, p_type text, p_url text)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return json_build_object(
    'type', p_type,
    'timestamp', clock(),
    'data', json_build_object(
      'preview_id', p_preview.id,
      'kind', p_preview.kind,
      'number', p_preview.number,
      'branch', p_preview.branch,
      'head_sha', p_preview.head_sha,
      'fork', p_preview.fork,
      'deployment_id', p_preview.deployment_id,
      'parent_deployment_id', p_preview.parent_id,
      'url', p_url
    )
  );
end $function$;
create or replace function queue_revision(p_stored deployments, p_next deployments, p_revision uuid, p_reasons text[], p_source text, p_commit json DEFAULT NULL::json, p_from_revision uuid DEFAULT NULL::uuid, p_changes_in_place boolean DEFAULT false, OUT changed deployments, OUT revision revisions, OUT events new_event[])
 RETURNS record
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_creates boolean := cardinality(p_reasons) > 0;
  v_lacks_artifact boolean := lacks_artifact(p_source, p_next.source_revision_config);
  -- The revision in flight before the new one.
  v_in_flight uuid := p_stored.in_flight_revision_id;
  v_replaced uuid;
begin
  changed := p_stored;
  events := '{}';
  if not v_creates and not p_changes_in_place then return; end if;

  -- A revision in flight that would not end by itself is replaced by the new one at once: its agent has reported why it
  -- is not healthy, or it has a share of the traffic. A rollback waits for none that was to get one.
  if v_creates and not v_lacks_artifact and exists (
    select from revisions r
    where r.id = v_in_flight and r.tenant_id = current_tenant()
      and (
        r.status = 'DEPLOYING'
          and (r.status_message is not null or p_stored.applied_traffic ->> 'revision_id' = r.id::text)
        or 'rolled_back' = any(p_reasons) and p_stored.traffic #>> '{beside, revision_id}' = r.id::text
      )
  ) then
    v_replaced := v_in_flight;
    v_in_flight := null;
  end if;

  update deployments d
  set
    source_config = p_next.source_config,
    dormant_parts = p_next.dormant_parts,
    source_revision_config = p_next.source_revision_config,
    -- The agent reports the version of a source that it builds.
    image_version = case
      when not v_creates then p_stored.image_version
      when p_source in ('internal_container', 'external_container')
        then image_version(p_next.source_revision_config ->> 'image_uri')
    end,
    secrets = p_next.secrets,
    secret_references = p_next.secret_references,
    hold = case when v_creates and p_next.hold ->> 'reason' = 'rollout_failed' then null else p_next.hold end,
    traffic = case
      when v_creates and not v_lacks_artifact and v_in_flight is null
        then place_canary(p_next, p_revision, 'rolled_back' = any(p_reasons))
      else p_next.traffic
    end,
    status = case p_stored.status when 'UNUSED' then 'READY' else p_stored.status end,
    revisions = p_stored.revisions + v_creates::integer,
    latest_revision_id = case when v_creates then p_revision else p_stored.latest_revision_id end,
    in_flight_revision_id = case
      when v_creates and not v_lacks_artifact then coalesce(v_in_flight, p_revision)
      else p_stored.in_flight_revision_id
    end,
    waiting_revision_id = case
      when not v_creates then p_stored.waiting_revision_id
      when v_in_flight is not null or v_lacks_artifact then p_revision
    end,
    generation = p_stored.generation + 1,
    remote_reconciled = false,
    version = p_stored.version + 1,
    -- now() is when the transaction began, possibly before the update it waited for: times still ascend like versions.
    updated_at = greatest(clock(), p_stored.updated_at + interval '1 microsecond')
  where d.id = p_stored.id and d.tenant_id = current_tenant()
  returning d.* into changed;

  if v_creates then
    revision := insert_revision(
      p_revision,
      changed,
      case
        when v_lacks_artifact then 'CREATING'
        when v_in_flight is not null then 'QUEUED'
        else start_state(p_source)
      end,
      null,
      p_reasons,
      p_source,
      p_commit,
      p_from_revision,
      changed.updated_at
    );
    events := created_event(revision)
      || supersede_revisions(array[p_stored.waiting_revision_id, v_replaced], changed.revisions);
  end if;
  if p_next.hold is not null and changed.hold is null then
    events := events || (
      'deployment.hold_released',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('hold', p_next.hold), '{"hold": null}')
    )::new_event;
  end if;
  if changed.status <> p_stored.status then
    events := events || (
      'deployment.ready',
      changed.id,
      '{}',
      changed_members(jsonb_build_object('status', p_stored.status), jsonb_build_object('status', changed.status))
    )::new_event;
  end if;
end $function$;
set role slipway_system;
create or replace function queue_runs(p_runs json)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || current_tenant(), 0));
  insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
  select current_organization(), current_tenant(), p.id, r.id, r.trace_id, r.order_time
  from json_to_recordset(p_runs) as r(session_id uuid, id uuid, trace_id uuid, order_time timestamptz)
  join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
  where drains_traces(current_tenant()) or exists (
    select from run_rules q
    where q.tenant_id = current_tenant()
      and q.is_enabled
      and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
  );
end $function$;
reset role;
set role slipway_system;
create or replace function raise_incident_of_run_rule(p_rule uuid, p_raised jsonb)
 RETURNS jsonb
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  r run_rules;
  i incidents;
  v_channels uuid[] := array(select c::uuid from jsonb_array_elements_text(p_raised -> 'channel_ids') c);
begin
  select * into r from run_rules u where u.id = p_rule and u.tenant_id = current_tenant();
  if not found then return null; end if;
  select *
  into i
  from incidents k
  where k.run_rule_id = r.id and (k.state <> 'resolved' or k.resolved_at > clock() - interval '1 hour')
  order by k.state = 'resolved', k.resolved_at desc
  limit 1
  for no key update;
  if i.state <> 'resolved' then
    update incidents
    set value = (p_raised ->> 'value')::double precision, cause = p_raised ->> 'cause',
      evidence = p_raised -> 'evidence', last_at = clock(), channel_ids = v_channels
    where id = i.id
    returning * into i;
    if i.is_told and i.state = 'open' and p_raised ->> 'muted_until' is null and not exists (
      select from notices n
      where n.thread = i.id::text and n.channel_id = any(v_channels)
        and n.created_at > clock() - interval '5 minutes'
    ) then
      i := tell_incident(i, 'update', i.cause);
    end if;
  else
    if i.state = 'resolved' then
      i := reopen_incident(i, p_raised, interval '5 minutes');
    else
      insert into incidents (
        organization_id, tenant_id, run_rule_id, rule_name, subject_type, subject_id, subject_name, project_id,
        severity, title, cause, value, evidence, channel_ids, muted_until, tell_at
      )
      select r.organization_id, r.tenant_id, r.id, r.display_name,
        case when p.id is null then 'workspace' else 'project' end, coalesce(p.id, w.id),
        coalesce(p.name, w.display_name), p.id, p_raised ->> 'severity', p_raised ->> 'title',
        p_raised ->> 'cause', (p_raised ->> 'value')::double precision, p_raised -> 'evidence',
        v_channels,
        (p_raised ->> 'muted_until')::timestamptz, (p_raised ->> 'muted_until')::timestamptz
      from workspaces w
      left join projects p on p.id = r.session_id and p.tenant_id = w.id
      where w.id = r.tenant_id
      returning * into i;
    end if;
    i := begin_incident(i);
    perform journal_tenant_events(array[opened_event(i)], null);
  end if;
  return jsonb_build_object('incident_id', i.id, 'sequence', case when i.is_told then i.sequence end);
end $function$;
reset role;
set role slipway_system;
create or replace function reachable_permissions(p_member uuid, p_tenant uuid)
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  return (
    select member_permissions(p_member, p_tenant)
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
      and exists (select from workspaces w where w.id = p_tenant and w.organization_id = m.organization_id)
      and (
        r.permissions && '{workspaces:read, deployments:read}'
        or exists (select from workspace_members wm where wm.member_id = m.id and wm.tenant_id = p_tenant)
      )
  );
end $function$;
reset role;
create or replace function reached_generation(p_state text, p_generation integer, p_revision uuid, d deployments)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((p_state = ANY (ARRAY['deployed'::text, 'failed'::text, 'interrupted'::text])) AND COALESCE(((d).in_flight_revision_id = p_revision), true)) OR ((p_state = 'serving'::text) AND ((d).in_flight_revision_id IS NULL) AND (NOT (p_revision IS DISTINCT FROM (d).active_revision_id)))) THEN p_generation ELSE NULL::integer END;
create or replace function read_changes(p_listener listeners, p_cursor bigint, p_digest text, p_page_size integer, p_daily_limit bigint)
 RETURNS TABLE(latest bigint, digest text, resync boolean, more boolean, changes json)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_events tenant_event[];
begin
  select coalesce(max(c.seq), 0), lpad(to_hex(coalesce(max(c.digest), 0)), 16, '0')
  into latest, digest
  from sync_cursors c
  where c.listener_id = p_listener.id;
  resync := p_cursor is null or p_cursor > latest or (p_cursor = latest and coalesce(p_digest <> digest, false));
  more := false;
  changes := '[]';

  if resync or p_cursor < latest then
    with page as (
      select i.deployment_id, i.generation, i.seq
      from sync_items i
      where i.listener_id = p_listener.id
        and i.seq > case when resync then 0 else p_cursor end
        -- Later ones come with the next poll: they were not committed when the digest was read.
        and i.seq <= latest
      order by i.seq
      -- One more than a page, to know whether there is another page.
      limit p_page_size + 1
    ),
    wanted as (
      select
        p.*,
        case when d.id is not null then json_build_object(
          'tenant_id', d.tenant_id,
          'name', d.name,
          'deployment_type', d.deployment_type,
          'source_config', d.source_config,
          'trace_key_version', d.trace_key_version,
          -- Kubernetes ran the parts of a deployment before the other engines did.
          'dormant_parts', case
            when p_listener.policy ->> 'engine' in ('process', 'container') then d.dormant_parts
          end,
          'cleared_stores', coalesce(d.cleared_stores, '{}'),
          'database_copy', d.preview -> 'database_copy',
          'protection', case when d.protection ->> 'mode' = 'members' then list_protection(d) end,
          'request_logs', d.request_logs,
          'host_labels', (
            select json_agg(
              json_build_object('label', b.label, 'revision_id', b.revision_id)
              order by b.kind <> 'deployment', b.created_at desc, b.label
            )
            from host_labels b
            where b.deployment_id = d.id and b.listener_id = d.listener_id
          ),
          -- The workspace owns the host and has proved it. A listener of its own that is not public needs no proof.
          'custom_url', case
            when h.verified_at is not null
              or h.tenant_id = p_listener.tenant_id and not p_listener.verified_hosts_only
              then d.source_config ->> 'custom_url'
          end,
          'traffic', case when s.can_split then list_traffic(d) end,
          'absent', d.deleting_at is not null
        ) end as deployment,
        -- The revision in flight; or the latest, if it was lost when its listener fell silent: the agent continues it.
        case
          when s.is_served and (s.can_split or t.id is null or t.id is distinct from d.in_flight_revision_id)
            then coalesce(d.in_flight_revision_id, l.id)
        end as revision_id,
        case when s.is_served then d.active_revision_id end as serving_id,
        case
          when s.is_served and s.can_split
            and t.id is distinct from d.in_flight_revision_id and t.id is distinct from d.active_revision_id
            then t.id
        end as beside_id
      from (select * from page order by seq limit p_page_size) p
      left join deployments d on d.id = p.deployment_id and d.listener_id = p_listener.id
      left join custom_hosts h on h.host = d.custom_host and h.tenant_id = d.tenant_id
      left join revisions l on l.id = d.latest_revision_id and l.status = 'UNKNOWN'
      -- An agent that was replaced by one of an earlier release ends what it cannot protect, and starts nothing with an
      -- empty database that is to be a copy: a later one would replace what was written to it.
      cross join lateral (
        select
          d.deleting_at is null
            and may_serve(p_listener, d.protection)
            and (not awaits_database_copy(d) or copies_databases(p_listener)) as is_served,
          -- Any other one would give all traffic to a revision that is to get a part of it.
          coalesce(p_listener.policy::jsonb -> 'features' @> '"traffic"', false) as can_split
      ) s
      cross join lateral (select (d.traffic #>> '{beside, revision_id}')::uuid as id) t
    ),
    opened as (
      select
        r.*,
        (
          select json_agg(json_build_object('name', s.name, 'sealed', s.sealed))
          from json_to_recordset(r.secrets) w(name text, version integer)
          join deployment_secrets s
            on s.deployment_id = r.deployment_id and s.name = w.name and s.version = w.version
        ) as sealed,
        (
          select json_build_object('id', u.id, 'size', u.size, 'sha256', u.sha256)
          from uploads u
          where u.object_path = r.source_revision_config ->> 'source_tarball_path'
            and u.tenant_id = r.tenant_id
            and u.state = 'stored'
        ) as archive
      from revisions r
      where r.id in (
        select w.revision_id from wanted w
        union select w.serving_id from wanted w
        union select w.beside_id from wanted w
      )
    ),
    described as (
      select
        o.id,
        json_build_object(
          'id', o.id,
          'number', o.number,
          'status', o.status,
          'status_since', o.status_since,
          'source', o.source,
          'source_config', o.source_config,
          'source_revision_config', o.source_revision_config,
          'secret_references', o.secret_references,
          'sealed', o.sealed,
          'archive', o.archive
        ) as json
      from opened o
    )
    select
      (select count(*) > p_page_size from page),
      coalesce(json_agg(
        json_build_object(
          'deployment_id', w.deployment_id,
          'generation', w.generation,
          'seq', w.seq,
          'deployment', w.deployment,
          'revision', f.json,
          'serving', a.json,
          'beside', b.json
        )
        order by w.seq
      ), '[]'),
      array(
        select (
          o.tenant_id,
          o.organization_id,
          'revision.secrets_revealed',
          o.id,
          json_build_object('deployment_id', o.deployment_id, 'fence', p_listener.fence),
          null
        )::tenant_event
        from opened o
        where o.sealed is not null
      )
    into more, changes, v_events
    from wanted w
    left join described f on f.id = w.revision_id
    left join described a on a.id = w.serving_id
    left join described b on b.id = w.beside_id;
    perform journal_tenant_events(v_events, case when p_listener.tenant_id is not null then p_daily_limit end);
  end if;
  -- This comes last, because it locks cursors. An adopted deployment is a change for the next poll.
  perform adopt_deployments(p_listener);
  return next;
end $function$;
set role slipway_system;
create or replace function read_device_request(p_user_code text)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  return (
    select json_build_object(
      'user_code', d.user_code,
      'device_name', d.device_name,
      'client_address', d.client_address,
      'user_agent', d.user_agent,
      'created_at', d.created_at,
      'expires_at', d.expires_at,
      'workspaces', (
        select coalesce(
          json_agg(
            json_build_object(
              'id', w.id,
              'display_name', w.display_name,
              'all', g.permissions,
              'read', coalesce(device_permissions(d, w.id, '00000000-0000-4000-8000-000000000003'), '{}')
            )
            order by w.created_at, w.id
          ),
          '[]'
        )
        from workspaces w
        cross join lateral device_permissions(d, w.id, '00000000-0000-4000-8000-000000000001') g(permissions)
        where w.organization_id = current_organization() and g.permissions is not null
      )
    )
    from find_device_request(p_user_code) d
  );
end $function$;
reset role;
set role slipway_system;
create or replace function read_fleet(p_admins text[], p_silent interval, p_since timestamp with time zone, p_traces boolean)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
  v_tenants uuid[] := array(
    select w.id
    from workspaces w
    where v_organization is null
      or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
  );
begin
  return json_build_object(
    'organizations', case when v_organization is null then (select count(*) from organizations) else 1 end,
    'workspaces', cardinality(v_tenants),
    'members', (select count(*) from members m where v_organization is null or m.organization_id = v_organization),
    'listeners', (
      select json_build_object(
        'total', count(*),
        'silent', count(*) filter (where coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent)
      )
      from listeners l
      where v_organization is null or l.tenant_id = any(v_tenants)
    ),
    'agents', (
      select coalesce(json_agg(v order by v.listeners desc, v.version), '[]')
      from (
        select l.agent_version as version, count(*) as listeners
        from listeners l
        where v_organization is null or l.tenant_id = any(v_tenants)
        group by l.agent_version
        order by count(*) desc
        limit 100
      ) v
    ),
    'deployments', (
      select json_build_object(
        'total', coalesce(sum(s.count), 0),
        'unhealthy', coalesce(sum(s.unhealthy), 0),
        'not_reconciled', coalesce(sum(s.not_reconciled), 0),
        'by_status', coalesce(json_object_agg(s.status, s.count) filter (where s.status is not null), '{}')
      )
      from (
        select
          d.status,
          count(*) as count,
          count(*) filter (where d.healthy = false) as unhealthy,
          count(*) filter (where not d.remote_reconciled) as not_reconciled
        from deployments d
        where v_organization is null or d.tenant_id = any(v_tenants)
        group by d.status
      ) s
    ),
    'queues', fleet_queues(v_organization),
    'sweeps', (select coalesce(json_agg(to_json(s) order by s.name), '[]') from sweep_runs s),
    'applied', (select max(created_at) from drizzle.__drizzle_migrations),
    'storage', json_build_object(
      'archives_bytes', (
        select coalesce(sum(u.size), 0) from uploads u where v_organization is null or u.tenant_id = any(v_tenants)
      ),
      'attachments_bytes', (
        select coalesce(sum(o.bytes), 0)
        from example_objects o
        where v_organization is null or o.tenant_id = any(v_tenants)
      ),
      'database_bytes', case when v_organization is null then pg_database_size(current_database()) end
    ),
    'usage', (
      select json_build_object('traces', coalesce(sum(t.traces), 0), 'bytes', coalesce(sum(t.bytes), 0))
      from unnest(v_tenants) w(id)
      cross join lateral fleet_traces(w.id, p_since) t
      where p_traces
    )
  );
end $function$;
reset role;
set role slipway_system;
create or replace function read_fleet_listeners(p_admins text[], p_silent interval, p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', l.id,
    'organization_id', l.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = l.organization_id),
    'workspace_id', l.tenant_id,
    'workspace_name', (select w.display_name from workspaces w where w.id = l.tenant_id),
    'compute_type', l.compute_type,
    'compute_id', l.compute_id,
    'agent_id', l.agent_id,
    'version', l.agent_version,
    'is_silent', coalesce(l.last_seen_at, l.created_at) <= clock() - p_silent,
    'last_seen_at', l.last_seen_at,
    'deployments', (select count(*) from deployments d where d.listener_id = l.id),
    'created_at', l.created_at::text
  )
  from (
    select *
    from listeners a
    where (
        v_organization is null
        or a.organization_id = v_organization and a.tenant_id = coalesce(current_tenant(), a.tenant_id)
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) l
  order by l.created_at desc, l.id desc;
end $function$;
reset role;
set role slipway_system;
create or replace function read_fleet_organizations(p_admins text[], p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  perform require_instance_admin(p_admins);
  return query
  select json_build_object(
    'id', o.id,
    'display_name', o.display_name,
    'created_at', o.created_at::text,
    'workspaces', (select count(*) from workspaces w where w.organization_id = o.id),
    'members', (select count(*) from members m where m.organization_id = o.id),
    'listeners', (select count(*) from listeners l where l.organization_id = o.id),
    'deployments', (
      select count(*) from workspaces w join deployments d on d.tenant_id = w.id where w.organization_id = o.id
    )
  )
  from (
    select *
    from organizations a
    where p_id is null or (a.created_at, a.id) < (p_at, p_id)
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) o
  order by o.created_at desc, o.id desc;
end $function$;
reset role;
set role slipway_system;
create or replace function read_fleet_workspaces(p_admins text[], p_since timestamp with time zone, p_traces boolean, p_at timestamp with time zone, p_id uuid, p_limit integer, p_offset integer)
 RETURNS SETOF json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid := fleet_scope(p_admins);
begin
  return query
  select json_build_object(
    'id', w.id,
    'display_name', w.display_name,
    'organization_id', w.organization_id,
    'organization_name', (select o.display_name from organizations o where o.id = w.organization_id),
    'created_at', w.created_at::text,
    'members', (select count(*) from workspace_members m where m.tenant_id = w.id),
    'listeners', (select count(*) from listeners l where l.tenant_id = w.id),
    'deployments', fleet_statuses(w.id),
    'storage_bytes', (select coalesce(sum(u.size), 0) from uploads u where u.tenant_id = w.id)
      + (select coalesce(sum(e.bytes), 0) from example_objects e where e.tenant_id = w.id),
    'usage', (select to_json(t) from fleet_traces(w.id, p_since) t where p_traces)
  )
  from (
    select *
    from workspaces a
    where (
        v_organization is null
        or a.organization_id = v_organization and (current_tenant() is null or a.id = current_tenant())
      )
      and (p_id is null or (a.created_at, a.id) < (p_at, p_id))
    order by a.created_at desc, a.id desc
    limit p_limit
    offset p_offset
  ) w
  order by w.created_at desc, w.id desc;
end $function$;
reset role;
set role slipway_system;
create or replace function read_grantable_workspaces(p_scope text[])
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if setting('actor_kind') <> 'session' then perform refuse('member_required'); end if;
  return (
    select coalesce(
      json_agg(
        json_build_object(
          'id', w.id,
          'display_name', w.display_name,
          'all', g.permissions,
          'read', coalesce(grantable_permissions(p_scope, w.id, '00000000-0000-4000-8000-000000000003'), '{}')
        )
        order by w.created_at, w.id
      ),
      '[]'
    )
    from workspaces w
    cross join lateral grantable_permissions(p_scope, w.id, '00000000-0000-4000-8000-000000000001') g(permissions)
    where w.organization_id = current_organization() and g.permissions is not null
  );
end $function$;
reset role;
create or replace function read_jobs(p_listener listeners, p_cursor bigint, p_resync boolean, p_latest bigint, p_page_size integer)
 RETURNS TABLE(jobs json, reached bigint)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  jobs := '[]';
  reached := p_latest;
  if (p_resync or p_cursor < p_latest) and p_listener.policy ->> 'jobs' = 'true' then
    with page as (
      select j.*
      from jobs j
      where j.listener_id = p_listener.id
        and j.seq > case when p_resync then 0 else p_cursor end
        and j.seq <= p_latest
      order by j.seq
      limit p_page_size
    )
    select
      coalesce(
        json_agg(
          json_strip_nulls(json_build_object(
            'job_id', p.id,
            'deployment_id', p.deployment_id,
            'status', p.status,
            'command', p.command,
            'timeout_seconds', p.timeout_seconds,
            'process', p.process,
            'starts_in_ms', greatest(0, ceil(extract(epoch from p.not_before - clock()) * 1000)),
            'cancel', p.cancel_requested_at is not null,
            'action', p.action,
            'is_scheduled', nullif(p.schedule_id is not null, false)
          ))
          order by p.seq
        ),
        '[]'
      ),
      case when count(*) = p_page_size then max(p.seq) else p_latest end
    into jobs, reached
    from page p;
  end if;
  return next;
end $function$;
set role slipway_system;
create or replace function read_look(p_agent text, p_fence bigint, p_id uuid)
 RETURNS json
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  return (
    select json_build_object('listener_id', v_listener.id, 'repository', to_json(f), 'integration', to_json(i))
    from followed_repositories f
    join integrations i on i.id = f.integration_id
    where f.id = p_id
      and f.listener_id = v_listener.id
      and f.look_fence = p_fence
      and (f.seen_at is null or f.seen_at < f.look_started_at)
      and i.ssh is not null
  );
end $function$;
reset role;
create or replace function read_member(p_member uuid)
 RETURNS members
 LANGUAGE sql
AS $function$
  select m
  from members m
  where m.id = p_member
$function$;
set role slipway_system;
create or replace function read_usage(p_admins text[], p_everywhere boolean, p_start date, p_end date, p_traces boolean, p_after uuid, p_limit integer)
 RETURNS TABLE(organization_id uuid, organization_name text, workspace_id uuid, workspace_name text, day date, traces bigint, bytes bigint, deployments bigint)
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_organization uuid;
begin
  if p_everywhere then
    perform require_instance_admin(p_admins);
  else
    v_organization := current_organization();
    if not 'organization:manage' = any(actor_permissions()) and not is_instance_admin(p_admins) then
      perform refuse('usage_forbidden');
    end if;
  end if;
  return query
  with chosen as materialized (
    select w.id, w.organization_id, w.display_name
    from workspaces w
    where (
        v_organization is null
        or w.organization_id = v_organization and (current_tenant() is null or w.id = current_tenant())
      )
      and (p_after is null or w.id > p_after)
    order by w.id
    limit p_limit
  ),
  traced as (
    select p.tenant_id, m.day, sum(m.traces)::bigint as traces, greatest(sum(m.bytes), 0)::bigint as bytes
    from chosen c
    join projects p on p.tenant_id = c.id
    -- Each project is a range of the index.
    cross join lateral (
      select (n.minute at time zone 'utc')::date as day, sum(n.roots) as traces, sum(n.bytes) as bytes
      from session_minutes n
      where n.tenant_id = p.tenant_id
        and n.session_id = p.id
        and n.minute >= p_start::timestamp at time zone 'utc'
        and n.minute < (p_end + 1)::timestamp at time zone 'utc'
      group by 1
    ) m
    where p_traces
    group by p.tenant_id, m.day
  ),
  -- The deployments that come and go on each day. Those that came before count on the first.
  moved as (
    select n.tenant_id, greatest((n.at at time zone 'utc')::date, p_start) as day, sum(n.change) as change
    from (
      select e.tenant_id, e.created_at as at, 1 as change
      from chosen c
      join deployments e on e.tenant_id = c.id
      union all
      select e.tenant_id, e.deleting_at, -1
      from chosen c
      join deployments e on e.tenant_id = c.id and e.deleting_at is not null
      union all
      select e.tenant_id, edge.at, edge.change
      from chosen c
      join deleted_deployments e
        on e.tenant_id = c.id and e.deleted_at >= p_start::timestamp at time zone 'utc'
      cross join lateral (values (e.created_at, 1), (e.deleted_at, -1)) edge(at, change)
    ) n
    group by 1, 2
  )
  select
    c.organization_id,
    o.display_name,
    c.id,
    c.display_name,
    d.day,
    case when p_traces then coalesce(t.traces, 0) end,
    case when p_traces and t.day is null then 0 else t.bytes end,
    sum(coalesce(n.change, 0)) over (partition by c.id order by d.day)::bigint
  from chosen c
  join organizations o on o.id = c.organization_id
  cross join lateral (select p_start + n as day from generate_series(0, p_end - p_start) n) d
  left join traced t on t.tenant_id = c.id and t.day = d.day
  left join moved n on n.tenant_id = c.id and n.day = d.day
  order by c.id, d.day;
end $function$;
reset role;
set role slipway_system;
create or replace function receive_snapshots(p_agent text, p_fence bigint, p_held jsonb, p_after uuid, p_until uuid, p_limit bigint)
 RETURNS uuid[]
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
  v_ids uuid[] := array(select (h ->> 'id')::uuid from jsonb_array_elements(p_held) h);
begin
  delete from snapshots s
  where s.listener_id = v_listener.id
    and (p_after is null or s.id > p_after)
    and (p_until is null or s.id <= p_until)
    and s.id <> all (v_ids);
  insert into snapshots (
    id, organization_id, tenant_id, deployment_id, deployment_name, listener_id, store, size_bytes, reason, expires_at,
    created_at
  )
  select
    h.id, d.organization_id, d.tenant_id, d.id, d.name, v_listener.id, h.store, h.size_bytes, h.reason, h.expires_at,
    h.taken_at
  from jsonb_to_recordset(p_held) as h(
    id uuid, deployment_id uuid, store text, size_bytes bigint, reason text, taken_at timestamptz,
    expires_at timestamptz
  )
  join deployments d on d.id = h.deployment_id and d.listener_id = v_listener.id
  where (select count(*) from snapshots s where s.tenant_id = d.tenant_id) < p_limit
  on conflict (id) do nothing;
  return array(
    select s.id
    from snapshots s
    where s.id = any(v_ids) and s.listener_id = v_listener.id and s.deleting_at is not null
  );
end $function$;
reset role;
set role slipway_system;
create or replace function record_attempts(p_key_hashes text[], p_workspaces text[], p_operations text[], p_statuses integer[], p_codes text[], p_request_ids text[], p_requests text[], p_more integer[], p_clock_offset text, p_limit integer)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  with given as (
    select
      c.id as key_id,
      c.kind,
      c.name,
      c.organization_id,
      coalesce(
        c.tenant_id,
        (select w.id from workspaces w where w.id = g.workspace::uuid and w.organization_id = c.organization_id)
      ) as tenant_id,
      g.*,
      row_number() over (partition by c.id order by g.place) as nth,
      count(*) over (partition by c.id) as of_key
    from unnest(p_key_hashes, p_workspaces, p_operations, p_statuses, p_codes, p_request_ids, p_requests, p_more)
      with ordinality as g(key_hash, workspace, operation, status, code, request_id, request, more, place)
    join lateral (
      select 'key' as kind, a.id, a.organization_id, a.tenant_id, a.description as name
      from api_keys a
      where a.key_hash = g.key_hash
      union all
      select
        case when a.id is null then 'session' else 'key' end,
        s.owner_id,
        s.organization_id,
        a.tenant_id,
        coalesce(a.description, m.full_name, m.email)
      from sessions s
      left join api_keys a on a.id = s.key_id
      left join members m on m.id = s.member_id
      where s.token_hash = g.key_hash
      union all
      select 'deployment', d.id, d.organization_id, d.tenant_id, d.name
      from deployments d
      where d.id = trace_key_deployment(g.key_hash)
    ) c on true
  ),
  counted as (
    insert into attempt_windows as w (key_id, started_at, attempts)
    select key_id, clock(), count(*)
    from given
    group by key_id
    order by key_id
    on conflict (key_id) do update set
      attempts = excluded.attempts
        + case when w.started_at > clock() - interval '60 seconds' then w.attempts else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.attempts
  ),
  judged as (
    select g.*, c.attempts - g.of_key + g.nth <= p_limit as is_kept
    from given g
    join counted c using (key_id)
  ),
  left_out as (
    select key_id, sum(case when is_kept then more else more + 1 end) as attempts
    from judged
    group by key_id
  ),
  added_to_earlier as (
    update audit_attempts t
    set left_out = t.left_out + l.attempts
    from left_out l
    where not exists (select from judged j where j.key_id = l.key_id and j.is_kept)
      and t.id = (
        select b.id
        from audit_attempts b
        where b.actor_id = l.key_id
        order by b.created_at desc, b.id desc
        limit 1
      )
  )
  insert into audit_attempts (
    organization_id, tenant_id, operation, status, code, actor_kind, actor_id, actor_name, request_id, request,
    left_out
  )
  select
    j.organization_id,
    j.tenant_id,
    j.operation,
    j.status,
    j.code,
    j.kind,
    j.key_id,
    j.name,
    j.request_id,
    j.request::json,
    case when j.nth = max(j.nth) over (partition by j.key_id) then l.attempts else 0 end
  from judged j
  join left_out l using (key_id)
  where j.is_kept
  order by j.place;
end $function$;
reset role;
create or replace function record_missing_ref(p_deployment uuid, p_refs text[], p_queried_at timestamp with time zone, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_ref text := v_stored.source_revision_config ->> 'repo_ref';
  v_head deployment_heads;
begin
  if v_stored.deleting_at is not null or not coalesce(v_ref = any(p_refs), false) then return; end if;
  insert into deployment_heads as h (deployment_id, organization_id, tenant_id, queried_at, gone_ref)
  values (v_stored.id, v_stored.organization_id, v_stored.tenant_id, p_queried_at, v_ref)
  on conflict (deployment_id) do update
    set queried_at = excluded.queried_at, gone_ref = excluded.gone_ref
    where h.queried_at < excluded.queried_at and h.gone_ref is distinct from excluded.gone_ref
  returning h.* into v_head;
  if not found then return; end if;
  answer := to_json(v_head);
  has_webhooks := conclude_write(
    answer,
    array[('deployment.ref_gone', v_stored.id, json_build_object('ref', v_ref), null)::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function record_model_call(p_tenant uuid, p_configuration uuid, p_deployment uuid, p_actor_kind text, p_failed boolean, p_input_tokens bigint, p_output_tokens bigint, p_cost_usd double precision)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  insert into model_usage as u (
    organization_id, tenant_id, day, configuration_id, configuration_name, deployment_id, actor_kind, calls, failed,
    input_tokens, output_tokens, cost_usd
  )
  select
    m.organization_id, m.tenant_id, (clock() at time zone 'UTC')::date, m.id, m.name, p_deployment, p_actor_kind, 1,
    p_failed::integer, p_input_tokens, p_output_tokens, p_cost_usd
  from model_configurations m
  where m.id = p_configuration and m.tenant_id = p_tenant
  on conflict on constraint model_usage_one do update set
    configuration_name = excluded.configuration_name,
    calls = u.calls + 1,
    failed = u.failed + excluded.failed,
    input_tokens = u.input_tokens + excluded.input_tokens,
    output_tokens = u.output_tokens + excluded.output_tokens,
    cost_usd = case when excluded.cost_usd is null then u.cost_usd else coalesce(u.cost_usd, 0) + excluded.cost_usd end;

  -- In the order of their ids, as in take_model_call().
  perform from model_budgets b
  where b.tenant_id = p_tenant and (b.deployment_id is null or b.deployment_id = p_deployment)
  order by b.id
  for update;
  update model_budgets b
  set
    period_start = model_period(b.period),
    spent_calls = case when b.period_start = model_period(b.period) then b.spent_calls else 0 end,
    spent_tokens = p_input_tokens + p_output_tokens
      + case when b.period_start = model_period(b.period) then b.spent_tokens else 0 end,
    spent_usd = coalesce(p_cost_usd, 0)
      + case when b.period_start = model_period(b.period) then b.spent_usd else 0 end
  where b.tenant_id = p_tenant and (b.deployment_id is null or b.deployment_id = p_deployment);
end $function$;
set role slipway_system;
create or replace function record_sync_items(p_items sync_items[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  with changed as (
    select
      n.deployment_id,
      n.listener_id,
      n.generation,
      sync_item_hash(n.deployment_id, n.generation)
        # coalesce(sync_item_hash(o.deployment_id, o.generation), 0) as digest_change
    from unnest(p_items) n
    left join sync_items o on o.deployment_id = n.deployment_id
  ),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), bit_xor(digest_change)
    from changed
    group by listener_id
    order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq, digest = c.digest # excluded.digest
    returning listener_id, seq
  )
  insert into sync_items (deployment_id, listener_id, generation, seq)
  select
    deployment_id,
    listener_id,
    generation,
    numbered.seq - count(*) over of_listener + row_number() over of_listener
  from changed
  join numbered using (listener_id)
  window of_listener as (partition by listener_id)
  on conflict (deployment_id) do update set
    listener_id = excluded.listener_id,
    generation = excluded.generation,
    seq = excluded.seq
$function$;
reset role;
set role slipway_system;
create or replace function record_sync_jobs(p_jobs uuid[])
 RETURNS void
 LANGUAGE sql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  with changed as (
    select j.id, j.listener_id
    from jobs j
    where j.id = any(p_jobs) and j.listener_id is not null
  ),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), 0
    from changed
    group by listener_id
    order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq
    returning listener_id, seq
  ),
  placed as (
    select
      c.id,
      n.seq - count(*) over of_listener + row_number() over of_listener as seq
    from changed c
    join numbered n using (listener_id)
    window of_listener as (partition by listener_id)
  )
  update jobs j
  set seq = p.seq
  from placed p
  where j.id = p.id
$function$;
reset role;
create or replace function record_tier(p_earlier_tiers jsonb, p_tier text)
 RETURNS jsonb
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_kept constant jsonb := coalesce(
    (
      select jsonb_agg(e order by e ->> 'until')
      from jsonb_array_elements(p_earlier_tiers) e
      where (e ->> 'until')::timestamptz > clock() - interval '400 days'
    ),
    '[]'
  );
begin
  if jsonb_array_length(v_kept) >= 100 then perform refuse('quota_full', '100 changes of the tier'); end if;
  return v_kept || jsonb_build_object('tier', p_tier, 'until', clock());
end $function$;
create or replace function recorded_bypass(b protection_bypasses)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object('kind', b.kind, 'description', b.description, 'expires_at', b.expires_at)
$function$;
create or replace function recorded_deployment(p_row deployments)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object(
    'name', p_row.name,
    'source', p_row.source,
    'status', p_row.status,
    'source_config', p_row.source_config,
    'source_revision_config', p_row.source_revision_config,
    'secret_references', p_row.secret_references,
    'hold', p_row.hold,
    'parent_deployment_id', p_row.parent_deployment_id,
    'preview', p_row.preview,
    'secrets', secret_versions(p_row.secrets)
  )
$function$;
create or replace function recorded_job(p_job jobs)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((p_job).id IS NOT NULL) THEN jsonb_build_object('status', (p_job).status, 'command', (p_job).command, 'action', (p_job).action, 'timeout_seconds', (p_job).timeout_seconds, 'process', (p_job).process, 'revision_id', (p_job).revision_id, 'exit_code', (p_job).exit_code, 'reason', (p_job).reason, 'cancel_requested_at', (p_job).cancel_requested_at) ELSE NULL::jsonb END;
create or replace function recorded_revision(p_row revisions)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
AS $function$
  select jsonb_build_object(
    'number', p_row.number,
    'source', p_row.source,
    'source_revision_config', p_row.source_revision_config,
    'status', p_row.status,
    'status_message', p_row.status_message,
    'reasons', p_row.reasons,
    'from_revision_id', p_row.from_revision_id,
    'commit', p_row.commit
  )
$function$;
create or replace function recorded_schedule(s schedules)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN CASE WHEN ((s).id IS NOT NULL) THEN jsonb_build_object('name', (s).name, 'cron', (s).cron, 'time_zone', (s).time_zone, 'command', (s).command, 'timeout_seconds', (s).timeout_seconds, 'overlap', (s).overlap, 'jitter_seconds', (s).jitter_seconds, 'retries', (s).retries, 'deadline_seconds', (s).deadline_seconds, 'process', (s).process, 'enabled', (s).enabled, 'owner', (s).owner) ELSE NULL::jsonb END;
create or replace function recorded_traffic(p_traffic json)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN (((p_traffic)::jsonb #- '{beside,rollout,policy}'::text[]) #- '{beside,rollout,asked}'::text[]);
create or replace function redeem_authorization_code(p_code_hash text, p_client_id text, p_redirect_uri text, p_resource text, p_code_challenge text, p_key_hash text, p_hint text, p_token_family text, p_refresh_hash text, p_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_grant oauth_grants;
  v_key api_keys;
  v_least_used uuid;
begin
  select * into v_grant from oauth_grants where code_hash = p_code_hash;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  -- The order in which a member or a workspace is deleted: keys, the member, the workspace, its grants.
  perform from api_keys a
  where a.id in (
    select g.key_id from oauth_grants g where g.member_id = v_grant.member_id and g.tenant_id = v_grant.tenant_id
  )
  order by a.id
  for no key update;
  perform from members m where m.id = v_grant.member_id for key share;
  perform from workspaces w where w.id = v_grant.tenant_id for key share;
  select * into v_grant from oauth_grants where code_hash = p_code_hash for update;
  if not found
    or v_grant.client_id <> p_client_id
    or v_grant.redirect_uri <> coalesce(p_redirect_uri, v_grant.redirect_uri)
    or v_grant.code_challenge <> p_code_challenge
  then
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.resource <> coalesce(p_resource, v_grant.resource) then
    return json_build_object('error', 'invalid_target');
  end if;
  if v_grant.key_id is not null then
    perform act_as_client(v_grant);
    perform journal(
      array['client.code_reused'], array[v_grant.key_id],
      array[json_build_object('client_id', v_grant.client_id, 'client_name', v_grant.client_name)],
      array[null::json], null, 0
    )
    from api_keys a
    where a.id = v_grant.key_id and a.revoked_at is null;
    perform revoke_key_tree(v_grant.key_id);
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.expires_at <= clock() or is_maker_ended(v_grant.made_by_key) then
    return json_build_object('error', 'invalid_grant');
  end if;

  perform act_as_member(v_grant.member_id);
  perform set_config('app.tenant_id', v_grant.tenant_id::text, true);
  for v_least_used in
    select a.id
    from oauth_grants g
    join api_keys a on a.id = g.key_id
    where g.member_id = v_grant.member_id and g.tenant_id = v_grant.tenant_id
      and a.revoked_at is null and g.expires_at > clock()
    order by coalesce(a.last_used_at, a.created_at) desc, a.id
    offset 49
  loop
    perform revoke_key_tree(v_least_used);
  end loop;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by
  )
  values (
    v_grant.organization_id, v_grant.tenant_id, v_grant.member_id, v_grant.client_name, p_hint, p_key_hash,
    v_grant.role_id, v_grant.permissions,
    bound_expiry(clock() + interval '1 hour', v_grant.made_by_key), v_grant.made_by_key
  )
  returning * into v_key;
  -- The member has lost the workspace since the approval.
  if bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    return json_build_object('error', 'invalid_grant');
  end if;
  update oauth_grants g
  set key_id = v_key.id, token_family = p_token_family, refresh_hash = p_refresh_hash,
    refreshed_at = clock(), expires_at = clock() + interval '90 days'
  where g.id = v_grant.id
  returning * into v_grant;
  perform journal(
    array['api_key.created'], array[v_key.id],
    array[json_build_object(
      'member_id', v_key.member_id, 'client_id', v_grant.client_id, 'client_name', v_grant.client_name
    )],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return answer_of_grant(v_grant, v_key);
end $function$;
create or replace function redeem_device_code(p_device_code_hash text, p_key_hash text, p_hint text, p_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_request device_requests;
  v_polled device_requests;
  v_key api_keys;
begin
  -- The rows that the deletion of a member or a workspace locks before the request are locked first, in its order.
  perform from members m
  where m.id = (select d.member_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  perform from workspaces w
  where w.id = (select d.tenant_id from device_requests d where d.device_code_hash = p_device_code_hash)
  for key share;
  select * into v_request from device_requests where device_code_hash = p_device_code_hash for update;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  if v_request.expires_at <= clock() then return json_build_object('error', 'expired_token'); end if;
  if v_request.decided_at is null then
    update device_requests d
    set
      polled_at = clock(),
      -- A delay in the network can make it a second early.
      interval_seconds = d.interval_seconds
        + case when d.polled_at > clock() - make_interval(secs => d.interval_seconds - 1) then 5 else 0 end
    where d.id = v_request.id
    returning * into v_polled;
    return json_build_object(
      'error',
      case
        when v_polled.interval_seconds > v_request.interval_seconds then 'slow_down'
        else 'authorization_pending'
      end
    );
  end if;
  if v_request.tenant_id is null then return json_build_object('error', 'access_denied'); end if;

  -- The key by whose link the member had signed in has ended.
  if is_maker_ended(v_request.made_by_key) then return json_build_object('error', 'access_denied'); end if;

  perform act_as_member(v_request.member_id);
  perform set_config('app.tenant_id', v_request.tenant_id::text, true);
  delete from device_requests d where d.id = v_request.id;
  insert into api_keys (
    organization_id, tenant_id, member_id, description, hint, key_hash, role_id, permissions, expires_at, created_by,
    is_verified
  )
  values (
    v_request.organization_id, v_request.tenant_id, v_request.member_id,
    'Command line' || coalesce(' on ' || v_request.device_name, ''),
    p_hint, p_key_hash, v_request.role_id, v_request.permissions,
    bound_expiry(clock() + interval '90 days', v_request.made_by_key), v_request.made_by_key,
    v_request.is_verified
  )
  returning * into v_key;
  -- The member has lost the workspace since the approval.
  if bound_key_permissions(v_key.id) is null then
    delete from api_keys where id = v_key.id;
    return json_build_object('error', 'access_denied');
  end if;
  perform journal(
    array['api_key.created'], array[v_key.id], array[json_build_object('member_id', v_key.member_id)],
    array[changed_members(null, jsonb_build_object(
      'description', v_key.description, 'role_id', v_key.role_id, 'permissions', v_key.permissions,
      'expires_at', v_key.expires_at, 'created_by', v_key.created_by, 'member_id', v_key.member_id
    ))],
    p_limit, 0
  );
  return json_build_object(
    'api_key_id', v_key.id,
    'workspace_id', v_key.tenant_id,
    'organization_id', v_key.organization_id,
    'permissions', v_key.permissions,
    'expires_in', extract(epoch from v_key.expires_at - clock())::integer
  );
end $function$;
create or replace function refresh_client(p_token_family text, p_refresh_hash text, p_client_id text, p_resource text, p_next_refresh_hash text, p_key_hash text, p_hint text)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_grant oauth_grants;
  v_key api_keys;
begin
  -- This locks in the order of ids, like a revocation.
  perform lock_key_tree((select g.key_id from oauth_grants g where g.token_family = p_token_family));
  select a.* into v_key
  from api_keys a
  where a.id = (select g.key_id from oauth_grants g where g.token_family = p_token_family)
  for no key update;
  if not found then return json_build_object('error', 'invalid_grant'); end if;
  select * into v_grant from oauth_grants where token_family = p_token_family for update;
  if not found
    or v_grant.client_id <> p_client_id
    or v_key.revoked_at is not null
    or v_grant.expires_at <= clock()
  then
    return json_build_object('error', 'invalid_grant');
  end if;
  if v_grant.resource <> coalesce(p_resource, v_grant.resource) then
    return json_build_object('error', 'invalid_target');
  end if;

  if v_grant.refresh_hash = p_refresh_hash then
    -- The member may get the workspace back.
    if bound_key_permissions(v_key.id) is null then return json_build_object('error', 'invalid_grant'); end if;
    if is_maker_ended(v_key.created_by) then
      return json_build_object('error', 'invalid_grant');
    end if;
    perform act_as_client(v_grant);
    perform end_access_token(v_key.id);
    update api_keys a
    set key_hash = p_key_hash, hint = p_hint, expires_at = bound_expiry(clock() + interval '1 hour', a.created_by)
    where a.id = v_key.id
    returning a.* into v_key;
    update oauth_grants g
    set refresh_hash = p_next_refresh_hash, previous_refresh_hash = p_refresh_hash, refreshed_at = clock(),
      expires_at = clock() + interval '90 days'
    where g.id = v_grant.id;
    return answer_of_grant(v_grant, v_key);
  end if;
  if v_grant.previous_refresh_hash = p_refresh_hash and v_grant.refreshed_at > clock() - interval '1 minute' then
    -- They differ once the installation seals with another key.
    if v_grant.refresh_hash <> p_next_refresh_hash or v_key.key_hash <> p_key_hash then
      return json_build_object('error', 'invalid_grant');
    end if;
    return answer_of_grant(v_grant, v_key);
  end if;
  perform act_as_client(v_grant);
  perform journal(
    array['client.token_reused'], array[v_key.id],
    array[json_build_object('client_id', v_grant.client_id, 'client_name', v_grant.client_name)],
    array[null::json], null, 0
  );
  perform revoke_key_tree(v_key.id);
  return json_build_object('error', 'invalid_grant');
end $function$;
create or replace function refuse(code text, detail text DEFAULT NULL::text)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
AS $function$
begin
  raise exception using errcode = 'SW000', message = code, detail = coalesce(detail, '');
end $function$;
create or replace function refuse_denied_resource(p_access jsonb, p_roles uuid[], p_organization uuid, p_tenant uuid, p_permission text)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tags uuid[] := resource_tags(p_access -> 'resource', p_tenant);
  v_reading text := (
    select t.value ->> 'reading'
    from jsonb_array_elements(p_access -> 'types') t
    where t.value ->> 'type' = p_access ->> 'bound'
  );
  v_effect text;
  v_rule record;
begin
  if v_tags is null or admitted(p_access ->> 'bound', v_tags) then return; end if;
  select d.effect into v_effect from deciding_rule(p_roles, p_organization, p_tenant, v_reading, v_tags) d;
  if v_effect = 'deny' or v_effect is null and not v_reading = any(actor_permissions()) then return; end if;
  select * into v_rule from deciding_rule(p_roles, p_organization, p_tenant, p_permission, v_tags);
  if v_rule.effect = 'deny' then perform refuse('denied_by_policy', v_rule.name); end if;
  perform refuse('permission_missing', p_permission);
end $function$;
create or replace function release_hold(p_deployment uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment(p_deployment);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if v_stored.hold is null then perform refuse('hold_not_found'); end if;
  perform require_version(v_stored.version, p_request);
  update deployments d
  set hold = null, version = d.version + 1, updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer, array[deployment_event('deployment.hold_released', v_stored, v_changed)], p_request
  );
  return next;
end $function$;
set role slipway_system;
create or replace function remove_tag_values(p_values uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_table text;
begin
  foreach v_table in array array['deployments', 'projects', 'datasets', 'annotation_queues'] loop
    continue when to_regclass(v_table) is null;
    execute format(
      'with tagged as (
        select id
        from %1$I
        where tenant_id = current_tenant() and tag_value_ids && $1
        order by id
        for no key update
      )
      update %1$I r
      set tag_value_ids = array(
        select remaining.id
        from unnest(r.tag_value_ids) with ordinality remaining(id, place)
        where remaining.id <> all($1)
        order by remaining.place
      )
      from tagged
      where r.id = tagged.id',
      v_table
    ) using p_values;
  end loop;
end $function$;
reset role;
create or replace function reopen_incident(i incidents, p_decision jsonb, p_calm interval)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update incidents
  set
    state = 'open',
    reopened = i.reopened + 1,
    value = (p_decision ->> 'value')::double precision,
    cause = coalesce(p_decision ->> 'cause', cause),
    evidence = p_decision -> 'evidence',
    last_at = clock(),
    resolved_at = null,
    is_told = false,
    muted_until = (p_decision ->> 'muted_until')::timestamptz,
    tell_at = greatest(
      (p_decision ->> 'muted_until')::timestamptz,
      clock() + least(interval '1 hour', greatest(p_calm, interval '5 minutes') * power(2, least(i.reopened, 6)))
    ),
    version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  return i;
end $function$;
create or replace function repeat_revision(p_deployment uuid, p_revision uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_next deployments;
  v_queued record;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  if v_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_version(v_stored.version, p_request);

  v_next := v_stored;
  v_next.source_revision_config := unpinned_config(v_stored);
  select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{requested}', v_stored.source);

  answer := to_json(v_queued.revision);
  has_webhooks := conclude_write(answer, v_queued.events, p_request);
  return next;
end $function$;
create or replace function replace_jobs(s schedules)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jobs;
  v_after jobs;
  v_jobs jobs[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in
    select j.*
    from jobs j
    where j.tenant_id = s.tenant_id
      and j.schedule_id = s.id
      and j.status in ('QUEUED', 'RUNNING')
      and j.cancel_requested_at is null
    order by j.id
    for update
  loop
    if v_before.status = 'QUEUED' then
      v_after := end_job(v_before, 'CANCELLED', 'A later run of the schedule replaced it.');
    else
      v_after := v_before;
      v_after.cancel_requested_at := clock();
    end if;
    v_jobs := v_jobs || v_after;
    v_events := v_events || job_event(
      case v_after.status when 'CANCELLED' then 'job.cancelled' else 'job.cancel_requested' end, v_before, v_after
    );
  end loop;
  perform write_jobs(v_jobs);
  return v_events;
end $function$;
create or replace function report_code(p_state text, p_generation integer, p_revision uuid, d deployments, r revisions, p_was_served boolean)
 RETURNS text
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
begin
  if d.id is null then
    return case
      when p_state = 'removed' then null
      when p_was_served then 'generation_passed'
      else 'deployment_unknown'
    end;
  end if;
  if p_generation > d.generation then return 'generation_unknown'; end if;
  if p_state = 'removed' then
    return case
      when d.deleting_at is null then 'still_wanted'
      when p_generation < d.generation then 'generation_passed'
    end;
  end if;
  if p_revision is not null and r.id is null then return 'revision_unknown'; end if;
  case p_state
    when 'database_ready' then return null;
    when 'serving' then return case when p_generation < d.generation then 'generation_passed' end;
    when 'interrupted' then return case when r.id = d.in_flight_revision_id then 'still_wanted' end;
    else
      if r.status in ('CREATING', 'QUEUED') then return 'revision_unknown'; end if;
      return case when report_path(r.status, p_state) is null then 'revision_ended' end;
  end case;
end $function$;
set role slipway_system;
create or replace function report_drains(p_agent text, p_fence bigint, p_reports jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners := require_lease(p_agent, p_fence);
begin
  insert into drain_states as s (
    drain_id, listener_id, organization_id, tenant_id, epoch, epoch_sent, epoch_dropped, sent, dropped, waiting,
    waiting_bytes, last_sent_at, failing_since, error
  )
  select
    d.id, v_listener.id, d.organization_id, d.tenant_id, r.epoch, r.sent, r.dropped, r.sent, r.dropped, r.waiting,
    r.waiting_bytes, r.last_sent_at, r.failing_since, r.error
  from (
    select distinct on (r.id) r.*
    from jsonb_to_recordset(p_reports) as r(
      id uuid, epoch uuid, sent bigint, dropped bigint, waiting bigint, waiting_bytes bigint, last_sent_at timestamptz,
      failing_since timestamptz, error text
    )
    order by r.id
  ) r
  join drains d on d.id = r.id
  where (v_listener.tenant_id is null or d.tenant_id = v_listener.tenant_id)
    and exists (
      select from deployments x where x.tenant_id = d.tenant_id and x.listener_id = v_listener.id
    )
  order by d.id
  on conflict (drain_id, listener_id) do update set
    epoch = excluded.epoch,
    sent = least(
      s.sent + excluded.sent
        - case when s.epoch = excluded.epoch then least(s.epoch_sent, excluded.sent) else 0 end,
      9007199254740991
    ),
    dropped = least(
      s.dropped + excluded.dropped
        - case when s.epoch = excluded.epoch then least(s.epoch_dropped, excluded.dropped) else 0 end,
      9007199254740991
    ),
    epoch_sent = excluded.epoch_sent,
    epoch_dropped = excluded.epoch_dropped,
    waiting = excluded.waiting,
    waiting_bytes = excluded.waiting_bytes,
    last_sent_at = coalesce(excluded.last_sent_at, s.last_sent_at),
    failing_since = excluded.failing_since,
    error = excluded.error,
    reported_at = clock();
end $function$;
reset role;
create or replace function report_path(p_status text, p_state text)
 RETURNS text[]
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_order constant text[] := '{AWAITING_BUILD, BUILDING, AWAITING_DEPLOY, DEPLOYING, DEPLOYED}';
  v_reported text := case p_state
    when 'building' then 'BUILDING'
    when 'built' then 'AWAITING_DEPLOY'
    when 'deploying' then 'DEPLOYING'
    when 'deployed' then 'DEPLOYED'
  end;
begin
  if p_state = 'failed' then
    return case
      when p_status in ('AWAITING_BUILD', 'BUILDING') then '{BUILD_FAILED}'::text[]
      when p_status in ('AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN') then '{DEPLOY_FAILED}'
      when p_status in ('BUILD_FAILED', 'DEPLOY_FAILED') then '{}'
    end;
  end if;
  -- The listener was silent for too long and is back.
  if p_status = 'UNKNOWN' then
    return case v_reported when 'DEPLOYED' then '{DEPLOYED}'::text[] else '{}' end;
  end if;
  if not p_status = any(v_order) then return null; end if;
  return v_order[array_position(v_order, p_status) + 1 : array_position(v_order, v_reported)];
end $function$;
create or replace function require_active_integration(p_id uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_state text := (select state from integrations where id = p_id and tenant_id = current_tenant());
begin
  if v_state is null then perform refuse('integration_unknown'); end if;
  if v_state <> 'active' then perform refuse('integration_' || v_state); end if;
  return true;
end $function$;
set role slipway_system;
create or replace function require_admitted_projects(p_ids uuid[], p_names text[])
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_name text;
begin
  if setting('access_project') is null then return true; end if;
  select coalesce(n.name, p.name, n.id::text)
  into v_name
  from (
    select id, null as name from unnest(p_ids) id
    union all
    select null, name from unnest(p_names) name
  ) n
  left join projects p on p.tenant_id = current_tenant() and (p.id = n.id or p.name = n.name)
  where not admitted('project', coalesce(p.tag_value_ids, '{}'))
  limit 1;
  if found then perform refuse('denied_by_policy', v_name); end if;
  return true;
end $function$;
reset role;
create or replace function require_allowed_action(d deployments, p_action jsonb)
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_store text := p_action ->> 'store';
  v_listener uuid;
  v_kind text;
  v_source uuid;
begin
  if not v_store = any(
    stores_of((d.source_config -> 'resource_spec')::jsonb) || planned_stores(d.id, d.active_revision_id)
  ) then
    perform refuse('store_not_found', v_store);
  end if;
  if p_action ->> 'snapshot_id' is not null then
    select s.listener_id, split_part(s.store, ':', 1), s.deployment_id
    into v_listener, v_kind, v_source
    from snapshots s
    where s.id = (p_action ->> 'snapshot_id')::uuid and s.tenant_id = current_tenant() and s.deleting_at is null;
    if not found then perform refuse('snapshot_not_found'); end if;
    if v_kind <> split_part(v_store, ':', 1) then
      perform refuse('store_not_found', format('a snapshot of a %s cannot become a %s', v_kind, v_store));
    end if;
  elsif p_action ->> 'from_deployment_id' is not null then
    select o.listener_id, o.id
    into v_listener, v_source
    from deployments o
    where o.id = (p_action ->> 'from_deployment_id')::uuid and o.tenant_id = current_tenant();
    if not found then perform refuse('deployment_not_found'); end if;
  else
    return;
  end if;
  if v_store = 'database' and v_source <> d.id then perform require_copy_permission(v_source); end if;
  if v_listener is distinct from d.listener_id then perform refuse('snapshot_elsewhere'); end if;
end $function$;
create or replace function require_allowed_commands(p_before jsonb, p_after jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if commands_of(p_before) <> commands_of(p_after) then perform require_command_permission(); end if;
  return true;
end $function$;
create or replace function require_allowed_creation(p_new json)
 RETURNS uuid
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_config json := p_new -> 'source_config';
  v_listener uuid;
begin
  if v_config ->> 'integration_id' is not null then
    perform require_active_integration((v_config ->> 'integration_id')::uuid);
  end if;
  perform require_allowed_commands('{}', v_config::jsonb);
  -- The listener comes before its templates, which one of another workspace must not tell.
  v_listener := require_listener(
    (v_config ->> 'listener_id')::uuid,
    v_config -> 'listener_config' ->> 'k8s_namespace',
    p_new ->> 'source' = 'external_container'
  );
  if v_config ->> 'template_id' is not null then
    perform require_offered_template(v_config ->> 'template_id', v_listener);
  end if;
  if json_array_length(p_new -> 'policy_needs') > 0 then
    perform require_listener_allows(v_listener, (p_new -> 'policy_needs')::jsonb);
  end if;
  if p_new -> 'source_revision_config' ->> 'source_tarball_path' is not null then
    perform require_stored_archive(p_new -> 'source_revision_config' ->> 'source_tarball_path');
  end if;
  return v_listener;
end $function$;
create or replace function require_allowed_patch(p_stored deployments, p_plan patch_plan, p_patch jsonb, p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_next deployments := p_plan.next;
  v_source text := coalesce(p_patch ->> 'revision_source', p_stored.source);
  -- The values that the patch sends.
  v_sent jsonb := (
    select jsonb_object_agg(m.path, m.value)
    from jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
    where m.value is not null
  );
  v_faults text;
begin
  if p_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  perform require_version(p_stored.version, p_request);

  if cardinality(p_plan.refused) > 0
    or p_patch -> 'required' <> '[]'
    or p_patch -> 'resource_pairs' <> '[]'
    or v_sent ? 'source_config.resource_spec.volumes'
  then
    v_faults := array_to_string(
      array(select path || ' is not allowed for source ' || v_source from unnest(p_plan.refused) path)
      || array(
        select r.path || ' is required for source ' || v_source
        from jsonb_to_recordset(p_patch -> 'required') as r(path text, needed_by text[])
        where v_source = any(r.needed_by)
          and jsonb_build_object(
            'source_config', v_next.source_config, 'source_revision_config', v_next.source_revision_config
          ) #>> string_to_array(r.path, '.') is null
      )
      || case when p_patch -> 'resource_pairs' <> '[]' then
        list_resource_faults((v_next.source_config -> 'resource_spec')::jsonb, p_patch -> 'resource_pairs')
        || list_volume_faults(
          (p_stored.source_config -> 'resource_spec')::jsonb,
          (v_next.source_config -> 'resource_spec')::jsonb,
          v_sent -> 'source_config.resource_spec.volumes'
        )
      end
      || case when v_sent ? 'source_config.resource_spec.volumes'
        and (is_traffic_split(p_stored.traffic) or p_stored.rollout is not null) then
        array(
          select format('source_config.resource_spec.volumes: %s has one writer, and the traffic is split', disks)
          from exclusive_disks(p_stored, (v_next.source_config -> 'resource_spec')::jsonb) disks
          where disks is not null
        )
      end,
      '; '
    );
    if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  end if;
  if jsonb_path_exists(v_sent, '$.keyvalue().key ? (@ starts with "source_")') then
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;

  if cardinality(p_plan.unknown_masks) > 0 then
    perform refuse('secret_unknown', array_to_string(p_plan.unknown_masks, ', '));
  end if;
  if v_next.secret_references is not null and (p_patch -> 'secrets' is not null or v_sent ? 'secret_references') then
    v_faults := (
      select string_agg(name, ', ')
      from json_to_recordset(v_next.secrets) s(name text)
      join json_to_recordset(v_next.secret_references) f(name text) using (name)
    );
    if v_faults is not null then perform refuse('variable_doubled', v_faults); end if;
  end if;

  if v_sent ? 'source_revision_config.source_tarball_path' then
    perform require_stored_archive(v_sent ->> 'source_revision_config.source_tarball_path');
  end if;
  if v_sent ? 'source_config.custom_url' then
    perform require_free_custom_url(
      current_tenant(),
      p_stored.id,
      custom_host(v_sent ->> 'source_config.custom_url'),
      custom_path(v_sent ->> 'source_config.custom_url')
    );
  end if;
  -- The ref is resolved through the integration.
  if (v_sent ? 'source_revision_config.repo_ref' or v_sent ->> 'revision_source' = 'githost')
    and p_stored.source_config ->> 'integration_id' is not null then
    perform require_active_integration((p_stored.source_config ->> 'integration_id')::uuid);
  end if;
  return require_allowed_commands(p_stored.source_config::jsonb, v_next.source_config::jsonb);
end $function$;
create or replace function require_attachment_room(p_tenant uuid, p_bytes bigint, p_limit bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 20000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
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
end $function$;
create or replace function require_branch_to_build_on_push(p_config json, p_revision_config json)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if (p_config ->> 'build_on_push') = 'true' and (p_revision_config ->> 'repo_ref') like 'refs/tags/%' then
    perform refuse('source_rule', 'source_config.build_on_push is not allowed: `repo_ref` is a tag, not a branch');
  end if;
  return true;
end $function$;
create or replace function require_channel_owner(p_member uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_member is not distinct from actor_member() and p_member is not null then return true; end if;
  if not 'channels:manage' = any(actor_permissions()) then
    perform refuse('permission_missing', 'channels:manage');
  end if;
  return true;
end $function$;
create or replace function require_command_permission()
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if setting('actor_kind') in ('key', 'session') and not 'deployments:change-commands' = any(actor_permissions()) then
    perform refuse('permission_missing', 'deployments:change-commands');
  end if;
  return true;
end $function$;
create or replace function require_copy_permission(p_source uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_tags uuid[];
  v_origin uuid;
begin
  if setting('actor_kind') not in ('key', 'session') then return true; end if;
  select d.tag_value_ids, (d.preview #>> '{database_copy, from_deployment_id}')::uuid
  into v_tags, v_origin
  from deployments d
  where d.id = p_source and d.tenant_id = current_tenant();
  -- A copy has the data of its own source.
  if v_origin is not null then perform require_copy_permission(v_origin); end if;
  return require_permission_for('deployments:copy-database', coalesce(v_tags, '{}'));
end $function$;
create or replace function require_creatable_deployment(p_new json)
 RETURNS uuid
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener uuid := require_allowed_creation(p_new);
  v_url text := p_new -> 'source_config' ->> 'custom_url';
begin
  if exists (
    select from deployments d
    where d.name = p_new ->> 'name' and d.tenant_id = current_tenant() and d.deleting_at is null
  ) then
    perform refuse('deployment_name_taken');
  end if;
  if exists (select from projects p where p.name = p_new ->> 'name' and p.tenant_id = current_tenant()) then
    perform refuse('project_name_taken');
  end if;
  if v_url is not null then
    perform require_free_custom_url(current_tenant(), null, custom_host(v_url), custom_path(v_url));
  end if;
  return v_listener;
end $function$;
set role slipway_system;
create or replace function require_free_custom_url(p_tenant uuid, p_deployment uuid, p_host text, p_path text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
begin
  if exists (select from custom_hosts where host = p_host and tenant_id <> p_tenant) then
    perform refuse('custom_host_taken');
  end if;
  if exists (
    select from deployments
    where custom_host = p_host and custom_path = p_path and tenant_id = p_tenant and id is distinct from p_deployment
  ) then
    perform refuse('custom_url_taken');
  end if;
  return true;
end $function$;
reset role;
create or replace function require_grantable_permissions(p_permissions text[])
 RETURNS text[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_excess text := array_to_string(
    array(select unnest(p_permissions) except select unnest(actor_permissions()) order by 1), ', '
  );
begin
  if v_excess <> '' then perform refuse('role_exceeds_actor', v_excess); end if;
  return p_permissions;
end $function$;
set role slipway_system;
create or replace function require_grantable_policies(p_roles uuid[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_is_member boolean := setting('actor_kind') = 'session';
  v_own uuid[] := policy_roles(
    case when not v_is_member then current_actor() end, case when v_is_member then current_actor() end, current_tenant()
  );
  v_policy text;
begin
  if not has_rules(v_own || p_roles, current_organization()) or 'organization:manage' = any(actor_permissions()) then
    return;
  end if;
  select p.name
  into v_policy
  from role_access_policies o
  join access_policies p on p.id = o.access_policy_id
  where o.role_id = any(v_own) and o.organization_id = current_organization() and p.effect = 'deny'
    and not exists (
      select from role_access_policies g
      where g.role_id = any(p_roles) and g.access_policy_id = p.id
    )
  limit 1;
  if found then perform refuse('denied_by_policy', v_policy); end if;
  select p.name
  into v_policy
  from access_rules x
  join access_policies p on p.id = x.access_policy_id
  where x.role_id = any(p_roles) and x.organization_id = current_organization() and x.effect = 'allow'
    and not x.permission = any(actor_permissions())
    and not exists (
      select from role_access_policies o
      where o.role_id = any(v_own) and o.access_policy_id = p.id
    )
  limit 1;
  if found then perform refuse('role_exceeds_actor', v_policy); end if;
end $function$;
reset role;
create or replace function require_grantable_role(p_role uuid, p_scope text, p_only text[] DEFAULT NULL::text[])
 RETURNS uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_role record;
begin
  perform from roles where id = p_role and organization_id = current_organization() for key share;
  -- An organization key may have a workspace role: it then has that role in every workspace.
  select permissions
  into v_role
  from roles
  where id = p_role and (scope = p_scope or p_scope = 'key')
    and (organization_id is null or organization_id = current_organization());
  if not found then perform refuse('role_not_found'); end if;
  if not p_only <@ v_role.permissions then
    perform refuse('permission_not_in_role', array_to_string(
      array(select unnest(p_only) except select unnest(v_role.permissions) order by 1), ', '
    ));
  end if;
  perform require_grantable_permissions(coalesce(p_only, v_role.permissions));
  perform require_grantable_policies(array[p_role]);
  return p_role;
end $function$;
create or replace function require_instance_admin(p_addresses text[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if not is_instance_admin(p_addresses) then perform refuse('instance_admin_required'); end if;
end $function$;
create or replace function require_journal_room(p_today bigint, p_limit bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_today > p_limit then
    perform refuse(
      'journal_full',
      ceil(extract(epoch from (journal_day() + 1)::timestamp - (clock() at time zone 'UTC')))::text
    );
  end if;
  return true;
end $function$;
create or replace function require_key_rights(p_keys text[])
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_policy text;
begin
  if exists (select from unnest(p_keys) key where is_policy_key(key)) then perform require_tag_manager(); end if;
  select own_policy_on_key(key)
  into v_policy
  from unnest(p_keys) key
  where own_policy_on_key(key) is not null
  limit 1;
  if found then perform refuse('widens_own_access', v_policy); end if;
  return true;
end $function$;
create or replace function require_lease(p_agent text, p_fence bigint)
 RETURNS listeners
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for share;
  if v_listener.fence = p_fence and v_listener.agent_id = p_agent then return v_listener; end if;
  perform refuse('fence_stale');
end $function$;
create or replace function require_listener(p_listener uuid, p_namespace text, p_is_required boolean)
 RETURNS uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_namespaces jsonb;
begin
  if p_listener is null then
    if p_is_required and exists (select from listeners where tenant_id = current_tenant()) then
      perform refuse('source_rule', 'source_config.listener_id is required: this workspace has listeners');
    end if;
    return null;
  end if;
  select compute_config::jsonb -> 'k8s_namespaces'
  into v_namespaces
  from listeners
  where id = p_listener and tenant_id = current_tenant()
  for share;
  if not found then
    perform refuse('source_rule', 'source_config.listener_id is not a listener of this workspace');
  end if;
  if p_namespace is null and jsonb_array_length(v_namespaces) > 0 then
    perform refuse(
      'source_rule', 'source_config.listener_config.k8s_namespace is required: name a namespace of the listener'
    );
  end if;
  if p_namespace is not null and not v_namespaces ? p_namespace then
    perform refuse('source_rule', 'source_config.listener_config.k8s_namespace is not a namespace of the listener');
  end if;
  return p_listener;
end $function$;
create or replace function require_listener_allows(p_listener uuid, p_needs jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_refused text;
begin
  with possible as (
    select l.policy::jsonb as policy
    from listeners l
    where (l.id = p_listener and (l.tenant_id = current_tenant() or l.tenant_id is null))
      or (p_listener is null and l.tenant_id is null)
  ),
  most as (
    select
      max((p.policy ->> 'max_copies')::integer) as copies,
      max((p.policy ->> 'max_disk_gi')::integer) as disk_gi
    from possible p
  )
  select string_agg(
    case n.needs
      when 'copies' then format('%s (at most %s)', n.path, m.copies)
      when 'disk_size' then format('%s (at most %s)', n.path, m.disk_gi)
      when 'feature' then format('%s (%s)', n.path, n.hint)
      when 'told_feature' then format('%s (%s)', n.path, n.hint)
      else n.path
    end,
    ', '
    order by n.place
  )
  into v_refused
  from rows from (
    jsonb_to_recordset(p_needs) as (path text, needs text, value jsonb, hint text)
  ) with ordinality n(path, needs, value, hint, place)
  cross join most m
  where exists (select from possible)
    and not exists (
      select
      from possible p
      where p.policy is null
        or case n.needs
          when 'privileged' then (p.policy ->> 'privileged')::boolean
          when 'service_account' then p.policy -> 'service_accounts' @> n.value
          when 'copies' then coalesce(n.value::integer <= (p.policy ->> 'max_copies')::integer, true)
          when 'disk_size' then coalesce(n.value::integer <= (p.policy ->> 'max_disk_gi')::integer, true)
          when 'feature' then coalesce(nullif(p.policy -> 'features', 'null') @> n.value, true)
          when 'told_feature' then p.policy -> 'features' @> n.value
        end
    );
  if v_refused is not null then perform refuse('not_allowed_by_listener', v_refused); end if;
  return true;
end $function$;
create or replace function require_listener_allows_patch(p_deployment uuid, p_patch jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  v_clears_account boolean :=
    p_patch -> 'members' @> '[{"path": "source_config.resource_spec.service_account_name", "value": null}]';
begin
  if p_patch -> 'policy_needs' = '[]' and not v_clears_account then return true; end if;
  perform require_listener_allows(d.listener_id, needs.changed)
  from deployments d
  cross join lateral (
    select jsonb_agg(n.need) as changed
    from (
      select n.need
      from jsonb_array_elements(p_patch -> 'policy_needs') n(need)
      join jsonb_to_recordset(p_patch -> 'members') as m(path text, value jsonb)
        on m.path in (
          'source_config.resource_spec',
          'source_config.resource_spec.' || split_part(n.need ->> 'path', '.', 2),
          n.need ->> 'path'
        )
      cross join lateral (select n.need ->> 'path' like '%.serviceAccountToken' as is_token) t
      where case
        when t.is_token and v_clears_account then true
        -- A deployment with an account has its token anyway.
        when t.is_token and d.source_config -> 'resource_spec' ->> 'service_account_name' is not null then false
        -- The patch may send the one, and the deployment have the other.
        when n.need ->> 'value' in ('autoscaling', 'part_autoscaling')
          and not (p_patch -> 'members') @> jsonb_build_array(
            jsonb_build_object('path', 'source_config.' || replace(n.need ->> 'path', 'max_scale', 'min_scale'))
          )
          then m.value is distinct from (d.source_config #> string_to_array(n.need ->> 'path', '.'))::jsonb
            and m.value::text::integer > coalesce(
              (d.source_config #>> string_to_array(replace(n.need ->> 'path', 'max_scale', 'min_scale'), '.'))::integer,
              1
            )
        else m.value is distinct from (d.source_config #> (string_to_array(m.path, '.'))[2:])::jsonb
      end
      union all
      -- The volumes that stay have a token of the account that goes.
      select jsonb_build_object('path', t.path, 'needs', 'privileged')
      from list_token_volumes((d.source_config -> 'resource_spec' -> 'volumes')::jsonb) t(path)
      where v_clears_account
        and not exists (
          select
          from jsonb_to_recordset(p_patch -> 'members') as m(path text)
          where m.path = 'source_config.resource_spec.volumes'
        )
    ) n
  ) needs
  where d.id = p_deployment and d.tenant_id = current_tenant() and needs.changed is not null;
  return true;
end $function$;
create or replace function require_member(p_member uuid)
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if not exists (select from members where id = p_member and organization_id = current_organization()) then
    perform refuse('member_not_found');
  end if;
  return p_member;
end $function$;
set role slipway_system;
create or replace function require_no_wider_access(p_before uuid[], p_after uuid[])
 RETURNS void
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_roles uuid[] := actor_policy_roles();
  v_permission text;
  v_policy text;
begin
  if not has_rules(v_roles, current_organization()) or 'organization:manage' = any(actor_permissions()) then
    return;
  end if;
  for v_permission in
    select distinct x.permission
    from access_rules x
    where x.role_id = any(v_roles) and x.organization_id = current_organization()
  loop
    continue when is_permitted_for(v_permission, p_before) or not is_permitted_for(v_permission, p_after);
    select d.name
    into v_policy
    from (values (1, p_before), (2, p_after)) given(place, tags)
    cross join lateral deciding_rule(v_roles, current_organization(), current_tenant(), v_permission, given.tags) d
    order by given.place
    limit 1;
    perform refuse('widens_own_access', v_policy);
  end loop;
end $function$;
reset role;
set role slipway_system;
create or replace function require_offered_template(p_template text, p_listener uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_offered text[];
  v_all_told boolean;
begin
  select coalesce(array_agg(distinct t.name order by t.name) filter (where t.name is not null), '{}'),
    bool_and(l.templates is not null)
  into v_offered, v_all_told
  from listeners l
  left join lateral unnest(l.templates) t(name) on true
  where (l.id = p_listener and l.tenant_id = current_tenant()) or (p_listener is null and l.tenant_id is null);
  if v_all_told and p_template <> all (v_offered) then
    perform refuse('template_unknown', format(
      '%s; it offers %s%s',
      p_template,
      array_to_string(v_offered[:20], ', '),
      case when cardinality(v_offered) > 20 then format(' and %s more', cardinality(v_offered) - 20) else '' end
    ));
  end if;
  return true;
end $function$;
reset role;
create or replace function require_own_project(p_id uuid, p_name text)
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_own record;
begin
  select id, name into v_own from projects where id = confined_project() and tenant_id = current_tenant();
  if p_id is not null and p_id is distinct from v_own.id
    or p_id is null and p_name is not null and p_name is distinct from v_own.name
  then
    perform refuse('trace_key_confined', v_own.name);
  end if;
  return v_own.id;
end $function$;
set role slipway_system;
create or replace function require_permission_for(p_permission text, p_tags uuid[])
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_denying text;
begin
  if is_permitted_for(p_permission, p_tags) then return true; end if;
  select d.name
  into v_denying
  from deciding_rule(actor_policy_roles(), current_organization(), current_tenant(), p_permission, p_tags) d
  where d.effect = 'deny';
  if found then perform refuse('denied_by_policy', v_denying); end if;
  return refuse('permission_missing', p_permission);
end $function$;
reset role;
create or replace function require_preview_database(d deployments, p_database jsonb, p_needs jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
declare
  o deployments;
begin
  if p_database ->> 'mode' is distinct from 'copy' then return true; end if;
  select c.*
  into o
  from deployments c
  where c.id = coalesce((p_database ->> 'from_deployment_id')::uuid, d.id) and c.tenant_id = current_tenant();
  if not found or o.deleting_at is not null then
    perform refuse('database_not_copied', 'there is no deployment ' || (p_database ->> 'from_deployment_id'));
  end if;
  perform require_copy_permission(o.id);
  if not has_database(o) then perform refuse('database_not_copied', o.name || ' has no database'); end if;
  if awaits_database_copy(o) then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is being copied itself. Try again later');
  end if;
  if o.listener_id is distinct from d.listener_id then
    perform refuse('database_not_copied', 'that of ' || o.name || ' is on the machine of another listener');
  end if;
  return require_listener_allows(d.listener_id, p_needs);
end $function$;
create or replace function require_runnable(d deployments, r revisions, p_share integer)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if r.id = d.in_flight_revision_id then return true; end if;
  if d.in_flight_revision_id is not null then
    perform refuse('traffic_refused', format(
      'revision %s is not the one that is deployed now. Interrupt that one first', r.number
    ));
  end if;
  if r.status <> 'DEPLOYED' then
    perform refuse('traffic_refused', format('revision %s was never deployed: it is %s', r.number, r.status));
  end if;
  if p_share = 100 then
    perform refuse('traffic_refused', format('revision %s has served before. Roll back to it instead', r.number));
  end if;
  if r.source = 'internal_source' and not exists (
    select from uploads u
    where u.object_path = r.source_revision_config ->> 'source_tarball_path'
      and u.tenant_id = r.tenant_id
      and u.state = 'stored'
  ) then
    perform refuse('traffic_refused', format('the archive of revision %s is not kept any more', r.number));
  end if;
  if r.source = 'githost' and r.source_revision_config ->> 'repo_commit_sha' is null then
    perform refuse('traffic_refused', format('the commit of revision %s is not known', r.number));
  end if;
  return true;
end $function$;
create or replace function require_scores_readable(d deployments)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  perform require_permission_for('runs:read', p.tag_value_ids)
  from projects p
  where p.tenant_id = d.tenant_id and p.name = d.name;
  if found then return true; end if;
  if hides('project') then perform refuse('denied_by_policy', d.name); end if;
  if not 'runs:read' = any(actor_permissions()) then perform refuse('permission_missing', 'runs:read'); end if;
  return true;
end $function$;
create or replace function require_signable_member(p_member uuid)
 RETURNS uuid
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  perform require_member(p_member);
  perform require_grantable_permissions(array(
    select unnest(r.permissions)
    from members m
    join roles r on r.id = m.role_id
    where m.id = p_member
    union
    select unnest(r.permissions)
    from workspace_members m
    join roles r on r.id = m.role_id
    where m.member_id = p_member
  ));
  perform require_grantable_policies(policy_roles(null, p_member, null));
  return p_member;
end $function$;
create or replace function require_stored_archive(p_path text)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform from uploads where tenant_id = current_tenant() and object_path = p_path and state = 'stored' for share;
  if not found then perform refuse('archive_unknown'); end if;
  return true;
end $function$;
create or replace function require_tag_change(p_before uuid[], p_after uuid[], p_is_strict boolean)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after, p_is_strict);
begin
  perform require_no_wider_access(p_before, v_after);
  return v_after;
end $function$;
create or replace function require_tag_manager()
 RETURNS void
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform refuse('permission_missing', 'workspaces:update');
  end if;
end $function$;
create or replace function require_tag_rights(p_before uuid[], p_after uuid[], p_is_strict boolean DEFAULT true)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_unknown text := (
    select string_agg(given.id::text, ', ')
    from unnest(p_after) given(id)
    where given.id <> all(p_before)
      and not exists (select from tag_values v where v.id = given.id and v.tenant_id = current_tenant())
  );
begin
  if v_unknown is not null then perform refuse('tag_value_not_found', v_unknown); end if;
  if exists (
    select from tag_values v
    join tag_keys k on k.id = v.tag_key_id
    where v.tenant_id = current_tenant()
      and (v.id = any(p_after) and v.id <> all(p_before) or v.id = any(p_before) and v.id <> all(p_after))
      and k.key <> 'Application'
      and (p_is_strict or is_policy_key(k.key))
  ) then
    perform require_tag_manager();
  end if;
  return array(
    select given.id
    from unnest(p_after) with ordinality given(id, place)
    group by given.id
    order by min(given.place)
  );
end $function$;
set role slipway_system;
create or replace function require_tagging(p_permission text, p_before uuid[], p_after uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_after uuid[] := require_tag_rights(p_before, p_after);
  v_denying text;
begin
  if not 'workspaces:update' = any(actor_permissions()) then
    perform require_permission_for(p_permission, p_before), require_permission_for(p_permission, v_after);
    perform require_no_wider_access(p_before, v_after);
    return v_after;
  end if;
  select d.name
  into v_denying
  from (values (p_before), (v_after)) given(tags)
  cross join lateral deciding_rule(
    actor_policy_roles(), current_organization(), current_tenant(), p_permission, given.tags
  ) d
  where d.effect = 'deny';
  if found then perform refuse('denied_by_policy', v_denying); end if;
  perform require_no_wider_access(p_before, v_after);
  return v_after;
end $function$;
reset role;
create or replace function require_tier_change(p_tags uuid[], p_from text, p_to text, p_from_days integer, p_to_days integer)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_from = 'longlived' and p_to = 'shortlived' or p_to_days < p_from_days then
    perform require_permission_for('projects:decrease-trace-tier', p_tags);
  end if;
  if p_from = 'shortlived' and p_to = 'longlived' or p_to_days > p_from_days then
    perform require_permission_for('projects:increase-trace-tier', p_tags);
  end if;
  return true;
end $function$;
set role slipway_system;
create or replace function require_tunnel_room(p_tenant uuid, p_listener uuid, p_features text[], p_tenant_limit integer, p_listener_limit integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SECURITY DEFINER COST 20000
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_listener listeners;
  v_missing text;
begin
  select l.* into v_listener from listeners l where l.id = p_listener;
  if not found or v_listener.lease_expires_at is null or v_listener.lease_expires_at <= clock() then
    perform refuse('agent_absent');
  end if;
  select f into v_missing
  from unnest(p_features) f
  where f not in (select json_array_elements_text(coalesce(v_listener.policy -> 'tunnels', '[]')));
  if found then perform refuse('tunnel_unsupported', v_missing); end if;
  perform pg_advisory_xact_lock(hashtextextended('tunnels of ' || p_tenant, 0));
  if (select count(*) from tunnels t where t.tenant_id = p_tenant and t.ended_at is null) >= p_tenant_limit
    or (
      select count(*) + count(*) filter (where t.tenant_id = p_tenant)
      from tunnels t
      where t.listener_id = p_listener and t.ended_at is null
    ) >= p_listener_limit
  then
    perform refuse('tunnels_full');
  end if;
  return true;
end $function$;
reset role;
create or replace function require_upload_link_room(p_tenant uuid, p_limit integer)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 10000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if (
    select count(*)
    from uploads
    where tenant_id = p_tenant and state = 'offered' and expires_at > clock()
  ) >= p_limit then
    perform refuse('upload_links_full');
  end if;
  return true;
end $function$;
create or replace function require_upload_room(p_tenant uuid, p_bytes bigint, p_limit bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 COST 20000
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_used bigint;
begin
  perform pg_advisory_xact_lock(hashtextextended('uploads of ' || p_tenant, 0));
  select coalesce(
    sum(
      coalesce(size, reserved)
      + coalesce(pg_column_size(build_plan), 0)
      + coalesce(pg_column_size(build_refusal), 0)
    ),
    0
  )
  into v_used
  from uploads
  where tenant_id = p_tenant
    and (state in ('stored', 'removing') or state = 'receiving' and used_at > clock() - interval '1 hour');
  if v_used + p_bytes > p_limit then perform refuse('uploads_full'); end if;
  return true;
end $function$;
create or replace function require_version(p_version integer, p_request jsonb)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE COST 10000
AS $function$
begin
  if not nullif(p_request -> 'if_match', 'null') @> to_jsonb(p_version) then
    perform refuse('precondition_failed');
  end if;
  if p_version <> (p_request ->> 'planned_version')::integer then perform refuse('plan_stale'); end if;
  return true;
end $function$;
create or replace function resolve_condition(p_tenant uuid, p_rule bigint, p_is_deny boolean, p_condition jsonb)
 RETURNS access_condition
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_value text := p_condition ->> 'attribute_value';
  v_operator text := replace(p_condition ->> 'operator', '_if_exists', '');
  v_comparison text := replace(v_operator, 'not_', '');
  v_pattern text := glob_pattern(v_value);
  v_known uuid[];
  v_matching uuid[];
begin
  select
    array_agg(v.id),
    array_agg(v.id) filter (where case v_comparison
      when 'equals' then v.value = v_value
      when 'equals_ignore_case' then lower(v.value) = lower(v_value)
      when 'matches' then v.value like v_pattern
    end)
  into v_known, v_matching
  from tag_keys k
  join tag_values v on v.tag_key_id = k.id
  where k.tenant_id = p_tenant and k.key = p_condition ->> 'attribute_key';
  -- Without a value that compares, a plain comparison fails whether or not the resource has the key. So only the others
  -- need to know all its values, of which there may be a thousand.
  if v_operator = v_comparison and v_operator = p_condition ->> 'operator' then v_known := v_matching; end if;
  return row(
    p_rule,
    p_is_deny,
    coalesce(v_known, '{}'),
    coalesce(v_matching, '{}'),
    v_operator <> v_comparison,
    v_operator <> p_condition ->> 'operator'
  )::access_condition;
end $function$;
create or replace function resolve_incident(i incidents, p_message text)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update incidents
  set state = 'resolved', resolved_at = clock(), last_at = clock(), tell_at = null, version = i.version + 1,
    updated_at = clock()
  where id = i.id and tenant_id = i.tenant_id
  returning * into i;
  insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
  values (i.organization_id, i.tenant_id, i.id, 'resolved', i.value, p_message);
  if i.is_told then i := tell_incident(i, 'close', coalesce(p_message, 'Resolved.')); end if;
  return i;
end $function$;
create or replace function resolve_incident_by_hand(p_incident uuid, p_message text)
 RETURNS SETOF incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
begin
  select * into i from incidents k where k.id = p_incident and k.tenant_id = current_tenant() for no key update;
  if not found then return; end if;
  if i.state <> 'resolved' then
    i := resolve_incident(i, coalesce(p_message, 'Resolved by ' || coalesce(event_actor_name(), 'a person') || '.'));
    update alert_states s
    set phase = 'dismissed', since = null, version = s.version + 1
    where s.rule_id = i.rule_id and s.subject_id = i.subject_id and s.tenant_id = i.tenant_id;
  end if;
  return next i;
end $function$;
create or replace function resolve_incidents_of_rule(p_rule uuid)
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_count integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.rule_id = p_rule and k.tenant_id = current_tenant() and k.state <> 'resolved'
    order by k.id
    for no key update
  loop
    perform resolve_incident(i, 'The rule was deleted.');
    v_count := v_count + 1;
  end loop;
  return v_count;
end $function$;
create or replace function resolve_quiet_run_rules()
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_before text;
  v_events tenant_event[] := '{}';
begin
  for i in
    select k.*
    from incidents k
    where k.rule_id is null and k.state <> 'resolved'
      and (k.run_rule_id is null or k.last_at < clock() - interval '15 minutes')
    order by k.id
    limit 200
    for no key update skip locked
  loop
    v_before := i.state;
    i := resolve_incident(i, case
      when i.run_rule_id is null then 'The rule was deleted.'
      else 'No run has matched for 15 minutes.'
    end);
    v_events := v_events || incident_event(i, 'incident.resolved', v_before);
    return next i.tenant_id;
  end loop;
  perform journal_tenant_events(v_events, null);
end $function$;
create or replace function resolve_rules(p_roles uuid[], p_organization uuid, p_tenant uuid, p_permission text, p_effects text[], p_first integer)
 RETURNS access_condition[]
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return array(
    select resolve_condition(p_tenant, r.number, r.effect = 'deny', c.value)
    from (
      select x.effect, x.conditions, p_first + row_number() over () as number
      from access_rules x
      where x.role_id = any(p_roles) and x.organization_id = p_organization and x.permission = p_permission
        and x.effect = any(p_effects)
    ) r
    cross join lateral jsonb_array_elements(r.conditions) c
    order by r.number
  );
end $function$;
create or replace function resolved_config(r revisions, p_commit jsonb, p_image text)
 RETURNS jsonb
 LANGUAGE sql
 STABLE
RETURN jsonb_strip_nulls(jsonb_build_object('repo_commit_sha', (p_commit ->> 'sha'::text), 'image_uri', CASE WHEN (((r).source <> ALL (ARRAY['internal_container'::text, 'external_container'::text])) OR (image_name(p_image) = image_name(((r).source_revision_config ->> 'image_uri'::text)))) THEN p_image ELSE NULL::text END));
create or replace function resource_tags(p_resource jsonb, p_tenant uuid)
 RETURNS uuid[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_tags uuid[];
begin
  execute case
    when p_resource ? 'parent' then format(
      'select p.tag_value_ids from %I c join %I p on p.id = c.%I where c.id = $1 and c.tenant_id = $2 limit 1',
      p_resource ->> 'table', p_resource ->> 'parent', p_resource ->> 'column'
    )
    else format('select tag_value_ids from %I where id = $1 and tenant_id = $2', p_resource ->> 'table')
  end
  into v_tags
  using (p_resource ->> 'id')::uuid, p_tenant;
  return v_tags;
end $function$;
create or replace function restore_revision(p_deployment uuid, p_restored uuid, p_revision uuid, p_reason text, p_hold_until text, p_kept_members text[], p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments;
  v_restored revisions;
  v_next deployments;
  v_queued record;
begin
  v_stored := lock_deployment(p_deployment);
  if v_stored.id is null then return; end if;
  if v_stored.deleting_at is not null then perform refuse('deployment_deleting'); end if;
  select r.*
  into v_restored
  from revisions r
  where r.id = p_restored and r.deployment_id = v_stored.id and r.tenant_id = current_tenant();
  if not found then perform refuse('revision_not_found'); end if;
  perform require_version(v_stored.version, p_request);
  perform require_branch_to_build_on_push(v_stored.source_config, v_restored.source_revision_config);
  perform require_allowed_commands(v_stored.source_config::jsonb, v_restored.source_config::jsonb);

  v_next := v_stored;
  v_next.source_config := restored_config(
    v_stored.source_config::jsonb, v_restored.source_config::jsonb, p_kept_members
  );
  v_next.source_revision_config := v_restored.source_revision_config;
  v_next.secrets := v_restored.secrets;
  v_next.secret_references := v_restored.secret_references;
  if p_hold_until is not null then
    -- It takes all traffic at once.
    v_next.traffic := (v_stored.traffic::jsonb || '{"beside": null}')::json;
    v_next.hold := json_build_object(
      'since', clock(),
      'revision_id', p_revision,
      'until', p_hold_until,
      'from_commit', (
        select coalesce(r.commit ->> 'sha', r.source_revision_config ->> 'repo_commit_sha')
        from revisions r
        where r.id = v_stored.latest_revision_id and r.tenant_id = current_tenant()
      )
    );
  end if;
  select *
  into v_queued
  from queue_revision(
    v_stored, v_next, p_revision, array[p_reason], v_restored.source, v_restored.commit, v_restored.id
  );

  answer := to_json(v_queued.changed);
  has_webhooks := conclude_write(
    answer,
    deployment_event(
      'deployment.' || p_reason, v_stored, v_queued.changed, json_build_object('revision_id', p_restored)
    ) || v_queued.events,
    p_request
  );
  return next;
end $function$;
create or replace function restored_config(p_stored jsonb, p_restored jsonb, p_kept text[])
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE
AS $function$
declare
  v_stored jsonb := coalesce(nullif(p_stored -> 'resource_spec', 'null'), '{}');
  v_restored jsonb := coalesce(nullif(p_restored -> 'resource_spec', 'null'), '{}');
  v_resources jsonb;
  v_faults text;
begin
  select jsonb_object_agg(key, value)
  into v_resources
  from (
    select m.key, m.value
    from jsonb_each(v_stored) m
    where m.key ~ '^(db|redis)_' or 'resource_spec.' || m.key = any(p_kept)
    union all
    select m.key, m.value
    from jsonb_each(v_restored) m
    where 'resource_spec.' || m.key <> all (p_kept)
      and not (starts_with(m.key, 'db_') and has_part(v_stored, 'db'))
      and not (starts_with(m.key, 'redis_') and has_part(v_stored, 'redis'))
      and m.key not in ('volumes', 'volume_mounts')
    union all
    select l.key, l.value
    from (
      values
        ('volumes', keep_disks(v_stored, coalesce(nullif(v_restored -> 'volumes', 'null'), '[]'))),
        ('volume_mounts', keep_disk_mounts(v_stored, coalesce(nullif(v_restored -> 'volume_mounts', 'null'), '[]')))
    ) l(key, value)
    where l.value <> '[]'
  ) members;
  v_faults := array_to_string(list_resource_faults(v_resources, '[]'), '; ');
  if v_faults <> '' then perform refuse('source_rule', v_faults); end if;
  return (p_restored - p_kept - 'resource_spec')
    || coalesce((select jsonb_object_agg(key, value) from jsonb_each(p_stored) where key = any(p_kept)), '{}')
    || case
      when v_resources is not null then jsonb_build_object('resource_spec', v_resources)
      -- A source that needs resources has them always, if only empty ones.
      when p_stored ? 'resource_spec' and p_restored ? 'resource_spec' then '{"resource_spec": {}}'
      else '{}'
    end;
end $function$;
create or replace function revision_moved(p_before revisions, p_after revisions, p_data json)
 RETURNS tenant_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    p_after.tenant_id,
    p_after.organization_id,
    'revision.' || lower(p_after.status),
    p_after.id,
    p_data,
    changed_members(
      jsonb_build_object(
        'source_revision_config', p_before.source_revision_config,
        'status', p_before.status,
        'status_message', p_before.status_message,
        'commit', p_before.commit
      ),
      jsonb_build_object(
        'source_revision_config', p_after.source_revision_config,
        'status', p_after.status,
        'status_message', p_after.status_message,
        'commit', p_after.commit
      )
    )
  )::tenant_event;
end $function$;
create or replace function revoke_bypass(p_deployment uuid, p_bypass uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  delete from protection_bypasses o
  where o.id = p_bypass and o.deployment_id = d.id and o.tenant_id = current_tenant()
  returning * into b;
  if b.id is null then return; end if;
  perform tell_bypasses(d.id);
  answer := to_json(b);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.revoked', b.id, json_build_object('deployment_id', d.id), changed_members(recorded_bypass(b), null)
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function revoke_client(p_key_hash text, p_token_family text, p_client_id text)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_grant oauth_grants;
begin
  select g.* into v_grant
  from oauth_grants g
  join api_keys a on a.id = g.key_id
  where (a.key_hash = p_key_hash or g.token_family = p_token_family)
    and g.client_id = coalesce(p_client_id, g.client_id);
  if not found then return; end if;
  perform act_as_client(v_grant);
  perform revoke_key_tree(v_grant.key_id);
end $function$;
set role slipway_system;
create or replace function revoke_key_tree(p_key uuid)
 RETURNS SETOF uuid
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tree uuid[];
  v_locked uuid[] := '{}';
begin
  if not exists (
    select from api_keys a
    where a.id = p_key and a.revoked_at is null and a.organization_id = current_organization()
      and (current_tenant() is null or a.tenant_id = current_tenant())
  ) then
    return;
  end if;
  -- Any key that is not locked yet may be creating another one, so the tree is read again until all of it is locked.
  -- Locks are taken in the order of the ids, so two revocations cannot deadlock.
  loop
    v_tree := array(
      with recursive tree as (
        select p_key as id
        union
        select a.id
        from api_keys a
        join tree t on a.created_by = t.id
      )
      select id from tree
    );
    exit when v_tree <@ v_locked;
    perform from api_keys a where a.id = any(v_tree) order by a.id for no key update;
    v_locked := v_tree;
  end loop;
  return query
  with revoked as (
    update api_keys a
    set revoked_at = clock()
    where a.id = any(v_tree) and a.revoked_at is null
    returning a.id, a.organization_id, a.tenant_id, coalesce(a.tenant_id, a.organization_id) as scope_id, a.revoked_at
  ),
  numbered as (
    insert into journals as j (scope_id, organization_id, seq)
    select r.scope_id, r.organization_id, count(*)
    from revoked r
    group by r.scope_id, r.organization_id
    order by r.scope_id
    on conflict (scope_id) do update set seq = j.seq + excluded.seq
    returning j.scope_id, j.seq - (select count(*) from revoked r where r.scope_id = j.scope_id) as before
  ),
  journaled as (
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_id, request_id, data, changes,
      part_of
    )
    select
      r.scope_id,
      n.before + r.place,
      r.organization_id,
      r.tenant_id,
      'api_key.revoked',
      r.id,
      setting('actor_kind'),
      current_actor(),
      setting('request_id'),
      case when r.id = p_key then '{}'::json else json_build_object('revoked_with', p_key) end,
      changed_members(null, jsonb_build_object('revoked_at', r.revoked_at)),
      case when r.place > 1 then n.before + 1 end
    from (
      select revoked.*, row_number() over (partition by scope_id order by id <> p_key, id) as place
      from revoked
    ) r
    join numbered n on n.scope_id = r.scope_id
  )
  select r.id from revoked r;
end $function$;
reset role;
set role slipway_system;
create or replace function revoke_outdated_grants(p_provider uuid, p_moved_binding text)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_now text := (
    select oauth_binding(p)
    from oauth_providers p
    where p.id = p_provider and p.organization_id = current_organization()
  );
  v_ended integer;
begin
  if v_now is null then return 0; end if;
  update oauth_tokens
  set bound_to = v_now
  where provider_id = p_provider and revoked_at is null and bound_to = p_moved_binding;
  update oauth_flows
  set bound_to = v_now
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to = p_moved_binding;
  -- A new generation, so a refresh in flight at the old endpoint writes nothing.
  update oauth_tokens
  set revoked_at = clock(), leased_until = null, generation = generation + 1
  where provider_id = p_provider and revoked_at is null and bound_to <> v_now;
  get diagnostics v_ended = row_count;
  update oauth_flows
  set status = 'failed', failure = 'provider_changed'
  where provider_id = p_provider and status in ('pending', 'answered') and bound_to <> v_now;
  return v_ended;
end $function$;
reset role;
create or replace function rollout_due(p_progress jsonb)
 RETURNS timestamp with time zone
 LANGUAGE sql
 STABLE
RETURN CASE WHEN (rollout_work(p_progress) IS NULL) THEN NULL::timestamp with time zone WHEN (((p_progress -> 'passed'::text) = 'true'::jsonb) AND ((p_progress -> 'paused'::text) = 'false'::jsonb)) THEN GREATEST(clock(), minutes_over_at(p_progress)) WHEN ((p_progress #> '{policy,gates,scores}'::text[]) <> '[]'::jsonb) THEN (clock() + '00:01:00'::interval) ELSE NULL::timestamp with time zone END;
create or replace function rollout_of(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (((d).traffic #>> '{beside,revision_id}'::text[]) = ((d).in_flight_revision_id)::text) THEN NULLIF((((d).traffic #> '{beside,rollout}'::text[]))::jsonb, 'null'::jsonb) ELSE NULL::jsonb END;
create or replace function rollout_event(p_type text, p_before deployments, p_after deployments, p_data jsonb DEFAULT '{}'::jsonb)
 RETURNS tenant_event
 LANGUAGE sql
 STABLE
RETURN ROW((p_after).tenant_id, (p_after).organization_id, p_type, (p_after).id, ((jsonb_build_object('revision_id', (p_before).in_flight_revision_id, 'step', (COALESCE(rollout_of(p_after), rollout_of(p_before)) -> 'step'::text), 'share', COALESCE(((p_after).traffic #> '{beside,share}'::text[]), ((p_before).traffic #> '{beside,share}'::text[]))) || p_data))::json, changed_members(jsonb_build_object('traffic', recorded_traffic((p_before).traffic)), jsonb_build_object('traffic', recorded_traffic((p_after).traffic))))::tenant_event;
create or replace function rollout_events(p_before deployments, p_after deployments)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_before jsonb := rollout_of(p_before);
  v_after jsonb := rollout_of(p_after);
  v_events tenant_event[] := '{}';
begin
  if v_before ->> 'step' <> v_after ->> 'step' and p_before.in_flight_revision_id = p_after.in_flight_revision_id then
    v_events := v_events || rollout_event('deployment.rollout_step', p_before, p_after);
  end if;
  if p_after.hold is not null and p_after.hold ->> 'reason' = 'rollout_failed'
    and p_after.hold::text is distinct from p_before.hold::text then
    v_events := v_events || (
      p_after.tenant_id,
      p_after.organization_id,
      'deployment.held',
      p_after.id,
      json_build_object('revision_id', p_after.hold ->> 'revision_id'),
      changed_members(jsonb_build_object('hold', p_before.hold), jsonb_build_object('hold', p_after.hold))
    )::tenant_event;
  end if;
  return v_events;
end $function$;
create or replace function rollout_judged(d deployments)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN ((((d).applied_traffic ->> 'revision_id'::text) = ((d).in_flight_revision_id)::text) AND (((d).applied_traffic #>> '{rollout,step}'::text[]) = (rollout_of(d) ->> 'step'::text))) THEN (((d).applied_traffic -> 'rollout'::text))::jsonb ELSE NULL::jsonb END;
create or replace function rollout_share(p_policy jsonb, p_step integer)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
RETURN COALESCE(((p_policy #>> ARRAY['steps'::text, (p_step)::text, 'share'::text]))::integer, 100);
create or replace function rotate_trace_key(p_deployment uuid, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  update deployments d
  set
    trace_key_version = d.trace_key_version + 1,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.trace_key_rotated',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('trace_key_version', v_stored.trace_key_version),
        jsonb_build_object('trace_key_version', v_changed.trace_key_version)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function schedule_event(p_type text, d deployments, p_before schedules, p_after schedules)
 RETURNS tenant_event
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return (
    d.tenant_id,
    d.organization_id,
    p_type,
    coalesce(p_after.id, p_before.id),
    json_build_object('deployment_id', d.id, 'declared', true),
    changed_members(recorded_schedule(p_before), recorded_schedule(p_after))
  )::tenant_event;
end $function$;
create or replace function score_fits(p_config json, p_score numeric)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_score IS NULL) THEN true WHEN ((p_config ->> 'type'::text) = 'continuous'::text) THEN ((p_score >= COALESCE(((p_config ->> 'min'::text))::numeric, p_score)) AND (p_score <= COALESCE(((p_config ->> 'max'::text))::numeric, p_score))) WHEN ((p_config ->> 'type'::text) = 'categorical'::text) THEN (EXISTS (SELECT FROM json_array_elements((score_fits.p_config -> 'categories'::text)) c(value) WHERE (((c.value ->> 'value'::text))::numeric = score_fits.p_score))) ELSE true END;
create or replace function secret_versions(p_secrets json)
 RETURNS jsonb
 LANGUAGE plpgsql
 IMMUTABLE STRICT
AS $function$
begin
  return (select jsonb_object_agg(s ->> 'name', s -> 'version') from json_array_elements(p_secrets) s);
end $function$;
create or replace function send_cancellations(p_tenants uuid[], p_schedules uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform record_sync_jobs(array(
    select j.id
    from jobs j
    where j.tenant_id = any(p_tenants)
      and j.schedule_id = any(p_schedules)
      and j.status = 'RUNNING'
      and j.cancel_requested_at is not null
  ));
end $function$;
create or replace function set_deployment_owner(p_deployment uuid, p_owner text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  update deployments d
  set owner = p_owner, version = d.version + 1, updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.owner_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('owner', v_stored.owner), jsonb_build_object('owner', v_changed.owner)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_deployment_protection(p_deployment uuid, p_protection json, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if p_needs <> '[]' then perform require_listener_allows(v_stored.listener_id, p_needs); end if;
  update deployments d
  set
    protection = p_protection,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.protection_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('protection', v_stored.protection), jsonb_build_object('protection', v_changed.protection)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_deployment_traffic(p_deployment uuid, p_new jsonb, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_before jsonb := v_stored.traffic::jsonb -> 'beside';
  v_disks text;
  v_share record;
  v_named jsonb;
  v_active jsonb;
  v_beside jsonb;
  v_is_same boolean;
begin
  if v_stored.id is null then return; end if;
  if v_stored.rollout is not null and (p_new ->> 'starts_at')::integer < 100 then
    perform refuse('traffic_refused', 'a rollout says with which share a revision begins: leave out `starts_at`');
  end if;
  if p_needs <> '[]' then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('traffic_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
  end if;
  if p_new -> 'shares' <> '[]' and v_stored.active_revision_id is null then
    perform refuse('traffic_refused', 'no revision serves yet');
  end if;
  for v_share in
    select s.share, s.name, r as revision
    from jsonb_to_recordset(p_new -> 'shares') s(revision_id uuid, share integer, name text)
    left join revisions r
      on r.id = s.revision_id and r.deployment_id = v_stored.id and r.tenant_id = current_tenant()
  loop
    if (v_share.revision).id is null then perform refuse('revision_not_found'); end if;
    v_named := jsonb_build_object('name', v_share.name, 'label', traffic_label(v_stored, v_share.name));
    if (v_share.revision).id = v_stored.active_revision_id then
      v_active := v_named;
    elsif v_beside is not null then
      perform refuse('traffic_refused', 'one of the two has to be the revision that serves');
    else
      perform require_runnable(v_stored, v_share.revision, v_share.share);
      v_is_same := coalesce(v_before ->> 'revision_id' = (v_share.revision).id::text, false);
      v_beside := v_named || jsonb_build_object(
        'revision_id', (v_share.revision).id,
        'share', v_share.share,
        'first', case
          when v_stored.rollout is not null then null
          when v_is_same then least(v_share.share, (v_before ->> 'first')::integer)
          else v_share.share
        end,
        -- A share that is set by hand ends the steps.
        'rollout', case
          when v_is_same and (v_before ->> 'share')::integer = v_share.share then v_before -> 'rollout'
        end
      );
    end if;
  end loop;
  -- The shares say all: the one in flight gets what they say, which is nothing.
  if v_beside is null and p_new -> 'shares' <> '[]' and v_stored.in_flight_revision_id is not null then
    v_beside := jsonb_build_object(
      'revision_id', v_stored.in_flight_revision_id,
      'share', 0,
      'first', case when v_stored.rollout is null then 0 end,
      'name', null,
      'label', null
    );
  end if;
  if not claim_traffic_labels(v_stored, v_active, v_beside) then perform refuse('traffic_name_taken'); end if;
  update deployments d
  set
    traffic = case
      when v_beside is null and v_active ->> 'name' is null
        and p_new - 'shares' = '{"starts_at": 100, "sticky": null}' then null
      else (p_new - 'shares') || jsonb_build_object('active', v_active, 'beside', v_beside)
    end,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.traffic_changed',
      v_stored.id,
      json_build_object('shares', p_new -> 'shares'),
      changed_members(
        jsonb_build_object('traffic', recorded_traffic(v_stored.traffic)),
        jsonb_build_object('traffic', recorded_traffic(v_changed.traffic))
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_request_logs(p_deployment uuid, p_logs json, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if p_needs <> '[]' then perform require_listener_allows(v_stored.listener_id, p_needs); end if;
  update deployments d
  set
    request_logs = p_logs,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.request_logs_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('request_logs', v_stored.request_logs),
        jsonb_build_object('request_logs', v_changed.request_logs)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function set_rollout(p_deployment uuid, p_rollout json, p_secret text, p_keeps_secret boolean, p_needs jsonb, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
  v_disks text;
begin
  if v_stored.id is null then return; end if;
  if p_rollout is null and v_stored.rollout is null then perform refuse('rollout_not_found'); end if;
  if p_rollout is not null then
    perform require_listener_allows(v_stored.listener_id, p_needs);
    v_disks := exclusive_disks(v_stored, (v_stored.source_config -> 'resource_spec')::jsonb);
    if v_disks is not null then
      perform refuse('rollout_refused', format('%s has one writer, so two revisions cannot run at once', v_disks));
    end if;
    if (v_stored.traffic ->> 'starts_at')::integer < 100 then
      perform refuse(
        'rollout_refused', '`starts_at` of the traffic says with which share a revision begins: set it to 100'
      );
    end if;
    if (p_rollout #> '{gates, scores}')::jsonb
      not in ('[]', coalesce((v_stored.rollout #> '{gates, scores}')::jsonb, '[]')) then
      perform require_scores_readable(v_stored);
    end if;
    if p_keeps_secret and v_stored.rollout_secret is null then
      perform refuse('secret_unknown', 'gates.webhook.secret');
    end if;
    -- A kept secret must not sign for another address, whose owner could then ask in its name.
    if p_keeps_secret
      and p_rollout #>> '{gates, webhook, url}' is distinct from v_stored.rollout #>> '{gates, webhook, url}' then
      perform refuse('secret_required', 'gates.webhook.secret');
    end if;
  end if;
  update deployments d
  set
    rollout = p_rollout,
    rollout_secret = case when p_keeps_secret then d.rollout_secret else p_secret end,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.rollout_changed',
      v_stored.id,
      json_build_object('has_secret_changed', v_stored.rollout_secret is distinct from v_changed.rollout_secret),
      changed_members(
        jsonb_build_object('rollout', v_stored.rollout), jsonb_build_object('rollout', v_changed.rollout)
      )
    )::new_event],
    p_request
  );
  return next;
end $function$;
create or replace function sign_in_by_identity(p_issuer text, p_subject text, p_email text, p_is_verified boolean, p_name text, p_join uuid, p_roles uuid[], p_token_hash text, p_limit bigint)
 RETURNS json
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_found record;
  v_member uuid;
  v_refusal json;
  v_wait text;
  v_role uuid;
  v_changes json;
begin
  for v_found in
    select m.id, m.organization_id
    from members m
    where p_is_verified and m.email = p_email
      and not exists (select from identities i where i.member_id = m.id and i.issuer = p_issuer)
    order by m.id
    for no key update
  loop
    begin
      insert into identities (organization_id, member_id, issuer, subject)
      values (v_found.organization_id, v_found.id, p_issuer, p_subject)
      on conflict do nothing;
      if found then
        perform journal_of_identity(v_found.id, p_issuer, p_subject, p_limit);
      end if;
    exception when sqlstate 'SW000' then
      -- A full journal keeps the person out of its own organization only.
      get stacked diagnostics v_wait = pg_exception_detail;
    end;
  end loop;

  -- Of several organizations, the one where the person was last signed in.
  select i.member_id
  into v_member
  from identities i
  join members m on m.id = i.member_id
  where i.issuer = p_issuer and i.subject = p_subject
  order by (select max(s.created_at) from sessions s where s.member_id = m.id) desc nulls last, m.created_at, m.id
  limit 1;

  if not found then
    if v_wait is not null then perform refuse('journal_full', v_wait); end if;
    v_refusal := json_build_object(
      'method', 'oidc', 'reason', case when p_is_verified then 'other_subject' else 'email_unverified' end,
      'issuer', p_issuer, 'subject', p_subject, 'email', p_email
    );
    for v_found in
      select m.id, m.organization_id
      from members m
      where m.email = p_email
      order by m.id
    loop
      perform journal_refused_sign_in(v_found.organization_id, v_found.id, v_refusal, p_limit);
    end loop;
    if found then
      return json_build_object('refusal', case when p_is_verified then 'identity_unknown' else 'email_unverified' end);
    end if;
    if not p_is_verified then
      perform journal_refused_sign_in(o.id, null, v_refusal, p_limit)
      from organizations o
      where o.id = p_join;
      return json_build_object('refusal', 'email_unverified');
    end if;
    if p_join is null or not exists (select from organizations where id = p_join) then
      return json_build_object('refusal', 'identity_unknown');
    end if;
    insert into members (organization_id, email, full_name, role_id)
    values (p_join, p_email, p_name, '00000000-0000-4000-8000-000000000005')
    on conflict (organization_id, email) do update set email = excluded.email
    returning id, changed_members(null, jsonb_build_object('email', email, 'full_name', full_name, 'role_id', role_id))
    into v_member, v_changes;
    insert into identities (organization_id, member_id, issuer, subject)
    values (p_join, v_member, p_issuer, p_subject)
    on conflict do nothing;
    perform journal_of_member(v_member, 'member.added', json_build_object('email', p_email), v_changes, p_limit);
    perform journal_of_identity(v_member, p_issuer, p_subject, p_limit);
  end if;

  select r.id
  into v_role
  from unnest(p_roles) with ordinality as given(id, place)
  join members m on m.id = v_member
  join roles r on r.id = given.id and r.scope = 'organization'
    and (r.organization_id is null or r.organization_id = m.organization_id)
  order by given.place
  limit 1;
  select changed_members(jsonb_build_object('role_id', role_id), jsonb_build_object('role_id', v_role))
  into v_changes
  from members
  where id = v_member and role_id <> v_role
  for no key update;
  if found then
    begin
      update members
      set role_id = v_role, version = version + 1, updated_at = clock()
      where id = v_member;
      perform journal_of_member(v_member, 'member.updated', json_build_object('role_id', v_role), v_changes, p_limit);
    exception when sqlstate 'SW000' then
      -- The last Admin of the organization keeps the role, whatever the groups are.
      null;
    end;
  end if;
  return json_build_object('session', open_session(v_member, p_token_hash, 'oidc', p_limit));
end $function$;
create or replace function signal_alert_rules(p_tenant uuid, p_type text, p_subject uuid, p_data json, p_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  r alert_rules;
  v_deployment uuid;
  v_tags uuid[];
  v_subject uuid;
  v_subject_type text;
  v_is_start boolean;
begin
  for r in
    select a.*
    from alert_rules a
    where a.tenant_id = p_tenant and a.kind = 'event' and a.enabled
      and (
        p_type like any(glob_patterns(a.condition -> 'types'))
        or p_type like any(glob_patterns(a.condition -> 'ends'))
      )
    order by a.id
  loop
    continue when not is_alert_rule_active(r);
    if v_subject is null then
      v_deployment := case
        when p_type like 'deployment.%' then p_subject
        when p_data ->> 'deployment_id' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
          then (p_data ->> 'deployment_id')::uuid
        when p_type like 'revision.%' then (select v.deployment_id from revisions v where v.id = p_subject)
      end;
      v_tags := (
        select d.tag_value_ids from deployments d where d.id = v_deployment and d.tenant_id = p_tenant
      );
      v_subject_type := case
        when v_tags is not null then 'deployment'
        when p_type like 'listener.%' then 'listener'
        else 'workspace'
      end;
      v_subject := case v_subject_type
        when 'deployment' then v_deployment
        when 'listener' then p_subject
        else p_tenant
      end;
    end if;
    v_is_start := p_type like any(glob_patterns(r.condition -> 'types'));
    continue when not is_in_alert_scope(r.deployment_ids, r.tag_value_ids, v_deployment, v_tags);
    -- Most ends are of nothing.
    continue when not v_is_start
      and not exists (select from alert_states s where s.rule_id = r.id and s.subject_id = v_subject);
    insert into alert_signals as g (organization_id, tenant_id, rule_id, subject_id, at, count, cause)
    values (
      r.organization_id, r.tenant_id, r.id, v_subject, p_at, v_is_start::integer,
      left(coalesce(p_data ->> 'message', p_type), 2000)
    )
    on conflict (rule_id, subject_id, at) do update set count = excluded.count, cause = excluded.cause;
    perform mark_alert_due(r, v_subject, v_subject_type);
  end loop;
end $function$;
create or replace function snapshot_feature(p_store text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN (split_part(p_store, ':'::text, 1) || '_snapshots'::text);
create or replace function start_due_jobs(p_due jsonb)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v record;
  v_due timestamptz;
  d deployments;
  j jobs;
  v_obstacle text;
  v_status text;
  v_replaced uuid[] := '{}';
  v_tenants uuid[] := '{}';
  v_events tenant_event[] := '{}';
begin
  -- Deployments first, as their deletion does.
  perform from deployments c
  where c.id in (
    select s.deployment_id
    from schedules s
    where s.id = any(array(select (g ->> 'id')::uuid from jsonb_array_elements(p_due) g))
  )
  order by c.id
  for key share;

  for v in
    select s as schedule, g.due, g.missed, g.upcoming
    from jsonb_to_recordset(p_due) as g(
      id uuid, seen timestamptz, version integer, due timestamptz[], missed jsonb, upcoming timestamptz
    )
    join schedules s on s.id = g.id and s.next_due_at = g.seen and s.version = g.version
    order by s.id
    for update of s
  loop
    declare
      s schedules := v.schedule;
      v_new jsonb := jsonb_build_object(
        'schedule_id', s.id,
        'action', s.action,
        'command', s.command,
        'timeout_seconds', s.timeout_seconds,
        'deadline_seconds', s.deadline_seconds,
        'process', s.process,
        'retries', s.retries,
        'is_serial', s.overlap <> 'allow',
        'actor_kind', 'cron',
        'actor_name', s.name
      );
    begin
      select c.* into d from deployments c where c.id = s.deployment_id;
      v_tenants := v_tenants || s.tenant_id;
      if v.missed is not null then
        j := end_job(
          build_job(d, v_new || jsonb_build_object('due_at', v.missed -> 'from')),
          'MISSED',
          coalesce(v.missed ->> 'reason', 'The control plane did not run within the deadline.')
        );
        j.missed_until := (v.missed ->> 'until')::timestamptz;
        j.missed_count := (v.missed ->> 'count')::integer;
        insert into jobs values (j.*);
        v_events := v_events || job_event('job.missed', null, j);
      end if;
      foreach v_due in array v.due loop
        j := build_job(d, v_new || jsonb_build_object(
          'due_at', v_due, 'not_before', v_due + random() * s.jitter_seconds * interval '1 second'
        ));
        v_obstacle := case
          when d.deleting_at is not null then 'The deployment is being deleted.'
          when number_of_open_jobs(s.tenant_id) >= max_open_jobs() then 'Too many jobs of the workspace wait or run.'
          else case job_obstacle(d, s.process, s.action)
            when 'snapshots_not_supported' then 'The agent of the deployment takes no snapshots of this store.'
            when 'nothing_serves' then 'No revision of the deployment serves.'
            when 'process_unknown' then 'The revision that serves has no process ' || s.process || '.'
            when 'jobs_not_supported' then 'The agent of the deployment cannot run jobs. Update it.'
            when 'process_not_supported' then 'The agent of the deployment cannot run jobs as a process. Update it.'
          end
        end;
        v_status := case
          when v_obstacle is not null then 'MISSED'
          when s.overlap = 'skip' and has_open_job(s) then 'SKIPPED'
        end;
        if v_status is not null then
          -- Repeats are counted in the first one: a schedule of each minute must not fill the journal.
          update jobs p
          set missed_until = v_due, missed_count = coalesce(p.missed_count, 1) + 1
          where p.status = v_status
            and p.id = (
              select l.id
              from jobs l
              where l.schedule_id = s.id
              order by l.due_at desc nulls last, l.attempt desc
              limit 1
            );
          if found then continue; end if;
          j := end_job(j, v_status, coalesce(v_obstacle, 'The run before it had not ended.'));
          v_events := v_events || job_event('job.' || lower(v_status), null, j);
        elsif s.overlap = 'replace' then
          v_events := v_events || replace_jobs(s);
          v_replaced := v_replaced || s.id;
        end if;
        insert into jobs values (j.*);
      end loop;
      update schedules c set next_due_at = v.upcoming where c.id = s.id;
    end;
  end loop;

  perform journal_tenant_events(v_events, null);
  v_tenants := array(select distinct t from unnest(v_tenants) t order by t);
  perform send_cancellations(v_tenants, v_replaced);
  perform dispatch_jobs(v_tenants);
end $function$;
create or replace function start_state(p_source text)
 RETURNS text
 LANGUAGE sql
 IMMUTABLE
RETURN CASE WHEN (p_source = ANY (ARRAY['githost'::text, 'internal_source'::text])) THEN 'AWAITING_BUILD'::text ELSE 'AWAITING_DEPLOY'::text END;
create or replace function step_events(p_before revisions, p_after revisions, p_path text[], p_message text, p_commit text)
 RETURNS tenant_event[]
 LANGUAGE plpgsql
 STABLE
AS $function$
declare
  v_last integer := coalesce(cardinality(p_path), 0);
  v_from revisions := p_before;
  v_to revisions := p_before;
  v_events tenant_event[] := '{}';
begin
  v_to.status_message := null;
  for i in 1 .. v_last loop
    if i = v_last then v_to := p_after; end if;
    v_to.status := p_path[i];
    v_events := v_events || revision_moved(v_from, v_to, json_build_object(
      'deployment_id', p_after.deployment_id,
      'message', p_message,
      'commit', case when i = v_last then p_commit end
    ));
    v_from := v_to;
  end loop;
  return v_events;
end $function$;
create or replace function supersede_revisions(p_ids uuid[], p_number integer)
 RETURNS new_event[]
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before revisions;
  v_after revisions;
  v_events new_event[] := '{}';
begin
  -- A statement costs more than the rest of this, and most writes supersede nothing.
  if p_ids = '{null, null}' then return v_events; end if;
  for v_before in
    select r.*
    from revisions r
    where r.id = any(p_ids) and r.tenant_id = current_tenant()
    order by r.number
  loop
    update revisions r
    set
      status = case when v_before.status in ('CREATING', 'QUEUED') then 'SKIPPED' else 'INTERRUPTED' end,
      status_message = case
        when v_before.status = 'CREATING'
          then 'It had no files or image yet. It was superseded by revision ' || p_number
        when v_before.status = 'DEPLOYING' and v_before.status_message is not null
          then 'Superseded by revision ' || p_number || ' before it was healthy.'
        else 'Superseded by revision ' || p_number
      end,
      status_since = clock(),
      updated_at = clock()
    where r.id = v_before.id
    returning * into v_after;
    v_events := v_events || (
      'revision.' || lower(v_after.status),
      v_after.id,
      json_build_object('deployment_id', v_after.deployment_id, 'message', v_after.status_message),
      changed_members(
        jsonb_build_object('status', v_before.status), jsonb_build_object('status', v_after.status)
      )
    )::new_event;
  end loop;
  return v_events;
end $function$;
create or replace function sweep_jobs(p_limit integer)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_before jobs;
  j jobs;
  v_jobs jobs[] := '{}';
  v_events tenant_event[] := '{}';
begin
  for v_before in
    select c.*
    from jobs c
    where c.status in ('QUEUED', 'RUNNING') and c.overdue_at <= clock()
    order by c.overdue_at
    limit p_limit
    for update skip locked
  loop
    j := case v_before.status
      when 'QUEUED' then end_job(v_before, 'MISSED', 'It was not started within its deadline.')
      else end_job(v_before, 'LOST', 'Its agent did not report the end in time.')
    end;
    v_jobs := v_jobs || j;
    v_events := v_events || job_event('job.' || lower(j.status), v_before, j);
  end loop;
  perform write_jobs(v_jobs);
  perform journal_tenant_events(v_events, null);
end $function$;
create or replace function sync_item_hash(p_deployment uuid, p_generation integer)
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
RETURN ((('x'::text || "left"(encode(sha256(((((p_deployment)::text || ':'::text) || (p_generation)::text))::bytea), 'hex'::text), 16)))::bit(64))::bigint;
create or replace function tagging_id(p_resource uuid, p_value uuid)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN (md5(((p_resource)::text || (p_value)::text)))::uuid;
create or replace function take_count_slot(p_tenant uuid)
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
declare
  v_key constant bigint := hashtextextended(p_tenant::text, 1);
  v_own constant integer := pg_backend_pid() % 8;
begin
  for v_slot in 0..7 loop
    if pg_try_advisory_xact_lock(v_key # v_slot) then return v_slot; end if;
  end loop;
  perform pg_advisory_xact_lock(v_key # v_own);
  return v_own;
end $function$;
set role slipway_system;
create or replace function take_mail(p_scopes text[], p_limits integer[], p_window interval)
 RETURNS integer
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_wait integer;
begin
  insert into mail_windows as w (scope, mails)
  select s.scope, 0
  from unnest(p_scopes) s(scope)
  order by s.scope
  on conflict (scope) do update set
    mails = case when w.started_at > clock() - p_window then w.mails else 0 end,
    started_at = case when w.started_at > clock() - p_window then w.started_at else clock() end;
  select ceil(extract(epoch from max(w.started_at + p_window - clock())))
  into v_wait
  from mail_windows w
  join unnest(p_scopes, p_limits) s(scope, most) on s.scope = w.scope
  where w.mails >= s.most;
  if v_wait > 0 then return v_wait; end if;
  update mail_windows w set mails = w.mails + 1 where w.scope = any(p_scopes);
  return 0;
end $function$;
reset role;
create or replace function take_model_call(p_deployment uuid)
 RETURNS boolean
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_budget record;
  v_limit text;
begin
  for v_budget in
    select b.*, model_period(b.period) as current_start
    from model_budgets b
    where b.tenant_id = current_tenant() and (b.deployment_id is null or b.deployment_id = p_deployment)
    order by b.id
    for update
  loop
    v_limit := case
      when v_budget.period_start < v_budget.current_start then null
      when v_budget.spent_calls >= v_budget.limit_calls then v_budget.limit_calls || ' calls'
      when v_budget.spent_tokens >= v_budget.limit_tokens then v_budget.limit_tokens || ' tokens'
      when v_budget.spent_usd >= v_budget.limit_usd then v_budget.limit_usd || ' USD'
    end;
    if v_limit is not null then
      perform refuse('model_budget_spent', format(
        '%s a %s for this %s, until %s',
        v_limit,
        v_budget.period,
        case when v_budget.deployment_id is null then 'workspace' else 'deployment' end,
        to_char(
          (v_budget.current_start at time zone 'UTC') + ('1 ' || v_budget.period)::interval,
          'YYYY-MM-DD"T"HH24:MI:SS"Z"'
        )
      ));
    end if;
    update model_budgets b
    set
      period_start = v_budget.current_start,
      spent_calls = 1 + case when b.period_start = v_budget.current_start then b.spent_calls else 0 end,
      spent_tokens = case when b.period_start = v_budget.current_start then b.spent_tokens else 0 end,
      spent_usd = case when b.period_start = v_budget.current_start then b.spent_usd else 0 end
    where b.id = v_budget.id and b.tenant_id = current_tenant();
  end loop;
  return true;
end $function$;
create or replace function tell_bypasses(p_deployment uuid)
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update deployments d
  set generation = d.generation + 1, remote_reconciled = false
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.protection is not null;
end $function$;
create or replace function tell_due_incidents(p_muted jsonb, p_ids uuid[])
 RETURNS integer
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  i incidents;
  v_told integer := 0;
begin
  for i in
    select k.*
    from incidents k
    where k.id = any(p_ids) and k.tell_at <= clock() and k.state <> 'resolved'
    order by k.id
    for no key update skip locked
  loop
    if p_muted ? i.id::text then
      update incidents
      set tell_at = (p_muted ->> i.id::text)::timestamptz, muted_until = (p_muted ->> i.id::text)::timestamptz
      where id = i.id;
    else
      update incidents set muted_until = null where id = i.id;
      i.muted_until := null;
      i := tell_incident(i, 'open', i.cause);
      v_told := v_told + 1;
    end if;
  end loop;
  return v_told;
end $function$;
create or replace function tell_incident(i incidents, p_phase text, p_summary text, p_by text DEFAULT NULL::text)
 RETURNS incidents
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_told integer;
begin
  i.sequence := i.sequence + 1;
  v_told := enqueue_notices(
    i.tenant_id, i.channel_ids, i.id::text, p_phase, i.sequence, incident_notice(i, p_summary, p_by)
  );
  i.is_told := i.is_told or v_told > 0;
  if p_phase <> 'update' then i.tell_at := null; end if;
  update incidents
  set sequence = i.sequence, is_told = i.is_told, tell_at = i.tell_at
  where id = i.id and tenant_id = i.tenant_id;
  if v_told > 0 then
    insert into incident_changes (organization_id, tenant_id, incident_id, kind, value, message)
    values (i.organization_id, i.tenant_id, i.id, 'told', i.value, v_told || case v_told
      when 1 then ' channel'
      else ' channels'
    end);
  end if;
  return i;
end $function$;
set role slipway_system;
create or replace function test_access(p_role uuid, p_permission text, p_reading text, p_table text, p_resource uuid)
 RETURNS json
 LANGUAGE plpgsql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
declare
  v_permissions text[] := (
    select r.permissions
    from roles r
    where r.id = p_role and (r.organization_id is null or r.organization_id = current_organization())
  );
  v_tenant uuid;
  v_tags uuid[];
  v_rule record;
begin
  if v_permissions is null then perform refuse('role_not_found', p_role::text); end if;
  execute format('select tenant_id, tag_value_ids from %I where id = $1 and organization_id = $2', p_table)
  into v_tenant, v_tags
  using p_resource, current_organization();
  if v_tenant is null then perform refuse('resource_not_found', p_resource::text); end if;
  select * into v_rule from deciding_rule(array[p_role], current_organization(), v_tenant, p_reading, v_tags);
  if v_rule.effect is distinct from 'deny' then
    select * into v_rule from deciding_rule(array[p_role], current_organization(), v_tenant, p_permission, v_tags);
  end if;
  return json_build_object(
    'allowed', coalesce(v_rule.effect = 'allow', p_permission = any(v_permissions)),
    'decided_by', coalesce(v_rule.effect, 'role'),
    'access_policy', case when v_rule.effect is not null then json_build_object(
      'id', v_rule.access_policy_id, 'name', v_rule.name, 'condition_group', v_rule.place - 1
    ) end,
    'tags', (
      select coalesce(json_agg(json_build_object('key', k.key, 'value', v.value) order by k.key, v.value), '[]')
      from tag_values v
      join tag_keys k on k.id = v.tag_key_id
      where v.id = any(v_tags) and v.tenant_id = v_tenant
    )
  );
end $function$;
reset role;
create or replace function tier_at(p_tier text, p_earlier_tiers jsonb, p_time timestamp with time zone)
 RETURNS text
 LANGUAGE sql
 STABLE
RETURN COALESCE((SELECT e.tier FROM jsonb_to_recordset(tier_at.p_earlier_tiers) e(tier text, until timestamp with time zone) WHERE (tier_at.p_time < e.until) ORDER BY e.until LIMIT 1), p_tier);
create or replace function to_new_events(p_events tenant_event[])
 RETURNS new_event[]
 LANGUAGE sql
 IMMUTABLE
RETURN ARRAY(SELECT ROW(e.type, e.subject_id, e.data, e.changes)::new_event AS "row" FROM unnest(to_new_events.p_events) WITH ORDINALITY e(tenant_id, organization_id, type, subject_id, data, changes, place) ORDER BY e.place);
set role slipway_system;
create or replace function tokens_of_provider(p_provider_id text, p_limit integer)
 RETURNS SETOF oauth_tokens
 LANGUAGE sql
 STABLE SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
AS $function$
  select t.*
  from oauth_tokens t
  join oauth_providers p on p.id = t.provider_id
  where p.organization_id = current_organization() and p.provider_id = p_provider_id
    and t.revoked_at is null and t.bound_to = oauth_binding(p)
  order by t.updated_at desc
  limit p_limit
$function$;
reset role;
create or replace function trace_key_deployment(p_key text)
 RETURNS uuid
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN (p_key ~~ '%.%'::text) THEN (split_part(p_key, '.'::text, 1))::uuid ELSE NULL::uuid END;
create or replace function traffic_label(d deployments, p_name text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_name is null then return null; end if;
  return prefixed_label(p_name, coalesce(
    (
      select h.label
      from host_labels h
      where h.deployment_id = d.id and h.kind = 'deployment' and h.listener_id = d.listener_id
    ),
    d.name
  ));
end $function$;
create or replace function unpinned_config(p_deployment deployments)
 RETURNS json
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if p_deployment.hold is not null and p_deployment.hold ->> 'reason' is distinct from 'rollout_failed'
    or p_deployment.preview is not null then
    return p_deployment.source_revision_config;
  end if;
  return (p_deployment.source_revision_config::jsonb - 'repo_commit_sha')::json;
end $function$;
create or replace function use_deploy_hook(p_hook uuid, p_revision uuid, p_ref text, p_key text, p_request jsonb)
 RETURNS TABLE(answer json, has_webhooks boolean)
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_hook deploy_hooks;
  v_stored deployments;
  v_next deployments;
  v_queued record;
begin
  select d.*
  into v_stored
  from deploy_hooks h
  join deployments d on d.id = h.deployment_id
  where h.id = p_hook and h.tenant_id = current_tenant() and d.tenant_id = current_tenant() and d.deleting_at is null
  for update of d;
  if not found then return; end if;
  -- The lock of the deployment makes requests take turns.
  select h.* into v_hook from deploy_hooks h where h.id = p_hook and h.tenant_id = current_tenant();
  if v_hook.last_key = p_key then
    return query
      select to_json(r), false
      from revisions r
      where r.id = v_hook.last_revision_id and r.tenant_id = current_tenant();
    return;
  end if;
  if v_hook.window_at is null or v_hook.window_at <= clock() - interval '1 minute' then
    v_hook.window_at := clock();
    v_hook.window_uses := 0;
  end if;
  if v_hook.window_uses >= 10 then perform refuse('deploy_hook_busy'); end if;
  if v_stored.hold is not null then perform refuse('deploy_hook_held'); end if;

  v_next := v_stored;
  v_next.source_revision_config := unpinned_config(v_stored);
  if p_ref is not null then
    v_next.source_revision_config :=
      v_next.source_revision_config::jsonb || jsonb_build_object('repo_ref', p_ref);
    perform require_branch_to_build_on_push(v_next.source_config, v_next.source_revision_config);
  end if;
  select * into v_queued from queue_revision(v_stored, v_next, p_revision, '{requested}', v_stored.source);
  update deploy_hooks h
  set
    last_used_at = clock(),
    window_at = v_hook.window_at,
    window_uses = v_hook.window_uses + 1,
    last_key = p_key,
    last_revision_id = p_revision
  where h.id = p_hook and h.tenant_id = current_tenant();
  answer := to_json(v_queued.revision);
  has_webhooks := conclude_write(answer, v_queued.events, p_request);
  return next;
end $function$;
create or replace function use_sign_in_link(p_link_hash text, p_token_hash text, p_limit bigint)
 RETURNS sessions
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_link sign_in_links;
  v_session sessions;
  v_is_ended boolean;
begin
  -- The member is locked first, as by its deletion.
  perform from members m
  where m.id = (select l.member_id from sign_in_links l where l.token_hash = p_link_hash)
  for key share;
  select * into v_link from sign_in_links where token_hash = p_link_hash for update;
  if not found then return null; end if;
  v_is_ended := v_link.made_by is not null and not is_living_credential(v_link.made_by);
  if v_link.used_at is not null or v_link.expires_at <= clock() or v_is_ended then
    perform journal_refused_sign_in(
      v_link.organization_id, v_link.member_id,
      json_build_object('method', 'link', 'reason', case
        when v_link.used_at is not null then 'used'
        when v_link.expires_at <= clock() then 'expired'
        else 'revoked'
      end),
      p_limit
    );
    return null;
  end if;
  update sign_in_links set used_at = clock() where id = v_link.id;
  v_session := open_session(v_link.member_id, p_token_hash, 'link', p_limit);
  update sessions s
  set made_by = maker_of_session(v_link.made_by, v_link.member_id), is_verified = v_link.made_by is null
  where s.id = v_session.id
  returning * into v_session;
  return v_session;
end $function$;
set role slipway_system;
create or replace function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean)
 RETURNS SETOF custom_hosts
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
declare
  v_tenant uuid := current_tenant();
  v_before custom_hosts;
  v_locked uuid[];
begin
  -- Deployments are locked before their host. If one takes the host after the deployments were locked, raising an error
  -- releases both locks, and the loop takes them again. The host's lock keeps others out.
  loop
    begin
      v_locked := array(
        select id from (select id from deployments where custom_host = p_host order by id for update) as locked
      );
      insert into custom_hosts as h (host, organization_id, tenant_id)
      values (p_host, current_organization(), v_tenant)
      on conflict (host) do update set host = excluded.host
      returning * into v_before;
      exit when not exists (select from deployments where custom_host = p_host and not id = any(v_locked));
      raise sqlstate 'SW002';
    exception when sqlstate 'SW002' then
    end;
  end loop;
  if v_before.tenant_id <> v_tenant and v_before.verified_at is not null
    and not (p_owner_gone and v_before.tenant_id is not distinct from p_owner) then
    perform refuse('custom_host_taken');
  end if;
  -- Both journals in one order, and before the cursors that the update of deployments locks.
  perform from journals where scope_id in (v_before.tenant_id, v_tenant) order by scope_id for update;
  if v_before.tenant_id <> v_tenant then
    with numbered as (
      insert into journals (scope_id, organization_id, seq)
      values (v_before.tenant_id, v_before.organization_id, 1)
      on conflict (scope_id) do update set seq = journals.seq + 1
      returning seq
    )
    -- The event has no name and no request of the new owner: another workspace must not see them.
    insert into events (
      scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, actor_name, request_id, request, data,
      changes
    )
    select
      v_before.tenant_id,
      seq,
      v_before.organization_id,
      v_before.tenant_id,
      'custom_host.lost',
      v_before.id,
      'cron',
      null,
      setting('request_id'),
      null,
      json_build_object('host', p_host),
      changed_members(jsonb_build_object('host', p_host, 'verified_at', v_before.verified_at), null)
    from numbered;
  end if;
  if v_before.tenant_id <> v_tenant or v_before.verified_at is null then
    update deployments
    set generation = generation + 1, remote_reconciled = false
    where custom_host = p_host;
  end if;
  return query
    update custom_hosts h
    set
      -- A new owner learns nothing about the previous one.
      id = case when h.tenant_id = v_tenant then h.id else gen_random_uuid() end,
      created_at = case when h.tenant_id = v_tenant then h.created_at else clock() end,
      organization_id = current_organization(),
      tenant_id = v_tenant,
      verified_at = clock(),
      certificate_failed_at = case when h.tenant_id = v_tenant then h.certificate_failed_at end,
      unreachable_since = case when h.tenant_id = v_tenant then h.unreachable_since end
    where h.host = p_host
    returning h.*;
end $function$;
reset role;
create or replace function was_rolled_back(p_deployment uuid, p_sha text)
 RETURNS boolean
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  return exists (
    select from revisions x
    cross join lateral (
      select coalesce(y.commit ->> 'sha', y.source_revision_config ->> 'repo_commit_sha') as sha
      from revisions y
      where y.deployment_id = x.deployment_id and y.tenant_id = current_tenant()
        and y.number < x.number and not 'held' = any(y.reasons)
      order by y.number desc
      limit 1
    ) before
    where x.deployment_id = p_deployment and x.tenant_id = current_tenant()
      and 'rolled_back' = any(x.reasons) and before.sha = p_sha
  );
end $function$;
create or replace function with_database_copied(d deployments, p_listener listeners)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  if awaits_database_copy(d) and copies_databases(p_listener) then
    d.preview := jsonb_set(d.preview::jsonb, '{database_copy, copied_at}', to_jsonb(clock()))::json;
  end if;
  return d;
end $function$;
create or replace function with_rollout(d deployments, p_progress jsonb, p_share integer)
 RETURNS deployments
 LANGUAGE plpgsql
 STABLE
AS $function$
begin
  d.traffic := jsonb_set(
    d.traffic::jsonb,
    '{beside}',
    (d.traffic #> '{beside}')::jsonb || jsonb_build_object('share', p_share, 'rollout', p_progress)
  );
  d.rollout_due_at := rollout_due(p_progress);
  return d;
end $function$;
set role slipway_system;
create or replace function write_jobs(p_jobs jobs[])
 RETURNS void
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update jobs j
  set
    status = n.status,
    reason = n.reason,
    exit_code = n.exit_code,
    revision_id = n.revision_id,
    cancel_requested_at = n.cancel_requested_at,
    overdue_at = n.overdue_at,
    started_at = n.started_at,
    finished_at = n.finished_at,
    seq = n.seq
  from unnest(p_jobs) n
  where j.id = n.id and j.deployment_id = n.deployment_id;
end $function$;
reset role;
create or replace function write_moved_deployments(p_deployments deployments[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  update deployments d
  set
    in_flight_revision_id = n.in_flight_revision_id,
    waiting_revision_id = n.waiting_revision_id,
    active_revision_id = n.active_revision_id,
    hold = n.hold,
    traffic = n.traffic,
    applied_traffic = n.applied_traffic,
    rollout_due_at = n.rollout_due_at,
    source_revision_config = n.source_revision_config,
    image_version = n.image_version,
    generation = n.generation,
    acknowledged = n.acknowledged,
    remote_reconciled = n.acknowledged >= n.generation,
    status = n.status,
    url = n.url,
    local_url = n.local_url,
    healthy = n.healthy,
    reported_health = n.reported_health,
    health_reason = n.health_reason,
    health_processes = n.health_processes,
    incidents = n.incidents,
    incidents_due = n.incidents_due,
    last_request_at = n.last_request_at,
    preview = n.preview,
    version = d.version + (
      (
        n.active_revision_id, n.status, n.url, n.local_url, n.source_revision_config::text, n.image_version,
        n.traffic::jsonb #- '{beside, rollout, asked}', n.applied_traffic::jsonb - 'rollout', n.preview::text
      ) is distinct from (
        d.active_revision_id, d.status, d.url, d.local_url, d.source_revision_config::text, d.image_version,
        d.traffic::jsonb #- '{beside, rollout, asked}', d.applied_traffic::jsonb - 'rollout', d.preview::text
      )
    )::integer,
    updated_at = n.updated_at
  from unnest(p_deployments) n
  where d.id = n.id and d.tenant_id = n.tenant_id;
end $function$;
create or replace function write_moved_revisions(p_revisions revisions[])
 RETURNS void
 LANGUAGE plpgsql
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  if cardinality(p_revisions) = 0 then return; end if;
  update revisions r
  set
    status = n.status,
    status_message = n.status_message,
    status_since = case when r.status = n.status then r.status_since else clock() end,
    updated_at = clock(),
    source_revision_config = n.source_revision_config,
    commit = n.commit,
    build_plan = n.build_plan
  from unnest(p_revisions) n
  where r.id = n.id and r.deployment_id = n.deployment_id;
end $function$;
create aggregate count_buckets(bucket integer, count integer) (
  sfunc = count_bucket,
  stype = integer[],
  initcond = '{}'
);
create aggregate sum_counts(integer[]) (
  sfunc = add_counts,
  stype = integer[],
  initcond = '{}'
);
set role slipway_system;
revoke execute on function actor_key() from public;
grant execute on function actor_key() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function actor_member() from public;
grant execute on function actor_member() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function actor_permissions() from public;
grant execute on function actor_permissions() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function actor_policy_roles() from public;
reset role;
set role slipway_system;
revoke execute on function add_default_alert_rules() from public;
reset role;
set role slipway_system;
revoke execute on function approve_client(uuid, uuid, text[], text, text, text, text, text, text) from public;
grant execute on function approve_client(uuid, uuid, text[], text, text, text, text, text, text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function attach_rules() from public;
reset role;
revoke execute on function attach_runs_partition(text, timestamp with time zone) from public;
grant execute on function attach_runs_partition(text, timestamp with time zone) to slipway_system;
set role slipway_system;
revoke execute on function become_listener(uuid) from public;
grant execute on function become_listener(uuid) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function bound_key_permissions(uuid) from public;
reset role;
set role slipway_system;
revoke execute on function chain_event() from public;
reset role;
set role slipway_system;
revoke execute on function check_alert_mute_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_alert_rule_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_annotation_queue_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_channel_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_dataset_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_deployment_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_drain_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_model_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_objects_of_deleted_examples() from public;
reset role;
set role slipway_system;
revoke execute on function check_projects() from public;
reset role;
set role slipway_system;
revoke execute on function check_revision_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_rule_evaluator() from public;
reset role;
set role slipway_system;
revoke execute on function check_rule_queue() from public;
reset role;
set role slipway_system;
revoke execute on function check_rule_references() from public;
reset role;
set role slipway_system;
revoke execute on function check_tags() from public;
reset role;
set role slipway_system;
revoke execute on function check_webhook_references() from public;
reset role;
set role slipway_system;
revoke execute on function claim_commit_label(deployments, revisions) from public;
reset role;
set role slipway_system;
revoke execute on function claim_custom_host() from public;
reset role;
set role slipway_system;
revoke execute on function claim_deployment_labels() from public;
reset role;
set role slipway_system;
revoke execute on function claim_host_label(deployments, text[], text, uuid) from public;
grant execute on function claim_host_label(deployments, text[], text, uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function claim_revision_label() from public;
reset role;
set role slipway_system;
revoke execute on function claim_traffic_labels(deployments, jsonb, jsonb) from public;
grant execute on function claim_traffic_labels(deployments, jsonb, jsonb) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function client_of_key(uuid) from public;
grant execute on function client_of_key(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function count_address_failures(text[], integer[], text, integer) from public;
grant execute on function count_address_failures(text[], integer[], text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_answered_requests(text, text[], integer[], text, boolean) from public;
grant execute on function count_answered_requests(text, text[], integer[], text, boolean) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_ingestion(text, text, integer) from public;
grant execute on function count_ingestion(text, text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_ingestion_of_keys(text[], integer[], text, integer) from public;
grant execute on function count_ingestion_of_keys(text[], integer[], text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_request(text, text, integer) from public;
grant execute on function count_request(text, text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_requests(text[], integer[], text, integer) from public;
grant execute on function count_requests(text[], integer[], text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_requests_of_callers(text[], integer[], text, integer) from public;
grant execute on function count_requests_of_callers(text[], integer[], text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function count_runs_of_delete() from public;
reset role;
set role slipway_system;
revoke execute on function count_runs_of_insert() from public;
reset role;
set role slipway_system;
revoke execute on function count_runs_of_update() from public;
reset role;
set role slipway_system;
revoke execute on function count_session_request(text, text, integer) from public;
grant execute on function count_session_request(text, text, integer) to slipway_login, session_user;
reset role;
revoke execute on function create_runs_partition(text, timestamp with time zone) from public;
grant execute on function create_runs_partition(text, timestamp with time zone) to slipway_system;
set role slipway_system;
revoke execute on function custom_host_owner(text) from public;
grant execute on function custom_host_owner(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function decide_device_request(text, uuid, uuid) from public;
grant execute on function decide_device_request(text, uuid, uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function declare_schedules(deployments, json) from public;
grant execute on function declare_schedules(deployments, json) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function default_channel_count() from public;
grant execute on function default_channel_count() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function delete_channels_of_alerts() from public;
reset role;
set role slipway_system;
revoke execute on function delete_own_channels() from public;
reset role;
set role slipway_system;
revoke execute on function delete_sync_items(uuid[]) from public;
grant execute on function delete_sync_items(uuid[]) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function dispatch_jobs(uuid[]) from public;
grant execute on function dispatch_jobs(uuid[]) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function drains_traces(uuid) from public;
reset role;
revoke execute on function drop_runs_partition(text, timestamp with time zone) from public;
grant execute on function drop_runs_partition(text, timestamp with time zone) to slipway_system;
set role slipway_system;
revoke execute on function enforce_quota() from public;
reset role;
set role slipway_system;
revoke execute on function enqueue_notices(uuid, uuid[], text, text, bigint, jsonb) from public;
grant execute on function enqueue_notices(uuid, uuid[], text, text, bigint, jsonb) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_key(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_by_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) from public;
grant execute on function enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function event_actor_name() from public;
grant execute on function event_actor_name() to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function find_device_request(text) from public;
reset role;
set role slipway_system;
revoke execute on function free_job_places(uuid) from public;
grant execute on function free_job_places(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function granting_key() from public;
grant execute on function granting_key() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function has_due_look() from public;
grant execute on function has_due_look() to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function inherit_budget() from public;
reset role;
set role slipway_system;
revoke execute on function insert_retry(jobs) from public;
grant execute on function insert_retry(jobs) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function is_grant_ended(uuid, timestamp with time zone) from public;
grant execute on function is_grant_ended(uuid, timestamp with time zone) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_instance_admin(text[]) from public;
grant execute on function is_instance_admin(text[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_lease_held(uuid, bigint) from public;
grant execute on function is_lease_held(uuid, bigint) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_living_credential(text) from public;
grant execute on function is_living_credential(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_access_policy(uuid) from public;
grant execute on function is_own_access_policy(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_annotation_queue(uuid) from public;
grant execute on function is_own_annotation_queue(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_annotation_queue_item(uuid) from public;
grant execute on function is_own_annotation_queue_item(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_dataset(uuid) from public;
grant execute on function is_own_dataset(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_deployment(uuid) from public;
grant execute on function is_own_deployment(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_example_contents(uuid) from public;
grant execute on function is_own_example_contents(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_insight_cluster(uuid) from public;
grant execute on function is_own_insight_cluster(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_insight_config(uuid) from public;
grant execute on function is_own_insight_config(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_insight_job(uuid) from public;
grant execute on function is_own_insight_job(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_integration(uuid) from public;
grant execute on function is_own_integration(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_key(uuid) from public;
grant execute on function is_own_key(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_listener(uuid) from public;
grant execute on function is_own_listener(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_member(uuid) from public;
grant execute on function is_own_member(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_model_configuration(uuid) from public;
grant execute on function is_own_model_configuration(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_preview(uuid) from public;
grant execute on function is_own_preview(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_project(uuid) from public;
grant execute on function is_own_project(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_provider(uuid) from public;
grant execute on function is_own_provider(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_revision(uuid) from public;
grant execute on function is_own_revision(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_role(uuid) from public;
grant execute on function is_own_role(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_rule(uuid) from public;
grant execute on function is_own_rule(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_schedule(uuid) from public;
grant execute on function is_own_schedule(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_tag_key(uuid) from public;
grant execute on function is_own_tag_key(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_trusted_issuer(uuid) from public;
grant execute on function is_own_trusted_issuer(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_own_workspace(uuid) from public;
grant execute on function is_own_workspace(uuid) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_permitted_for(text, uuid[]) from public;
grant execute on function is_permitted_for(text, uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_policy_key(text) from public;
grant execute on function is_policy_key(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function is_temporary_key(uuid) from public;
reset role;
set role slipway_system;
revoke execute on function is_verified_member(uuid) from public;
grant execute on function is_verified_member(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function job_obstacle(deployments, text, jsonb) from public;
grant execute on function job_obstacle(deployments, text, jsonb) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function keep_deleted_deployments() from public;
reset role;
set role slipway_system;
revoke execute on function lock_credentials(uuid) from public;
grant execute on function lock_credentials(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function lock_provider_to_change(text) from public;
grant execute on function lock_provider_to_change(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function look_at_changed_rule() from public;
reset role;
set role slipway_system;
revoke execute on function look_at_deleted_deployment() from public;
reset role;
set role slipway_system;
revoke execute on function maker_key() from public;
grant execute on function maker_key() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function member_last_seen(uuid) from public;
grant execute on function member_last_seen(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function member_permissions(uuid, uuid) from public;
reset role;
set role slipway_system;
revoke execute on function number_of_open_jobs(uuid) from public;
grant execute on function number_of_open_jobs(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function offer_drains(listeners, text) from public;
grant execute on function offer_drains(listeners, text) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function offer_looks(listeners, integer, bigint) from public;
grant execute on function offer_looks(listeners, integer, bigint) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function offered_templates() from public;
grant execute on function offered_templates() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function oldest_event() from public;
grant execute on function oldest_event() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function own_credential() from public;
grant execute on function own_credential() to slipway_app;
reset role;
set role slipway_system;
revoke execute on function own_policy_on_key(text) from public;
grant execute on function own_policy_on_key(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function queue_finished_runs() from public;
reset role;
set role slipway_system;
revoke execute on function queue_runs(json) from public;
grant execute on function queue_runs(json) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function queue_runs_with_feedback() from public;
reset role;
set role slipway_system;
revoke execute on function raise_incident_of_run_rule(uuid, jsonb) from public;
grant execute on function raise_incident_of_run_rule(uuid, jsonb) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function reachable_permissions(uuid, uuid) from public;
reset role;
set role slipway_system;
revoke execute on function read_device_request(text) from public;
grant execute on function read_device_request(text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_fleet(text[], interval, timestamp with time zone, boolean) from public;
grant execute on function read_fleet(text[], interval, timestamp with time zone, boolean) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, integer) from public;
grant execute on function read_fleet_listeners(text[], interval, timestamp with time zone, uuid, integer, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, integer) from public;
grant execute on function read_fleet_organizations(text[], timestamp with time zone, uuid, integer, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone, uuid, integer, integer) from public;
grant execute on function read_fleet_workspaces(text[], timestamp with time zone, boolean, timestamp with time zone, uuid, integer, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_grantable_workspaces(text[]) from public;
grant execute on function read_grantable_workspaces(text[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function read_look(text, bigint, uuid) from public;
grant execute on function read_look(text, bigint, uuid) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function read_usage(text[], boolean, date, date, boolean, uuid, integer) from public;
grant execute on function read_usage(text[], boolean, date, date, boolean, uuid, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) from public;
grant execute on function receive_snapshots(text, bigint, jsonb, uuid, uuid, bigint) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function record_attempts(text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer) from public;
grant execute on function record_attempts(text[], text[], text[], integer[], text[], text[], text[], integer[], text, integer) to slipway_login, session_user;
reset role;
set role slipway_system;
revoke execute on function record_deleted_project() from public;
reset role;
set role slipway_system;
revoke execute on function record_sync_items(sync_items[]) from public;
reset role;
set role slipway_system;
revoke execute on function record_sync_jobs(uuid[]) from public;
grant execute on function record_sync_jobs(uuid[]) to slipway_agent, slipway_app;
reset role;
set role slipway_system;
revoke execute on function refuse_temporary_key() from public;
reset role;
set role slipway_system;
revoke execute on function remember_maker_key() from public;
reset role;
set role slipway_system;
revoke execute on function remove_tag_values(uuid[]) from public;
grant execute on function remove_tag_values(uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function report_drains(text, bigint, jsonb) from public;
grant execute on function report_drains(text, bigint, jsonb) to slipway_agent;
reset role;
set role slipway_system;
revoke execute on function require_admitted_projects(uuid[], text[]) from public;
grant execute on function require_admitted_projects(uuid[], text[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_free_custom_url(uuid, uuid, text, text) from public;
grant execute on function require_free_custom_url(uuid, uuid, text, text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_grantable_policies(uuid[]) from public;
grant execute on function require_grantable_policies(uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_no_wider_access(uuid[], uuid[]) from public;
grant execute on function require_no_wider_access(uuid[], uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_offered_template(text, uuid) from public;
grant execute on function require_offered_template(text, uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_organization_admin() from public;
reset role;
set role slipway_system;
revoke execute on function require_permission_for(text, uuid[]) from public;
grant execute on function require_permission_for(text, uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_tagging(text, uuid[], uuid[]) from public;
grant execute on function require_tagging(text, uuid[], uuid[]) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_tunnel_room(uuid, uuid, text[], integer, integer) from public;
grant execute on function require_tunnel_room(uuid, uuid, text[], integer, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function require_workspace_admin() from public;
reset role;
set role slipway_system;
revoke execute on function revoke_key_tree(uuid) from public;
grant execute on function revoke_key_tree(uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function revoke_outdated_grants(uuid, text) from public;
grant execute on function revoke_outdated_grants(uuid, text) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function signal_event() from public;
reset role;
set role slipway_system;
revoke execute on function signal_health() from public;
reset role;
set role slipway_system;
revoke execute on function signal_log_lines() from public;
reset role;
set role slipway_system;
revoke execute on function sync_after_delete() from public;
reset role;
set role slipway_system;
revoke execute on function sync_after_insert() from public;
reset role;
set role slipway_system;
revoke execute on function sync_after_update() from public;
reset role;
set role slipway_system;
revoke execute on function take_mail(text[], integer[], interval) from public;
grant execute on function take_mail(text[], integer[], interval) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function test_access(uuid, text, text, text, uuid) from public;
grant execute on function test_access(uuid, text, text, text, uuid) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function tokens_of_provider(text, integer) from public;
grant execute on function tokens_of_provider(text, integer) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function verify_custom_host(text, uuid, boolean) from public;
grant execute on function verify_custom_host(text, uuid, boolean) to slipway_app;
reset role;
set role slipway_system;
revoke execute on function write_jobs(jobs[]) from public;
grant execute on function write_jobs(jobs[]) to slipway_agent, slipway_app;
reset role;
revoke create on schema public from slipway_system;
set check_function_bodies = on;
