-- What a store of runs outside of Postgres needs here.

-- Runs that were posted and have not ended: a patch that names no project finds its own by them.
create table open_runs (
  organization_id uuid not null,
  tenant_id uuid not null,
  id uuid not null,
  session_id uuid not null,
  trace_tier text not null,
  trace_id uuid not null,
  trace_time timestamptz not null,
  order_time timestamptz not null,
  dotted_order text not null,
  parent_run_id uuid,
  created_at timestamptz default clock() not null,
  constraint open_runs_tenant_id_id_pk primary key (tenant_id, id)
);
create index open_runs_age on open_runs (created_at);
alter table open_runs enable row level security, force row level security;
create policy everything on open_runs to slipway_system using (true) with check (true);
grant select, insert, update, delete on open_runs to slipway_system;
create policy own on open_runs to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
grant select, insert, delete on open_runs to slipway_app;
-- Only slipway_system may execute this function, which a trigger's creator must.
grant trigger on open_runs to slipway_system;
set local role slipway_system;
create trigger check_projects
  after insert on open_runs
  referencing new table as added
  for each statement execute function check_projects();
reset role;
revoke trigger on open_runs from slipway_system;
--> statement-breakpoint
-- Numbers are taken under the lock that the trigger of `runs` takes. Runs that have not ended are passed over when
-- their rule reads them.
create function queue_runs(p_runs json) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform pg_advisory_xact_lock_shared(hashtextextended('finished runs of ' || current_tenant(), 0));
  insert into finished_runs (organization_id, tenant_id, session_id, run_id, trace_id, order_time)
  select current_organization(), current_tenant(), p.id, r.id, r.trace_id, r.order_time
  from json_to_recordset(p_runs) as r(session_id uuid, id uuid, trace_id uuid, order_time timestamptz)
  join projects p on p.tenant_id = current_tenant() and p.id = r.session_id
  where exists (
    select from run_rules q
    where q.tenant_id = current_tenant()
      and q.is_enabled
      and (q.session_id = p.id or q.dataset_id = p.reference_dataset_id)
  );
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
set local role slipway_system;
-- Feedback says itself where its run is: runs may be stored elsewhere. That of a run that goes on is passed over, too.
create or replace function queue_runs_with_feedback() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
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
end $$;
--> statement-breakpoint
reset role;
alter function queue_runs(json) owner to slipway_system;
revoke create on schema public from slipway_system;
set local role slipway_system;
revoke execute on function queue_runs(json) from public;
grant execute on function queue_runs(json) to slipway_app;
reset role;
