// The store: items by namespace and key, for graphs and for callers. Searches filter by value.
import type { Configuration } from './configuration.ts'
import { type Database, type Query, type Row, withinAnswer } from './database.ts'
import { type Embeddings, similarity } from './embeddings.ts'
import { HttpError } from './errors.ts'
import type { StoreOperation } from './store-operations.ts'
import { toJsonb } from './values.ts'

type StoreTtl = { default_ttl?: number | null | undefined; refresh_on_read?: boolean | null | undefined }

const COLUMNS = 'namespace, key, value, created_at, updated_at'
const ALIVE = '(expires_at is null or expires_at > now())'
const EXPIRY = (minutes: string) =>
  `case when ${minutes} is null then null else now() + ${minutes} * interval '1 minute' end`
const REFRESH = `update graphs.store s
    set expires_at = ${EXPIRY('s.ttl_minutes')}
    from found f
    where s.namespace = f.namespace and s.key = f.key and s.ttl_minutes is not null`

type Store = { db: Database; embeddings: Embeddings | null; configuration: Pick<Configuration, 'store'> }

/** The answer of an operation, in the words of the wire. */
export async function runStoreOperation(
  { db, embeddings, configuration }: Store,
  operation: StoreOperation,
): Promise<unknown> {
  const ttl: StoreTtl = configuration.store?.ttl ?? {}
  switch (operation.op) {
    case 'put':
      return putItem(db, operation, ttl, embeddings)
    case 'get':
      return getItem(db.query, operation, ttl)
    case 'search':
      return operation.query
        ? searchByMeaning(db.query, operation, ttl, needEmbeddings(embeddings))
        : searchItems(db.query, operation, ttl)
    case 'namespaces':
      return listNamespaces(db.query, operation)
  }
}

function needEmbeddings(embeddings: Embeddings | null): Embeddings {
  if (embeddings) return embeddings
  throw new HttpError(
    422,
    '`query`: the store has no index. Add `store.index` to langgraph.json, or search by `filter`.',
  )
}

type Operation<Name> = Extract<StoreOperation, { op: Name }>

async function putItem(
  db: Database,
  { namespace, key, value, ttl, index }: Operation<'put'>,
  defaults: StoreTtl,
  embeddings: Embeddings | null,
) {
  if (value === null) {
    await db.query('delete from graphs.store where namespace = $1 and key = $2', [namespace, key])
    return null
  }
  if (Array.isArray(index)) needEmbeddings(embeddings)
  const vectors = embeddings ? await embeddings.embed(embeddings.textsOf(value, index)) : []
  const values = [namespace, key, toJsonb(value), ttl === undefined ? (defaults.default_ttl ?? null) : ttl]
  if (!embeddings) await db.query(PUT, values)
  else
    await db.transaction(async query => {
      await query(PUT, values)
      await query('delete from graphs.store_vectors where namespace = $1 and key = $2', [namespace, key])
      for (const vector of vectors)
        await query('insert into graphs.store_vectors (namespace, key, vector) values ($1, $2, $3)', [
          namespace,
          key,
          vector,
        ])
    })
  return null
}

const PUT = `insert into graphs.store (namespace, key, value, ttl_minutes, expires_at)
    values ($1, $2, $3, $4, ${EXPIRY('$4::float8')})
    on conflict (namespace, key) do update
    set value = excluded.value, ttl_minutes = excluded.ttl_minutes, expires_at = excluded.expires_at,
      updated_at = now()`

async function getItem(query: Query, { namespace, key, refresh_ttl }: Operation<'get'>, ttl: StoreTtl) {
  const found = `select ${COLUMNS} from graphs.store where namespace = $1 and key = $2 and ${ALIVE}`
  return (await readItems(query, found, [namespace, key], refresh_ttl ?? ttl.refresh_on_read ?? true))[0] ?? null
}

/** Values of a filter: equal, or compared by operators such as `$gt`. */
const COMPARISONS: Record<string, string> = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=', $eq: '=', $ne: '<>' }

