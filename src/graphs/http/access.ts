// The caller of a request, and what the application lets the caller do.
import { createHash, timingSafeEqual } from 'node:crypto'
import { type Access, checkAdmitted, type User } from '../auth.ts'
import { HttpError } from '../errors.ts'
import { CALLER, resolveAssistantId } from '../runs.ts'
import { exactMembers } from '../search.ts'
import type { Server } from '../server.ts'
import { assistantIdOf, type JsonObject } from '../values.ts'

const digest = (text: string) => createHash('sha256').update(text).digest()
function hasKey(request: Request, apiKey: string): boolean {
  const given = request.headers.get('X-Api-Key') ?? request.headers.get('Authorization')?.replace(/^Bearer /i, '') ?? ''
  return timingSafeEqual(digest(given), digest(apiKey))
}

/** The caller by the authentication of the application. Null without one: the key of the deployment is enough then. */
export async function identify({ apiKey, auth }: Server, request: Request): Promise<User | null> {
  const isKeyed = apiKey !== undefined && hasKey(request, apiKey)
  if (auth) return (isKeyed && auth.studioUser) || auth.authenticate(request)
  if (apiKey === undefined || isKeyed) return null
  throw new HttpError(401, 'The key is missing or wrong. Send the key of this deployment in X-Api-Key.')
}

type Asking = { server: Server; user: User | null }
type Parts = { params?: JsonObject | undefined; query?: JsonObject | undefined; body?: unknown }
type Admitted = Parts & { filters: JsonObject | null }

/** Asks the application about a request. It may change the request, and answer filters that rows must fit. */
export async function admit(asking: Asking, access: Access | null, parts: Parts): Promise<Admitted> {
  const { auth } = asking.server
  if (!auth || !asking.user || access === null) return { ...parts, filters: null }
  if (Array.isArray(parts.body)) return admitBatch(asking, access, parts)
  if (access === 'crons:create' && parts.params?.thread_id) await admit(asking, 'threads:create_run', parts)
  if (STARTS_RUNS.includes(access)) await admitAssistant(asking, parts)
  const form = formOf(access)
  const { filters, value } = await auth.authorize(asking.user, access, form.toValue(parts))
  if (filters) await checkRow(asking.server, access, parts, filters)
  const admitted = form.fromValue(value, parts)
  if (!STARTS_RUNS.includes(access)) return { ...admitted, filters }
  const caller = { user: asking.user, marks: exactMembers(filters ?? {}) }
  return { ...admitted, body: { ...(admitted.body as JsonObject), [CALLER]: caller }, filters }
}
const STARTS_RUNS = ['threads:create_run', 'crons:create', 'crons:update']

/** Assistants of the graphs are everyone's. One that a caller made may be that caller's only, also to run it. */
async function admitAssistant(asking: Asking, { body }: Parts): Promise<void> {
  const { assistant_id: given } = (body ?? {}) as JsonObject
  if (typeof given !== 'string') return
  const assistant_id = resolveAssistantId(given)
  const { graphs } = asking.server.configuration
  if (graphs.some(({ id }) => assistantIdOf(id) === assistant_id)) return
  await admit(asking, 'assistants:read', { params: { assistant_id } })
}

async function admitBatch(asking: Asking, access: Access, parts: Parts): Promise<Admitted> {
  const bodies = []
  for (const body of parts.body as unknown[]) bodies.push((await admit(asking, access, { ...parts, body })).body)
  return { ...parts, body: bodies, filters: null }
}

/** The row that a request names, or brings an id for. */
async function checkRow(server: Server, access: Access, { params, body }: Parts, filters: JsonObject): Promise<void> {
  const { query } = server.db
  const [kind, action] = access.split(':') as [string, string]
  const given = { ...(action === 'create' && (body as JsonObject)), ...params } as Record<string, string | undefined>
  if (kind === 'crons' && given.cron_id) return checkAdmitted(query, kind, given.cron_id, filters)
  if (kind === 'assistants' && given.assistant_id)
    return checkAdmitted(query, kind, resolveAssistantId(given.assistant_id), filters)
  if (kind !== 'threads') return
  const threadId = given.thread_id ?? (given.run_id && (await findThread(server, given.run_id)))
  if (threadId) await checkAdmitted(query, kind, threadId, filters)
}

async function findThread({ db }: Server, runId: string): Promise<string | undefined> {
  const [run] = await db.query('select thread_id from graphs.runs where run_id = $1', [runId])
  return run?.thread_id
}

/** The value that a handler gets for a request, and the request that follows from what it made of the value. */
type Form = { toValue(parts: Parts): JsonObject; fromValue(value: JsonObject, parts: Parts): Parts }

function formOf(access: Access): Form {
  if (access === 'threads:create_run') return nested('kwargs', RUN_MEMBERS)
  if (access === 'crons:create' || access === 'crons:update') return nested('payload', CRON_MEMBERS)
  if (access === 'store:search') return flat('namespace_prefix')
  if (access === 'store:list_namespaces') return flat('prefix')
  return flat(undefined, access.endsWith(':create'))
}
const RUN_MEMBERS = ['assistant_id', 'metadata', 'multitask_strategy', 'if_not_exists', 'after_seconds']
const CRON_MEMBERS = ['schedule', 'timezone', 'end_time', 'enabled', 'on_run_completed', 'metadata', 'assistant_id']

/** Handlers write into metadata without looking whether there are some. */
const withMetadata = (value: JsonObject): JsonObject => ({ ...value, metadata: value.metadata ?? {} })

/** Members of a request as they are. `prefix`: the member that handlers know as the namespace. */
function flat(prefix?: string, isCreating = false): Form {
  return {
    toValue({ params, query, body }) {
      const value = { ...query, ...(body as JsonObject), ...params } as JsonObject
      if (!prefix) return isCreating || 'metadata' in value ? withMetadata(value) : value
      const { [prefix]: namespace, ...rest } = value
      return { ...rest, namespace: namespace ?? [] }
    },
    fromValue(value, { params, query, body }) {
      const { namespace, ...rest } = value
      const changed = prefix ? { ...rest, [prefix]: namespace } : value
      const own = Object.fromEntries(Object.entries(changed).filter(([name]) => !Object.hasOwn(params ?? {}, name)))
      return {
        params,
        query: query && { ...query, ...own },
        body: body && { ...(body as JsonObject), ...own },
      }
    },
  }
}

/** Members of a run in an object of their own, as handlers know them. */
function nested(inner: string, outer: string[]): Form {
  return {
    toValue({ params, body }) {
      const entries = Object.entries((body ?? {}) as JsonObject)
      const isOuter = ([name]: [string, unknown]) => outer.includes(name)
      return withMetadata({
        ...Object.fromEntries(entries.filter(isOuter)),
        ...params,
        [inner]: Object.fromEntries(entries.filter(entry => !isOuter(entry))),
      })
    },
    fromValue({ [inner]: own, ...value }, parts) {
      const changed = Object.entries(value).filter(([name]) => outer.includes(name) && name !== 'assistant_id')
      const body = { ...(parts.body as JsonObject), ...Object.fromEntries(changed), ...(own as JsonObject) }
      return { ...parts, body }
    },
  }
}
