-- Tracing projects of the API: their retention, and what their counts say.

-- Its name is the code of the error.
alter table projects rename constraint projects_pkey to project_id_taken;
--> statement-breakpoint
-- For how many days long-lived traces are kept. `p_days` is the project's own wish.
create function longlived_days(p_days integer) returns integer
language sql stable
return coalesce(
  p_days,
  (select t.longlived_ttl_days from ttl_settings t where t.tenant_id = current_tenant()),
  400
);
--> statement-breakpoint
-- A list of tiers with one more, which ends now. Tiers that ended before the oldest trace began are left out.
create function record_tier(p_earlier_tiers jsonb, p_tier text) returns jsonb
language plpgsql stable as $$
declare
  v_kept constant jsonb := coalesce(
    (
      select jsonb_agg(e order by e ->> 'until')
      from jsonb_array_elements(p_earlier_tiers) e
      where (e ->> 'until')::timestamptz > clock() - interval '400 days'
    ),
    '[]'
  );
begin
  if jsonb_array_length(v_kept) >= 100 then perform refuse('quota_full', '100 changes of the tier'); end if;
  return v_kept || jsonb_build_object('tier', p_tier, 'until', clock());
end $$;
--> statement-breakpoint
-- A permission besides that of the request, for a resource with these tags: access policies decide before roles. A key
-- that lists its permissions keeps to them.
create function require_permission_for(p_permission text, p_tags uuid[]) returns boolean
language plpgsql stable security definer set search_path = public, pg_temp as $$
declare
  v_is_member constant boolean := setting('actor_kind') = 'session';
  v_rule record;
begin
  select *
  into v_rule
  from deciding_rule(
    policy_roles(
      case when not v_is_member then current_actor() end, case when v_is_member then current_actor() end,
      current_tenant()
    ),
    current_organization(), current_tenant(), p_permission, p_tags
  );
  if v_rule.effect = 'deny' then perform refuse('denied_by_policy', v_rule.name); end if;
  if p_permission = any(actor_permissions()) then return true; end if;
  if v_rule.effect = 'allow' and not exists (
    select from api_keys a
    where a.id = current_actor() and not p_permission = any(coalesce(a.permissions, array[p_permission]))
  ) then
    return true;
  end if;
  return refuse('permission_missing', p_permission);
end $$;
--> statement-breakpoint
create function require_tier_change(
  p_tags uuid[],
  p_from text,
  p_to text,
  p_from_days integer,
  p_to_days integer
) returns boolean
language plpgsql stable as $$
begin
  if p_from = 'longlived' and p_to = 'shortlived' or p_to_days < p_from_days then
    perform require_permission_for('projects:decrease-trace-tier', p_tags);
  end if;
  if p_from = 'shortlived' and p_to = 'longlived' or p_to_days > p_from_days then
    perform require_permission_for('projects:increase-trace-tier', p_tags);
  end if;
  return true;
end $$;
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function require_permission_for(text, uuid[]) owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function require_permission_for(text, uuid[]) from public;
grant execute on function require_permission_for(text, uuid[]) to slipway_app;
reset role;
--> statement-breakpoint

-- Eight buckets for each doubling, so that the middle of a bucket is within 5 % of every latency in it. From 1 ms to
-- 12 days: the bucket n ends at 2^(n/8) ms.
create or replace function latency_bucket(p_from timestamptz, p_until timestamptz) returns integer
language sql immutable
return 1 + least(239, floor(8 * log(2, greatest(1, 1000 * extract(epoch from p_until - p_from)))))::integer;
--> statement-breakpoint
-- In seconds, from counts by bucket.
create function percentile_of(p_counts bigint[], p_part float8) returns float8
language sql immutable
return (
  select power(2, (place - 0.5) / 8) / 1000
  from (
    select place, sum(n) over (order by place) as upto, sum(n) over () as total
    from unnest(p_counts) with ordinality as c(n, place)
  ) counts
  where upto >= greatest(1, ceil(total * p_part))
  order by place
  limit 1
);
