// Routes of threads and their state.
import * as z from 'zod'
import { findAdmitted } from '../auth.ts'
import { copyCheckpoints, measureThread } from '../checkpoints.ts'
import { HttpError, notFound } from '../errors.ts'
import { count, search } from '../search.ts'
import { defaultTtl, executorOf } from '../server.ts'
import { followThread } from '../streams.ts'
import { keepLatest, readHistory, readState, removeThreads, updateState } from '../thread-state.ts'
import {
  copyThread,
  createThread,
  getThread,
  patchThread,
  THREADS,
  THREADS_WITHOUT_VALUES,
  type Ttl,
  toThread,
} from '../threads.ts'
import { uuid7 } from '../values.ts'
import { JsonText, noContent, type Route, route } from './route.ts'
import { readPlace } from './runs.ts'
import {
  checkpoint,
  command,
  flag,
  object,
  page,
  pageOf,
  queryPage,
  selectMembers,
  sorted,
  threadParams,
  unsupported,
  words,
} from './schemas.ts'
import { eventStream } from './sse.ts'

const group = 'threads'
const strategy = z.enum(['delete', 'keep_latest'])
const ttl = z
  .union([
    z.number().positive(),
    z.looseObject({
      ttl: z.number().positive().nullish(),
      ttl_minutes: z.number().positive().nullish(),
      strategy: strategy.nullish(),
    }),
  ])
  .nullish()
  .describe('Minutes, or minutes with a strategy.')
const toTtl = (given: z.output<typeof ttl>): Ttl | undefined => {
  if (given === null || given === undefined) return undefined
  if (typeof given === 'number') return { minutes: given, strategy: 'delete' }
  const minutes = given.ttl ?? given.ttl_minutes
  return minutes ? { minutes, strategy: given.strategy ?? 'delete' } : undefined
}
const filter = {
  metadata: object.nullish(),
  values: object.nullish(),
  status: z.enum(['idle', 'busy', 'interrupted', 'error']).nullish(),
  ids: z.array(z.uuid()).max(1000).nullish(),
}
const sorting = sorted('created_at', 'updated_at', 'state_updated_at', 'thread_id', 'status')
const values = z.union([object, z.array(object)]).nullish()
const superstep = z.looseObject({
  updates: z
    .array(z.looseObject({ values: z.unknown().optional(), command: command.nullish(), as_node: z.string().nullish() }))
    .min(1),
})
const withoutNulls = (metadata: Record<string, unknown> | null | undefined) =>
  Object.fromEntries(Object.entries(metadata ?? {}).filter(([, value]) => value !== null))

/** A state reduced to its selected members; `values.name` selects one value. */
function selectState(text: string, select: string[] | null | undefined): JsonText {
  if (!select) return new JsonText(text)
  const reduce = (state: Record<string, unknown>) => {
    const chosen = Object.fromEntries(Object.entries(state).filter(([name]) => select.includes(name)))
    const names = select.filter(name => name.startsWith('values.')).map(name => name.slice('values.'.length))
    if (names.length === 0 || 'values' in chosen) return chosen
    const values = Object.entries((state.values ?? {}) as object).filter(([name]) => names.includes(name))
    return { ...chosen, values: Object.fromEntries(values) }
  }
  const parsed = JSON.parse(text)
  return new JsonText(JSON.stringify(Array.isArray(parsed) ? parsed.map(reduce) : reduce(parsed)))
}

