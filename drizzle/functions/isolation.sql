-- Functions that decide whether an id belongs to the caller. Row policies ask this of every id that a row refers to.

-- Policies call these, because a policy cannot see rows of other tenants. Each returns false if the id belongs to
-- another tenant. An id that does not exist passes: the same statement inserts it, or a foreign key refuses it.
create function is_own_workspace(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from workspaces
    where id = p_id and (
        organization_id is distinct from current_organization()
        or id <> coalesce(current_tenant(), id)
      )
  );
end $$;
grant execute on function is_own_workspace(uuid) to slipway_agent, slipway_app;

create function is_own_role(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from roles
    where id = p_id and organization_id <> current_organization()
  );
end $$;
grant execute on function is_own_role(uuid) to slipway_agent, slipway_app;

create function is_own_member(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from members
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
grant execute on function is_own_member(uuid) to slipway_agent, slipway_app;

-- Columns that name an actor hold the id of a key or of a member.
create function is_own_key(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (
      select from api_keys
      where id = p_id and organization_id is distinct from current_organization()
    )
    and not exists (
      select from members
      where id = p_id and organization_id is distinct from current_organization()
    );
end $$;
grant execute on function is_own_key(uuid) to slipway_agent, slipway_app;

create function is_own_provider(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from oauth_providers
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
grant execute on function is_own_provider(uuid) to slipway_agent, slipway_app;

create function is_own_listener(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from listeners
    where id = p_id and tenant_id is not null
      and (
        organization_id is distinct from current_organization()
        or tenant_id <> coalesce(current_tenant(), tenant_id)
      )
  );
end $$;
grant execute on function is_own_listener(uuid) to slipway_agent, slipway_app;

create function is_own_deployment(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from deployments
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_deployment(uuid) to slipway_agent, slipway_app;

create function is_own_revision(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from revisions
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_revision(uuid) to slipway_agent, slipway_app;

create function is_own_schedule(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from schedules
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_schedule(uuid) to slipway_app;

create function is_own_tag_key(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from tag_keys
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_tag_key(uuid) to slipway_agent, slipway_app;

create function is_own_preview(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from previews
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_preview(uuid) to slipway_agent, slipway_app;

create function is_own_integration(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from integrations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_integration(uuid) to slipway_agent, slipway_app;

create function is_own_dataset(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from datasets
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_dataset(uuid) to slipway_app;

create function is_own_access_policy(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from access_policies
    where id = p_id and organization_id is distinct from current_organization()
  );
end $$;
grant execute on function is_own_access_policy(uuid) to slipway_app;

create function is_own_project(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from projects
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_project(uuid) to slipway_app;

create function is_own_rule(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from run_rules
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_rule(uuid) to slipway_app;

create function is_own_example_contents(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (
    select from example_contents
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_example_contents(uuid) to slipway_app;

create function is_own_annotation_queue(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (select from annotation_queues where id = p_id and tenant_id is distinct from current_tenant());
end $$;
grant execute on function is_own_annotation_queue(uuid) to slipway_app;

create function is_own_annotation_queue_item(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (
    select from annotation_queue_items
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_annotation_queue_item(uuid) to slipway_app;

create function is_own_model_configuration(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (
    select from model_configurations
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_model_configuration(uuid) to slipway_app;

create function is_own_insight_config(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (select from insight_configs where id = p_id and tenant_id is distinct from current_tenant());
end $$;
grant execute on function is_own_insight_config(uuid) to slipway_app;

create function is_own_insight_job(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return not exists (select from insight_jobs where id = p_id and tenant_id is distinct from current_tenant());
end $$;
grant execute on function is_own_insight_job(uuid) to slipway_app;

create function is_own_insight_cluster(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null
    or not exists (select from insight_clusters where id = p_id and tenant_id is distinct from current_tenant());
end $$;
grant execute on function is_own_insight_cluster(uuid) to slipway_app;

create function is_own_trusted_issuer(p_id uuid) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
begin
  return p_id is null or not exists (
    select from trusted_issuers
    where id = p_id and tenant_id is distinct from current_tenant()
  );
end $$;
grant execute on function is_own_trusted_issuer(uuid) to slipway_app;
