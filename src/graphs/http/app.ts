// The routes behind the key, with errors in one form.
import { type Context, Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { cors } from 'hono/cors'
import { matchedRoutes } from 'hono/route'
import { isDataError, isTimeout, isTooLong } from '../database.ts'
import { HttpError, StartError } from '../errors.ts'
import { ExecutorEnded } from '../executor.ts'
import { allowedOrigins } from '../origins.ts'
import type { Server } from '../server.ts'
import { identify } from './access.ts'
import { findHidden, passOn } from './application.ts'
import { assistantRoutes } from './assistants.ts'
import { cronRoutes } from './crons.ts'
import { mcpRoutes } from './mcp.ts'
import { createMetaRoutes, SLEEP_PATH } from './meta.ts'
import { protocolRoutes } from './protocol.ts'
import { type Group, mount, type Route, type Variables } from './route.ts'
import { runRoutes } from './runs.ts'
import { storeRoutes } from './store.ts'
import { threadRoutes } from './threads.ts'

/** `disable_meta` only makes `/ok` skip its check, as in the reference. */
const SWITCHES: Partial<Record<Group, string>> = {
  assistants: 'disable_assistants',
  threads: 'disable_threads',
  runs: 'disable_runs',
  crons: 'disable_runs',
  store: 'disable_store',
  mcp: 'disable_mcp',
}

function listRoutes({ configuration }: Server): Route[] {
  const meta: Route[] = createMetaRoutes(() => served)
  const served = [
    ...assistantRoutes,
    ...threadRoutes,
    ...runRoutes,
    ...protocolRoutes,
    ...cronRoutes,
    ...storeRoutes,
    ...mcpRoutes,
    ...meta,
  ]
    .filter(({ group }) => !configuration.http?.[SWITCHES[group] ?? ''])
    // Fixed words before parameters: `/threads/search` before `/threads/{thread_id}`.
    .sort((a, b) => Number(a.path.includes('{')) - Number(b.path.includes('{')))
  return served
}

const LARGEST_BODY_BYTES = 100 * 2 ** 20

const problem = (status: number, detail: string, retryAfter?: number) =>
  new Response(JSON.stringify({ status, detail, message: detail }), {
    status,
    headers: {
      'Content-Type': 'application/problem+json',
      ...(retryAfter !== undefined && { 'Retry-After': `${retryAfter}` }),
    },
  })

const SLOW = 'The database took too long. Ask for less, such as by a smaller `limit` or a filter, or try again later.'

function answerError(error: unknown, context: Context): Response {
  if (error instanceof HttpError) return problem(error.status, error.message, error.retryAfter)
  if (error instanceof ExecutorEnded) return problem(503, `${error.message} It is starting again. Try again.`, 1)
  if (isTooLong(error)) return problem(413, error.message)
  console.error(`request failed ${context.req.method} ${context.req.path}:`, error)
  if (isTimeout(error)) return problem(503, SLOW, 10)
  // Such as text that is no date, or too long for an index.
  if (isDataError(error)) return problem(422, 'The database refused a value of the request.')
  return problem(500, 'The server failed. Its log has the reason.')
}

/** It came by a router, so that its caller may be anyone. */
const isForwarded = ({ headers }: Request) => headers.has('X-Forwarded-For') || headers.has('Forwarded')

export function createApp(server: Server): Hono<Variables> {
  const { configuration } = server
  const root = new Hono<Variables>()
  const prefix = configuration.http?.mount_prefix ?? ''
  const app = prefix ? root.basePath(prefix) : root
  const rules = configuration.http?.cors
  app.use(
    cors({
      origin: allowedOrigins(rules),
      ...(rules?.allow_methods && { allowMethods: rules.allow_methods }),
      ...(rules?.allow_headers && { allowHeaders: rules.allow_headers }),
      exposeHeaders: rules?.expose_headers ?? [
        'Content-Location',
        'Location',
        'X-Pagination-Next',
        'X-Pagination-Total',
      ],
      ...(rules?.allow_credentials && { credentials: true }),
      ...(rules?.max_age && { maxAge: rules.max_age }),
    }),
  )
  app.use(async (context, next) => {
    // A route of ours has a method.
    const isOurs = () => matchedRoutes(context).some(({ method }) => method !== 'ALL')
    const { path } = context.req
    const isHealth = path === `${prefix}/ok` || (path === prefix + SLEEP_PATH && !isForwarded(context.req.raw))
    const isOpen = isHealth || (configuration.app?.isOpen && !isOurs())
    context.set('user', isOpen ? null : await identify(server, context.req.raw))
    await next()
  })
  app.use(
    bodyLimit({
      maxSize: LARGEST_BODY_BYTES,
      onError: () => problem(413, `The body is larger than ${LARGEST_BODY_BYTES} bytes. Send less, or a reference.`),
    }),
  )
  const routes = listRoutes(server)
  mount(app, server, routes)
  mountApplication(app, server, routes)
  root.notFound(({ req }) => problem(404, `${req.method} ${req.path} is not a path of this server. See /docs.`))
  root.onError(answerError)
  return root
}

/** All that is not ours is the application's. */
function mountApplication(app: Hono<Variables>, { appSocket, configuration, executors }: Server, ours: Route[]): void {
  if (appSocket === null) return
  const hidden = findHidden(
    ours,
    executors.flatMap(executor => executor.routes),
  )
  if (hidden.length > 0)
    throw new StartError(
      `\`http.app\` has routes that are this server’s: ${hidden.join(', ')}. Give them other paths, or switch ours ` +
        'off by `http.disable_assistants` and the like.',
    )
  const prefix = configuration.http?.mount_prefix ?? ''
  app.all('*', context => {
    const { pathname, search } = new URL(context.req.url)
    const path = `${pathname.slice(prefix.length) || '/'}${search}`
    return passOn(appSocket, context.req.raw, { path, user: context.get('user') ?? null })
  })
}
