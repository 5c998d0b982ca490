-- Functions that the release before calls while it is replaced, and this one does not. The next release drops them.

create function enter(
  p_key_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language sql security definer set search_path = public, pg_temp as $$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_key(
    p_key_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$$;
grant execute on function enter(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

create function enter_session(
  p_token_hash text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language sql security definer set search_path = public, pg_temp as $$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_session(
    p_token_hash, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$$;
grant execute on function enter_session(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

create function enter_deployment(
  p_key text,
  p_workspace uuid,
  p_permission text,
  p_in_workspace boolean,
  p_request_id text,
  p_clock_offset text,
  p_without_if_match boolean,
  p_idempotency_key text,
  p_fingerprint text,
  p_access jsonb
) returns table (organization_id uuid, tenant_id uuid, actor_id uuid, is_limited boolean)
language sql security definer set search_path = public, pg_temp as $$
  select e.organization_id, e.tenant_id, e.actor_id, e.is_limited
  from enter_by_deployment(
    p_key, p_workspace, p_permission, p_in_workspace, p_request_id, p_clock_offset, p_without_if_match,
    p_idempotency_key, p_fingerprint, p_access
  ) e
$$;
grant execute on function enter_deployment(text, uuid, text, boolean, text, text, boolean, text, text, jsonb)
  to slipway_login, session_user;

-- Adds requests to the budgets of keys (`rate_windows.key_id` is a budget's id) and returns the count of each budget.
-- A key that may not enter is left out and spends nothing. A null limit counts nothing: the result then only says which
-- keys may enter.
create function count_requests(p_key_hashes text[], p_requests integer[], p_clock_offset text, p_limit integer)
returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.key_hash, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
  ),
  alive as (
    select a.key_hash, a.budget_id, g.requests
    from given g
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $$;
grant execute on function count_requests(text[], integer[], text, integer) to slipway_login, session_user;

-- Counts one request. It is the first statement of a trip and commits before enter_by_key() runs. So the count survives
-- a later refusal, and the budget's row is not locked while the request runs. A request refused here is not counted.
create function count_request(p_key_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = a.budget_id
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
grant execute on function count_request(text, text, integer) to slipway_login, session_user;

-- count_requests() and count_request() for callers that may be sessions too. Keys keep theirs, which are faster.
create function count_requests_of_callers(
  p_key_hashes text[],
  p_requests integer[],
  p_clock_offset text,
  p_limit integer
) returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with alive as (
    select g.key_hash, b.budget_id, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_key_hashes) b on b.hash = g.key_hash
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.budget_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.budget_id
    order by a.budget_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.budget_id;
end $$;
grant execute on function count_requests_of_callers(text[], integer[], text, integer) to slipway_login, session_user;

create function count_session_request(p_token_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  -- Without a row lock, so a flood of refused requests does not queue for it.
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from budgets_of(array[p_token_hash]) b
  join rate_windows w on w.key_id = b.budget_id
  where w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_requests_of_callers(array[p_token_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
grant execute on function count_session_request(text, text, integer) to slipway_login, session_user;

-- Does the same as count_requests_of_callers(), for keys.
create function count_ingestion_of_keys(
  p_key_hashes text[],
  p_requests integer[],
  p_clock_offset text,
  p_limit integer
) returns table (key_hash text, requests integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with alive as (
    select a.key_hash, ingestion_window(a.budget_id) as window_id, g.requests
    from unnest(p_key_hashes, p_requests) as g(key_hash, requests)
    join api_keys a on a.key_hash = g.key_hash
    where a.revoked_at is null and (a.expires_at is null or a.expires_at > clock())
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.window_id, clock(), sum(a.requests)::integer
    from alive a
    where p_limit is not null
    group by a.window_id
    order by a.window_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at > clock() - interval '60 seconds' then w.requests else 0 end,
      started_at =
        case when w.started_at > clock() - interval '60 seconds' then w.started_at else excluded.started_at end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $$;
grant execute on function count_ingestion_of_keys(text[], integer[], text, integer) to slipway_login, session_user;

-- Does the same as count_request().
create function count_ingestion(p_key_hash text, p_clock_offset text, p_limit integer)
returns table (remaining integer, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_window record;
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  select ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  into v_window
  from api_keys a
  join rate_windows w on w.key_id = ingestion_window(a.budget_id)
  where a.key_hash = p_key_hash and a.revoked_at is null
    and w.started_at > clock() - interval '60 seconds' and w.requests >= p_limit;
  if found then perform refuse('rate_limited', v_window.reset::text); end if;

  select c.requests, c.reset
  into v_window
  from count_ingestion_of_keys(array[p_key_hash], array[1], p_clock_offset, p_limit) c;
  if not found then return; end if;
  if v_window.requests > p_limit then perform refuse('rate_limited', v_window.reset::text); end if;
  return query select p_limit - v_window.requests, v_window.reset;
end $$;
grant execute on function count_ingestion(text, text, integer) to slipway_login, session_user;
