-- What two writes both need is held before the journal is, in every one of them: a write that held the journal and then waited for a row
-- whose holder waits for the journal would never end.

-- Returns the role if it may be given in this scope by whoever asks, `p_only` being what a key is narrowed to. The role is held until the
-- transaction ends, so that it is not deleted meanwhile; a built-in one cannot be, and the walls let nobody hold it.
create or replace function grantable_role(p_role uuid, p_scope text, p_only text[] default null) returns uuid language plpgsql as $$
declare
  r record;
begin
  perform from roles where id = p_role and organization_id = current_organization() for key share;
  -- An organisation key may hold a workspace's role: it then has it in every workspace.
  select permissions into r from roles where id = p_role and (scope = p_scope or p_scope = 'key')
    and (organization_id is null or organization_id = current_organization());
  if not found then perform refuse('role_not_found'); end if;
  if not p_only <@ r.permissions then
    perform refuse('permission_not_in_role', array_to_string(array(select unnest(p_only) except select unnest(r.permissions) order by 1), ', '));
  end if;
  perform grantable(coalesce(p_only, r.permissions));
  return p_role;
end $$;
--> statement-breakpoint
-- Holds what keep_an_admin() and keep_an_organization_admin() ask for when a member leaves or is something else from now on.
create function hold_what_keeps_admins(p_member uuid) returns void language plpgsql as $$
begin
  perform from organizations where id = current_organization() for no key update;
  perform from workspaces where organization_id = current_organization()
    and id in (select tenant_id from workspace_members where member_id = p_member) order by id for no key update;
end $$;
