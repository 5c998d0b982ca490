-- Databases from before the baseline have functions that releases before it called. An empty one does not.
drop trigger if exists number_log_line on log_lines;
-- Unused since 0.1.0.
drop function if exists number_log_line();
-- Unused since 0.1.0.
drop function if exists journal(text[], uuid[], json[], bigint, bigint);
-- It called the one that is dropped.
create or replace function acquire_lease(
  p_agent text,
  p_fence bigint,
  p_version text,
  p_templates text[],
  p_descriptions json,
  p_verified_hosts_only boolean,
  p_policy json
) returns listeners
language plpgsql as $$
declare
  v_listener listeners;
begin
  select l.* into v_listener from listeners l where l.id = current_listener() for no key update;
  if p_fence is null then
    if v_listener.agent_id is distinct from p_agent and v_listener.lease_expires_at > clock() then
      perform refuse(
        'lease_held',
        greatest(1, ceil(extract(epoch from v_listener.lease_expires_at - clock())))::integer::text
      );
    end if;
  elsif (v_listener.fence, v_listener.agent_id) is distinct from (p_fence, p_agent) then
    perform refuse('fence_stale');
  end if;
  update listeners l
  set
    fence = l.fence + (p_fence is null)::integer,
    agent_id = p_agent,
    agent_version = coalesce(p_version, l.agent_version),
    templates = coalesce(p_templates, l.templates),
    template_descriptions = coalesce(p_descriptions, l.template_descriptions),
    verified_hosts_only = p_verified_hosts_only,
    policy = case when p_fence is null then p_policy else l.policy end,
    last_seen_at = clock(),
    lease_expires_at = clock() + interval '60 seconds'
  where l.id = v_listener.id
  returning l.* into v_listener;
  return v_listener;
end $$;
-- Unused since 0.1.0.
drop function if exists acquire_lease(text, bigint, text, text[], json, boolean);
--> statement-breakpoint
grant create on schema public to slipway_system;
set local role slipway_system;
-- Unused since 0.1.0.
drop function if exists enter(text, uuid, text, boolean, text, text, boolean, text, text);
-- Unused since 0.1.0.
drop function if exists enter_session(text, uuid, text, boolean, text, text, boolean, text, text);
reset role;
--> statement-breakpoint
-- A login that is no superuser saw no listeners in it.
alter function require_offered_template(text, uuid) owner to slipway_system;
alter function device_permissions(device_requests, uuid, uuid) owner to session_user;
alter function grantable_permissions(text[], uuid, uuid) owner to session_user;
revoke create on schema public from slipway_system;
