// The published clients print links to pages at these addresses. Each leads to what this installation has for it.
import type { Env, Hono } from 'hono'
import { fail } from '../../kernel/http/errors.ts'

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const PROJECT = '/o/:1/projects/p/:2'

/** Shared runs and datasets have no page for people without an account: their links lead to the JSON. */
const TARGETS = {
  [PROJECT]: '/ui/:1/traces/:2',
  '/o/:1/projects/p/:2/r/:3': '/ui/:1/traces/run/:3',
  '/o/:1/host/deployments/:2': '/ui/:1/deployments/:2',
  '/o/:1/datasets/:2': '/ui/:1/datasets/:2',
  '/o/:1/datasets/:2/compare': '/ui/:1/datasets/:2',
  '/public/:1/r': '/public/:1/run',
  '/public/:1/d': '/public/:1/datasets',
}

/** `generate_insights` links to the project, with the job in the query. */
const insightsPath = (path: string, job: string | undefined): string =>
  path === PROJECT && job !== undefined && UUID.test(job) ? `/insights/${job}` : ''

export function serveClientLinks<E extends Env>(app: Hono<E>): void {
  for (const [path, target] of Object.entries(TARGETS))
    app.get(path, c => {
      const ids: Record<string, string> = c.req.param()
      if (!Object.values(ids).every(id => UUID.test(id))) throw fail('route_not_found')
      const address = target.replace(/:(\d)/g, (_, name) => ids[name]!)
      return c.redirect(address + insightsPath(path, c.req.query('clusterJobId')))
    })
}
