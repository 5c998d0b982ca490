// Published clients have `/api/v1` in their base address or in their paths. Routes are declared without it.
import { getPath } from 'hono/utils/url'

/** Each path below `/api` is that of another route. */
const ALIASES: [prefix: string, path: string][] = [
  ['/api/v1/platform/', '/v1/platform/'],
  ['/api/v1/', '/'],
  ['/api/v2/', '/v2/'],
]

/** Hono routes by this path. The URL of the request stays as it was sent. */
export const resolvePath = (request: Request): string => resolveAlias(getPath(request))

export function resolveAlias(path: string): string {
  const alias = ALIASES.find(([prefix]) => path.startsWith(prefix))
  return alias ? alias[1] + path.slice(alias[0].length) : path
}
