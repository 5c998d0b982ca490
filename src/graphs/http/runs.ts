// Routes of runs: started, waited for, streamed, joined, cancelled.
import * as z from 'zod'
import { HttpError } from '../errors.ts'
import { cancelRuns, createRun, deleteRun, findRuns, getRun, insertRun, listRuns, type RunRequest } from '../runs.ts'
import type { Server } from '../server.ts'
import { endOf, followRun, joinRun, latestEventId } from '../streams.ts'
import { getThread } from '../threads.ts'
import { uuid7 } from '../values.ts'
import { checkWebhook } from '../webhooks.ts'
import { type Call, JsonText, noContent, type Route, route } from './route.ts'
import {
  flag,
  queryPage,
  type RunBody,
  runParams,
  runRequest,
  selectMembers,
  threadParams,
  threadRunParams,
  unsupported,
  words,
} from './schemas.ts'
import { cancelIfActive, eventStream, outputOf } from './sse.ts'

const group = 'runs'
const runPath = (run: { run_id: string; thread_id: string }, threadId: string | null) =>
  threadId === null ? `/runs/${run.run_id}` : `/threads/${run.thread_id}/runs/${run.run_id}`

export function refuseWebhook({ configuration }: Server, webhook: string | null | undefined): void {
  if (!webhook) return
  if (configuration.http?.disable_webhooks) throw new HttpError(422, '`webhook`: webhooks are disabled here.')
  checkWebhook(webhook, configuration.webhooks)
}

const readRequest = (server: Server, body: RunBody): RunRequest => {
  refuseWebhook(server, body.webhook)
  const durability = body.durability ?? (body.checkpoint_during === false ? 'exit' : undefined)
  return { ...body, durability } as RunRequest
}

/** Headers of the caller that the graph may read, by the file's `configurable_headers`. */
function withHeaders(server: Server, request: Request, body: RunBody): RunBody {
  const rules = server.configuration.http?.configurable_headers
  if (!rules?.includes) return body
  const isListed = (list: string[] | null | undefined, name: string) =>
    (list ?? []).some(pattern =>
      pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1).toLowerCase()) : name === pattern.toLowerCase(),
    )
  // The configuration of a run is shown and stored, so that the key of the deployment must not be in it.
  const isSecret = (name: string, value: string) =>
    name === 'x-api-key' || (server.apiKey !== undefined && value.includes(server.apiKey))
  const headers = [...request.headers].filter(
    ([name, value]) => isListed(rules.includes, name) && !isListed(rules.excludes, name) && !isSecret(name, value),
  )
  const config = body.config ?? {}
  return { ...body, config: { ...config, configurable: { ...config.configurable, ...Object.fromEntries(headers) } } }
}

type RunCall = Pick<Call<unknown, unknown, RunBody>, 'server' | 'request' | 'signal' | 'body'>
async function start({ server, request, body }: RunCall, threadId: string | null, runId?: string) {
  const run = await createRun(server, threadId, readRequest(server, withHeaders(server, request, body)), { runId })
  const path = runPath(run as { run_id: string; thread_id: string }, threadId)
  return { run, path, headers: { 'Content-Location': path } }
}

async function createAndAnswer(call: RunCall, threadId: string | null): Promise<Response> {
  const { run, headers } = await start(call, threadId)
  return new Response(JSON.stringify(run), { headers: { 'Content-Type': 'application/json', ...headers } })
}

async function createAndWait(call: RunCall, threadId: string | null): Promise<Response> {
  const { server, signal } = call
  server.usage.admitStream(server.waiters.size)
  const runId = uuid7()
  // Before the run is created, so that its end does not fall between.
  const first = server.waiters.begin(endOf(runId))
  const { headers } = await start(call, threadId, runId).catch(error => {
    first.end()
    throw error
  })
  const isCancelling = call.body.on_disconnect === 'cancel'
  return outputOf(server, runId, { headers, signal, isCancelling, first })
}

