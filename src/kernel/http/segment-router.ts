// Router for Hono: a tree of path segments, in which a literal segment wins over a parameter, and both over `/*`, also
// written as `/:name*`, whose parameter is all that is left of the path. A handler of all methods comes after those of
// one method, in whichever order they were added.
import { type Params, type Result, type Router, UnsupportedPathError } from 'hono/router'

type RouteEntry<T> = { method: string; handler: T; names: string[] }
class SegmentNode<T> {
  readonly literals = new Map<string, SegmentNode<T>>()
  readonly entries: RouteEntry<T>[] = []
  parameter: SegmentNode<T> | undefined
  /** A path that ends in `/*` or `/:name*`: every longer path matches. */
  rest: SegmentNode<T> | undefined
}

/** Hono's fast router does not allow a literal beside a parameter; its other one searches anew for each request. */
export class SegmentRouter<T> implements Router<T> {
  readonly name = 'SegmentRouter'
  readonly #root = new SegmentNode<T>()
  readonly #onEveryPath: [T, Params][] = []

  add(method: string, path: string, handler: T): void {
    if (path === '*' || path === '/*') return void this.#onEveryPath.push([handler, {}])
    if (path.replace(/\/(:\w+)?\*$/, '').includes('*')) throw new UnsupportedPathError(path)
    const names: string[] = []
    let node = this.#root
    for (const segment of path.split('/')) {
      if (segment.endsWith('*')) {
        if (segment !== '*') names.push(segment.slice(1, -1))
        node.rest ??= new SegmentNode()
        node = node.rest
      } else if (segment.startsWith(':')) {
        names.push(segment.slice(1))
        node.parameter ??= new SegmentNode()
        node = node.parameter
      } else {
        const literal = node.literals.get(segment) ?? new SegmentNode()
        node.literals.set(segment, literal)
        node = literal
      }
    }
    node.entries.push({ method, handler, names })
  }

  match(method: string, path: string): Result<T> {
    const values: string[] = []
    const found = findNode(this.#root, path.split('/'), 0, values)
    const handlers = [...this.#onEveryPath]
    const entries = found?.entries ?? []
    for (const name of [method, 'ALL'])
      for (const entry of entries) {
        if (entry.method !== name) continue
        const params: Params = {}
        for (let i = 0; i < entry.names.length; i++) params[entry.names[i]!] = values[i]!
        handlers.push([entry.handler, params])
      }
    return [handlers]
  }
}

/** Tries the literal, then the parameter, then the rest. An empty segment is no value of a parameter. */
function findNode<T>(
  node: SegmentNode<T>,
  segments: string[],
  at: number,
  values: string[],
): SegmentNode<T> | undefined {
  if (at === segments.length) return node.entries.length > 0 ? node : undefined
  const segment = segments[at]!
  const literal = node.literals.get(segment)
  const found = literal && findNode(literal, segments, at + 1, values)
  if (found) return found
  const valueCount = values.length
  if (segment !== '' && node.parameter) {
    values.push(segment)
    const foundByParameter = findNode(node.parameter, segments, at + 1, values)
    if (foundByParameter) return foundByParameter
    values.length = valueCount
  }
  if (node.rest) values.push(segments.slice(at).join('/'))
  return node.rest
}
