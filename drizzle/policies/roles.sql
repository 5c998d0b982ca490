-- The roles of the database. They belong to the server, so another database may have created them.
--   slipway_app       serves requests: it sees one organization and workspace.
--   slipway_limited   serves callers that access policies limit: it has the rights of slipway_app and restrictive
--                     policies. So the statements of all others have the plans that they would have without policies.
--   slipway_confined  serves trace keys: it has the rights of slipway_app, and other projects do not exist for it.
--   slipway_agent     serves agents: it sees what one listener serves.
--   slipway_system    sees every tenant: enter_by_key() and scheduled work run as it.
--   slipway_login     is the group of the logins that requests use. They start with entry functions: enter_by_key().
do $$
declare
  v_role text;
begin
  foreach v_role in array array[
    'slipway_app', 'slipway_limited', 'slipway_confined', 'slipway_agent', 'slipway_system', 'slipway_login'
  ] loop
    if not exists (select from pg_roles where rolname = v_role) then
      execute format('create role %I nologin', v_role);
    end if;
  end loop;
  foreach v_role in array array['slipway_limited', 'slipway_confined'] loop
    if not pg_has_role(v_role, 'slipway_app', 'usage') then
      execute format('grant slipway_app to %I with inherit true, set false', v_role);
    end if;
  end loop;
  foreach v_role in array array[
    'slipway_app', 'slipway_limited', 'slipway_confined', 'slipway_agent', 'slipway_system'
  ] loop
    if not pg_has_role(current_user, v_role, 'set') then
      execute format('grant %I to %I with inherit false, set true', v_role, current_user);
    end if;
    if v_role <> 'slipway_system' and not pg_has_role('slipway_login', v_role, 'set') then
      execute format('grant %I to slipway_login with inherit false, set true', v_role);
    end if;
  end loop;
end $$;
grant usage on schema public to slipway_app, slipway_agent, slipway_system, slipway_login;
-- /readyz reads the applied migrations, and does so before it authenticates.
grant usage on schema drizzle to public;
grant select on drizzle.__drizzle_migrations to public;
