// Routes of crons.
import * as z from 'zod'
import { getAssistant } from '../assistants.ts'
import { asUser, CRONS, type CronFields, createCron, deleteCron, patchCron } from '../crons.ts'
import { CALLER, type Caller, resolveAssistantId } from '../runs.ts'
import { count, search } from '../search.ts'
import type { Server } from '../server.ts'
import { getThread } from '../threads.ts'
import { noContent, type Route, route } from './route.ts'
import { refuseWebhook } from './runs.ts'
import { object, page, pageOf, runRequest, selectMembers, sorted, threadParams, unsupported } from './schemas.ts'

const group = 'crons'
const timing = {
  schedule: z.string().max(200),
  timezone: z.string().max(100).nullish(),
  end_time: z.iso.datetime({ offset: true }).nullish(),
  enabled: z.boolean().nullish(),
  on_run_completed: z.enum(['delete', 'keep']).nullish(),
}
const cronRequest = runRequest.extend(timing)
/** A cron stays with its assistant. */
const cronPatch = cronRequest.partial().extend({ assistant_id: unsupported })
const cronParams = z.object({ cron_id: z.uuid() })
const filter = {
  assistant_id: z.uuid().nullish(),
  thread_id: z.uuid().nullish(),
  enabled: z.boolean().nullish(),
  metadata: object.nullish(),
}
const sorting = sorted('created_at', 'updated_at', 'cron_id', 'assistant_id', 'thread_id', 'next_run_date', 'end_time')
const TIMING = Object.keys(timing)

/** The members that make the run; the others say when. */
function readPayload(server: Server, body: Pick<z.output<typeof cronPatch>, 'webhook'>): CronFields['payload'] {
  refuseWebhook(server, body.webhook)
  return Object.fromEntries(
    Object.entries(body).filter(
      ([name, value]) => !TIMING.includes(name) && name !== 'assistant_id' && value !== undefined,
    ),
  )
}

const userOf = (body: object) => (body as { [CALLER]?: Caller })[CALLER]?.user

async function create(server: Server, threadId: string | null, body: z.output<typeof cronRequest>) {
  server.usage.admitBytes()
  if (threadId !== null) await getThread(server.db.query, threadId)
  const assistant = await getAssistant(server.db.query, resolveAssistantId(body.assistant_id))
  return createCron(server.db, assistant.assistant_id, threadId, {
    schedule: body.schedule,
    timezone: body.timezone ?? null,
    enabled: body.enabled ?? true,
    end_time: body.end_time ?? null,
    on_run_completed: body.on_run_completed ?? null,
    metadata: body.metadata ?? {},
    payload: asUser(readPayload(server, body), userOf(body)),
  })
}

export const cronRoutes: Route[] = [
  route({
    method: 'post',
    path: '/runs/crons',
    access: 'crons:create',
    group,
    summary: 'Create a cron whose runs have threads of their own',
    body: cronRequest,
    handle: ({ server, body }) => create(server, null, body),
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/runs/crons',
    access: 'crons:create',
    group,
    summary: 'Create a cron on a thread',
    params: threadParams,
    body: cronRequest,
    handle: ({ server, params, body }) => create(server, params.thread_id, body),
  }),
  route({
    method: 'post',
    path: '/runs/crons/search',
    access: 'crons:search',
    group,
    summary: 'Search crons',
    body: z.looseObject({ ...filter, ...page, ...sorting }),
    async handle({ server, body, filters }) {
      return pageOf(selectMembers(await search(server.db.query, CRONS, body, body, filters), body.select), body)
    },
  }),
  route({
    method: 'post',
    path: '/runs/crons/count',
    access: 'crons:search',
    group,
    summary: 'Count crons',
    body: z.looseObject(filter),
    handle: ({ server, body, filters }) => count(server.db.query, CRONS, body, filters),
  }),
  route({
    method: 'patch',
    path: '/runs/crons/{cron_id}',
    access: 'crons:update',
    group,
    summary: 'Change a cron',
    params: cronParams,
    body: cronPatch,
    handle({ server, params, body }) {
      server.usage.admitBytes()
      const given = Object.entries(body).filter(([name, value]) => TIMING.includes(name) && value != null)
      const patch = {
        ...Object.fromEntries(given),
        ...(body.metadata && { metadata: body.metadata }),
        payload: readPayload(server, body),
      }
      return patchCron(server.db, params.cron_id, patch, userOf(body))
    },
  }),
  route({
    method: 'delete',
    path: '/runs/crons/{cron_id}',
    access: 'crons:delete',
    group,
    summary: 'Delete a cron',
    params: cronParams,
    async handle({ server, params }) {
      await deleteCron(server.db.query, params.cron_id)
      return noContent()
    },
  }),
]
