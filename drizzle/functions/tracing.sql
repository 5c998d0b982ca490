-- Runs and projects: counts, partitions, retention.

-- The tier of a trace that began at a time. All writes of a trace find the same, also when the project's tier changes
-- between them.
create function tier_at(p_tier text, p_earlier_tiers jsonb, p_time timestamptz) returns text
language sql stable
return coalesce(
  (
    select e.tier
    from jsonb_to_recordset(p_earlier_tiers) as e(tier text, until timestamptz)
    where p_time < e.until
    order by e.until
    limit 1
  ),
  p_tier
);

-- The tier of projects that are created without one.
create function default_trace_tier() returns text
language plpgsql stable as $$
begin
  return coalesce(
    (
      select t.default_trace_tier
      from ttl_settings t
      where t.organization_id = current_organization()
        and (t.tenant_id = current_tenant() or t.tenant_id is null)
        and t.default_trace_tier is not null
      order by t.tenant_id nulls last
      limit 1
    ),
    'shortlived'
  );
end $$;

-- True if the configuration of its key allows the score.
create function score_fits(p_config json, p_score numeric) returns boolean
language sql immutable
return case
  when p_score is null then true
  when p_config ->> 'type' = 'continuous' then
    p_score >= coalesce((p_config ->> 'min')::numeric, p_score)
    and p_score <= coalesce((p_config ->> 'max')::numeric, p_score)
  when p_config ->> 'type' = 'categorical' then
    exists (
      select from json_array_elements(p_config -> 'categories') c
      where (c ->> 'value')::numeric = p_score
    )
  else true
end;

-- However a project is deleted: alone, with its deployment or with its workspace.
create function record_deleted_project() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into deleted_projects (id, organization_id, tenant_id)
  select id, organization_id, tenant_id
  from deleted
  on conflict do nothing;
  return null;
end $$;
create trigger record_deleted
  after delete on projects
  referencing old table as deleted
  for each statement execute function record_deleted_project();

-- Eight buckets for each doubling, so that the middle of a bucket is within 5 % of every latency in it. From 1 ms to
-- 12 days: the bucket n ends at 2^(n/8) ms.
create function latency_bucket(p_from timestamptz, p_until timestamptz) returns integer
language sql immutable
return 1 + least(239, floor(8 * log(2, greatest(1, 1000 * extract(epoch from p_until - p_from)))))::integer;

create function count_bucket(p_counts integer[], p_bucket integer, p_count integer) returns integer[]
language plpgsql immutable as $$
declare
  v_missing integer := p_bucket - cardinality(p_counts);
begin
  if v_missing > 0 then p_counts := p_counts || array_fill(0, array[v_missing]); end if;
  p_counts[p_bucket] := p_counts[p_bucket] + p_count;
  return p_counts;
end $$;
create aggregate count_buckets(bucket integer, count integer) (
  sfunc = count_bucket, stype = integer[], initcond = '{}'
);

create function add_counts(p_one integer[], p_other integer[]) returns integer[]
language sql immutable
return case
  when p_one = '{}' then p_other
  when p_other = '{}' then p_one
  else array(
    select coalesce(one, 0) + coalesce(other, 0)
    from unnest(p_one, p_other) with ordinality as c(one, other, place)
    order by place
  )
end;
-- Minutes that are long ago add up to hours, in a slot of their own: 400 days have too many minutes.
create aggregate sum_counts(integer[]) (sfunc = add_counts, stype = integer[], initcond = '{}');

-- A slot of its own for each transaction that counts runs of the workspace, as far as there are any. It keeps the slot
-- until it ends, so two that count the same minutes in another order do not deadlock.
create function take_count_slot(p_tenant uuid) returns integer
language plpgsql as $$
declare
  v_key constant bigint := hashtextextended(p_tenant::text, 1);
  v_own constant integer := pg_backend_pid() % 8;
