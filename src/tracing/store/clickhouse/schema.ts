// The tables of ClickHouse, by migration. `npm run db:migrate` applies them.

/**
 * Each row is one write of a run. Reading merges the writes of a run, member by member, so the order in which they
 * arrive does not matter, and a repeated write is the same row again. The copies of a trace that is upgraded have the
 * other tier. `week` is the partition. It follows from `order_time`, within the time that runs are kept.
 */
const RUNS = `
  create table if not exists runs (
    tenant_id UUID,
    session_id UUID,
    order_time DateTime64(6, 'UTC'),
    id UUID,
    digest UInt64,
    version UInt64,
    tier LowCardinality(String),
    week Date,
    patched UInt32,
    trace_id UUID,
    trace_time DateTime64(6, 'UTC'),
    dotted_order String,
    parent_run_id Nullable(UUID),
    name Nullable(String),
    run_type LowCardinality(Nullable(String)),
    start_time Nullable(DateTime64(6, 'UTC')),
    end_time Nullable(DateTime64(6, 'UTC')),
    first_token_time Nullable(DateTime64(6, 'UTC')),
    error Nullable(String) codec(ZSTD),
    tags Nullable(String) codec(ZSTD),
    metadata Nullable(String) codec(ZSTD),
    thread_id Nullable(String) codec(ZSTD),
    reference_example_id Nullable(UUID),
    extra Nullable(String) codec(ZSTD),
    serialized Nullable(String) codec(ZSTD),
    inputs Nullable(String) codec(ZSTD),
    outputs Nullable(String) codec(ZSTD),
    events Nullable(String) codec(ZSTD),
    inputs_preview Nullable(String) codec(ZSTD),
    outputs_preview Nullable(String) codec(ZSTD),
    objects Nullable(String) codec(ZSTD),
    prompt_tokens Nullable(Int64),
    completion_tokens Nullable(Int64),
    total_tokens Nullable(Int64),
    prompt_cost Nullable(Decimal(38, 18)),
    completion_cost Nullable(Decimal(38, 18)),
    total_cost Nullable(Decimal(38, 18)),
    usage_details Nullable(String) codec(ZSTD)
  )
  engine = ReplacingMergeTree(version)
  partition by (tier, week)
  order by (tenant_id, session_id, order_time, id, digest)
  ttl toDateTime(week) + interval 22 day delete where tier = 'shortlived',
    toDateTime(week) + interval 408 day delete where tier = 'longlived'
  settings index_granularity = 1024, ttl_only_drop_parts = 1`

/** The places of the runs that have an id, belong to a trace, stand below a run, or were made for an example. */
const PLACES = `
  create table if not exists places (
    tenant_id UUID,
    key UUID,
    session_id UUID,
    order_time DateTime64(6, 'UTC'),
    month Date
  )
  engine = ReplacingMergeTree
  partition by month
  order by (tenant_id, key, session_id, order_time)
  ttl toDateTime(month) + interval 440 day
  settings index_granularity = 1024, ttl_only_drop_parts = 1`

const PLACES_OF_RUNS = `
  create materialized view if not exists places_of_runs to places as
  select
    tenant_id,
    arrayJoin(arrayDistinct(arrayMap(
      one -> assumeNotNull(one),
      arrayFilter(one -> one is not null, [id, trace_id, parent_run_id, reference_example_id])
    ))) as key,
    session_id,
    order_time,
    toStartOfMonth(week) as month
  from runs`

/** Traces that were upgraded lately. A write that ran at that time may not have known. */
const UPGRADED = `
  create table if not exists upgraded (
    tenant_id UUID,
    trace_id UUID,
    upgraded_at DateTime
  )
  engine = ReplacingMergeTree(upgraded_at)
  order by (tenant_id, trace_id)
  ttl upgraded_at + interval 2 hour`

/** Statements read runs through these views only, which cannot be read without naming a workspace. */
const viewOf = (table: string) => `
  create view if not exists ${table}_of as
  select *
  from ${table}
  where tenant_id = {tenant:UUID}`

export const RUN_MIGRATION = [
  RUNS,
  PLACES,
  PLACES_OF_RUNS,
  UPGRADED,
  viewOf('runs'),
  viewOf('places'),
  viewOf('upgraded'),
]
