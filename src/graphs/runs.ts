// Runs, as callers create, read and cancel them. queue.ts has the side of the workers.
import type { KnownAssistants } from './assistants.ts'
import type { User } from './auth.ts'
import { type Database, type Query, type Row, withinAnswer } from './database.ts'
import { HttpError, notFound } from './errors.ts'
import type { Usage } from './limits.ts'
import { type ClaimedRun, LEASE_END } from './queue.ts'
import { createThread } from './threads.ts'
import { assistantIdOf, isUuid, type JsonObject, toJsonb, uuid7 } from './values.ts'

type Strategy = 'reject' | 'rollback' | 'interrupt' | 'enqueue'
export type CancelAction = 'interrupt' | 'rollback'
/** Set by the server and never by a request: who starts the run, and the metadata that a thread of its own gets. */
export const CALLER: unique symbol = Symbol('caller')
export type Caller = { user?: User; marks: JsonObject }
/** Members of the configuration by which a graph knows its caller. */
export const configOfCaller = (user: User | undefined): JsonObject =>
  user
    ? {
        langgraph_auth_user: user,
        langgraph_auth_user_id: user.identity,
        langgraph_auth_permissions: user.permissions ?? [],
      }
    : {}

/** Members of a request that the executor gets as they are. */
export type RunRequest = {
  [CALLER]?: Caller | undefined
  assistant_id: string
  input?: unknown
  command?: JsonObject | null | undefined
  config?: JsonObject | null | undefined
  context?: unknown
  metadata?: JsonObject | null | undefined
  checkpoint?: JsonObject | null | undefined
  checkpoint_id?: string | null | undefined
  stream_mode?: string | string[] | null | undefined
  stream_subgraphs?: boolean | null | undefined
  interrupt_before?: unknown
  interrupt_after?: unknown
  durability?: string | null | undefined
  webhook?: string | null | undefined
  feedback_keys?: string[] | null | undefined
  multitask_strategy?: Strategy | null | undefined
  after_seconds?: number | null | undefined
  if_not_exists?: 'create' | 'reject' | null | undefined
  on_completion?: 'delete' | 'keep' | null | undefined
  langsmith_tracer?: { project_name?: string | undefined; example_id?: string | undefined } | null | undefined
}

const COLUMNS = 'run_id, thread_id, assistant_id, status, metadata, kwargs, multitask_strategy, created_at, updated_at'
export const hasEnded = (status: string) => status !== 'pending' && status !== 'running'

/** The id of an assistant by its id or by the name of its graph. */
export const resolveAssistantId = (given: string) => (isUuid(given) ? given : assistantIdOf(given))

/** The parts of a server that a new run needs. */
type Parts = { db: Database; assistants: KnownAssistants; usage: Usage; worker: Slots }
type Slots = {
  reserve(graphId: string): { owner: string; begin(run: ClaimedRun | null): void } | undefined
}

/** With `hasProtocol`, the run emits events of the newer streaming protocol in place of modes. */
type CreationOptions = { hasProtocol?: boolean; runId?: string | undefined }

/**
 * A run that only queues is one statement, which needs no transaction. This copy begins it at once if it has a slot and
 * nothing is before it, without a look at the queue.
 */
export async function createRun(
  server: Parts,
  threadId: string | null,
  request: RunRequest,
  options?: CreationOptions,
): Promise<Row> {
  server.usage.admitRun(threadId !== null)
  if (strategyOf(request) !== 'enqueue')
    return server.db.transaction(query => insertRun(server, query, threadId, request, options))
  try {
    return await insertRun(server, server.db.query, threadId, request, { ...options, isClaiming: true })
  } catch (error) {
    // Another run of the thread began in the same moment.
    if ((error as { constraint?: string }).constraint !== 'runs_one_running') throw error
    return insertRun(server, server.db.query, threadId, request, options)
  }
}

const strategyOf = ({ multitask_strategy }: RunRequest) => multitask_strategy ?? 'enqueue'

