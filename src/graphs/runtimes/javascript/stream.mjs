// One run of a graph as events of the wire.
import { isBaseMessage, isBaseMessageChunk } from '@langchain/core/messages'
import { LangChainTracer } from '@langchain/core/tracers/tracer_langchain'
import { toDebugCheckpoint, toTask } from './wire.mjs'

/** Modes of callers in modes of the library. Values are always asked for: the last are the output of the run. */
function toLibraryModes(modes) {
  const wanted = new Set(modes.filter(mode => mode !== 'events' && mode !== 'messages-tuple'))
  if (modes.includes('messages-tuple')) wanted.add('messages')
  wanted.add('values')
  return [...wanted]
}

const withoutUndefined = object =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== null))

/** A second project of the caller gets the trace too. */
function tracersOf(config) {
  const { langsmith_project, langsmith_example_id } = config.configurable ?? {}
  if (!langsmith_project) return undefined
  const own = process.env.LANGSMITH_PROJECT ?? process.env.LANGCHAIN_PROJECT ?? 'default'
  return [
    new LangChainTracer({
      replicas: [
        [langsmith_project, { reference_example_id: langsmith_example_id }],
        [own, undefined],
      ],
    }),
  ]
}

export function optionsOf({ kwargs, run_id, attempt }, signal) {
  const { config } = kwargs
  return withoutUndefined({
    streamMode: toLibraryModes(kwargs.stream_mode),
    subgraphs: kwargs.subgraphs,
    interruptBefore: kwargs.interrupt_before,
    interruptAfter: kwargs.interrupt_after,
    durability: kwargs.durability,
    tags: config.tags,
    context: kwargs.context,
    configurable: config.configurable,
    recursionLimit: config.recursion_limit,
    metadata: {
      ...config.metadata,
      run_attempt: attempt,
      langgraph_host: 'self-hosted',
      langgraph_api_url: process.env.LANGGRAPH_API_URL,
    },
    runId: run_id,
    callbacks: tracersOf(config),
    signal,
  })
}

/** Chunks of the graph as `[namespace, mode, data]`, and events of the library for the mode `events`. */
async function* readGraph(graph, input, options, hasEvents) {
  const split = chunk => (options.subgraphs ? chunk : [[], ...chunk])
  if (!hasEvents) {
    for await (const chunk of await graph.stream(input, options)) yield { chunk: split(chunk) }
    return
  }
  for await (const event of graph.streamEvents(input, { ...options, version: 'v2' })) {
    if (event.tags?.includes('langsmith:hidden')) continue
    const isChunk = event.event === 'on_chain_stream' && event.run_id === options.runId
    if (isChunk && Array.isArray(event.data.chunk)) yield { chunk: split(event.data.chunk), event }
    else yield { event }
  }
}

function convert(mode, data) {
  if (mode === 'checkpoints') return toDebugCheckpoint(data)
  if (mode === 'tasks') return toTask(data)
  if (mode === 'debug' && data.type === 'checkpoint') return { ...data, payload: toDebugCheckpoint(data.payload) }
  if (mode === 'debug') return { ...data, payload: toTask(data.payload) }
  return data
}

/** The older mode `messages`: each message as it grows, and once when it is complete. */
class GrowingMessages {
  #emit
  #partial = new Map()
  #complete = new Set()
  constructor(emit) {
    this.#emit = emit
  }

  grow([message, metadata]) {
    if (!message.id || this.#complete.has(message.id)) return
    if (!isBaseMessageChunk(message)) return this.complete([message])
    const before = this.#partial.get(message.id)
    if (!before) this.#emit('messages/metadata', { [message.id]: { metadata } })
    const whole = before ? before.concat(message) : message
    this.#partial.set(message.id, whole)
    this.#emit('messages/partial', [whole])
  }

  complete(messages) {
    const fresh = messages.filter(message => isBaseMessage(message) && message.id && !this.#complete.has(message.id))
    if (fresh.length === 0) return
    for (const { id } of fresh) this.#complete.add(id)
    this.#emit('messages/complete', fresh)
  }
}

const messagesIn = values => [values?.messages ?? []].flat()

export async function streamRun({ graph, run, input, signal, emit, onValues }) {
  const modes = run.kwargs.stream_mode
  const growing = modes.includes('messages') ? new GrowingMessages(emit) : undefined
  const nameOf = (mode, namespace) => (namespace?.length > 0 ? `${mode}|${namespace.join('|')}` : mode)
  emit('metadata', { run_id: run.run_id, attempt: run.attempt })
  const hasEvents = modes.includes('events')
  for await (const { chunk, event } of readGraph(graph, input ?? null, optionsOf(run, signal), hasEvents)) {
    if (event && hasEvents) emit('events', event)
    if (!chunk) continue
    const [namespace, mode, data] = chunk
    // The library has a second, lighter event of checkpoints, for another protocol.
    if (mode === 'checkpoints' && !data?.config) continue
    if (mode === 'values') {
      if (!(namespace?.length > 0)) onValues(data)
      growing?.complete(messagesIn(data))
    }
    if (mode === 'messages') growing?.grow(data)
    const isWanted = mode === 'messages' ? modes.includes('messages-tuple') : modes.includes(mode)
    if (isWanted) emit(nameOf(mode, namespace), convert(mode, data))
  }
  if (run.kwargs.feedback_keys) emit('feedback', await makeFeedbackUrls(run))
}

async function makeFeedbackUrls({ run_id, kwargs }) {
  const { Client } = await import('langsmith')
  const client = new Client()
  const urls = kwargs.feedback_keys.map(async key => [
    key,
    (await client.createPresignedFeedbackToken(run_id, key)).url,
  ])
  return Object.fromEntries(await Promise.all(urls))
}
