-- Custom hosts: each host of a custom_url belongs to one workspace of the installation.
create table custom_hosts (
  id uuid primary key default gen_random_uuid() not null,
  host text not null,
  organization_id uuid not null,
  tenant_id uuid not null,
  verified_at timestamp with time zone,
  created_at timestamp with time zone default clock() not null,
  constraint custom_host_taken unique (host)
);
--> statement-breakpoint
alter table custom_hosts add constraint custom_hosts_tenant_id_workspaces_id_fk
  foreign key (tenant_id) references public.workspaces(id) on delete cascade on update no action;
--> statement-breakpoint
create index custom_hosts_page on custom_hosts using btree (tenant_id, created_at desc nulls first, id desc nulls first);
--> statement-breakpoint
-- Written by the trigger below; null while a deployment is being deleted.
alter table deployments add column custom_host text;
--> statement-breakpoint
alter table deployments add column custom_path text;
--> statement-breakpoint
create index deployments_custom_host on deployments using btree (custom_host) where custom_host is not null;
--> statement-breakpoint

-- ---------------------------------------------------------------- walls
alter table custom_hosts enable row level security, force row level security;
create policy own on custom_hosts for select to slipway_app using (tenant_id = current_tenant());
create policy served on custom_hosts for select to slipway_agent using (exists (
  select from deployments d where d.tenant_id = custom_hosts.tenant_id and d.listener_id = current_listener()));
create policy everything on custom_hosts to slipway_system using (true) with check (true);
grant select on custom_hosts to slipway_app, slipway_agent;
grant select, insert, update, delete on custom_hosts to slipway_system;
--> statement-breakpoint

-- ---------------------------------------------------------------- the host and the path of a custom_url
-- The only place that takes a custom_url apart. The schema has normalised it, but rows may be older than the schema.
create function custom_host(p_url text) returns text language sql immutable
  return nullif(lower(split_part(split_part(regexp_replace(p_url, '^https?://', ''), '/', 1), ':', 1)), '');
--> statement-breakpoint
create function custom_path(p_url text) returns text language sql immutable
  return coalesce(nullif(rtrim(substring(regexp_replace(p_url, '^https?://', '') from '/.*$'), '/'), ''), '/');
--> statement-breakpoint

-- ---------------------------------------------------------------- claims
-- Passes when the workspace may serve the deployment at the host and path; refuses otherwise. It sees every workspace.
create function custom_url_free(p_tenant uuid, p_deployment uuid, p_host text, p_path text) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
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
end $$;
--> statement-breakpoint
-- A trigger, because custom_url and deleting_at change in several statements. BEFORE, because the lock on the host
-- must be taken before the journal's: deployments, hosts, journals, cursors is the order everywhere.
create function custom_host_claim() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_before text := case when tg_op = 'UPDATE' then old.custom_host end;
begin
  new.custom_host := case when new.deleting_at is null then custom_host(new.source_config ->> 'custom_url') end;
  new.custom_path := case when new.custom_host is not null then custom_path(new.source_config ->> 'custom_url') end;
  if tg_op = 'UPDATE' and (new.custom_host, new.custom_path) is not distinct from (old.custom_host, old.custom_path) then
    return new;
  end if;
  -- In one order, so that two deployments that swap hosts never wait for each other.
  perform from custom_hosts where host in (v_before, new.custom_host) order by host for update;
  if new.custom_host is not null then
    -- Takes the row's lock when it exists, whoever owns it.
    insert into custom_hosts as h (host, organization_id, tenant_id)
      values (new.custom_host, new.organization_id, new.tenant_id)
      on conflict (host) do update set host = excluded.host;
    perform custom_url_free(new.tenant_id, new.id, new.custom_host, new.custom_path);
  end if;
  if v_before is distinct from new.custom_host then
    delete from custom_hosts h
      where h.host = v_before and h.tenant_id = new.tenant_id
        and not exists (
          select from deployments d where d.custom_host = v_before and d.tenant_id = new.tenant_id and d.id <> new.id);
  end if;
  return new;
