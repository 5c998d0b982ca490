-- Listeners and their agents: what an agent may see, who serves a deployment, and how its changes are numbered.

-- slipway_agent serves an agent: it owns nothing, and sees what its listener serves, in whichever workspace.
do $$
begin
  if not exists (select from pg_roles where rolname = 'slipway_agent') then
    create role slipway_agent nologin;
  end if;
  if not pg_has_role(current_user, 'slipway_agent', 'set') then
    execute format('grant slipway_agent to %I with inherit false, set true', current_user);
  end if;
end $$;
--> statement-breakpoint
grant usage on schema public to slipway_agent;
--> statement-breakpoint
create function current_listener() returns uuid language sql stable return setting('listener_id')::uuid;
--> statement-breakpoint
alter table listeners enable row level security, force row level security;
alter table sync_cursors enable row level security, force row level security;
alter table sync_items enable row level security, force row level security;
--> statement-breakpoint
create policy own on listeners to slipway_app using (tenant_id = current_tenant());
-- Those of the platform serve everyone: whoever asks after a deployment learns how its listener fares.
create policy shared on listeners for select to slipway_app using (tenant_id is null and current_organization() is not null);
create policy agents_own on listeners to slipway_agent using (id = current_listener());
create policy own on sync_cursors to slipway_agent using (listener_id = current_listener());
create policy own on sync_items to slipway_agent using (listener_id = current_listener());
-- A listener of the platform takes up what nobody serves yet.
create policy served on deployments to slipway_agent
  using (listener_id = current_listener() or (listener_id is null and setting('platform') = 'true'));
create policy served on revisions to slipway_agent
  using (exists (select from deployments d where d.id = deployment_id and d.listener_id = current_listener()));
create policy served on deployment_secrets to slipway_agent
  using (exists (select from deployments d where d.id = deployment_id and d.listener_id = current_listener()));
create policy served on log_lines to slipway_agent
  using (exists (select from deployments d where d.id = deployment_id and d.listener_id = current_listener()));
create policy served on logs to slipway_agent using (exists (select from revisions r where r.id = revision_id));
-- An archive belongs to its workspace: another deployment may have asked for its link.
create policy served on uploads to slipway_agent using (exists (
  select from deployments d where d.tenant_id = uploads.tenant_id and d.listener_id = current_listener()));
create policy served on journals to slipway_agent using (exists (
  select from deployments d where d.tenant_id = scope_id and d.listener_id = current_listener()));
create policy served on events to slipway_agent using (exists (
  select from deployments d where d.tenant_id = events.tenant_id and d.listener_id = current_listener()));
--> statement-breakpoint
do $$
declare t text;
begin
  foreach t in array array['listeners', 'sync_cursors', 'sync_items'] loop
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', t);
    execute format('grant select, insert, update, delete on %I to slipway_system', t);
  end loop;
end $$;
--> statement-breakpoint
grant select, insert, update, delete on listeners to slipway_app;
grant select, update on listeners, sync_cursors to slipway_agent;
grant select, delete on sync_items to slipway_agent;
grant select, update, delete on deployments to slipway_agent;
grant select, update on revisions to slipway_agent;
grant select on deployment_secrets, uploads to slipway_agent;
grant select, insert, update on journals, logs to slipway_agent;
grant select, insert, update, delete on log_lines to slipway_agent;
grant insert on events to slipway_agent;
--> statement-breakpoint

-- ---------------------------------------------------------------- the agent's door
-- Behind enter(): whoever holds this key acts for its listener, and for nothing else.
create function become_listener(p_key uuid) returns uuid
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  l record;
begin
  select own.id, own.tenant_id into l from api_keys a join listeners own on own.id = a.listener_id where a.id = p_key;
  if not found then perform refuse('listener_not_found'); end if;
  perform set_config('app.listener_id', l.id::text, true), set_config('app.platform', (l.tenant_id is null)::text, true);
  return l.id;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- who serves a deployment
-- The listener that a new deployment names, or a refusal. It stays as it is for as long as the deployment is being written.
create function serving_listener(p_listener uuid, p_namespace text, p_needed boolean) returns uuid language plpgsql as $$
declare
  v_namespaces jsonb;
begin
  if p_listener is null then
    if p_needed and exists (select from listeners where tenant_id = current_tenant()) then
      perform refuse('source_rule', 'source_config.listener_id is needed: this workspace has listeners');
    end if;
    return null;
  end if;
  select compute_config::jsonb -> 'k8s_namespaces' into v_namespaces
    from listeners where id = p_listener and tenant_id = current_tenant() for share;
  if not found then
    perform refuse('source_rule', 'source_config.listener_id is not a listener of this workspace');
  end if;
  if p_namespace is null and jsonb_array_length(v_namespaces) > 0 then
    perform refuse('source_rule', 'source_config.listener_config.k8s_namespace is needed: name a namespace of the listener');
  end if;
  if p_namespace is not null and not v_namespaces ? p_namespace then
    perform refuse('source_rule', 'source_config.listener_config.k8s_namespace is not a namespace of the listener');
  end if;
  return p_listener;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- changes, numbered
