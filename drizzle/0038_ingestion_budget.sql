-- Requests of keys that send runs have a budget of their own, beside that of all other requests.
create function ingestion_window(p_budget uuid) returns uuid
language sql immutable parallel safe
return md5('ingestion ' || p_budget)::uuid;
--> statement-breakpoint
grant create on schema public to slipway_system;
set local role slipway_system;
--> statement-breakpoint
-- As count_requests_of_callers(), for keys.
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
--> statement-breakpoint
-- As count_request().
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
--> statement-breakpoint
revoke execute on function
  count_ingestion_of_keys(text[], integer[], text, integer), count_ingestion(text, text, integer)
  from public;
do $$
begin
  execute format(
    'grant execute on function
      count_ingestion_of_keys(text[], integer[], text, integer), count_ingestion(text, text, integer)
      to slipway_login, %I',
    session_user
  );
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