end $$;
--> statement-breakpoint
create trigger custom_host_made before insert on deployments
  for each row when ((new.source_config ->> 'custom_url') is not null)
  execute function custom_host_claim();
create trigger custom_host_changed before update of source_config, deleting_at on deployments
  for each row when (
    (new.source_config ->> 'custom_url') is distinct from (old.source_config ->> 'custom_url')
    or new.deleting_at is distinct from old.deleting_at)
  execute function custom_host_claim();
--> statement-breakpoint

-- ---------------------------------------------------------------- verification
-- Who has claimed a host, if anybody, for the control plane itself: whose record has to be looked for. Never shown to
-- a caller.
create function custom_host_owner(p_host text) returns setof custom_hosts
language sql stable security definer set search_path = public, pg_temp as $$
  select * from custom_hosts where host = p_host
$$;
--> statement-breakpoint
-- The workspace has proved the host by DNS. An unverified claim of another workspace gives way; a verified one only
-- when its owner is still the one whose record was looked for, and that record is gone.
create function verify_custom_host(p_host text, p_owner uuid, p_owner_gone boolean) returns setof custom_hosts
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_tenant uuid := current_tenant();
  v_before custom_hosts;
  v_locked uuid[];
begin
  -- Deployments before their host. One that was given the host after the deployments were locked would be locked after
  -- it, so then both locks are given back, which a raised error does, and taken anew. The host's lock keeps out others.
  loop
    begin
      v_locked := array(
        select id from (select id from deployments where custom_host = p_host order by id for update) as locked);
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
  -- Both, in one order, and before the cursors that the update below takes.
  perform from journals where scope_id in (v_before.tenant_id, v_tenant) order by scope_id for update;
  if v_before.tenant_id <> v_tenant then
    with numbered as (
      insert into journals (scope_id, organization_id, seq)
        values (v_before.tenant_id, v_before.organization_id, 1)
        on conflict (scope_id) do update set seq = journals.seq + 1
        returning seq)
    insert into events (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data)
      select v_before.tenant_id, seq, v_before.organization_id, v_before.tenant_id, 'custom_host.lost', v_before.id, 'cron',
        setting('request_id'), json_build_object('host', p_host)
      from numbered;
  end if;
  if v_before.tenant_id <> v_tenant or v_before.verified_at is null then
    update deployments set generation = generation + 1, remote_reconciled = false where custom_host = p_host;
  end if;
  return query
    update custom_hosts h set
      -- A new owner is told nothing about the one before.
      id = case when h.tenant_id = v_tenant then h.id else gen_random_uuid() end,
      created_at = case when h.tenant_id = v_tenant then h.created_at else clock() end,
      organization_id = current_organization(),
      tenant_id = v_tenant,
      verified_at = clock()
    where h.host = p_host
    returning h.*;
end $$;
--> statement-breakpoint
do $$
declare f text;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['custom_url_free(uuid, uuid, text, text)', 'custom_host_claim()', 'custom_host_owner(text)',
    'verify_custom_host(text, uuid, boolean)'] loop
    execute format('alter function %s owner to slipway_system', f);
    execute format('revoke execute on function %s from public', f);
  end loop;
  revoke create on schema public from slipway_system;
  set local role slipway_system;
  grant execute on function custom_url_free(uuid, uuid, text, text), custom_host_owner(text),
    verify_custom_host(text, uuid, boolean) to slipway_app;
end $$;
reset role;
--> statement-breakpoint

-- ---------------------------------------------------------------- what is there already
-- The oldest deployment's workspace claims the host, unverified. Agents are told anew: what is not theirs to serve is
-- null now.
set local role slipway_system;
--> statement-breakpoint
update deployments set
  custom_host = custom_host(source_config ->> 'custom_url'),
  custom_path = custom_path(source_config ->> 'custom_url'),
  generation = generation + 1,
  remote_reconciled = false
  where deleting_at is null and source_config ->> 'custom_url' is not null;
--> statement-breakpoint
insert into custom_hosts (host, organization_id, tenant_id)
  select distinct on (custom_host) custom_host, organization_id, tenant_id
  from deployments where custom_host is not null order by custom_host, created_at, id;
--> statement-breakpoint
reset role;
