-- Tracing: projects with a tier, their runs in partitions, and counts that outlive the runs.

alter table projects
  add column description text,
  add column start_time timestamptz default clock() not null,
  add column end_time timestamptz,
  add column extra json,
  add column default_dataset_id uuid,
  add column reference_dataset_id uuid,
  add column tag_value_ids uuid[] default '{}' not null,
  add column trace_tier text default 'shortlived' not null
    constraint projects_trace_tier check (trace_tier in ('shortlived', 'longlived')),
  add column earlier_tiers jsonb default '[]' not null,
  add column longlived_ttl_days integer,
  add column updated_at timestamptz default clock() not null;
create index projects_reference_dataset on projects (reference_dataset_id);
grant update (
    description, start_time, end_time, extra, default_dataset_id, reference_dataset_id, tag_value_ids, trace_tier,
    earlier_tiers, longlived_ttl_days, updated_at
  ) on projects to slipway_app;
--> statement-breakpoint
-- The tier of a trace that began at a time. All writes of a trace find the same, also when the project's tier changes
-- between them.
create function tier_at(p_tier text, p_earlier_tiers jsonb, p_time timestamptz) returns text
language sql stable
return coalesce(
  (
    select e.tier
    from jsonb_to_recordset(p_earlier_tiers) as e(tier text, until timestamptz)
    where p_time < e.until
    order by e.until
    limit 1
  ),
  p_tier
);
--> statement-breakpoint

create table runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  id uuid not null,
  trace_id uuid not null,
  trace_time timestamptz not null,
  order_time timestamptz not null,
  trace_tier text not null,
  dotted_order text not null,
  parent_run_id uuid,
  name text,
  run_type text,
  start_time timestamptz,
  end_time timestamptz,
  first_token_time timestamptz,
  status text generated always as (
    case when error is not null then 'error' when end_time is not null then 'success' else 'pending' end
  ) stored,
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
  received_at timestamptz default clock() not null,
  updated_at timestamptz default clock() not null,
  constraint runs_tenant_id_id_order_time_trace_tier_pk primary key (tenant_id, id, order_time, trace_tier)
) partition by list (trace_tier);
create index runs_page on runs (tenant_id, session_id, order_time desc, id desc);
create index runs_roots on runs (tenant_id, session_id, order_time desc, id desc) where id = trace_id;
create index runs_trace on runs (tenant_id, trace_id);
--> statement-breakpoint
create table runs_shortlived partition of runs for values in ('shortlived') partition by range (order_time);
create table runs_longlived partition of runs for values in ('longlived') partition by range (order_time);
-- For clocks that are wrong.
create table runs_shortlived_other partition of runs_shortlived default;
create table runs_longlived_other partition of runs_longlived default;
-- Requests reach partitions through `runs` and its policies only.
alter table runs_shortlived enable row level security, force row level security;
alter table runs_longlived enable row level security, force row level security;
alter table runs_shortlived_other enable row level security, force row level security;
alter table runs_longlived_other enable row level security, force row level security;
--> statement-breakpoint

