// The newer streaming protocol of the SDK: commands on a thread, and its events by channels. Over HTTP only.
import * as z from 'zod'
import type { User } from '../auth.ts'
import { HttpError } from '../errors.ts'
import { createRun, type RunRequest } from '../runs.ts'
import type { Server } from '../server.ts'
import { followThread, type StreamEvent } from '../streams.ts'
import { readState } from '../thread-state.ts'
import { getThread } from '../threads.ts'
import { admit } from './access.ts'
import { type Route, route } from './route.ts'
import { config, command as graphCommand, object, threadParams } from './schemas.ts'
import { eventStream } from './sse.ts'

const group = 'runs'
const command = z.looseObject({
  id: z.number().int().min(0),
  method: z.string(),
  params: object.nullish(),
})
type Command = z.output<typeof command>
type Caller = { server: Server; user: User | null }

class CommandError extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const runStart = z.looseObject({
  assistant_id: z.string().min(1),
  input: z.unknown().optional(),
  config: config.nullish(),
  metadata: object.nullish(),
  multitaskStrategy: z.enum(['reject', 'rollback', 'interrupt', 'enqueue']).nullish().catch(null),
})
const response = z.looseObject({ interrupt_id: z.string(), response: z.unknown().optional() })
const inputRespond = z
  .looseObject({
    config: config.nullish(),
    metadata: object.nullish(),
    update: graphCommand.shape.update,
    goto: graphCommand.shape.goto,
  })
  .and(z.union([response, z.looseObject({ responses: z.array(response).min(1) })]))

function parse<Schema extends z.ZodType>(schema: Schema, params: unknown): z.output<Schema> {
  const parsed = schema.safeParse(params ?? {})
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(issue => `params.${issue.path.join('.')}: ${issue.message}.`)
  throw new CommandError('invalid_argument', faults.join(' '))
}

async function findInterrupted({ db }: Server, threadId: string) {
  const [thread] = await db.query('select interrupts, metadata from graphs.threads where thread_id = $1', [threadId])
  const isInterrupted = Object.keys(thread?.interrupts ?? {}).length > 0
  return { thread, isInterrupted }
}

/** The route asks nothing of the application, since each command is another question. */
async function start(caller: Caller, threadId: string, request: RunRequest) {
  const { server } = caller
  const admitted = await admit(caller, 'threads:create_run', { params: { thread_id: threadId }, body: request })
  const run = await createRun(
    server,
    threadId,
    { ...(admitted.body as RunRequest), stream_subgraphs: true, if_not_exists: 'create' },
    { hasProtocol: true },
  )
  return { run_id: run.run_id }
}

/** Input for a thread that waits for an answer is the answer. */
async function startRun(caller: Caller, threadId: string, params: unknown) {
  const { assistant_id, input, config, metadata, multitaskStrategy } = parse(runStart, params)
  const given = input ?? null
  const isAnswer = given !== null && (await findInterrupted(caller.server, threadId)).isInterrupted
  const rest = { assistant_id, config, metadata, multitask_strategy: multitaskStrategy ?? null } as RunRequest
  return start(caller, threadId, isAnswer ? { ...rest, command: { resume: given } } : { ...rest, input: given })
}

async function respond(caller: Caller, threadId: string, params: unknown) {
  const given = parse(inputRespond, params)
  // Before an answer that tells whether the thread waits.
  await admit(caller, 'threads:read', { params: { thread_id: threadId } })
  const responses = 'responses' in given ? (given.responses as z.output<typeof response>[]) : [given]
  const { thread, isInterrupted } = await findInterrupted(caller.server, threadId)
  if (!thread || !isInterrupted) throw new CommandError('no_such_run', 'The thread does not wait for an answer.')
  const resume = Object.fromEntries(responses.map(one => [one.interrupt_id as string, one.response ?? null]))
  const { update, goto, config, metadata } = given
  const command = { resume, ...(update && { update }), ...(goto && { goto }) }
  await start(caller, threadId, { assistant_id: thread.metadata.assistant_id, command, config, metadata } as RunRequest)
  return {}
}