export const threadRoutes: Route[] = [
  route({
    method: 'post',
    path: '/threads',
    access: 'threads:create',
    group,
    summary: 'Create a thread',
    body: z.looseObject({
      thread_id: z.uuid().nullish(),
      metadata: object.nullish(),
      if_exists: z.enum(['raise', 'do_nothing']).nullish(),
      ttl,
      supersteps: z.array(superstep).max(1000).nullish(),
    }),
    async handle({ server, body }) {
      server.usage.admitThread()
      const id = body.thread_id ?? uuid7()
      const metadata = withoutNulls(body.metadata)
      if (typeof metadata.graph_id === 'string') executorOf(server, metadata.graph_id)
      const created = await createThread(server.db.query, id, { metadata, ttl: toTtl(body.ttl) ?? defaultTtl(server) })
      if (!created && body.if_exists !== 'do_nothing')
        throw new HttpError(409, `Thread ${id} already exists. Use another thread_id, or if_exists "do_nothing".`)
      if (created && body.supersteps?.length)
        await updateState(server, id, { supersteps: body.supersteps }).catch(async error => {
          await removeThreads(server, [id])
          throw error
        })
      else if (created) return toThread(created)
      return toThread(await getThread(server.db.query, id))
    },
  }),
  route({
    method: 'post',
    path: '/threads/search',
    access: 'threads:search',
    group,
    summary: 'Search threads',
    body: z.looseObject({ ...filter, ...page, ...sorting, extract: unsupported }),
    async handle({ server, body, filters }) {
      const from = body.select && !body.select.includes('values') ? THREADS_WITHOUT_VALUES : THREADS
      const rows = (await search(server.db.query, from, body, body, filters)).map(toThread)
      return pageOf(selectMembers(rows, body.select), body)
    },
  }),
  route({
    method: 'post',
    path: '/threads/count',
    access: 'threads:search',
    group,
    summary: 'Count threads',
    body: z.looseObject(filter),
    handle: ({ server, body, filters }) => count(server.db.query, THREADS, body, filters),
  }),
  route({
    method: 'post',
    path: '/threads/prune',
    access: 'threads:delete',
    group,
    summary: 'Delete threads, or all of their checkpoints but the latest',
    body: z.looseObject({ thread_ids: z.array(z.uuid()).max(1000), strategy: strategy.nullish() }),
    async handle({ server, body, filters }) {
      const isKept = body.strategy === 'keep_latest'
      const ids = filters ? await findAdmitted(server.db.query, body.thread_ids, filters) : body.thread_ids
      const count = isKept ? await keepLatest(server, ids) : (await removeThreads(server, ids)).length
      return { pruned_count: count }
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}',
    access: 'threads:read',
    group,
    summary: 'Get a thread',
    params: threadParams,
    handle: async ({ server, params }) => toThread(await getThread(server.db.query, params.thread_id)),
  }),
  route({
    method: 'patch',
    path: '/threads/{thread_id}',
    access: 'threads:update',
    group,
    summary: 'Change the metadata or the time to live of a thread',
    params: threadParams,
    body: z.looseObject({ metadata: object.nullish(), ttl }),
    async handle({ server, params, body, request }) {
      // A shorter time to live is a way back below the limit.
      if (body.metadata) server.usage.admitBytes()
      const thread = await patchThread(server.db, params.thread_id, { metadata: body.metadata, ttl: toTtl(body.ttl) })
      return request.headers.get('Prefer') === 'return=minimal' ? noContent() : toThread(thread)
    },
  }),
  route({
    method: 'delete',
    path: '/threads/{thread_id}',
    access: 'threads:delete',
    group,
    summary: 'Delete a thread with its runs and its state',
    params: threadParams,
    async handle({ server, params }) {
      const deleted = await removeThreads(server, [params.thread_id])
      if (deleted.length === 0) throw notFound('Thread', params.thread_id)
      return noContent()
    },
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/copy',
    access: 'threads:read',
    group,
    summary: 'Copy a thread with its state',
    params: threadParams,
    async handle({ server, params }) {
      server.usage.admitThread()
      server.usage.admitBytes(await measureThread(server.db, params.thread_id))
      return server.db.transaction(async query => {
        const id = uuid7()
        const copy = await copyThread(query, params.thread_id, id)
        await copyCheckpoints(query, params.thread_id, id)
        return toThread(copy)
      })
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/state',
    access: 'threads:read',
    group,
    summary: 'Get the state of a thread',
    params: threadParams,
    query: z.looseObject({ subgraphs: flag, select: words }),
    handle: async ({ server, params, query }) =>
      selectState(await readState(server, params.thread_id, { subgraphs: query.subgraphs }), query.select),
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/state/{checkpoint_id}',
    access: 'threads:read',
    group,
    summary: 'Get the state of a thread at a checkpoint',
    params: z.object({ thread_id: z.uuid(), checkpoint_id: z.uuid() }),
    query: z.looseObject({ subgraphs: flag, select: words }),
    async handle({ server, params, query }) {
      const checkpoint = { checkpoint_id: params.checkpoint_id }
      const state = await readState(server, params.thread_id, { checkpoint, subgraphs: query.subgraphs })
      return selectState(state, query.select)
    },
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/state/checkpoint',
    access: 'threads:read',
    group,
    summary: 'Get the state of a thread at a checkpoint',
    params: threadParams,
    body: z.looseObject({
      checkpoint: checkpoint.nullish(),
      subgraphs: z.boolean().nullish(),
      select: z.array(z.string()).nullish(),
    }),
    handle: async ({ server, params, body }) =>
      selectState(await readState(server, params.thread_id, body), body.select),
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/state',
    access: 'threads:update',
    group,
    summary: 'Add to the state of a thread',
    params: threadParams,
    body: z.looseObject({
      values,
      as_node: z.string().nullish(),
      checkpoint: checkpoint.nullish(),
      checkpoint_id: z.string().nullish(),
    }),
    async handle({ server, params, body }) {
      const place = body.checkpoint_id ? { ...body.checkpoint, checkpoint_id: body.checkpoint_id } : body.checkpoint
      const supersteps = [{ updates: [{ values: body.values ?? null, as_node: body.as_node }] }]
      return new JsonText(await updateState(server, params.thread_id, { supersteps, checkpoint: place }))
    },
  }),
  route({
    method: 'patch',
    path: '/threads/{thread_id}/state',
    access: 'threads:update',
    group,
    summary: 'Change the metadata of a thread',
    params: threadParams,
    body: z.looseObject({ metadata: object }),
    async handle({ server, params, body }) {
      server.usage.admitBytes()
      return toThread(await patchThread(server.db, params.thread_id, body))
    },
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/history',
    access: 'threads:read',
    group,
    summary: 'List the states of a thread',
    params: threadParams,
    query: z.looseObject({ limit: queryPage.limit, before: z.string().optional() }),
    handle: async ({ server, params, query }) => new JsonText(await readHistory(server, params.thread_id, query)),
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/history',
    access: 'threads:read',
    group,
    summary: 'Search the states of a thread',
    params: threadParams,
    body: z.looseObject({
      limit: page.limit,
      before: z.union([z.string(), object]).nullish(),
      metadata: object.nullish(),
      checkpoint: checkpoint.nullish(),
      select: z.array(z.string()).nullish(),
    }),
    handle: async ({ server, params, body }) =>
      selectState(await readHistory(server, params.thread_id, body), body.select),
  }),
  route({
    method: 'get',
    path: '/threads/{thread_id}/stream',
    access: 'threads:read',
    group,
    summary: 'Stream the events of all runs of a thread',
    params: threadParams,
    query: z.looseObject({ stream_mode: words }),
    produces: 'text/event-stream',
    async handle({ server, params, query, request, signal }) {
      server.usage.admitStream(server.waiters.size)
      const { thread_id } = await getThread(server.db.query, params.thread_id)
      const after = await readPlace(server, request, 'thread_id', thread_id)
      const modes = query.stream_mode?.filter(mode => mode !== 'run_modes')
      const headers = { 'Content-Location': `/threads/${thread_id}/stream` }
      return eventStream(left => followThread(server.db, server.waiters, thread_id, { after, signal: left }), {
        headers,
        modes,
        signal,
      })
    },
  }),
]