async function createAndStream(call: RunCall, threadId: string | null): Promise<Response> {
  call.server.usage.admitStream(call.server.waiters.size)
  const { run, path, headers } = await start(call, threadId)
  const isCancelling = call.body.on_disconnect === 'cancel'
  return streamOf(call.server, run.run_id, {
    after: '-1',
    // The SDKs join again at this path when the connection is lost.
    headers: isCancelling ? headers : { ...headers, Location: `${path}/stream` },
    signal: call.signal,
    isCancelling,
  })
}

type StreamOptions = {
  after: string
  headers: Record<string, string>
  signal: AbortSignal
  isCancelling: boolean
  modes?: string[] | undefined
}
function streamOf(server: Server, runId: string, options: StreamOptions): Response {
  const { after, headers, signal, modes, isCancelling } = options
  return eventStream(left => followRun(server.db, server.waiters, runId, { after, signal: left }), {
    headers,
    modes,
    signal,
    onDisconnect: isCancelling ? () => cancelIfActive(server, runId) : undefined,
  })
}

const EVENT_ID = /^-?\d{1,18}$/
/** The place of a reader: after the event that it names, or, without one, from now on. */
export async function readPlace(server: Server, request: Request, column: 'run_id' | 'thread_id', id: string) {
  const given = request.headers.get('Last-Event-ID')
  if (given === null || given === '') return latestEventId(server.db, column, id)
  if (!EVENT_ID.test(given)) throw new HttpError(422, '`Last-Event-ID` must be the id of an event, or -1 for all.')
  return given
}

const joinQuery = z.looseObject({ cancel_on_disconnect: flag, stream_mode: words, namespace: unsupported })

async function joinStream(
  { server, request, signal, query }: Call<unknown, z.output<typeof joinQuery>, unknown>,
  ids: { run_id: string; thread_id?: string },
): Promise<Response> {
  server.usage.admitStream(server.waiters.size)
  const run = await getRun(server.db.query, ids.run_id, ids.thread_id)
  return streamOf(server, run.run_id, {
    after: await readPlace(server, request, 'run_id', run.run_id),
    headers: { 'Content-Location': runPath(run as { run_id: string; thread_id: string }, ids.thread_id ?? null) },
    signal,
    isCancelling: query.cancel_on_disconnect ?? false,
    modes: query.stream_mode,
  })
}

const action = z.enum(['interrupt', 'rollback']).optional().default('interrupt')
const runQuery = z.looseObject({ namespace: unsupported })
const ways = [
  { suffix: '', summary: 'Start a run', answer: createAndAnswer },
  { suffix: '/wait', summary: 'Start a run, and wait for its output', answer: createAndWait },
  { suffix: '/stream', summary: 'Start a run, and stream its events', answer: createAndStream },
]

