// Which handlers a path has: a tree of its segments, in which a name goes before a parameter.
import { type Params, type Result, type Router, UnsupportedPathError } from 'hono/router'

type RouteEntry<T> = { method: string; handler: T; names: string[] }
class SegmentNode<T> {
  readonly named = new Map<string, SegmentNode<T>>()
  readonly entries: RouteEntry<T>[] = []
  parameter: SegmentNode<T> | undefined
}

/** Of Hono's own routers, the quick one refuses a name beside a parameter, and the other searches anew for every request. */
export class SegmentRouter<T> implements Router<T> {
  readonly name = 'SegmentRouter'
  readonly #root = new SegmentNode<T>()
  readonly #everywhere: [T, Params][] = []

  add(method: string, path: string, handler: T): void {
    if (path === '*' || path === '/*') return void this.#everywhere.push([handler, {}])
    if (path.includes('*')) throw new UnsupportedPathError(path)
    const names: string[] = []
    let node = this.#root
    for (const segment of path.split('/')) {
      if (segment.startsWith(':')) {
        names.push(segment.slice(1))
        node.parameter ??= new SegmentNode()
        node = node.parameter
      } else {
        const named = node.named.get(segment) ?? new SegmentNode()
        node.named.set(segment, named)
        node = named
      }
    }
    node.entries.push({ method, handler, names })
  }

  match(method: string, path: string): Result<T> {
    const values: string[] = []
    const found = findNode(this.#root, path.split('/'), 0, values)
    const handlers = [...this.#everywhere]
    for (const entry of found?.entries ?? []) {
      if (entry.method !== method && entry.method !== 'ALL') continue
      const params: Params = {}
      for (let i = 0; i < values.length; i++) params[entry.names[i]!] = values[i]!
      handlers.push([entry.handler, params])
    }
    return [handlers]
  }
}

/** An empty segment is no value. What is dead behind a name may live behind a parameter. */
function findNode<T>(
  node: SegmentNode<T>,
  segments: string[],
  at: number,
  values: string[],
): SegmentNode<T> | undefined {
  if (at === segments.length) return node.entries.length > 0 ? node : undefined
  const segment = segments[at]!
  const named = node.named.get(segment)
  const found = named && findNode(named, segments, at + 1, values)
  if (found || segment === '' || !node.parameter) return found
  const taken = values.length
  values.push(segment)
  const behind = findNode(node.parameter, segments, at + 1, values)
  if (!behind) values.length = taken
  return behind
}
