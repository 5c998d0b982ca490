-- Reading runs: members of JSON for filters, the runs of a thread and of an example, and links that show a run.

-- Each member of an object, also within others: its names joined by dots, without the places in arrays.
create function json_pairs(p_json jsonb) returns table (key text, value jsonb)
language sql immutable parallel safe rows 20
begin atomic
  with recursive nodes(key, value) as (
    select null::text, p_json
    union all
    select coalesce(n.key || '.' || m.key, m.key, n.key), m.value
    from nodes n
    cross join lateral (
      select o.key, o.value
      from jsonb_each(case jsonb_typeof(n.value) when 'object' then n.value end) o
      union all
      select null, a.value
      from jsonb_array_elements(case jsonb_typeof(n.value) when 'array' then n.value end) a
    ) m
  )
  select nodes.key, nodes.value
  from nodes
  where nodes.key is not null;
end;
--> statement-breakpoint
-- Of the members of an object with these names, which hold no dot. Much faster than all pairs.
create function json_pairs_of(p_json jsonb, p_keys text[]) returns table (key text, value jsonb)
language sql immutable parallel safe rows 2
begin atomic
  select k.key, p_json -> k.key
  from unnest(p_keys) k(key)
  where jsonb_exists(p_json, k.key)
  union all
  select p.key, p.value
  from unnest(p_keys) k(key)
  cross join lateral json_pairs(jsonb_build_object(k.key, p_json -> k.key)) p
  where jsonb_typeof(p_json -> k.key) = 'array' and p.key = k.key and p.value <> p_json -> k.key;
end;
--> statement-breakpoint
create index runs_threads on runs (tenant_id, session_id, thread_id, order_time desc, id desc)
  where id = trace_id and thread_id is not null;
create index runs_reference_examples on runs (tenant_id, reference_example_id)
  where reference_example_id is not null;
--> statement-breakpoint
create table run_shares (
  share_token uuid primary key not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  session_id uuid not null,
  run_id uuid not null,
  trace_id uuid not null,
  created_at timestamptz default clock() not null,
  constraint run_shares_run unique (tenant_id, run_id)
);
create index run_shares_trace on run_shares (tenant_id, trace_id);
alter table run_shares enable row level security, force row level security;
create policy everything on run_shares to slipway_system using (true) with check (true);
grant select, insert, update, delete on run_shares to slipway_system;
create policy own on run_shares to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_project(session_id)
  );
grant select, insert, delete on run_shares to slipway_app;
create policy admitted on run_shares as restrictive to slipway_limited
  using (not (select hides('project')) or exists (select from projects p where p.id = run_shares.session_id))
  with check (true);
--> statement-breakpoint
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on run_shares to slipway_system;
set local role slipway_system;
create trigger enforce_quota
  after insert on run_shares
  referencing new table as added
  for each statement execute function enforce_quota('tenant_id', '10000', 'true', 'run_shares');
reset role;
revoke trigger on run_shares from slipway_system;
