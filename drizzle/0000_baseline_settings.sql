-- Database roles, and the settings of a transaction that say who acts, for which workspace, and at what time.

-- slipway_app serves requests: row-level security limits it to one organization and workspace.
-- slipway_agent serves agents: row-level security limits it to what one listener serves.
-- slipway_system sees every tenant: enter() and scheduled work run as it.
-- slipway_login is the group of the logins that requests use. They start with the entry functions, such as enter().
-- Roles belong to the server, so another database may have created them.
do $$
declare
  v_role text;
begin
  foreach v_role in array array['slipway_app', 'slipway_agent', 'slipway_system', 'slipway_login'] loop
    if not exists (select from pg_roles where rolname = v_role) then
      execute format('create role %I nologin', v_role);
    end if;
  end loop;
  foreach v_role in array array['slipway_app', 'slipway_agent', 'slipway_system'] loop
    if not pg_has_role(current_user, v_role, 'set') then
      execute format('grant %I to %I with inherit false, set true', v_role, current_user);
    end if;
  end loop;
  foreach v_role in array array['slipway_app', 'slipway_agent'] loop
    if not pg_has_role('slipway_login', v_role, 'set') then
      execute format('grant %I to slipway_login with inherit false, set true', v_role);
    end if;
  end loop;
end $$;
--> statement-breakpoint
grant usage on schema public to slipway_app, slipway_agent, slipway_system, slipway_login;
-- /readyz reads the applied migrations, and does so before it authenticates.
grant usage on schema drizzle to public;
grant select on drizzle.__drizzle_migrations to public;
--> statement-breakpoint

create function setting(name text) returns text
language sql stable
return nullif(current_setting('app.' || name, true), '');
--> statement-breakpoint
create function current_organization() returns uuid
language sql stable
return setting('organization_id')::uuid;
--> statement-breakpoint
create function current_tenant() returns uuid
language sql stable
return setting('tenant_id')::uuid;
--> statement-breakpoint
create function current_actor() returns uuid
language sql stable
return setting('actor_id')::uuid;
--> statement-breakpoint
create function current_listener() returns uuid
language sql stable
return setting('listener_id')::uuid;
--> statement-breakpoint
-- A journal belongs to a workspace or to the whole organization.
create function current_scope() returns uuid
language sql stable
return coalesce(setting('tenant_id'), setting('organization_id'))::uuid;
--> statement-breakpoint
-- The database's time. A test can shift it for one request.
create function clock() returns timestamptz
language sql stable
return now() + coalesce(setting('clock_offset'), '0')::interval;
--> statement-breakpoint
-- Ends the statement with an error code of the API. src/kernel/db.ts turns it into the HTTP error.
create function refuse(code text, detail text default null) returns boolean
language plpgsql cost 10000 as $$
begin
  raise exception using errcode = 'SW000', message = code, detail = coalesce(detail, '');
end $$;