export const runRoutes: Route[] = [
  ...ways.flatMap(({ suffix, summary, answer }) => [
    route({
      method: 'post',
      path: `/threads/{thread_id}/runs${suffix}`,
      access: 'threads:create_run',
      group,
      summary: `${summary} on a thread`,
      params: threadParams,
      query: runQuery,
      body: runRequest,
      handle: call => answer(call, call.params.thread_id),
    }),
    route({
      method: 'post',
      path: `/runs${suffix}`,
      access: 'threads:create_run',
      group,
      summary: `${summary} without a thread`,
      query: runQuery,
      body: runRequest,
      handle: call => answer(call, null),
    }),
  ]),
  route({
    method: 'post',
    path: '/runs/batch',
    access: 'threads:create_run',
    group,
    summary: 'Start several runs without threads',
    body: z.array(runRequest).min(1).max(100),
    handle({ server, request, body }) {
      const requests = body.map(one => readRequest(server, withHeaders(server, request, one)))
      for (const _ of requests) server.usage.admitRun(false)
      // All or none.
      return server.db.transaction(async query => {
        const runs = []
        for (const one of requests) runs.push(await insertRun(server, query, null, one))
        return runs
      })
    },
  }),
  route({
    method: 'post',
    path: '/runs/cancel',
    access: 'threads:update',
    group,
    summary: 'Cancel runs by their ids or their status',
    query: z.looseObject({ action }),
    body: z.looseObject({
      thread_id: z.uuid().nullish(),
      run_ids: z.array(z.uuid()).max(1000).nullish(),
      status: z.enum(['pending', 'running', 'all']).nullish(),
    }),
    async handle({ server, query, body, filters }) {
      if (!body.status && !body.run_ids) throw new HttpError(422, 'body: give `run_ids`, or a `status`.')
      const ids = await findRuns(server.db.query, {
        ...(body.thread_id && { threadId: body.thread_id }),
        ...(body.run_ids && { runIds: body.run_ids }),
        ...(body.status && { status: body.status }),
        filters,
      })
      await cancelRuns(server.db, ids, query.action)
      return noContent()
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/runs',
    access: 'threads:read',
    group,
    summary: 'List the runs of a thread',
    params: threadParams,
    query: z.looseObject({ ...queryPage, status: z.string().optional(), select: words }),
    async handle({ server, params, query }) {
      await getThread(server.db.query, params.thread_id)
      return selectMembers(await listRuns(server.db.query, params.thread_id, query), query.select)
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/runs/{run_id}',
    access: 'threads:read',
    group,
    summary: 'Get a run',
    params: threadRunParams,
    handle: ({ server, params }) => getRun(server.db.query, params.run_id, params.thread_id),
  }),
  route({
    method: 'delete',
    path: '/threads/{thread_id}/runs/{run_id}',
    access: 'threads:delete',
    group,
    summary: 'Delete a run that has ended',
    params: threadRunParams,
    async handle({ server, params }) {
      await deleteRun(server.db, params.thread_id, params.run_id)
      return noContent()
    },
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/runs/{run_id}/cancel',
    access: 'threads:update',
    group,
    summary: 'Cancel a run',
    params: threadRunParams,
    query: z.looseObject({ wait: flag, action, reason: unsupported }),
    async handle({ server, params, query, signal }) {
      if (query.wait) server.usage.admitStream(server.waiters.size)
      await getRun(server.db.query, params.run_id, params.thread_id)
      await cancelRuns(server.db, [params.run_id], query.action)
      if (!query.wait) return noContent(202)
      await joinRun(server.db, server.waiters, params.run_id, { signal })
      return noContent()
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/runs/{run_id}/join',
    access: 'threads:read',
    group,
    summary: 'Wait for the output of a run',
    params: threadRunParams,
    query: joinQuery,
    async handle({ server, params, query, signal }) {
      server.usage.admitStream(server.waiters.size)
      await getRun(server.db.query, params.run_id, params.thread_id)
      const isCancelling = query.cancel_on_disconnect ?? false
      return outputOf(server, params.run_id, { headers: {}, signal, isCancelling })
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/runs/{run_id}/stream',
    access: 'threads:read',
    group,
    summary: 'Join the stream of a run',
    params: threadRunParams,
    query: joinQuery,
    produces: 'text/event-stream',
    handle: call => joinStream(call, call.params),
  }),
  route({
    method: 'get',
    path: '/runs/{run_id}/stream',
    access: 'threads:read',
    group,
    summary: 'Join the stream of a run without a thread',
    params: runParams,
    query: joinQuery,
    produces: 'text/event-stream',
    handle: call => joinStream(call, call.params),
  }),
]

/** Runs a graph without a thread, and returns the JSON of its output. */
export async function runAndWait(server: Server, request: RunRequest, signal: AbortSignal): Promise<JsonText> {
  server.usage.admitStream(server.waiters.size)
  const run = await createRun(server, null, request)
  const ended = await joinRun(server.db, server.waiters, run.run_id, { signal })
  return new JsonText(ended?.output ?? 'null')
}
