-- Channels and their notices.

-- Stores a notice for each of these channels that is enabled, and returns how many are new. The same sequence of a
-- thread adds nothing. An update that no worker has begun to send is dropped for a later one. An id of another
-- workspace counts as unknown.
create function enqueue_notices(
  p_tenant uuid, p_channels uuid[], p_thread text, p_phase text, p_sequence bigint, p_content jsonb
) returns integer
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_count integer;
begin
  if p_tenant <> current_tenant() then return 0; end if;
  insert into notices (organization_id, tenant_id, channel_id, thread, sequence, phase, content)
  select c.organization_id, c.tenant_id, c.id, p_thread, p_sequence, p_phase, p_content
  from channels c
  where c.id = any(p_channels) and c.tenant_id = p_tenant and c.enabled
  order by c.id
  on conflict on constraint notices_once do nothing;
  get diagnostics v_count = row_count;
  if v_count > 0 and p_phase in ('update', 'close') then
    update notices n
    set state = 'dropped', next_attempt_at = null, error = 'replaced'
    where n.channel_id = any(p_channels) and n.tenant_id = p_tenant and n.thread = p_thread
      and n.state = 'waiting' and n.phase = 'update' and n.attempts = 0 and n.sequence < p_sequence;
  end if;
  return v_count;
end $$;
grant execute on function enqueue_notices(uuid, uuid[], text, text, bigint, jsonb) to slipway_app;
