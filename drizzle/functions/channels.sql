-- Channels and their notices.

-- Stores a notice for each of these channels that is enabled and confirmed, and returns how many are new. The same
-- sequence of a thread adds nothing. An update that no worker has begun to send is dropped for a later one. A channel
-- of another workspace counts as unknown.
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
  where c.id = any(p_channels) and c.tenant_id = p_tenant and c.enabled and c.confirmed_at is not null
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

-- The member that acts: by a session, or by a key that ends with the membership.
create function actor_member() returns uuid
language sql stable security definer set search_path = public, pg_temp as $$
  select case
    when setting('actor_kind') = 'session' then current_actor()
    else (select a.member_id from api_keys a where a.id = current_actor())
  end
$$;
grant execute on function actor_member() to slipway_app;

-- A channel of the workspace takes the permission to manage channels. A person needs none for a channel of their own.
create function require_channel_owner(p_member uuid) returns boolean
language plpgsql stable as $$
begin
  if p_member is not distinct from actor_member() and p_member is not null then return true; end if;
  if not 'channels:manage' = any(actor_permissions()) then
    perform refuse('permission_missing', 'channels:manage');
  end if;
  return true;
end $$;

-- A person's own channel is told what the person may read. A person whose roles access policies limit is told nothing,
-- because a notice has no tags. The thread says what the notice is about: a revision, or else an incident.
create function may_be_told(c channels, p_thread text) returns boolean
language plpgsql stable as $$
begin
  return c.member_id is null or (
    member_permissions(c.member_id, c.tenant_id) @> array[
      'channels:read',
      case when p_thread like 'revision %' then 'deployments:read' else 'alerts:read' end
    ]
    and not has_rules(policy_roles(null, c.member_id, c.tenant_id), c.organization_id)
  );
end $$;

-- Counts an e-mail in each of these windows, if all have room, and returns 0. Otherwise it returns the seconds to wait.
create function take_mail(p_scopes text[], p_limits integer[], p_window interval) returns integer
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
declare
  v_wait integer;
begin
  insert into mail_windows as w (scope, mails)
  select s.scope, 0
  from unnest(p_scopes) s(scope)
  order by s.scope
  on conflict (scope) do update set
    mails = case when w.started_at > clock() - p_window then w.mails else 0 end,
    started_at = case when w.started_at > clock() - p_window then w.started_at else clock() end;
  select ceil(extract(epoch from max(w.started_at + p_window - clock())))
  into v_wait
  from mail_windows w
  join unnest(p_scopes, p_limits) s(scope, most) on s.scope = w.scope
  where w.mails >= s.most;
  if v_wait > 0 then return v_wait; end if;
  update mail_windows w set mails = w.mails + 1 where w.scope = any(p_scopes);
  return 0;
end $$;
grant execute on function take_mail(text[], integer[], interval) to slipway_app;

-- Own channels of a person go with the membership in their workspace.
create function delete_own_channels() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  delete from channels c where c.tenant_id = old.tenant_id and c.member_id = old.member_id;
  return null;
end $$;
create trigger delete_own_channels
  after delete on workspace_members
  for each row execute function delete_own_channels();

-- A channel names a rule and a member of its own workspace, whoever writes it.
create function check_channel_references() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  if exists (select from run_rules r where r.id = new.run_rule_id and r.tenant_id <> new.tenant_id)
    or exists (select from members m where m.id = new.member_id and m.organization_id <> new.organization_id)
  then
    raise exception using errcode = '42501', message = 'a channel refers to a row of another workspace';
  end if;
  return null;
end $$;
create trigger check_references
  after insert or update of run_rule_id, member_id on channels
  for each row execute function check_channel_references();

-- The channel of an alert goes with it, and with what waits for it.
create function delete_channels_of_alerts() returns trigger
language plpgsql security definer set search_path = public, pg_temp set plan_cache_mode = force_generic_plan as $$
begin
  delete from channels c
  where c.run_rule_id = new.id
    and not exists (select from json_array_elements(new.alerts) a where a ->> 'id' = c.id::text);
  return null;
end $$;
create trigger delete_channels_of_alerts
  after update of alerts on run_rules
  for each row execute function delete_channels_of_alerts();