const FOUND = `${ALIVE}
      and s.namespace[1:cardinality($1::text[])] = $1
      and ($2::jsonb is null or value @> $2)
      and not exists (
        select from unnest($3::text[], $4::text[], $5::jsonb[]) as compared (name, word, bound)
        where not coalesce(
          case word
            ${Object.entries(COMPARISONS)
              .map(([word, operator]) => `when '${word}' then value -> name ${operator} bound`)
              .join(' ')}
          end,
          false
        )
      )`
const SEARCH = `select ${COLUMNS}
    from graphs.store s
    where ${FOUND}
    order by updated_at desc, namespace, key
    limit $6 offset $7`

/** One text for all filters: Postgres keeps what it has planned, and a caller could fill its memory. */
function foundValues({ prefix, filter }: Operation<'search'>): unknown[] {
  const equal: [name: string, value: unknown][] = []
  const compared: [name: string, operator: string, bound: string][] = []
  for (const [name, wanted] of Object.entries(filter ?? {})) {
    const operators = Object.entries(Object(wanted))
    const areCompared = operators.length > 0 && operators.every(([word]) => Object.hasOwn(COMPARISONS, word))
    if (!areCompared) equal.push([name, wanted])
    else for (const [word, bound] of operators) compared.push([name, word, toJsonb(bound) ?? 'null'])
  }
  const columns = [0, 1, 2].map(i => compared.map(one => one[i]))
  return [prefix, equal.length > 0 ? toJsonb(Object.fromEntries(equal)) : null, ...columns]
}

function searchItems(query: Query, operation: Operation<'search'>, ttl: StoreTtl): Promise<Row[]> {
  const { limit, offset, refresh_ttl } = operation
  const values = [...foundValues(operation), limit, offset]
  return readItems(query, SEARCH, values, refresh_ttl ?? ttl.refresh_on_read ?? true)
}

/** All vectors of what a search finds are compared: Postgres has no index of meanings without an extension. */
const MOST_VECTORS = 20_000
const VECTORS_OF_PAGE = 1000
const VECTORS = `select v.id, v.vector, jsonb_build_array(v.namespace, v.key)::text as item
    from graphs.store_vectors v
    join graphs.store s using (namespace, key)
    where v.id > $6 and ${FOUND}
    order by v.id
    limit ${VECTORS_OF_PAGE}`
const BY_VECTORS = `select ${COLUMNS}, nearest.score
    from unnest($1::bigint[], $2::float8[]) with ordinality as nearest (id, score, place)
    join graphs.store_vectors v using (id)
    join graphs.store s using (namespace, key)
    where ${ALIVE}
    order by place`

async function searchByMeaning(
  query: Query,
  operation: Operation<'search'>,
  ttl: StoreTtl,
  embeddings: Embeddings,
): Promise<Row[]> {
  const [bytes] = await embeddings.embed([operation.query!])
  const wanted = new Float32Array(Uint8Array.from(bytes!).buffer)
  const nearest = await findNearest(query, foundValues(operation), wanted)
  const page = nearest.slice(operation.offset, operation.offset + operation.limit)
  const values = [page.map(one => one.id), page.map(one => one.score)]
  return readItems(query, BY_VECTORS, values, operation.refresh_ttl ?? ttl.refresh_on_read ?? true)
}

/** The nearest vector of each item. */
async function findNearest(query: Query, values: unknown[], wanted: Float32Array) {
  const best = new Map<string, { id: string; score: number }>()
  let count = 0
  for (let last = '0'; ; ) {
    const rows = await query(VECTORS, [...values, last])
    count += rows.length
    if (count > MOST_VECTORS)
      throw new HttpError(
        422,
        `\`query\`: more than ${MOST_VECTORS} texts would be compared. Use a longer prefix, or a \`filter\`.`,
      )
    for (const { id, item, vector } of rows) {
      const score = similarity(wanted, vector)
      if (score > (best.get(item)?.score ?? Number.NEGATIVE_INFINITY)) best.set(item, { id, score })
    }
    if (rows.length < VECTORS_OF_PAGE) return [...best.values()].sort((a, b) => b.score - a.score)
    last = rows.at(-1)!.id
  }
}

const readItems = (query: Query, found: string, values: unknown[], isRefreshing: boolean): Promise<Row[]> =>
  query(
    isRefreshing
      ? withinAnswer('select * from found', `found as (${found})`, `refreshed as (${REFRESH})`)
      : withinAnswer(found),
    values,
  )

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
