// The tables of log lines in ClickHouse. `npm run db:migrate` applies them.

/**
 * A repeated line is the same row again. The sweep drops days that are older than LOG_RETENTION_DAYS. The inverted
 * index has the sequences of four characters of messages: a search for a text reads the parts that have all of its
 * own, whatever the words are.
 */
const LOG_LINES = `
  create table if not exists log_lines (
    tenant_id UUID,
    kind LowCardinality(String),
    timestamp DateTime64(3, 'UTC') codec(DoubleDelta, ZSTD),
    revision_id UUID,
    number UInt32,
    deployment_id UUID,
    severity UInt8,
    process LowCardinality(Nullable(String)),
    message String codec(ZSTD),
    attributes Map(LowCardinality(String), String) codec(ZSTD),
    types Map(LowCardinality(String), String) codec(ZSTD),
    request_id String codec(ZSTD),
    trace_id String codec(ZSTD),
    day Date,
    index message_text lowerUTF8(message) type text(tokenizer = ngrams(4)),
    index of_request request_id type bloom_filter(0.01) granularity 1,
    index of_trace trace_id type bloom_filter(0.01) granularity 1,
    index of_members mapValues(attributes) type bloom_filter(0.01) granularity 1,
    index of_deployment deployment_id type set(100) granularity 1
  )
  engine = ReplacingMergeTree
  partition by day
  order by (tenant_id, kind, timestamp, revision_id, number)
  settings index_granularity = 1024`

/** Statements read lines through this view only, which cannot be read without naming a workspace. */
const LOG_LINES_OF = `
  create view if not exists log_lines_of as
  select *
  from log_lines
  where tenant_id = {tenant:UUID}`

export const LOG_MIGRATION = [LOG_LINES, LOG_LINES_OF]
