// Parts of the app that are imported when a request needs them first. Most requests of an isolate need one or two.
import type { Env, Hono } from 'hono'
import { loadOnce } from './load-once.ts'
import { resolvePath } from './path-aliases.ts'

/** Serves every path that begins with one of `starts`. */
type Part = { starts: readonly string[]; mount: () => Promise<void> }

/** By segments, of which `*` stands for any one. */
export const beginsWith = (path: readonly string[], start: readonly string[]): boolean =>
  start.every((segment, i) => (segment === '*' ? path[i] : path[i] === segment))

/**
 * Mounts all parts that may serve a request before its route is looked for, so that the answer does not depend on what
 * was mounted earlier. A part that fails to mount is tried again by the next request.
 */
export function mountOnDemand<E extends Env>(
  app: Hono<E>,
  parts: Part[],
  createFailing: (error: unknown) => Hono<E>,
): void {
  let waiting = parts.map(({ starts, mount }) => ({
    starts: starts.map(start => start.split('/')),
    mountOnce: loadOnce(mount),
  }))
  const answer = app.fetch
  app.fetch = async (request, ...rest) => {
    if (waiting.length === 0) return answer(request, ...rest)
    const path = resolvePath(request).split('/')
    const needed = waiting.filter(({ starts }) => starts.some(start => beginsWith(path, start)))
    try {
      for (const { mountOnce } of needed) await mountOnce()
    } catch (error) {
      return createFailing(error).fetch(request, ...rest)
    }
    if (needed.length > 0) waiting = waiting.filter(part => !needed.includes(part))
    return answer(request, ...rest)
  }
}