/** Inserts a run on a thread, or on a thread of its own that is deleted afterwards. */
export async function insertRun(
  server: Parts,
  query: Query,
  threadId: string | null,
  request: RunRequest,
  { hasProtocol = false, runId = uuid7(), isClaiming = false }: CreationOptions & { isClaiming?: boolean } = {},
): Promise<Row> {
  const strategy = strategyOf(request)
  const isTemporary = threadId === null && request.on_completion !== 'keep'
  const target = threadId ?? uuid7()
  const assistantId = resolveAssistantId(request.assistant_id)
  async function insert(): Promise<Row | undefined> {
    const assistant = await server.assistants.get(query, assistantId)
    if (!assistant) throw new HttpError(404, `Assistant ${request.assistant_id} was not found.`)
    const { graph_id } = assistant
    const kwargs = JSON.stringify({
      ...toKwargs(request, assistant, { runId, threadId: target, isTemporary }),
      ...(hasProtocol && { protocol: true }),
    })
    // Both have what is of the assistant, however short the request is.
    const metadata = toJsonb({ ...assistant.metadata, ...request.metadata }) ?? '{}'
    server.usage.admitBytes(kwargs.length + metadata.length)
    const slot = isClaiming && !request.after_seconds ? server.worker.reserve(graph_id) : undefined
    let begun: ClaimedRun | null = null
    try {
      const [row] = await query(threadId === null ? INSERT_WITH_THREAD : INSERT_ON_THREAD, [
        runId,
        target,
        assistant.assistant_id,
        graph_id,
        toJsonb({
          ...(threadId === null && request[CALLER]?.marks),
          graph_id,
          assistant_id: assistant.assistant_id,
        }),
        metadata,
        kwargs,
        strategy,
        toJsonb(request.config) ?? '{}',
        request.after_seconds ?? 0,
        isTemporary,
        assistant.row_version,
        slot?.owner ?? null,
        ...(threadId === null ? [] : [server.usage.limits.queuedRunsOfThread]),
      ])
      if (!row) return undefined
      const { woken: _, ...run } = row
      if (run.status === 'running')
        begun = { ...run, graph_id, attempt: 1, cancel_action: null, claimed_at: run.created_at } as ClaimedRun
      // A run that was just created is pending, as callers know it from the reference.
      return { ...run, status: 'pending' }
    } finally {
      slot?.begin(begun)
    }
  }
  if (threadId !== null && strategy !== 'enqueue') await makeRoom(query, target, strategy)
  const run = await insert()
  if (run) return run
  // The assistant may have changed since this copy read it.
  server.assistants.forget(assistantId)
  if (threadId !== null && !(await hasThread(query, target))) {
    if (request.if_not_exists !== 'create') throw notFound('Thread', target)
    server.usage.admitThread()
    await createThread(query, target, { metadata: request[CALLER]?.marks ?? {} })
  }
  const second = await insert()
  if (second) return second
  throw server.usage.refuseRunOfThread(target)
}

async function hasThread(query: Query, id: string): Promise<boolean> {
  return (await query('select from graphs.threads where thread_id = $1', [id])).length > 0
}

/** A run with an owner is claimed by it, if no other is before it. */
const insertAfter = (thread: string) => `with thread as (${thread}),
    run as (
      insert into graphs.runs (
        run_id, thread_id, assistant_id, graph_id, metadata, kwargs, multitask_strategy, start_at, status, attempt,
        lease_owner, lease_until
      )
      select $1::uuid, thread_id, $3::uuid, $4, $6::jsonb, $7::json, $8, now() + $10::float8 * interval '1 second',
        case when is_claimed then 'running' else 'pending' end,
        is_claimed::int,
        case when is_claimed then $13::uuid end,
        case when is_claimed then ${LEASE_END} end
      from thread
      cross join lateral (
        select $13::uuid is not null
          and not exists (select from graphs.runs o where o.thread_id = thread.thread_id and o.status = 'running')
          and not exists (select from graphs.runs o where o.thread_id = thread.thread_id and o.status = 'pending')
      ) as claim (is_claimed)
      returning ${COLUMNS}
    )
    select run.*, case when status = 'pending' then pg_notify('graphs_runs', '') end as woken from run`
