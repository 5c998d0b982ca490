// Parts of the app that are imported when a request needs them first. Most requests of an isolate need one or two.
import type { Env, Hono } from 'hono'
import { loadOnce } from './load-once.ts'
import { resolvePath } from './path-aliases.ts'

/** Serves every path that begins with one of `paths`. A segment `*` stands for any one. */
type Part = { paths: readonly string[]; mount: () => Promise<void> }

export const matchPaths = (paths: readonly string[]): RegExp =>
  new RegExp(`^(?:${paths.map(path => path.replaceAll('.', '\\.').replaceAll('*', '[^/]+')).join('|')})(?:/|$)`)

/**
 * Mounts all parts that may serve a request before its route is looked for, so that the answer does not depend on what
 * was mounted earlier. A part that fails to mount is tried again by the next request.
 */
export function mountOnDemand<E extends Env>(
  app: Hono<E>,
  parts: Part[],
  createFailing: (error: unknown) => Hono<E>,
): void {
  let waiting = parts.map(({ paths, mount }) => ({ pattern: matchPaths(paths), mountOnce: loadOnce(mount) }))
  const { fetch } = app
  app.fetch = async (request, ...rest) => {
    if (waiting.length === 0) return fetch(request, ...rest)
    const path = resolvePath(request)
    const needed = waiting.filter(({ pattern }) => pattern.test(path))
    try {
      for (const { mountOnce } of needed) await mountOnce()
    } catch (error) {
      return createFailing(error).fetch(request, ...rest)
    }
    if (needed.length > 0) waiting = waiting.filter(part => !needed.includes(part))
    return fetch(request, ...rest)
  }
}
