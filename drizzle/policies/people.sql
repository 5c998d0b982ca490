-- Row-level security and grants: organizations, members, keys, sessions and the audit log.

-- ------------------------------------------------------------ access_policies
create policy own on access_policies to slipway_app
  using (organization_id = current_organization());
create policy admitted on access_policies as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete on access_policies to slipway_app;

-- ------------------------------------------------------------ role_access_policies
create policy own on role_access_policies to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_role(role_id)
    and is_own_access_policy(access_policy_id)
  );
create policy admitted on role_access_policies as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete on role_access_policies to slipway_app;

-- ------------------------------------------------------------ organizations
create policy own on organizations to slipway_app
  using (id = current_organization());
grant select, update (
    display_name, rbac_enabled, assume_s256, version, created_at, updated_at
  ) on organizations to slipway_app;

-- ------------------------------------------------------------ workspaces
-- A workspace key sees its own workspace, an organization key all workspaces of its organization.
create policy own on workspaces to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or id = current_tenant())
  );
grant select, insert, delete, update (
    display_name, require_if_match, version, created_at, updated_at
  ) on workspaces to slipway_app;

-- ------------------------------------------------------------ roles
create policy built_in on roles for select to slipway_app
  using (organization_id is null);
create policy own on roles to slipway_app
  using (organization_id = current_organization());
create policy admitted on roles as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    scope, display_name, description, permissions, version, created_at, updated_at, owner
  ) on roles to slipway_app;

-- ------------------------------------------------------------ members
create policy own on members to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_role(role_id)
  );
create policy admitted on members as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (
    email, full_name, role_id, version, created_at, updated_at
  ) on members to slipway_app;

-- ------------------------------------------------------------ workspace_members
create policy own on workspace_members to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
    and is_own_member(member_id)
    and is_own_role(role_id)
  );
create policy admitted on workspace_members as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, delete, update (role_id, version, created_at, updated_at) on workspace_members to slipway_app;

-- ------------------------------------------------------------ api_keys
create policy own on api_keys to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  )
  with check (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
    and is_own_workspace(tenant_id)
    and is_own_role(role_id)
    and is_own_listener(listener_id)
    and is_own_key(created_by)
    and is_own_member(member_id)
  );
create policy admitted on api_keys as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
-- An insert alone names a trusted issuer.
create policy own_trusted_issuer on api_keys as restrictive for insert to slipway_app
  with check (is_own_trusted_issuer(trusted_issuer_id));
grant select, insert, update (
    description, hint, key_hash, permissions, expires_at, revoked_at, last_used_at, created_at
  ) on api_keys to slipway_app;

-- ------------------------------------------------------------ audit_attempts
create policy own on audit_attempts for select to slipway_app
  using (
    organization_id = current_organization()
    and (current_tenant() is null or tenant_id = current_tenant())
  );
create policy admitted on audit_attempts as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select on audit_attempts to slipway_app;

-- ------------------------------------------------------------ sessions
create policy own on sessions to slipway_app
  using (
    organization_id = current_organization()
    and owner_id = current_actor()
  )
  with check (
    organization_id = current_organization()
    and owner_id = current_actor()
    and is_own_member(member_id)
    and is_own_key(key_id)
  );
create policy admitted on sessions as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert, update (revoked_at) on sessions to slipway_app;

-- ------------------------------------------------------------ sign_in_links
create policy own on sign_in_links to slipway_app
  using (organization_id = current_organization())
  with check (
    organization_id = current_organization()
    and is_own_member(member_id)
  );
create policy admitted on sign_in_links as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
grant select, insert on sign_in_links to slipway_app;

-- ------------------------------------------------------------ trusted_issuers
create policy admitted on trusted_issuers as restrictive to slipway_limited
  using ((select setting('by_policy')) is distinct from 'true');
create policy own on trusted_issuers to slipway_app
  using (tenant_id = current_tenant())
  with check (
    tenant_id = current_tenant()
    and organization_id = current_organization()
    and is_own_role(role_id)
    and is_own_key(granted_by)
  );
grant select, insert, delete, update (
    name, issuer, audience, subject, claims, role_id, key_minutes, expires_at, granted_by, last_used_at, version,
    created_at, updated_at
  ) on trusted_issuers to slipway_app;
