// Published clients have `/api/v1` in their base address or in their paths, and some have `/v1` before every path.
import { getPath } from 'hono/utils/url'
import { readingOf } from './contract-words.ts'

/** The first segments of the routes below `/v1`. No route at the root begins with one of them. */
const BELOW_V1 = new Set([
  'audit-logs',
  'integrations',
  'model-budgets',
  'model-configurations',
  'model-proxy',
  'model-usage',
  'platform',
  'projects',
  'sync',
])

/** Hono routes by this path. The URL of the request stays as it was sent. */
export const resolvePath = (request: Request): string => readingOf(request)?.path ?? resolveAlias(getPath(request))

/** Routes are declared either below `/v1` or at the root: `/api/v1` and `/v1` reach both. `/api/v2` is `/v2`. */
export function resolveAlias(path: string): string {
  if (path.startsWith('/api/v2/')) return path.slice('/api'.length)
  const prefix = ['/api/v1/', '/v1/'].find(one => path.startsWith(one))
  if (!prefix) return path
  const rest = path.slice(prefix.length)
  const [first] = rest.split(/[/?]/, 1)
  return BELOW_V1.has(first!) ? `/v1/${rest}` : `/${rest}`
}
