// One run of a graph as events of the newer streaming protocol, which the library makes itself.
import { optionsOf } from './stream.mjs'

const interruptsIn = values => (Array.isArray(values) ? values : (values?.__interrupt__ ?? []))

export async function streamProtocol({ graph, run, input, signal, emit, onValues }) {
  const { streamMode: _, subgraphs: __, ...options } = optionsOf(run, signal)
  const send = (method, { namespace, timestamp = Date.now(), node }, data) =>
    emit('protocol', { method, namespace, timestamp, ...(node && { node }), data })
  const asked = new Set()
  const ask = (params, interrupts) => {
    for (const { id, value } of interrupts) {
      if (asked.has(id)) continue
      asked.add(id)
      send('input.requested', params, { interrupt_id: id, payload: value })
    }
  }
  send('lifecycle', { namespace: [] }, { event: 'running', graph_name: run.graph_id })
  for await (const { method, params } of await graph.streamEvents(input ?? null, { ...options, version: 'v3' })) {
    const { namespace, data } = params
    // The server tells of the end of the root, when it has written it.
    if (method === 'lifecycle' && namespace.length === 0) continue
    if (method === 'values') {
      ask(params, interruptsIn(data))
      const { __interrupt__: _, ...values } = data
      if (Object.keys(values).length === 0) continue
      if (namespace.length === 0) onValues(values)
      send('values', params, values)
    } else if (method === 'updates') {
      if (data.node === '__interrupt__') ask(params, interruptsIn(data.values))
      else send('updates', { ...params, node: data.node }, data.values)
    } else if (method.startsWith('custom:')) {
      send('custom', params, { name: method.slice('custom:'.length), payload: data })
    } else send(method, params, data)
  }
}
