-- The app's login can become slipway_app and slipway_agent and nothing else, and neither role can write an id of
-- another tenant.

-- ---------------------------------------------------------------- the app's login
-- The group of the logins that the app uses. They enter by the functions below. `npm run db:logins` makes such a
-- login, and another one that may become slipway_system for scheduled work, deliveries and the operator's commands.
do $$
begin
  if not exists (select from pg_roles where rolname = 'slipway_login') then
    create role slipway_login nologin;
  end if;
  if not (pg_has_role('slipway_login', 'slipway_app', 'set') and pg_has_role('slipway_login', 'slipway_agent', 'set')) then
    grant slipway_app, slipway_agent to slipway_login with inherit false, set true;
  end if;
end $$;
--> statement-breakpoint
grant usage on schema public to slipway_login;
--> statement-breakpoint
-- /readyz and the operator's commands ask which migrations there are, before they are anybody.
grant usage on schema drizzle to public;
--> statement-breakpoint
grant select on drizzle.__drizzle_migrations to public;
--> statement-breakpoint
-- The entry functions: those of slipway_system that a migration granted to whoever owns the database.
do $$
declare f regprocedure;
begin
  set local role slipway_system;
  for f in
    select p.oid from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.proowner = 'slipway_system'::regrole
      and (p.proname in ('enter', 'become_listener') or exists (
        select from aclexplode(p.proacl) acl where acl.privilege_type = 'EXECUTE' and acl.grantee not in
          (0, 'slipway_system'::regrole, 'slipway_app'::regrole, 'slipway_agent'::regrole, 'slipway_login'::regrole)))
  loop
    execute format('grant execute on function %s to slipway_login', f);
  end loop;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint

-- ---------------------------------------------------------------- ids that are another's
-- A policy cannot see rows of others, so functions of slipway_system look. They say whether the row is not somebody
-- else's: one that does not exist yet is made by the same statement, or refused by a foreign key.
do $$
declare t record;
begin
  grant create on schema public to slipway_system;
  for t in select * from (values
    ('workspace', 'workspaces', 'organization_id is distinct from current_organization() or id <> coalesce(current_tenant(), id)'),
    ('role', 'roles', 'organization_id <> current_organization()'),
    ('member', 'members', 'organization_id is distinct from current_organization()'),
    ('key', 'api_keys', 'organization_id is distinct from current_organization()'),
    ('provider', 'oauth_providers', 'organization_id is distinct from current_organization()'),
    ('listener', 'listeners', 'tenant_id is not null and (organization_id is distinct from current_organization() or tenant_id <> coalesce(current_tenant(), tenant_id))'),
    ('deployment', 'deployments', 'tenant_id is distinct from current_tenant()'),
    ('revision', 'revisions', 'tenant_id is distinct from current_tenant()'),
    ('tag_key', 'tag_keys', 'tenant_id is distinct from current_tenant()'),
    ('preview', 'previews', 'tenant_id is distinct from current_tenant()'),
    ('integration', 'integrations', 'tenant_id is distinct from current_tenant()')
  ) as kinds(kind, place, others) loop
    execute format($f$
      create function is_own_%1$s(p_id uuid) returns boolean
      language plpgsql stable security definer set search_path = public, pg_temp as $body$
      begin
        return p_id is null or not exists (select from %2$I where id = p_id and (%3$s));
      end $body$ $f$, t.kind, t.place, t.others);
    execute format('alter function is_own_%s(uuid) owner to slipway_system', t.kind);
    execute format('revoke execute on function is_own_%s(uuid) from public', t.kind);
  end loop;
  revoke create on schema public from slipway_system;
  set local role slipway_system;
  for t in select p.oid::regprocedure as f from pg_proc p where p.pronamespace = 'public'::regnamespace and p.proname ~ '^is_own_' loop
    execute format('grant execute on function %s to slipway_app, slipway_agent', t.f);
  end loop;
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
-- What a row of a workspace may refer to. A deployment's own references are looked at where they change: see below.
do $$
declare t record;
begin
  for t in select * from (values
    ('projects', 'is_own_deployment(deployment_id)'),
    ('tag_keys', 'true'),
    ('tag_values', 'is_own_tag_key(tag_key_id)'),
    ('deployments', 'true'),
    ('revisions', 'true'),
    ('deployment_secrets', 'is_own_deployment(deployment_id)'),
    ('uploads', 'is_own_deployment(deployment_id) and is_own_key(actor_id)'),
    ('logs', 'is_own_revision(revision_id)'),
    ('log_lines', 'is_own_deployment(deployment_id) and is_own_revision(revision_id)'),
    ('oauth_flows', 'is_own_provider(provider_id)'),
    ('oauth_tokens', 'is_own_provider(provider_id)'),
    ('deployment_heads', 'is_own_deployment(deployment_id)'),
    ('preview_policies', 'is_own_deployment(id)'),
    ('previews', 'is_own_deployment(parent_id) and is_own_deployment(deployment_id) and is_own_key(approved_by)'),
    ('preview_hooks', 'is_own_preview(preview_id) and is_own_deployment(parent_id)'),
    ('integrations', 'is_own_key(created_by)'),
    ('integration_listings', 'is_own_integration(integration_id)'),
    ('integration_installs', 'is_own_key(actor_id)'),
    ('listeners', 'true')
  ) as own(place, refers) loop
    execute format('alter policy own on %I with check (tenant_id = current_tenant() and organization_id = current_organization() and %s)',
      t.place, t.refers);
  end loop;
end $$;
--> statement-breakpoint
alter policy own on members with check (organization_id = current_organization() and is_own_role(role_id));
alter policy own on workspace_members with check (organization_id = current_organization()
  and (current_tenant() is null or tenant_id = current_tenant())
  and is_own_workspace(tenant_id) and is_own_member(member_id) and is_own_role(role_id));