-- What a deployment at a generation adds to its listener's digest.
create function sync_hash(p_deployment uuid, p_generation integer) returns bigint language sql immutable
  return ('x' || left(encode(sha256((p_deployment::text || ':' || p_generation::text)::bytea), 'hex'), 16))::bit(64)::bigint;
--> statement-breakpoint
-- Gives each the next number of its listener. The counter's row is held until the transaction ends, so that numbers become visible in
-- order: a cursor never passes over one that is still on its way. Counters are taken in one order, after all else.
create function sync_note(p_items sync_items[]) returns void
language sql security definer set search_path = public, pg_temp as $$
  with changed as (
    select n.deployment_id, n.listener_id, n.generation,
      sync_hash(n.deployment_id, n.generation) # coalesce(sync_hash(o.deployment_id, o.generation), 0) as turned
    from unnest(p_items) n left join sync_items o on o.deployment_id = n.deployment_id),
  numbered as (
    insert into sync_cursors as c (listener_id, seq, digest)
    select listener_id, count(*), bit_xor(turned) from changed group by listener_id order by listener_id
    on conflict (listener_id) do update set seq = c.seq + excluded.seq, digest = c.digest # excluded.digest
    returning listener_id, seq)
  insert into sync_items (deployment_id, listener_id, generation, seq)
  select deployment_id, listener_id, generation, numbered.seq - count(*) over same + row_number() over same
  from changed join numbered using (listener_id) window same as (partition by listener_id)
  on conflict (deployment_id) do update set listener_id = excluded.listener_id, generation = excluded.generation, seq = excluded.seq
$$;
--> statement-breakpoint
-- Triggers and not a verb's business, because a generation passes in many ways, and a deployment goes with its workspace too.
create function sync_made() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[] := (select array_agg((id, listener_id, 0, generation)::sync_items) from after where listener_id is not null);
begin
  if v_items is not null then perform sync_note(v_items); end if;
  return null;
end $$;
--> statement-breakpoint
create function sync_changed() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[] := (select array_agg((a.id, a.listener_id, 0, a.generation)::sync_items) from after a join before b on b.id = a.id
    where a.listener_id is not null and (a.generation <> b.generation or a.listener_id is distinct from b.listener_id));
begin
  if v_items is not null then perform sync_note(v_items); end if;
  return null;
end $$;
--> statement-breakpoint
-- What its own agent has removed is gone. What went otherwise stays as wanted absent, until the agent says so.
create function sync_gone() returns trigger language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_items sync_items[];
begin
  if current_listener() is not null then
    perform sync_forget(array(select id from before));
  else
    v_items := (select array_agg((i.deployment_id, i.listener_id, 0, i.generation + 1)::sync_items) from before b join sync_items i on i.deployment_id = b.id);
    if v_items is not null then perform sync_note(v_items); end if;
  end if;
  return null;
end $$;
--> statement-breakpoint
create function sync_forget(p_deployments uuid[]) returns void language sql security definer set search_path = public, pg_temp as $$
  with gone as (
    delete from sync_items where deployment_id = any(p_deployments) and listener_id = current_listener() returning *)
  update sync_cursors c set digest = c.digest # g.digest
  from (select listener_id, bit_xor(sync_hash(deployment_id, generation)) as digest from gone group by listener_id) g
  where c.listener_id = g.listener_id
$$;
--> statement-breakpoint
create trigger sync_made after insert on deployments referencing new table as after
  for each statement execute function sync_made();
create trigger sync_changed after update on deployments referencing old table as before new table as after
  for each statement execute function sync_changed();
create trigger sync_gone after delete on deployments referencing old table as before
  for each statement execute function sync_gone();
--> statement-breakpoint

-- Functions that see everything belong to the role that may; nobody else may call what they are not given.
do $$
declare f text;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['become_listener(uuid)', 'sync_note(sync_items[])', 'sync_forget(uuid[])', 'sync_made()', 'sync_changed()', 'sync_gone()'] loop
    execute format('alter function %s owner to slipway_system', f);
    execute format('revoke execute on function %s from public', f);
  end loop;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint
do $$
begin
  set local role slipway_system;
  execute format('grant execute on function become_listener(uuid) to %I', session_user);
end $$;
grant execute on function count_request(integer) to slipway_agent;
grant execute on function sync_forget(uuid[]) to slipway_agent;
reset role;
--> statement-breakpoint

-- ---------------------------------------------------------------- who may
set local role slipway_system;
--> statement-breakpoint
update roles set permissions = permissions || array['listeners:read']
  where 'deployments:read' = any(permissions) and not 'listeners:read' = any(permissions);
--> statement-breakpoint
update roles set permissions = permissions || array['listeners:create', 'listeners:update', 'listeners:delete', 'listeners:sync']
  where 'workspaces:update' = any(permissions) and not 'listeners:create' = any(permissions);
--> statement-breakpoint
reset role;