async function getState(caller: Caller, threadId: string, params: Command['params']) {
  const { server } = caller
  await admit(caller, 'threads:read', { params: { thread_id: threadId } })
  await getThread(server.db.query, threadId)
  const { values, checkpoint } = JSON.parse(await readState(server, threadId, { subgraphs: true }))
  const keys = Array.isArray(params?.keys) ? params.keys : undefined
  const chosen = keys ? Object.fromEntries(Object.entries(values).filter(([name]) => keys.includes(name))) : values
  return { values: chosen, checkpoint: checkpoint && { id: checkpoint.checkpoint_id, ns: checkpoint.checkpoint_ns } }
}

async function execute(caller: Caller, threadId: string, { method, params }: Command): Promise<object> {
  switch (method) {
    case 'run.start':
      return startRun(caller, threadId, params)
    case 'input.respond':
      return respond(caller, threadId, params)
    case 'state.get':
      return getState(caller, threadId, params)
    default:
      throw new CommandError('unknown_command', `The command ${method} is not supported over HTTP.`)
  }
}

type ProtocolEvent = { method: string; namespace: string[]; data: { name?: unknown }; node?: string; timestamp: number }
const filter = z.looseObject({
  channels: z.array(z.string()),
  namespaces: z.array(z.array(z.string())).nullish(),
  depth: z.number().int().min(0).nullish(),
  since: z.number().int().min(0).nullish(),
})
type Filter = z.output<typeof filter>

/** A part of a namespace is the name of a node, with the id of its task. */
const isSamePart = (part: string, wanted: string) => part === wanted || part.split(':')[0] === wanted

function matches({ method, namespace, data }: ProtocolEvent, { channels, namespaces, depth }: Filter): boolean {
  const channel = method === 'input.requested' ? 'input' : method
  const named = channel === 'custom' && typeof data?.name === 'string' ? `custom:${data.name}` : channel
  if (!channels.includes(channel) && !channels.includes(named)) return false
  if (!namespaces || namespaces.length === 0) return true
  return namespaces.some(
    prefix =>
      prefix.every((wanted, i) => namespace[i] !== undefined && isSamePart(namespace[i], wanted)) &&
      (depth === null || depth === undefined || namespace.length - prefix.length <= depth),
  )
}

/** The ids of events are the sequence numbers of the protocol: in order within a thread, on every copy. */
function encodeWith(filter: Filter) {
  return ({ id, event, data }: StreamEvent): string => {
    if (event !== 'protocol') return ''
    const parsed = JSON.parse(data) as ProtocolEvent
    if (!matches(parsed, filter)) return ''
    const { method, ...params } = parsed
    const sent = JSON.stringify({ type: 'event', event_id: id, seq: Number(id), method, params })
    return `id: ${id}\nevent: ${method}\ndata: ${sent}\n\n`
  }
}

export const protocolRoutes: Route[] = [
  route({
    method: 'post',
    path: '/threads/{thread_id}/commands',
    access: null,
    group,
    summary: 'Send a command of the streaming protocol',
    params: threadParams,
    body: command,
    async handle({ server, user, params, body }) {
      const { id } = body
      try {
        const result = await execute({ server, user }, params.thread_id, body)
        return { type: 'success', id, result, meta: { thread_id: params.thread_id } }
      } catch (error) {
        if (error instanceof CommandError) return { type: 'error', id, error: error.code, message: error.message }
        if (error instanceof HttpError) return { type: 'error', id, error: 'invalid_argument', message: error.message }
        throw error
      }
    },
  }),
  route({
    method: 'post',
    path: '/threads/{thread_id}/stream/events',
    access: 'threads:read',
    group,
    summary: 'Stream the events of chosen channels of a thread',
    params: threadParams,
    body: filter,
    produces: 'text/event-stream',
    handle({ server, params, body, signal }) {
      server.usage.admitStream(server.waiters.size)
      const after = `${body.since ?? -1}`
      return eventStream(left => followThread(server.db, server.waiters, params.thread_id, { after, signal: left }), {
        headers: {},
        signal,
        encode: encodeWith(body),
      })
    },
  }),
]