create table upgraded_traces (
  organization_id uuid not null,
  tenant_id uuid not null,
  trace_id uuid not null,
  session_id uuid not null,
  trace_time timestamptz not null,
  upgraded_at timestamptz default clock() not null,
  constraint upgraded_traces_tenant_id_trace_id_pk primary key (tenant_id, trace_id)
);
create index upgraded_traces_age on upgraded_traces (trace_time);
--> statement-breakpoint
create table trace_objects (
  organization_id uuid not null,
  tenant_id uuid not null,
  path text not null,
  trace_id uuid not null,
  session_id uuid not null,
  run_id uuid not null,
  trace_time timestamptz not null,
  bytes bigint not null,
  constraint trace_objects_tenant_id_path_pk primary key (tenant_id, path)
);
create index trace_objects_trace on trace_objects (tenant_id, trace_id);
create index trace_objects_age on trace_objects (trace_time);
--> statement-breakpoint
create table session_minutes (
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  minute timestamptz not null,
  slot integer not null,
  runs bigint default 0 not null,
  roots bigint default 0 not null,
  ended bigint default 0 not null,
  errors bigint default 0 not null,
  streamed bigint default 0 not null,
  prompt_tokens bigint default 0 not null,
  completion_tokens bigint default 0 not null,
  total_tokens bigint default 0 not null,
  prompt_cost numeric default '0' not null,
  completion_cost numeric default '0' not null,
  total_cost numeric default '0' not null,
  latencies integer[] default '{}' not null,
  first_token_latencies integer[] default '{}' not null,
  last_start_time timestamptz,
  constraint session_minutes_tenant_id_session_id_minute_slot_pk
    primary key (tenant_id, session_id, minute, slot)
) with (fillfactor = 70);
--> statement-breakpoint
create table deleted_projects (
  id uuid primary key not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  deleted_at timestamptz default clock() not null,
  is_swept boolean default false not null
);
--> statement-breakpoint

do $$
declare
  v_table text;
begin
  foreach v_table in array array[
    'runs', 'upgraded_traces', 'trace_objects', 'session_minutes', 'deleted_projects'
  ] loop
    execute format('alter table %I enable row level security, force row level security', v_table);
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
    execute format(
      'create policy own on %I to slipway_app
        using (tenant_id = current_tenant())
        with check (tenant_id = current_tenant() and organization_id = current_organization())',
      v_table
    );
  end loop;
end $$;
grant select, insert, delete, update (
    session_id, trace_tier, dotted_order, parent_run_id, name, run_type, start_time, end_time, first_token_time, error,
    tags, metadata, thread_id, reference_example_id, extra, serialized, inputs, outputs, events, inputs_preview,
    outputs_preview, objects, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost,
    usage_details, patched, updated_at
  ) on runs to slipway_app;
grant select, insert, delete on upgraded_traces to slipway_app;
grant select, insert, delete, update (bytes) on trace_objects to slipway_app;
grant select on session_minutes to slipway_app;
grant select, insert on deleted_projects to slipway_app;
--> statement-breakpoint

-- Permissions of tracing, for the built-in roles.
set local role slipway_system;
--> statement-breakpoint
update roles
set permissions = permissions || array[
  'runs:create', 'runs:read', 'runs:share', 'runs:delete', 'projects:create', 'projects:update', 'projects:delete',
  'datasets:create', 'datasets:read', 'datasets:update', 'datasets:delete', 'datasets:share', 'datasets:download',
  'datasets:clone', 'feedback:create', 'feedback:read', 'feedback:update', 'feedback:delete',
  'annotation-queues:create', 'annotation-queues:read', 'annotation-queues:update', 'annotation-queues:delete',
  'rules:create', 'rules:read', 'rules:update', 'rules:delete'
]
where id in ('00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000004');
update roles
set permissions = permissions || array['organization:manage']
where id = '00000000-0000-4000-8000-000000000004';
update roles
set permissions = permissions || array[
  'runs:create', 'runs:read', 'runs:share', 'projects:create', 'projects:update', 'datasets:create', 'datasets:read',
  'datasets:update', 'datasets:share', 'datasets:download', 'datasets:clone', 'feedback:create', 'feedback:read',
  'feedback:update', 'feedback:delete', 'annotation-queues:create', 'annotation-queues:read',
  'annotation-queues:update', 'annotation-queues:delete', 'rules:create', 'rules:read', 'rules:update', 'rules:delete'
]
where id = '00000000-0000-4000-8000-000000000002';
update roles
set permissions = permissions || array[
  'runs:read', 'datasets:read', 'datasets:download', 'feedback:read', 'annotation-queues:read', 'rules:read'
]
where id = '00000000-0000-4000-8000-000000000003';
--> statement-breakpoint
reset role;
