-- When a session of a member was last used. Callers see only their own sessions.
create function member_last_seen(p_member uuid) returns timestamptz
language sql stable security definer set search_path = public, pg_temp as $$
  select max(last_seen_at)
  from sessions
  where member_id = p_member and organization_id = current_organization()
$$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function member_last_seen(uuid) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function member_last_seen(uuid) from public;
grant execute on function member_last_seen(uuid) to slipway_app;
reset role;
