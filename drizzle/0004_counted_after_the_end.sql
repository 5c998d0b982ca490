-- Requests of a key that ended within ten seconds are counted. A window that begins in the future begins anew.
set local check_function_bodies = off;
grant create on schema public to slipway_system;
create or replace function budgets_of(p_hashes text[])
 RETURNS TABLE(hash text, budget_id uuid)
 LANGUAGE sql
 STABLE
AS $function$
  select a.key_hash, a.budget_id
  from api_keys a
  where a.key_hash = any(p_hashes)
    and (a.revoked_at is null or a.revoked_at > clock() - interval '10 seconds')
    and (a.expires_at is null or a.expires_at > clock() - interval '10 seconds')
  union all
  select s.token_hash, coalesce(a.budget_id, s.member_id)
  from sessions s
  left join api_keys a on a.id = s.key_id
  where s.token_hash = any(p_hashes)
    and (is_alive(s) or least(s.revoked_at, s.expires_at) > clock() - interval '10 seconds')
  union all
  select k.key, d.id
  from unnest(p_hashes) k(key)
  join deployments d on d.id = trace_key_deployment(k.key)
  where split_part(k.key, '.', 2) in (d.trace_key_version::text, (d.trace_key_version - 1)::text)
    and d.deleting_at is null
$function$;
set local role slipway_system;
create or replace function count_answered_requests(p_budget text, p_hashes text[], p_requests integer[],
  p_clock_offset text, p_counts boolean)
 RETURNS TABLE(key_hash text, budget_id uuid, requests integer, reset integer)
 LANGUAGE plpgsql
 SECURITY DEFINER
 SET search_path TO 'public', 'pg_temp'
 SET plan_cache_mode TO 'force_generic_plan'
AS $function$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  update api_keys a
  set last_used_at = clock()
  where a.id in (
    select k.id
    from (
      select i.id from api_keys i where i.key_hash = any(p_hashes)
      union
      select o.key_id from sessions o where o.token_hash = any(p_hashes) and is_alive(o)
    ) used
    join api_keys k on k.id = used.id
    where k.revoked_at is null and (k.last_used_at is null or k.last_used_at < clock() - interval '1 minute')
    order by k.id
    for no key update of k skip locked
  );
  update sessions s
  set last_seen_at = clock()
  where s.id in (
    select o.id from sessions o
    where o.token_hash = any(p_hashes) and is_alive(o) and o.last_seen_at < clock() - interval '1 minute'
    order by o.id
    for no key update skip locked
  );
  return query
  with alive as (
    select
      g.key_hash,
      b.budget_id,
      case p_budget when 'ingestion' then ingestion_window(b.budget_id) else b.budget_id end as window_id,
      g.requests
    from unnest(p_hashes, p_requests) as g(key_hash, requests)
    join budgets_of(p_hashes) b on b.hash = g.key_hash
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select a.window_id, clock(), sum(a.requests)::integer
    from alive a
    where p_counts
    group by a.window_id
    order by a.window_id
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at = case
        when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at
        else excluded.started_at
      end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select a.key_hash, a.budget_id, c.requests, c.reset
  from alive a
  left join counted c on c.key_id = a.window_id;
end $function$;
reset role;
revoke create on schema public from slipway_system;
set local check_function_bodies = on;
