// The store: items by namespace and key, for graphs and for callers. Searches filter by value.
import type { Query, Row } from './database.ts'
import { type JsonObject, toJsonb } from './values.ts'

export type StoreTtl = { default_ttl?: number | null | undefined; refresh_on_read?: boolean | null | undefined }

export type StoreOperation =
  | { op: 'put'; namespace: string[]; key: string; value: JsonObject | null; ttl?: number | null | undefined }
  | { op: 'get'; namespace: string[]; key: string; refresh_ttl?: boolean | null | undefined }
  | {
      op: 'search'
      prefix: string[]
      filter?: JsonObject | null | undefined
      limit: number
      offset: number
      refresh_ttl?: boolean | null | undefined
    }
  | {
      op: 'namespaces'
      prefix?: string[] | null | undefined
      suffix?: string[] | null | undefined
      max_depth?: number | null | undefined
      limit: number
      offset: number
    }

const COLUMNS = 'namespace, key, value, created_at, updated_at'
const ALIVE = '(expires_at is null or expires_at > now())'
const EXPIRY = (minutes: string) =>
  `case when ${minutes} is null then null else now() + ${minutes} * interval '1 minute' end`
const REFRESH = `update graphs.store s
    set expires_at = ${EXPIRY('s.ttl_minutes')}
    from found f
    where s.namespace = f.namespace and s.key = f.key and s.ttl_minutes is not null`

/** The answer of an operation, in the words of the wire. */
export async function runStoreOperation(query: Query, operation: StoreOperation, ttl: StoreTtl): Promise<unknown> {
  switch (operation.op) {
    case 'put':
      return putItem(query, operation, ttl)
    case 'get':
      return getItem(query, operation, ttl)
    case 'search':
      return searchItems(query, operation, ttl)
    case 'namespaces':
      return listNamespaces(query, operation)
  }
}

type Operation<Name> = Extract<StoreOperation, { op: Name }>

async function putItem(query: Query, { namespace, key, value, ttl }: Operation<'put'>, defaults: StoreTtl) {
  if (value === null) {
    await query('delete from graphs.store where namespace = $1 and key = $2', [namespace, key])
    return null
  }
  await query(
    `insert into graphs.store (namespace, key, value, ttl_minutes, expires_at)
    values ($1, $2, $3, $4, ${EXPIRY('$4::float8')})
    on conflict (namespace, key) do update
    set value = excluded.value, ttl_minutes = excluded.ttl_minutes, expires_at = excluded.expires_at,
      updated_at = now()`,
    [namespace, key, toJsonb(value), ttl === undefined ? (defaults.default_ttl ?? null) : ttl],
  )
  return null
}

async function getItem(query: Query, { namespace, key, refresh_ttl }: Operation<'get'>, ttl: StoreTtl) {
  const found = `select ${COLUMNS} from graphs.store where namespace = $1 and key = $2 and ${ALIVE}`
  return (await readItems(query, found, [namespace, key], refresh_ttl ?? ttl.refresh_on_read ?? true))[0] ?? null
}

/** Values of a filter: equal, or compared by operators such as `$gt`. */
const COMPARISONS: Record<string, string> = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=', $eq: '=', $ne: '<>' }

const SEARCH = `select ${COLUMNS}
    from graphs.store
    where ${ALIVE}
      and namespace[1:cardinality($1::text[])] = $1
      and ($4::jsonb is null or value @> $4)
      and not exists (
        select from unnest($5::text[], $6::text[], $7::jsonb[]) as compared (name, word, bound)
        where not coalesce(
          case word
            ${Object.entries(COMPARISONS)
              .map(([word, operator]) => `when '${word}' then value -> name ${operator} bound`)
              .join(' ')}
          end,
          false
        )
      )
    order by updated_at desc, namespace, key
    limit $2 offset $3`

/** One text for all filters: Postgres keeps what it has planned, and a caller could fill its memory. */
function searchItems(query: Query, operation: Operation<'search'>, ttl: StoreTtl): Promise<Row[]> {
  const equal: [name: string, value: unknown][] = []
  const compared: [name: string, operator: string, bound: string][] = []
  for (const [name, wanted] of Object.entries(operation.filter ?? {})) {
    const operators = Object.entries(Object(wanted))
    const areCompared = operators.length > 0 && operators.every(([word]) => Object.hasOwn(COMPARISONS, word))
    if (!areCompared) equal.push([name, wanted])
    else for (const [word, bound] of operators) compared.push([name, word, toJsonb(bound) ?? 'null'])
  }
  const columns = [0, 1, 2].map(i => compared.map(one => one[i]))
  const { prefix, limit, offset, refresh_ttl } = operation
  const contained = equal.length > 0 ? toJsonb(Object.fromEntries(equal)) : null
  const values = [prefix, limit, offset, contained, ...columns]
  return readItems(query, SEARCH, values, refresh_ttl ?? ttl.refresh_on_read ?? true)
}

const readItems = (query: Query, found: string, values: unknown[], isRefreshing: boolean): Promise<Row[]> =>
  query(isRefreshing ? `with found as (${found}), refreshed as (${REFRESH}) select * from found` : found, values)

async function listNamespaces(query: Query, operation: Operation<'namespaces'>): Promise<string[][]> {
  const { prefix, suffix, max_depth, limit, offset } = operation
  const rows = await query(
    `select distinct case when $3::int is null then namespace else namespace[1:$3] end as namespace
    from graphs.store
    where ${ALIVE}
      and ($1::text[] is null or graphs.matches_labels(namespace[1:cardinality($1)], $1))
      and (
        $2::text[] is null
        or graphs.matches_labels(namespace[greatest(1, cardinality(namespace) - cardinality($2) + 1):], $2)
      )
    order by 1
    limit $4 offset $5`,
    [prefix ?? null, suffix ?? null, max_depth ?? null, limit, offset],
  )
  return rows.map(row => row.namespace)
}