const OF_ASSISTANT = 'from graphs.assistants a where a.assistant_id = $3::uuid and a.xmin = $12::text::xid'
const INSERT_WITH_THREAD = insertAfter(
  `insert into graphs.threads (thread_id, status, metadata, config, is_temporary)
  select $2::uuid, 'busy', $5::jsonb, $9::jsonb, $11::boolean ${OF_ASSISTANT}
  returning thread_id`,
)
const INSERT_ON_THREAD = insertAfter(
  `update graphs.threads
  set status = 'busy', metadata = metadata || $5::jsonb, config = $9::jsonb, updated_at = now(),
    is_temporary = is_temporary and $11::boolean
  where thread_id = $2::uuid
    and exists (select ${OF_ASSISTANT})
    and (select count(*) from graphs.runs q where q.thread_id = $2::uuid and q.status = 'pending') < $14::int
  returning thread_id`,
)

/** Locks the thread, and applies the strategy for runs that are there already. */
async function makeRoom(query: Query, threadId: string, strategy: Exclude<Strategy, 'enqueue'>): Promise<void> {
  await query('select from graphs.threads where thread_id = $1 for update', [threadId])
  const inFlight = await query(
    `select run_id from graphs.runs where thread_id = $1 and status in ('pending', 'running')`,
    [threadId],
  )
  if (inFlight.length === 0) return
  if (strategy === 'reject')
    throw new HttpError(
      409,
      'The thread is already running a task. Wait for it to finish, or choose another multitask_strategy.',
    )
  await cancelLocked(
    query,
    inFlight.map(run => run.run_id),
    strategy,
  )
}

function toKwargs(
  request: RunRequest,
  assistant: Row,
  { runId, threadId, isTemporary }: { runId: string; threadId: string; isTemporary: boolean },
): JsonObject {
  const own = (request.config ?? {}) as { configurable?: JsonObject; metadata?: JsonObject }
  const ids = { run_id: runId, thread_id: threadId, graph_id: assistant.graph_id, assistant_id: assistant.assistant_id }
  const checkpoint = Object.fromEntries(
    Object.entries({
      ...request.checkpoint,
      checkpoint_id: request.checkpoint_id ?? request.checkpoint?.checkpoint_id,
    }).filter(([name, value]) => name !== 'thread_id' && value !== null && value !== undefined),
  )
  const tracer = request.langsmith_tracer
  const config = {
    ...assistant.config,
    ...own,
    configurable: {
      ...assistant.config.configurable,
      ...own.configurable,
      ...checkpoint,
      ...configOfCaller(request[CALLER]?.user),
      ...(tracer && { langsmith_project: tracer.project_name, langsmith_example_id: tracer.example_id }),
      ...ids,
    },
    metadata: { ...assistant.config.metadata, ...own.metadata, ...request.metadata, ...ids },
  }
  const modes = request.stream_mode ?? []
  return {
    input: request.input ?? null,
    command: request.command ?? undefined,
    config,
    context: mergeContext(assistant.context, request.context),
    stream_mode: Array.isArray(modes) ? (modes.length > 0 ? modes : ['values']) : [modes],
    subgraphs: request.stream_subgraphs ?? false,
    interrupt_before: request.interrupt_before ?? undefined,
    interrupt_after: request.interrupt_after ?? undefined,
    durability: request.durability ?? undefined,
    webhook: request.webhook ?? undefined,
    feedback_keys: request.feedback_keys?.length ? request.feedback_keys : undefined,
    temporary: isTemporary,
  }
}

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
function mergeContext(ofAssistant: unknown, ofRun: unknown): unknown {
  if (isObject(ofAssistant) && isObject(ofRun)) return { ...ofAssistant, ...ofRun }
  const context = ofRun ?? ofAssistant
  return isObject(context) && Object.keys(context).length === 0 ? undefined : context
}

export async function getRun(query: Query, runId: string, threadId?: string): Promise<Row> {
  const [run] = await query(
    `select ${COLUMNS} from graphs.runs where run_id = $1 and ($2::uuid is null or thread_id = $2)`,
    [runId, threadId ?? null],
  )
  if (!run) throw notFound('Run', runId)
  return run
}

