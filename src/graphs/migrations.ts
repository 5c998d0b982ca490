// The tables of the server.
/**
 * The tables, in the application's own database. Append only: a change is a new entry, and entries run once, in order.
 * Checkpoints have schemas of their own, which the savers of each language migrate.
 */
export const MIGRATIONS: readonly string[] = [
  `
create table graphs.assistants (
  assistant_id uuid primary key,
  graph_id text not null,
  version int not null default 1,
  name text not null,
  description text,
  config jsonb not null default '{}',
  context jsonb not null default '{}',
  metadata jsonb not null default '{}',
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index assistants_graph on graphs.assistants (graph_id);
create index assistants_metadata on graphs.assistants using gin (metadata jsonb_path_ops);

create table graphs.assistant_versions (
  assistant_id uuid not null references graphs.assistants on delete cascade,
  version int not null,
  graph_id text not null,
  name text not null,
  description text,
  config jsonb not null,
  context jsonb not null,
  metadata jsonb not null,
  created_at timestamptz not null default now(),
  primary key (assistant_id, version)
);

create table graphs.threads (
  thread_id uuid primary key,
  status text not null default 'idle',
  metadata jsonb not null default '{}',
  config jsonb not null default '{}',
  "values" jsonb,
  interrupts jsonb not null default '{}',
  error jsonb,
  is_temporary boolean not null default false,
  ttl_minutes float8,
  ttl_strategy text,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  state_updated_at timestamptz not null default now()
);
create index threads_created on graphs.threads (created_at desc) where not is_temporary;
create index threads_updated on graphs.threads (updated_at desc) where not is_temporary;
create index threads_metadata on graphs.threads using gin (metadata jsonb_path_ops);
create index threads_expiring on graphs.threads (expires_at) where expires_at is not null;

create table graphs.runs (
  run_id uuid primary key,
  thread_id uuid not null references graphs.threads on delete cascade,
  assistant_id uuid not null,
  graph_id text not null,
  status text not null default 'pending',
  metadata jsonb not null default '{}',
  kwargs json not null,
  multitask_strategy text not null,
  start_at timestamptz not null default now(),
  attempt int not null default 0,
  lease_owner uuid,
  lease_until timestamptz,
  cancel_action text,
  output json,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index runs_pending on graphs.runs (start_at, run_id) where status = 'pending';
create index runs_running on graphs.runs (lease_until) where status = 'running';
create index runs_thread on graphs.runs (thread_id, run_id desc);
-- Two copies that claim different runs of one thread at the same moment: the second fails, and tries again.
create unique index runs_one_running on graphs.runs (thread_id) where status = 'running';

create table graphs.events (
  id bigint generated always as identity primary key,
  run_id uuid not null,
  thread_id uuid not null,
  event text not null,
  data text not null,
  at timestamptz not null default now()
);
create index events_run on graphs.events (run_id, id);
create index events_thread on graphs.events (thread_id, id);

create table graphs.store (
  namespace text[] not null,
  key text not null,
  value jsonb not null,
  ttl_minutes float8,
  expires_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  primary key (namespace, key)
);
create index store_expiring on graphs.store (expires_at) where expires_at is not null;
create index store_value on graphs.store using gin (value jsonb_path_ops);

-- A label of a pattern may be '*'.
create function graphs.matches_labels(labels text[], pattern text[]) returns boolean
language sql immutable
as $$
  select cardinality(labels) = cardinality(pattern)
    and not exists (
      select from unnest(labels, pattern) as pair (label, wanted) where wanted <> '*' and label <> wanted
    )
$$;

create table graphs.crons (
  cron_id uuid primary key,
  assistant_id uuid not null,
  thread_id uuid references graphs.threads on delete cascade,
  schedule text not null,
  timezone text,
  enabled boolean not null default true,
  on_run_completed text,
  end_time timestamptz,
  payload jsonb not null,
  metadata jsonb not null default '{}',
  next_run_date timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index crons_due on graphs.crons (next_run_date) where enabled;
`,
  `
create index runs_waiting on graphs.runs (thread_id, run_id) where status = 'pending';
`,
  `
create index runs_output on graphs.runs (updated_at) where output is not null;

/**
 * Sets the thread by the end of a run, and wakes the readers of both, and workers if the next run waits. The caller has
 * locked the thread, in a statement of its own: this one sees the runs that were created until then.
 */
create function graphs.settle_thread(
  p_run uuid,
  p_thread uuid,
  p_has_state boolean,
  p_values jsonb,
  p_interrupts jsonb,
  p_error jsonb,
  p_status text
) returns void
language plpgsql
as $$
declare
  is_busy constant boolean := exists (
    select from graphs.runs where thread_id = p_thread and run_id <> p_run and status = 'running'
  ) or exists (
    select from graphs.runs where thread_id = p_thread and run_id <> p_run and status = 'pending'
  );
begin
  update graphs.threads
  set "values" = case when p_has_state then p_values else "values" end,
    interrupts = case when p_has_state then p_interrupts else interrupts end,
    error = p_error,
    updated_at = now(),
    state_updated_at = now(),
    status = case when is_busy then 'busy' else p_status end,
    expires_at = case
      when is_temporary then now() + interval '10 minutes'
      when ttl_minutes is not null then now() + ttl_minutes * interval '1 minute'
      else expires_at
    end
  where thread_id = p_thread;
  perform pg_notify('graphs_events', p_run || ' ' || p_thread);
  if is_busy then
    perform pg_notify('graphs_runs', '');
  end if;
end
$$;

/** Ends a run in one round trip, if its lease still holds. */
create function graphs.finish_run(
  p_owner uuid,
  p_attempt int,
  p_end_status text,
  p_output json,
  p_last_event text,
  p_run uuid,
  p_thread uuid,
  p_has_state boolean,
  p_values jsonb,
  p_interrupts jsonb,
  p_error jsonb,
  p_status text
) returns boolean
language plpgsql
as $$
begin
  perform from graphs.threads where thread_id = p_thread for update;
  update graphs.runs
  set status = p_end_status, output = p_output, lease_owner = null, lease_until = null, updated_at = now()
  where run_id = p_run and lease_owner = p_owner and attempt = p_attempt and status = 'running';
  if not found then
    return false;
  end if;
  if p_last_event is not null then
    insert into graphs.events (run_id, thread_id, event, data) values (p_run, p_thread, 'protocol', p_last_event);
  end if;
  perform graphs.settle_thread(p_run, p_thread, p_has_state, p_values, p_interrupts, p_error, p_status);
  return true;
end
$$;
`,
  `
/** True if metadata fit the filters of a handler of the application. An operator that is not known fits nothing. */
create function graphs.admits(metadata jsonb, filters jsonb) returns boolean
language sql immutable
as $$
  select not exists (
    select from jsonb_each(filters) as filter (name, wanted)
    where not coalesce(
      case
        when jsonb_typeof(wanted) <> 'object' then metadata -> name = wanted
        when wanted = '{}' then false
        else (not wanted ? '$eq' or metadata -> name = wanted -> '$eq')
          and (not wanted ? '$contains' or metadata -> name @> (wanted -> '$contains'))
          and wanted - array['$eq', '$contains'] = '{}'
      end,
      false
    )
  )
$$;
`,
  `
-- Vectors of length one, each as 32-bit numbers in the order of the processor.
create table graphs.store_vectors (
  id bigint generated always as identity primary key,
  namespace text[] not null,
  key text not null,
  vector bytea not null,
  foreign key (namespace, key) references graphs.store on delete cascade
);
create index store_vectors_item on graphs.store_vectors (namespace, key);
`,
  `
/** Refuses rows that would fill the memory of a copy. One row alone may have any size. */
create function graphs.admit_answer(p_rows bigint, p_bytes bigint) returns boolean
language plpgsql stable
as $$
begin
  if p_rows > 1 and p_bytes > 32 * 1048576 then
    raise exception using
      errcode = 'GL413',
      message = 'The answer has more than 32 MB. Ask for less, such as by a smaller \`limit\` or a \`select\`.';
  end if;
  return true;
end
$$;
`,
]
