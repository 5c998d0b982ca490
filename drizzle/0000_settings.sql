-- Who is asking, on whose behalf, and what time it is: set by enter() for one transaction, read by statements and policies.

-- slipway_app serves requests: it owns nothing and row-level security confines it to one organisation and workspace.
-- slipway_system sees every tenant: enter() and the scheduled work run as it.
do $$
begin
  if not exists (select from pg_roles where rolname = 'slipway_app') then
    create role slipway_app nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'slipway_system') then
    create role slipway_system nologin;
  end if;
  -- Another database of the same server may have made them: then whoever administers it grants them to this one's owner.
  if not (pg_has_role(current_user, 'slipway_app', 'set') and pg_has_role(current_user, 'slipway_system', 'set')) then
    execute format('grant slipway_app, slipway_system to %I with inherit false, set true', current_user);
  end if;
end $$;
--> statement-breakpoint
grant usage on schema public to slipway_app, slipway_system;
--> statement-breakpoint
create function setting(name text) returns text language sql stable
  return nullif(current_setting('app.' || name, true), '');
--> statement-breakpoint
create function current_organization() returns uuid language sql stable return setting('organization_id')::uuid;
--> statement-breakpoint
create function current_tenant() returns uuid language sql stable return setting('tenant_id')::uuid;
--> statement-breakpoint
create function current_actor() returns uuid language sql stable return setting('actor_id')::uuid;
--> statement-breakpoint
-- A journal belongs to a workspace, or to the organisation as a whole.
create function current_scope() returns uuid language sql stable
  return coalesce(setting('tenant_id'), setting('organization_id'))::uuid;
--> statement-breakpoint
-- The database's time, which tests can move for one request.
create function clock() returns timestamptz language sql stable
  return now() + coalesce(setting('clock_offset'), '0')::interval;
--> statement-breakpoint
-- Refuses with a code of the API's closed set; errors.ts knows its status and its sentence.
create function refuse(code text, detail text default null) returns boolean language plpgsql cost 10000 as $$
begin
  raise exception using errcode = 'SW000', message = code, detail = coalesce(detail, '');
end $$;