export const listRuns = (
  query: Query,
  threadId: string,
  { limit, offset, status }: { limit: number; offset: number; status?: string | undefined },
): Promise<Row[]> =>
  query(
    withinAnswer(`select ${COLUMNS}
    from graphs.runs
    where thread_id = $1 and ($2::text is null or status = $2)
    order by run_id desc
    limit $3 offset $4`),
    [threadId, status ?? null, limit, offset],
  )

/** Deletes a run that has ended. Its checkpoints stay: the state of the thread is built on them. */
export const deleteRun = (db: Database, threadId: string, runId: string): Promise<void> =>
  db.transaction(async query => {
    const [run] = await query('select status from graphs.runs where run_id = $1 and thread_id = $2 for update', [
      runId,
      threadId,
    ])
    if (!run) throw notFound('Run', runId)
    if (!hasEnded(run.status))
      throw new HttpError(409, `Run ${runId} is ${run.status}. Cancel it before you delete it.`)
    await removeRun(query, runId)
  })

export async function removeRun(query: Query, runId: string): Promise<void> {
  await query(
    `with events as (delete from graphs.events where run_id = $1)
    delete from graphs.runs where run_id = $1`,
    [runId],
  )
}

/** Ids of runs to cancel, by ids or by status. */
export async function findRuns(
  query: Query,
  {
    threadId,
    runIds,
    status,
    filters,
  }: { threadId?: string; runIds?: string[]; status?: 'pending' | 'running' | 'all'; filters: JsonObject | null },
): Promise<string[]> {
  const statuses = status === undefined || status === 'all' ? ['pending', 'running'] : [status]
  const rows = await query(
    `select run_id
    from graphs.runs r
    where ($1::uuid is null or thread_id = $1)
      and ($2::uuid[] is null or run_id = any ($2))
      and ($2::uuid[] is not null or status = any ($3))
      and ($4::jsonb is null or exists (
        select from graphs.threads t where t.thread_id = r.thread_id and graphs.admits(t.metadata, $4)
      ))`,
    [threadId ?? null, runIds ?? null, statuses, toJsonb(filters)],
  )
  return rows.map(row => row.run_id)
}

export const cancelRuns = (db: Database, runIds: string[], action: CancelAction): Promise<void> =>
  db.transaction(async query => {
    // Threads before runs, as in the creation and the end of a run.
    await query(
      `select from graphs.threads
      where thread_id in (select thread_id from graphs.runs where run_id = any ($1::uuid[]))
      order by thread_id
      for update`,
      [runIds],
    )
    await cancelLocked(query, runIds, action)
  })

/** A waiting run ends here. A running one ends where it runs: its worker is told. The threads are locked. */
async function cancelLocked(query: Query, runIds: string[], action: CancelAction): Promise<void> {
  const waiting = await query(
    action === 'rollback'
      ? `delete from graphs.runs where run_id = any ($1::uuid[]) and status = 'pending' returning run_id, thread_id`
      : `update graphs.runs
        set status = 'interrupted', updated_at = now()
        where run_id = any ($1::uuid[]) and status = 'pending'
        returning run_id, thread_id`,
    [runIds],
  )
  await query(
    `with cancelled as (
      update graphs.runs
      set cancel_action = $2
      where run_id = any ($1::uuid[]) and status = 'running'
      returning run_id
    )
    select pg_notify('graphs_control', run_id::text) from cancelled`,
    [runIds, action],
  )
  if (waiting.length === 0) return
  await query(
    `with idle as (
      update graphs.threads t
      set status = case when interrupts = '{}' then 'idle' else 'interrupted' end, updated_at = now(),
        expires_at = case when is_temporary then now() + interval '10 minutes' else expires_at end
      where thread_id = any ($1::uuid[])
        and not exists (
          select from graphs.runs r where r.thread_id = t.thread_id and r.status in ('pending', 'running')
        )
    )
    select pg_notify('graphs_events', run_id::text) from unnest($2::uuid[]) as run_id`,
    [waiting.map(run => run.thread_id), waiting.map(run => run.run_id)],
  )
}
