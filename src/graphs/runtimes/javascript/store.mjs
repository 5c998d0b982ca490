// The store of graphs is the server's, which is asked over the pipe.
import { BaseStore } from '@langchain/langgraph-checkpoint'

const toItem = item =>
  item && {
    namespace: item.namespace,
    key: item.key,
    value: item.value,
    createdAt: new Date(item.created_at),
    updatedAt: new Date(item.updated_at),
    ...(item.score !== undefined && { score: item.score }),
  }
const pathOf = (conditions, type) => conditions?.find(({ matchType }) => matchType === type)?.path

export class ServerStore extends BaseStore {
  #ask
  constructor(ask) {
    super()
    this.#ask = ask
  }

  /** Writes come before reads that follow them: the server answers in the order of one connection at a time. */
  async batch(operations) {
    const results = []
    for (const operation of operations) results.push(await this.#run(operation))
    return results
  }

  async #run(operation) {
    if ('namespacePrefix' in operation) {
      const { namespacePrefix, filter, query, limit = 10, offset = 0 } = operation
      const items = await this.#ask({ op: 'search', prefix: namespacePrefix, filter, query, limit, offset })
      return items.map(toItem)
    }
    if ('value' in operation) {
      const { namespace, key, value, ttl, index } = operation
      await this.#ask({ op: 'put', namespace, key, value, ttl, index })
      return undefined
    }
    if ('key' in operation)
      return toItem(await this.#ask({ op: 'get', namespace: operation.namespace, key: operation.key }))
    const { matchConditions, maxDepth, limit = 100, offset = 0 } = operation
    return this.#ask({
      op: 'namespaces',
      prefix: pathOf(matchConditions, 'prefix'),
      suffix: pathOf(matchConditions, 'suffix'),
      max_depth: maxDepth,
      limit,
      offset,
    })
  }
}
