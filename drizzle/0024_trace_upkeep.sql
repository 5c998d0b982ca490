-- The upkeep of traces: counts that outlive the runs, partitions for the days to come, and deletion in batches.

-- Patches that do not name their project and came before their post. They are merged when the post comes.
create table waiting_patches (
  organization_id uuid not null,
  tenant_id uuid not null,
  id bigint generated always as identity,
  run_id uuid not null,
  patch json not null,
  created_at timestamptz default clock() not null,
  constraint waiting_patches_tenant_id_run_id_id_pk primary key (tenant_id, run_id, id)
);
create index waiting_patches_age on waiting_patches (created_at);
alter table waiting_patches enable row level security, force row level security;
create policy everything on waiting_patches to slipway_system using (true) with check (true);
grant select, insert, update, delete on waiting_patches to slipway_system;
create policy own on waiting_patches to slipway_app
  using (tenant_id = current_tenant())
  with check (tenant_id = current_tenant() and organization_id = current_organization());
grant select, insert, delete on waiting_patches to slipway_app;
--> statement-breakpoint
-- Later, when the trace is upgraded; at once, when it is deleted, or when another text has taken the place of this one.
alter table trace_objects rename column trace_time to expires_at;
alter table trace_objects drop column session_id;
alter index trace_objects_age rename to trace_objects_expired;
grant update (expires_at) on trace_objects to slipway_app;
create index session_minutes_age on session_minutes (minute);
--> statement-breakpoint

-- ------------------------------------------------------------ Counts
-- Four buckets for each doubling, from 1 ms to 12 days: the bucket n ends at 2^(n/4) ms.
create function latency_bucket(p_from timestamptz, p_until timestamptz) returns integer
language sql immutable
return 1 + least(119, floor(4 * log(2, greatest(1, 1000 * extract(epoch from p_until - p_from)))))::integer;
--> statement-breakpoint
create function count_bucket(p_counts integer[], p_bucket integer, p_count integer) returns integer[]
language plpgsql immutable as $$
declare
  v_missing integer := p_bucket - cardinality(p_counts);
begin
  if v_missing > 0 then p_counts := p_counts || array_fill(0, array[v_missing]); end if;
  p_counts[p_bucket] := p_counts[p_bucket] + p_count;
  return p_counts;
end $$;
create aggregate count_buckets(bucket integer, count integer) (sfunc = count_bucket, stype = integer[], initcond = '{}');
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
--> statement-breakpoint
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
--> statement-breakpoint
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
      create function count_runs_of_%1$s() returns trigger
      language plpgsql security definer set search_path = public, pg_temp as $body$
      declare
        v_tenant uuid := (select tenant_id from %2$s limit 1);
      begin
        if v_tenant is null or setting('keeps_counts') = 'true' then return null; end if;
        insert into session_minutes as m (
          organization_id, tenant_id, session_id, minute, slot, runs, roots, ended, errors, streamed, prompt_tokens,
          completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost, latencies, first_token_latencies,
          last_start_time
        )
        select
          organization_id, tenant_id, session_id, minute, take_count_slot(v_tenant), runs, roots, ended, errors,
          streamed, prompt_tokens, completion_tokens, total_tokens, prompt_cost, completion_cost, total_cost,
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
            completion_cost, total_cost
          ) <> (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
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
          latencies = add_counts(m.latencies, excluded.latencies),
          first_token_latencies = add_counts(m.first_token_latencies, excluded.first_token_latencies),
          last_start_time = greatest(m.last_start_time, excluded.last_start_time);
        return null;
      end $body$
    $function$, v_operation, case v_operation when 'delete' then 'removed' else 'added' end, v_changes);
  end loop;
end $$;
--> statement-breakpoint
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
--> statement-breakpoint

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
--> statement-breakpoint

-- ------------------------------------------------------------ Projects that are deleted
create function remember_deleted_projects() returns trigger
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  insert into deleted_projects (id, organization_id, tenant_id)
  select id, organization_id, tenant_id
  from removed
  on conflict do nothing;
  return null;
end $$;
create trigger remember_deleted_projects
  after delete on projects
  referencing old table as removed
  for each statement execute function remember_deleted_projects();
--> statement-breakpoint
grant create on schema public to slipway_system;
alter function count_runs_of_insert() owner to slipway_system;
alter function count_runs_of_update() owner to slipway_system;
alter function count_runs_of_delete() owner to slipway_system;
alter function remember_deleted_projects() owner to slipway_system;
revoke create on schema public from slipway_system;
--> statement-breakpoint
set local role slipway_system;
revoke execute on function
  count_runs_of_insert(), count_runs_of_update(), count_runs_of_delete(), remember_deleted_projects()
  from public;
reset role;
--> statement-breakpoint

-- ------------------------------------------------------------ Partitions
-- Rows of partitions can be deleted one by one, and moved out of the partitions for wrong clocks.
do $$
declare
  v_table text;
begin
  foreach v_table in array array['runs_shortlived_other', 'runs_longlived_other'] loop
    execute format('create policy everything on %I to slipway_system using (true) with check (true)', v_table);
    execute format('grant select, insert, update, delete on %I to slipway_system', v_table);
    execute format('create index on %I (order_time)', v_table);
  end loop;
end $$;
--> statement-breakpoint
create function kept_for(p_tier text) returns interval
language sql immutable
return case p_tier when 'shortlived' then interval '14 days' else interval '400 days' end;
create function partition_name(p_tier text, p_from timestamptz) returns text
language sql stable
return format(
  'runs_%s_%s', p_tier, to_char(p_from at time zone 'UTC', case p_tier when 'shortlived' then 'YYYYMMDD' else 'YYYYMM' end)
);
create function partition_end(p_tier text, p_from timestamptz) returns timestamptz
language sql stable
return (
  p_from at time zone 'UTC' + case p_tier when 'shortlived' then interval '1 day' else interval '1 month' end
) at time zone 'UTC';
--> statement-breakpoint
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
create function attach_runs_partition(p_tier text, p_from timestamptz) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  execute format(
    'alter table %I attach partition %I for values from (%L) to (%L)',
    'runs_' || p_tier, partition_name(p_tier, p_from), p_from, partition_end(p_tier, p_from)
  );
end $$;
create function drop_runs_partition(p_tier text, p_from timestamptz) returns void
language plpgsql security definer set search_path = public, pg_temp as $$
begin
  execute format('drop table %I', partition_name(p_tier, p_from));
end $$;
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
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
--> statement-breakpoint
revoke execute on function
    create_runs_partition(text, timestamptz), attach_runs_partition(text, timestamptz),
    drop_runs_partition(text, timestamptz)
  from public;
grant execute on function
    create_runs_partition(text, timestamptz), attach_runs_partition(text, timestamptz),
    drop_runs_partition(text, timestamptz)
  to slipway_system;
--> statement-breakpoint
set local role slipway_system;
select make_runs_partitions(now());
reset role;
