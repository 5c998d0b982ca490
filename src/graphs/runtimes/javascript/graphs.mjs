// Loads the graphs of the configuration file.
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const isBuilder = value => typeof value === 'object' && value !== null && typeof value.compile === 'function'
const isCompiled = value => typeof value?.builder === 'object' && value.builder !== null

/** Compiles a builder, and takes the graph out of an agent of `createAgent`, which wraps one. */
function toGraph(value, id) {
  const graph = isBuilder(value) ? value.compile() : value
  const found = isCompiled(graph?.graph) ? graph.graph : graph
  if (typeof found?.stream !== 'function' || typeof found?.getState !== 'function')
    throw new Error(`Graph \`${id}\`: the export is neither a graph nor a function that returns one.`)
  return found
}

async function loadGraph({ id, path, name }, folder) {
  let module
  try {
    module = await import(pathToFileURL(resolve(folder, path)).href)
  } catch (error) {
    throw new Error(`Graph \`${id}\`: ${path} could not be loaded: ${error.message}`, { cause: error })
  }
  const value = await (module[name] ?? module.default?.[name])
  if (value === undefined || value === null) throw new Error(`Graph \`${id}\`: ${path} has no export \`${name}\`.`)
  // A compiled graph may be callable, so that only plain functions count as factories.
  if (typeof value === 'function' && !isCompiled(value))
    return async (config, context) => toGraph(await value(config ?? { configurable: {} }, { context }), id)
  const graph = toGraph(value, id)
  return () => graph
}

/** Functions that return a graph, by id. All faults are reported at once. */
export async function loadGraphs(specs, folder) {
  const loaded = await Promise.allSettled(specs.map(spec => loadGraph(spec, folder)))
  const faults = loaded.filter(one => one.status === 'rejected').map(one => one.reason)
  if (faults.length > 0) throw new Error(faults.map(fault => fault.message).join('\n'), { cause: faults[0].cause })
  return new Map(specs.map((spec, i) => [spec.id, loaded[i].value]))
}
