// Answers of the executor: runs, states and descriptions of graphs.
import { Command, Send } from '@langchain/langgraph'
import { authenticate, authorize, loadAuth } from './auth.mjs'
import { loadEmbed } from './embed.mjs'
import { EventLog } from './events.mjs'
import { loadGraphs } from './graphs.mjs'
import { streamProtocol } from './protocol.mjs'
import { openSaver, prepareTables } from './saver.mjs'
import { describeSchemas } from './schemas.mjs'
import { ServerStore } from './store.mjs'
import { streamRun } from './stream.mjs'
import { toCheckpoint, toError, toJson, toState, toSummary } from './wire.mjs'

const withoutUndefined = object =>
  Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== null))

export function toCommand({ goto, update, resume }) {
  const targets = goto === undefined || goto === null ? undefined : Array.isArray(goto) ? goto : [goto]
  return new Command({
    ...(targets && { goto: targets.map(one => (typeof one === 'string' ? one : new Send(one.node, one.input))) }),
    ...(update && { update }),
    ...(resume !== undefined && { resume }),
  })
}

const LOST = JSON.stringify({ status: 'lost', error: null, output: null, state: null })

export async function prepare({ folder, graphs: specs, auth, embed, database, send, request }) {
  const graphs = await loadGraphs(specs, folder)
  const makeVectors = embed && (await loadEmbed(embed, folder))
  const handlers = auth && (await loadAuth(auth, folder))
  const events = new EventLog(send, request)
  const saver = openSaver(database, events)
  const store = new ServerStore(request)
  const running = new Map()

  /** A graph may be a function of its configuration. */
  async function getGraph(id, config, context) {
    const graph = await graphs.get(id)(config, context)
    graph.checkpointer = saver
    graph.store = store
    return graph
  }

  async function run({ run }) {
    try {
      const result = await execute(run)
      return saver.takeFailure(run.run_id) && result.status === 'error' ? LOST : toJson(result)
    } catch (error) {
      // The state after the run could not be read.
      console.error(error)
      return LOST
    }
  }

  async function execute(run) {
    const controller = new AbortController()
    running.set(run.run_id, controller)
    events.begin(run.run_id)
    const emit = (event, data) => events.emit(run.run_id, event, toJson(data))
    const config = { configurable: { thread_id: run.thread_id, checkpoint_ns: '' } }
    let graph
    let output
    let failure = null
    let status = 'success'
    try {
      const { kwargs } = run
      graph = await getGraph(run.graph_id, kwargs.config, kwargs.context)
      const isContinued = run.attempt > 1 && (await saver.hasCheckpointOf(run))
      const input = isContinued ? null : kwargs.command ? toCommand(kwargs.command) : kwargs.input
      const stream = kwargs.protocol ? streamProtocol : streamRun
      await stream({
        graph,
        run,
        input,
        signal: controller.signal,
        emit,
        onValues(values) {
          output = values
        },
      })
    } catch (error) {
      status = controller.signal.aborted ? 'interrupted' : 'error'
      if (status === 'error') {
        failure = toError(error)
        console.error(`run failed run=${run.run_id} graph=${run.graph_id}:`, error)
      }
    } finally {
      running.delete(run.run_id)
      events.end(run.run_id)
      await saver.settle(run.thread_id)
    }
    const state = graph ? toSummary(await graph.getState(config)) : null
    const interrupts = Object.values(state?.interrupts ?? {}).flat()
    const last =
      output && interrupts.length > 0 && !Array.isArray(output) ? { ...output, __interrupt__: interrupts } : output
    return { status, error: failure, output: last === undefined ? null : toJson(last), state }
  }

  async function update({ graph_id, config, supersteps }) {
    const graph = await getGraph(graph_id, config)
    const isSingle = supersteps.length === 1 && supersteps[0].updates.length === 1
    const [only] = supersteps[0].updates
    const written =
      isSingle && !only.command
        ? await graph.updateState(config, only.values ?? null, only.as_node ?? undefined)
        : await graph.bulkUpdateState(
            config,
            supersteps.map(({ updates }) => ({
              updates: updates.map(one => ({
                values: one.command ? toCommand(one.command) : one.values,
                asNode: one.as_node ?? undefined,
              })),
            })),
          )
    const place = { configurable: { thread_id: config.configurable.thread_id, checkpoint_ns: '' } }
    return toJson({ checkpoint: toCheckpoint(written), state: toSummary(await graph.getState(place)) })
  }

  const questions = {
    run,
    update,
    async setup() {
      await prepareTables(database)
      return 'null'
    },
    async state({ graph_id, config, subgraphs }) {
      const graph = await getGraph(graph_id, config)
      return toJson(toState(await graph.getState(config, { subgraphs })))
    },
    async summary({ graph_id, config }) {
      const graph = await getGraph(graph_id, config)
      return toJson(toSummary(await graph.getState(config)))
    },
    async history({ graph_id, config, limit, before, filter }) {
      const graph = await getGraph(graph_id, config)
      const states = []
      const options = withoutUndefined({ limit, before, filter })
      for await (const state of graph.getStateHistory(config, options)) states.push(toState(state))
      return toJson(states)
    },
    async graph({ graph_id, config, xray }) {
      const graph = await getGraph(graph_id, config)
      return toJson((await graph.getGraphAsync({ ...config, xray })).toJSON())
    },
    async schemas({ graph_id, config }) {
      return toJson({ graph_id, ...(await describeSchemas(await getGraph(graph_id, config))) })
    },
    async subgraphs({ graph_id, config, namespace, recurse }) {
      const graph = await getGraph(graph_id, config)
      const found = {}
      for await (const [name, subgraph] of graph.getSubgraphsAsync(namespace ?? undefined, recurse))
        found[name] = { graph_id: name, ...(await describeSchemas(subgraph)) }
      return toJson(found)
    },
    embed: async ({ texts }) => toJson(await makeVectors(texts)),
    authenticate: async message => toJson(await authenticate(handlers, message)),
    authorize: async message => toJson(await authorize(handlers, message)),
    async prune({ thread_ids }) {
      await saver.keepLatest(thread_ids)
      return 'null'
    },
  }
  return {
    answer: message => questions[message.question](message),
    cancel: runId => running.get(runId)?.abort(new Error('The run was cancelled.')),
  }
}