begin
  for v_slot in 0..7 loop
    if pg_try_advisory_xact_lock(v_key # v_slot) then return v_slot; end if;
  end loop;
  perform pg_advisory_xact_lock(v_key # v_own);
  return v_own;
end $$;

create function object_bytes(p_objects json) returns bigint
language sql immutable parallel safe
return (
  select coalesce(sum(size::text::bigint), 0)
  from jsonb_path_query(p_objects::jsonb, '$.**.bytes ? (@.type() == "number")') size
);

-- Runs that are not shown yet do not count. Expired runs go on counting: their deletion sets app.keeps_counts.
do $$
declare
  v_operation text;
  v_changes text;
begin
  for v_operation, v_changes in values
    ('insert', 'select *, 1 as count from added'),
    ('update', 'select *, 1 as count from added union all select *, -1 from removed'),
    ('delete', 'select *, -1 as count from removed')
  loop
    execute format($function$
      create or replace function count_runs_of_%1$s() returns trigger
      language plpgsql security definer set search_path = public, pg_temp as $body$
      declare
        v_tenant uuid := (select tenant_id from %2$s limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes, latencies,
          first_token_latencies, last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, bytes,
          latencies, first_token_latencies, last_start_time
        from (
          select
            organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch') as minute,
            sum(count) as runs,
            coalesce(sum(count) filter (where id = trace_id), 0) as roots,
            coalesce(sum(count) filter (where id = trace_id and end_time is not null), 0) as ended,
            coalesce(sum(count) filter (where id = trace_id and error is not null), 0) as errors,
            coalesce(sum(count) filter (where id = trace_id and first_token_time is not null), 0) as streamed,
            coalesce(sum(count * prompt_tokens), 0) as prompt_tokens,
            coalesce(sum(count * completion_tokens), 0) as completion_tokens,
            coalesce(sum(count * total_tokens), 0) as total_tokens,
            coalesce(sum(count * prompt_cost), 0) as prompt_cost,
            coalesce(sum(count * completion_cost), 0) as completion_cost,
            coalesce(sum(count * total_cost), 0) as total_cost,
            sum(
              count * (
                coalesce(octet_length(extra), 0) + coalesce(octet_length(serialized), 0)
                + coalesce(octet_length(inputs), 0) + coalesce(octet_length(outputs), 0)
                + coalesce(octet_length(events), 0) + coalesce(octet_length(error), 0)
                + case when objects is null then 0 else object_bytes(objects) end
              )
            ) as bytes,
            count_buckets(latency_bucket(start_time, end_time), count) filter (
              where id = trace_id and end_time >= start_time
            ) as latencies,
            count_buckets(latency_bucket(start_time, first_token_time), count) filter (
              where id = trace_id and first_token_time >= start_time
            ) as first_token_latencies,
            max(start_time) filter (where count = 1) as last_start_time
          from (%3$s) changes
          where name is not null and run_type is not null
          group by organization_id, tenant_id, session_id, date_bin('1 minute', order_time, 'epoch')
        ) sums
        where (
            runs, roots, ended, errors, streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost,
            completion_cost, total_cost, bytes
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
          or 0 <> any(latencies || first_token_latencies)
        order by session_id, minute
        on conflict (tenant_id, session_id, minute, slot) do update set
          runs = m.runs + excluded.runs,
          roots = m.roots + excluded.roots,
          ended = m.ended + excluded.ended,
          errors = m.errors + excluded.errors,
          streamed = m.streamed + excluded.streamed,
          prompt_tokens = m.prompt_tokens + excluded.prompt_tokens,
          completion_tokens = m.completion_tokens + excluded.completion_tokens,
          total_tokens = m.total_tokens + excluded.total_tokens,
          prompt_cost = m.prompt_cost + excluded.prompt_cost,
          completion_cost = m.completion_cost + excluded.completion_cost,
          total_cost = m.total_cost + excluded.total_cost,
          bytes = m.bytes + excluded.bytes,
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $body$
    $function$, v_operation, case v_operation when 'delete' then 'removed' else 'added' end, v_changes);
  end loop;
end $$;
create trigger count_inserted_runs
  after insert on runs
  referencing new table as added
  for each statement execute function count_runs_of_insert();
create trigger count_updated_runs
  after update on runs
  referencing old table as removed new table as added
  for each statement execute function count_runs_of_update();
create trigger count_deleted_runs
  after delete on runs
  referencing old table as removed
  for each statement execute function count_runs_of_delete();

-- An object whose payload was replaced goes an hour later, so that who reads the run now can still get it.
create function expire_replaced_objects() returns trigger
language plpgsql as $$
begin
  if exists (select from removed where objects is not null) then
    update trace_objects o
    set expires_at = clock() + interval '1 hour'
    from removed r
    join added a on a.tenant_id = r.tenant_id and a.id = r.id and a.order_time = r.order_time
    where r.objects is not null
      and o.tenant_id = r.tenant_id
      and o.trace_id = r.trace_id
      and o.run_id = r.id
      and strpos(r.objects::text, o.path) > 0
      and coalesce(strpos(a.objects::text, o.path), 0) = 0;
  end if;
  return null;
end $$;
create trigger expire_replaced_objects
  after update on runs
  referencing old table as removed new table as added
  for each statement execute function expire_replaced_objects();

-- This stands in for a foreign key, which would lock the row of the project for each run. Row policies do not see the
-- projects that the same statement creates, a trigger does. Runs stay in their project.
create function check_projects() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  if exists (
    select from (select distinct tenant_id, session_id from added where session_id is not null) a
    where not exists (select from projects p where p.id = a.session_id and p.tenant_id = a.tenant_id)
  ) then
    raise foreign_key_violation using constraint = tg_table_name || '_session_id_projects_id_fk';
  end if;
  return null;
end $$;
create trigger check_projects
  after insert on runs
  referencing new table as added
  for each statement execute function check_projects();
create trigger check_projects
  after insert on trace_objects
  referencing new table as added
  for each statement execute function check_projects();
create trigger check_projects
  after insert on open_runs
  referencing new table as added
  for each statement execute function check_projects();
create trigger check_projects
  after insert on otlp_spans
  referencing new table as added
  for each statement execute function check_projects();

create function kept_for(p_tier text) returns interval
language sql immutable
return case p_tier when 'shortlived' then interval '14 days' else interval '400 days' end;

create function partition_name(p_tier text, p_from timestamptz) returns text
language sql stable
return format(
  'runs_%s_%s',
  p_tier,
  to_char(p_from at time zone 'UTC', case p_tier when 'shortlived' then 'YYYYMMDD' else 'YYYYMM' end)
);

create function partition_end(p_tier text, p_from timestamptz) returns timestamptz
language sql stable
return (
  p_from at time zone 'UTC' + case p_tier when 'shortlived' then interval '1 day' else interval '1 month' end
) at time zone 'UTC';

-- The next three run as the owner of the tables. Their caller sees the rows.
create function create_runs_partition(p_tier text, p_from timestamptz) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
declare
  v_name constant text := partition_name(p_tier, p_from);
begin
  execute format('create table %I (like %I including all)', v_name, 'runs_' || p_tier);
  execute format('alter table %I enable row level security, force row level security', v_name);
  execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_name);
  execute format('grant select, insert, update, delete on %I to slipway_system', v_name);
end $$;
alter function create_runs_partition(text, timestamp with time zone) owner to session_user;
grant execute on function create_runs_partition(text, timestamp with time zone) to slipway_system;

create function attach_runs_partition(p_tier text, p_from timestamptz) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  execute format(
    'alter table %I attach partition %I for values from (%L) to (%L)',
    'runs_' || p_tier, partition_name(p_tier, p_from), p_from, partition_end(p_tier, p_from)
  );
end $$;
alter function attach_runs_partition(text, timestamp with time zone) owner to session_user;
grant execute on function attach_runs_partition(text, timestamp with time zone) to slipway_system;

create function drop_runs_partition(p_tier text, p_from timestamptz) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  execute format('drop table %I', partition_name(p_tier, p_from));
end $$;
alter function drop_runs_partition(text, timestamp with time zone) owner to session_user;
grant execute on function drop_runs_partition(text, timestamp with time zone) to slipway_system;

-- A write waits for at most the timeout. What did not get its lock is tried again a minute later.
create function make_runs_partition(p_tier text, p_from timestamptz) returns boolean
language plpgsql set search_path = public, pg_temp set lock_timeout = '500ms' as $$
declare
  v_until constant timestamptz := partition_end(p_tier, p_from);
  v_columns text;
begin
  if to_regclass(partition_name(p_tier, p_from)) is not null then return true; end if;
  perform create_runs_partition(p_tier, p_from);
  -- A table with rows of the partition does not let it in. Runs whose clock was wrong are few.
  execute format('lock table %I in access exclusive mode', format('runs_%s_other', p_tier));
  select string_agg(attname, ', ') into v_columns
  from pg_attribute
  where attrelid = 'runs'::regclass and attnum > 0 and attgenerated = '' and not attisdropped;
  execute format(
    'with moved as (delete from %1$I where order_time >= $1 and order_time < $2 returning *)
      insert into %2$I (%3$s) select %3$s from moved',
    format('runs_%s_other', p_tier), partition_name(p_tier, p_from), v_columns
  ) using p_from, v_until;
  perform attach_runs_partition(p_tier, p_from);
  return true;
exception when lock_not_available then
  return false;
end $$;

-- The days and months to come, and the ones that have begun. False if one has to be tried again.
create function make_runs_partitions(p_now timestamptz) returns boolean
language plpgsql set search_path = public, pg_temp as $$
declare
  v_from timestamptz;
begin
  for v_from in
    select day at time zone 'UTC'
    from generate_series(date_trunc('day', p_now at time zone 'UTC') - interval '1 day',
      p_now at time zone 'UTC' + interval '7 days', '1 day') day
  loop
    if not make_runs_partition('shortlived', v_from) then return false; end if;
  end loop;
  for v_from in
    select month at time zone 'UTC'
    from generate_series(date_trunc('month', p_now at time zone 'UTC'),
      p_now at time zone 'UTC' + interval '7 days', '1 month') month
  loop
    if not make_runs_partition('longlived', v_from) then return false; end if;
  end loop;
  return true;
end $$;

-- A run began no earlier than its trace, so what a partition holds has expired when its last moment has.
create function drop_expired_runs(p_now timestamptz) returns boolean
language plpgsql set search_path = public, pg_temp set lock_timeout = '500ms' as $$
declare
  v_tier text;
  v_from timestamptz;
begin
  for v_tier, v_from in
    select tier, (rpad(digits, 8, '01') || ' UTC')::timestamptz
    from (
      select substring(relname, '^runs_([a-z]+)_') as tier, substring(relname, '_(\d{6,8})$') as digits
      from pg_class
      where relispartition and relkind = 'r' and relnamespace = 'public'::regnamespace
        and relname ~ '^runs_(shortlived_\d{8}|longlived_\d{6})$'
    ) partitions
    where partition_end(tier, (rpad(digits, 8, '01') || ' UTC')::timestamptz) <= p_now - kept_for(tier)
    order by 2
  loop
    perform drop_runs_partition(v_tier, v_from);
  end loop;
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Each member of an object, also within others: its names joined by dots, without the places in arrays.
create function json_pairs(p_json jsonb) returns table (key text, value jsonb)
language sql immutable parallel safe rows 20
begin atomic
  with recursive nodes(key, value) as (
    select null::text, p_json
    union all
    select coalesce(n.key || '.' || m.key, m.key, n.key), m.value
    from nodes n
    cross join lateral (
      select o.key, o.value
      from jsonb_each(case jsonb_typeof(n.value) when 'object' then n.value end) o
      union all
      select null, a.value
      from jsonb_array_elements(case jsonb_typeof(n.value) when 'array' then n.value end) a
    ) m
  )
  select nodes.key, nodes.value
  from nodes
  where nodes.key is not null;
end;

-- Pairs of the members with these names, which hold no dot. Much faster than all pairs.
create function json_pairs_of(p_json jsonb, p_keys text[]) returns table (key text, value jsonb)
language sql immutable parallel safe rows 2
begin atomic
  select k.key, p_json -> k.key
  from unnest(p_keys) k(key)
  where jsonb_exists(p_json, k.key)
  union all
  select p.key, p.value
  from unnest(p_keys) k(key)
  cross join lateral json_pairs(jsonb_build_object(k.key, p_json -> k.key)) p
  where jsonb_typeof(p_json -> k.key) = 'array' and p.key = k.key and p.value <> p_json -> k.key;
end;

-- The number of days for which long-lived traces are kept. `p_days` is the project's own wish.
create function longlived_days(p_days integer) returns integer
language sql stable
return coalesce(
  p_days,
  (select t.longlived_ttl_days from ttl_settings t where t.tenant_id = current_tenant()),
  400
);

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

-- The percentile in seconds, from counts by bucket.
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

create function confined_project() returns uuid
language sql stable parallel safe
return setting('confined_project')::uuid;

-- The project of a run that names this one, or none. The error names the only project that the key is for.
create function require_own_project(p_id uuid, p_name text) returns uuid
language plpgsql stable as $$
declare
  v_own record;
begin
  select id, name into v_own from projects where id = confined_project() and tenant_id = current_tenant();
  if p_id is not null and p_id is distinct from v_own.id
    or p_id is null and p_name is not null and p_name is distinct from v_own.name
  then
    perform refuse('trace_key_confined', v_own.name);
  end if;
  return v_own.id;
end $$;