alter policy own on api_keys with check (organization_id = current_organization()
  and (current_tenant() is null or tenant_id = current_tenant()) and is_own_workspace(tenant_id)
  and is_own_role(role_id) and is_own_listener(listener_id) and is_own_key(created_by));
-- Only a new provider names its maker: another workspace with the permission may change it, and the column is never
-- granted.
create policy maker on oauth_providers as restrictive for insert to slipway_app
  with check (made_by_workspace is not distinct from current_tenant());
alter policy own on journals with check (scope_id = current_scope() and organization_id = current_organization());
-- The journal tells truly who did it.
alter policy own on events with check (scope_id = current_scope() and organization_id = current_organization()
  and tenant_id is not distinct from current_tenant() and actor_id is not distinct from current_actor());
--> statement-breakpoint
-- Of an agent: the workspace of what it writes is that of a deployment which its listener serves.
alter policy served on logs with check (exists (
  select from revisions r where r.id = revision_id and r.tenant_id = logs.tenant_id and r.organization_id = logs.organization_id));
alter policy served on log_lines with check (exists (
  select from revisions r join deployments d on d.id = r.deployment_id
  where r.id = revision_id and d.id = log_lines.deployment_id and d.listener_id = current_listener()
    and d.tenant_id = log_lines.tenant_id and d.organization_id = log_lines.organization_id));
alter policy served on journals with check (exists (
  select from deployments d where d.tenant_id = scope_id and d.organization_id = journals.organization_id
    and d.listener_id = current_listener()));
alter policy served on events with check (
  scope_id = events.tenant_id and (actor_id is null or actor_id in (current_actor(), current_listener()))
  and exists (select from deployments d where d.tenant_id = events.tenant_id and d.organization_id = events.organization_id
    and d.listener_id = current_listener()));
--> statement-breakpoint

-- ---------------------------------------------------------------- what a deployment and its revisions refer to
-- Compared with the row's own workspace, whoever writes, and only where it changes: a patch pays for what it touches.
create function check_deployment_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from revisions r where r.tenant_id <> new.tenant_id
      and r.id in (new.latest_revision_id, new.active_revision_id, new.in_flight_revision_id, new.waiting_revision_id))
    or exists (select from listeners l where l.id = new.listener_id and l.tenant_id <> new.tenant_id)
    or exists (select from deployments d where d.id = new.parent_deployment_id and d.tenant_id <> new.tenant_id)
    or exists (select from tag_values v where v.id = any(new.tag_value_ids) and v.tenant_id <> new.tenant_id) then
    raise exception using errcode = '42501', message = 'a deployment refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create function check_revision_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (select from deployments d where d.id = new.deployment_id and (d.tenant_id <> new.tenant_id or d.organization_id <> new.organization_id))
    or exists (select from revisions r where r.id = new.from_revision_id and r.tenant_id <> new.tenant_id)
    or exists (select from api_keys k where k.id = new.actor_id and k.organization_id <> new.organization_id) then
    raise exception using errcode = '42501', message = 'a revision refers to a row of another workspace';
  end if;
  return null;
end $$;
--> statement-breakpoint
create trigger references_made after insert on deployments for each row execute function check_deployment_references();
create trigger references_changed after update on deployments for each row
  when (new.latest_revision_id is distinct from old.latest_revision_id
    or new.active_revision_id is distinct from old.active_revision_id
    or new.in_flight_revision_id is distinct from old.in_flight_revision_id
    or new.waiting_revision_id is distinct from old.waiting_revision_id
    or new.listener_id is distinct from old.listener_id
    or new.tag_value_ids is distinct from old.tag_value_ids)
  execute function check_deployment_references();
create trigger references_made after insert on revisions for each row execute function check_revision_references();
--> statement-breakpoint
do $$
declare f text;
begin
  grant create on schema public to slipway_system;
  foreach f in array array['check_deployment_references()', 'check_revision_references()'] loop
    execute format('alter function %s owner to slipway_system', f);
    execute format('revoke execute on function %s from public', f);
  end loop;
  revoke create on schema public from slipway_system;
end $$;
--> statement-breakpoint

-- ---------------------------------------------------------------- what may change at all
-- Which row a row belongs to never changes: the roles may update every column but ids, save those named here. A
-- column that a later migration adds is granted there.
do $$
declare t record; c text;
begin
  for t in select r as who, p.relname as place from unnest(array['slipway_app', 'slipway_agent']) r, pg_class p
    where p.relnamespace = 'public'::regnamespace and p.relkind = 'r' and has_table_privilege(r, p.oid, 'update')
  loop
    select string_agg(quote_ident(attname), ', ') into c from pg_attribute
    where attrelid = format('public.%I', t.place)::regclass and attnum > 0 and not attisdropped
      and (atttypid not in ('uuid'::regtype, 'uuid[]'::regtype) or (t.place, attname::text) in (
        ('members', 'role_id'), ('workspace_members', 'role_id'), ('projects', 'deployment_id'),
        ('previews', 'deployment_id'), ('previews', 'approved_by'), ('logs', 'stream'), ('oauth_reservations', 'id'),
        ('deployments', 'latest_revision_id'), ('deployments', 'active_revision_id'), ('deployments', 'in_flight_revision_id'),
        ('deployments', 'waiting_revision_id'), ('deployments', 'listener_id'), ('deployments', 'tag_value_ids')));
    execute format('revoke update on %I from %I', t.place, t.who);
    execute format('grant update (%s) on %I to %I', c, t.place, t.who);
  end loop;
end $$;
