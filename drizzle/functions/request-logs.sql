-- Request logs: which requests through the router become lines of the log.

create function set_request_logs(p_deployment uuid, p_logs json, p_needs jsonb, p_request jsonb)
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
    request_logs = p_logs,
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
      'deployment.request_logs_changed',
      v_stored.id,
      '{}',
      changed_members(
        jsonb_build_object('request_logs', v_stored.request_logs),
        jsonb_build_object('request_logs', v_changed.request_logs)
      )
    )::new_event],
    p_request
  );
  return next;
end $$;
