// Authentication and authorization by the application's own code: `auth.path` of the file. Its executor runs it.
import type { AuthSettings } from './configuration.ts'
import type { Query } from './database.ts'
import { HttpError, notFound } from './errors.ts'
import type { Executor } from './executor.ts'
import { type JsonObject, toJsonb } from './values.ts'

export type User = JsonObject & { identity: string }
/** `kind:action`, such as `threads:read`: the words of the handlers. */
export type Access = `${'threads' | 'assistants' | 'crons' | 'store'}:${string}`
/** An answer of a handler: `filters` must fit the metadata of what is read or changed. */
export type Grant = { filters: JsonObject | null; value: JsonObject }

/** The caller that has the key of the deployment. Handlers are asked about it as about every other. */
const STUDIO_USER: User = {
  identity: 'langgraph-studio-user',
  display_name: 'langgraph-studio-user',
  kind: 'StudioUser',
  is_authenticated: true,
  permissions: [],
}

/** Claims of a token may be in a user as they are, and handlers let the user of the studio do everything. */
function withoutKind({ kind, ...rest }: User): User {
  return { ...rest, ...(kind !== undefined && kind !== STUDIO_USER.kind && { kind }) } as User
}

export class Auth {
  readonly settings: AuthSettings
  readonly #executor: Executor
  readonly #cache = new Map<string, { user: User; until: number }>()

  constructor(settings: AuthSettings, executor: Executor) {
    this.settings = settings
    this.#executor = executor
  }

  get studioUser(): User | null {
    return this.settings.disable_studio_auth ? null : STUDIO_USER
  }

  async authenticate(request: Request): Promise<User> {
    const key = this.#cacheKey(request)
    const cached = key === undefined ? undefined : this.#cache.get(key)
    if (cached && cached.until > Date.now()) return cached.user
    const { method, url } = request
    const answer = await this.#ask('authenticate', { method, url, headers: [...request.headers] })
    const known = JSON.parse(answer) as User | null
    if (!known) throw new HttpError(401, 'The authentication of this application does not know the caller.')
    const user = withoutKind(known)
    if (key !== undefined) this.#remember(key, user)
    return user
  }

  #cacheKey(request: Request): string | undefined {
    const values = this.settings.cache?.cache_keys.map(name => request.headers.get(name))
    // Callers with none of them, such as those with a cookie instead, would all be the first one.
    return values?.some(value => value !== null) ? JSON.stringify(values) : undefined
  }

  /** Strangers must not read in an answer why the code failed. Its executor has logged it. */
  #ask(question: string, details: object): Promise<string> {
    return this.#executor.ask(question, details).catch(error => {
      if (!(error instanceof HttpError) || error.status !== 500) throw error
      throw new HttpError(500, 'The authentication of this application failed. Its log has the reason.')
    })
  }

  #remember(key: string, user: User): void {
    const { ttl_seconds, max_size } = this.settings.cache!
    if (this.#cache.size >= max_size) this.#cache.delete(this.#cache.keys().next().value!)
    this.#cache.set(key, { user, until: Date.now() + ttl_seconds * 1000 })
  }

  /** Asks the handler of an action, which may change the value. Throws if it refuses. */
  async authorize(user: User, access: Access, value: JsonObject): Promise<Grant> {
    const [resource, action] = access.split(':')
    const answer = JSON.parse(await this.#ask('authorize', { user, resource, action, value }))
    if (answer.filters === false) throw new HttpError(403, 'The application does not allow this.')
    return answer as Grant
  }
}

const KINDS: Record<string, { table: string; key: string; name: string }> = {
  threads: { table: 'graphs.threads', key: 'thread_id', name: 'Thread' },
  assistants: { table: 'graphs.assistants', key: 'assistant_id', name: 'Assistant' },
  crons: { table: 'graphs.crons', key: 'cron_id', name: 'Cron' },
}

/** To a caller who may not see it, a resource is not there. One that is not there at all is the route's to report. */
export async function checkAdmitted(query: Query, kind: string, id: string, filters: JsonObject): Promise<void> {
  const { table, key, name } = KINDS[kind]!
  const [row] = await query(
    `select graphs.admits(metadata, $2::jsonb) as is_admitted from ${table} where ${key} = $1::uuid`,
    [id, toJsonb(filters)],
  )
  if (row && !row.is_admitted) throw notFound(name, id)
}

/** Threads of a list that the caller may see. */
export async function findAdmitted(query: Query, threadIds: string[], filters: JsonObject): Promise<string[]> {
  const rows = await query(
    'select thread_id from graphs.threads where thread_id = any ($1::uuid[]) and graphs.admits(metadata, $2::jsonb)',
    [threadIds, toJsonb(filters)],
  )
  return rows.map(row => row.thread_id)
}
