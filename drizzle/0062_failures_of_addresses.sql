-- Failed requests of client addresses, counted for all instances together. They share the table of the budgets, whose
-- windows are as long, and an address is stored as a hash.
grant create on schema public to slipway_system;
set local role slipway_system;
--> statement-breakpoint
-- Adds failures, and returns the addresses that have reached the limit, each with the seconds until its window ends.
create function count_address_failures(
  p_addresses text[],
  p_failures integer[],
  p_clock_offset text,
  p_limit integer
) returns table (address text, reset integer)
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  perform set_config('app.clock_offset', p_clock_offset, true);
  return query
  with given as (
    select g.address, md5('address ' || g.address)::uuid as window_id, g.failures
    from unnest(p_addresses, p_failures) as g(address, failures)
  ),
  counted as (
    insert into rate_windows as w (key_id, started_at, requests)
    select g.window_id, clock(), g.failures
    from given g
    order by g.window_id
    -- A window that begins later than now is of a clock that was set back.
    on conflict (key_id) do update set
      requests = excluded.requests
        + case when w.started_at between clock() - interval '60 seconds' and clock() then w.requests else 0 end,
      started_at =
        case when w.started_at between clock() - interval '60 seconds' and clock() then w.started_at else clock() end
    returning w.key_id, w.requests, ceil(60 - extract(epoch from clock() - w.started_at))::integer as reset
  )
  select g.address, c.reset
  from given g
  join counted c on c.key_id = g.window_id
  where c.requests >= p_limit;
end $$;
--> statement-breakpoint
revoke execute on function count_address_failures(text[], integer[], text, integer) from public;
do $$
begin
  execute format(
    'grant execute on function count_address_failures(text[], integer[], text, integer) to slipway_login, %I',
    session_user
  );
end $$;
--> statement-breakpoint
reset role;
--> statement-breakpoint
revoke create on schema public from slipway_system;
