-- Protected deployments: who may see them, and the share links and bypass tokens that pass it.

create function set_deployment_protection(p_deployment uuid, p_protection json, p_needs jsonb, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  v_stored deployments := lock_deployment_version(p_deployment, p_request);
  v_changed deployments;
begin
  if v_stored.id is null then return; end if;
  if p_needs <> '[]' then perform require_listener_allows(v_stored.listener_id, p_needs); end if;
  update deployments d
  set
    protection = p_protection,
    generation = d.generation + 1,
    remote_reconciled = false,
    version = d.version + 1,
    updated_at = clock()
  where d.id = v_stored.id and d.tenant_id = current_tenant()
  returning d.* into v_changed;
  answer := to_json(v_changed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'deployment.protection_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('protection', v_stored.protection), jsonb_build_object('protection', v_changed.protection)
      )
    )::new_event],
    p_request
  );
  return next;
end $$;

create function recorded_bypass(b protection_bypasses) returns jsonb
language sql stable as $$
  select jsonb_build_object('kind', b.kind, 'description', b.description, 'expires_at', b.expires_at)
$$;

-- Has the agent learn a link that was made or revoked.
create function tell_bypasses(p_deployment uuid) returns void
language plpgsql set plan_cache_mode = force_generic_plan as $$
begin
  update deployments d
  set generation = d.generation + 1, remote_reconciled = false
  where d.id = p_deployment and d.tenant_id = current_tenant() and d.protection is not null;
end $$;

-- `p_new` has the kind, the description, the hash and the end. `p_sealed` is the secret, for a repeated request.
create function create_bypass(p_deployment uuid, p_new json, p_sealed text, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  if d.id is null or d.deleting_at is not null then return; end if;
  if (select count(*) from protection_bypasses o where o.deployment_id = d.id and o.tenant_id = d.tenant_id) >= 50 then
    perform refuse('bypasses_full');
  end if;
  insert into protection_bypasses (
    organization_id, tenant_id, deployment_id, kind, description, token_hash, expires_at
  )
  values (
    d.organization_id,
    d.tenant_id,
    d.id,
    p_new ->> 'kind',
    p_new ->> 'description',
    p_new ->> 'token_hash',
    (p_new ->> 'expires_at')::timestamptz
  )
  returning * into b;
  perform tell_bypasses(d.id);
  answer := to_jsonb(b) || jsonb_build_object('url', d.url, 'sealed', p_sealed);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.created', b.id, json_build_object('deployment_id', d.id), changed_members(null, recorded_bypass(b))
    )::new_event],
    p_request
  );
  return next;
end $$;

create function revoke_bypass(p_deployment uuid, p_bypass uuid, p_request jsonb)
returns table (answer json, has_webhooks boolean)
language plpgsql set plan_cache_mode = force_generic_plan as $$
declare
  d deployments := lock_deployment(p_deployment);
  b protection_bypasses;
begin
  delete from protection_bypasses o
  where o.id = p_bypass and o.deployment_id = d.id and o.tenant_id = current_tenant()
  returning * into b;
  if b.id is null then return; end if;
  perform tell_bypasses(d.id);
  answer := to_json(b);
  has_webhooks := conclude_write(
    answer,
    array[(
      'bypass.revoked', b.id, json_build_object('deployment_id', d.id), changed_members(recorded_bypass(b), null)
    )::new_event],
    p_request
  );
  return next;
end $$;

-- The part of the work that protects a deployment, as `WorkProtection` of src/protocol/protection.schema.ts.
create function list_protection(d deployments) returns json
language sql stable as $$
  select json_build_object(
    'open_paths', d.protection -> 'open_paths',
    'bypasses', (
      select coalesce(
        json_agg(json_build_object('kind', b.kind, 'hash', b.token_hash, 'expires_at', b.expires_at) order by b.id),
        '[]'
      )
      from protection_bypasses b
      where b.deployment_id = d.id and coalesce(b.expires_at > clock(), true)
    )
  )
$$;
