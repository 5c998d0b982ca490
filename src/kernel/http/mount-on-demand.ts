// Parts of the app that are imported when a request needs them first. Most requests of an isolate need one or two.
import type { Env, Hono } from 'hono'
import { loadOnce } from './load-once.ts'
import { resolvePath } from './path-aliases.ts'

/** Serves every path that begins with one of `starts`, whose first segments are literal. */
type Part = { starts: readonly string[]; mount: () => Promise<void> }
type Waiting = { start: string[]; mountOnce: () => Promise<void> }

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
  /** By the first segment, so that a request is compared with few. */
  const waiting = new Map<string, Waiting[]>()
  for (const { starts, mount } of parts) {
    const mountOnce = loadOnce(mount)
    for (const start of starts.map(text => text.split('/')))
      waiting.set(start[1]!, [...(waiting.get(start[1]!) ?? []), { start, mountOnce }])
  }
  const answer = app.fetch

  async function mountAll(needed: Waiting[], first: string): Promise<void> {
    for (const { mountOnce } of needed) await mountOnce()
    waiting.set(
      first,
      waiting.get(first)!.filter(one => !needed.includes(one)),
    )
  }

  app.fetch = (request, ...rest) => {
    const path = resolvePath(request).split('/')
    const first = path[1]!
    const needed = waiting.get(first)?.filter(({ start }) => beginsWith(path, start)) ?? []
    if (needed.length === 0) return answer(request, ...rest)
    return mountAll(needed, first).then(
      () => answer(request, ...rest),
      error => createFailing(error).fetch(request, ...rest),
    )
  }
}
