// Writes the request of an action as a command for a shell (pure).
import type { CallOptions, Route } from '../../client/client.ts'
import { quote } from '../format/shell-word.ts'

export type WriteRoute = Exclude<Route, `GET ${string}`>
export type ActionRequest = {
  route: WriteRoute
  options: { params?: object; query?: object; body?: unknown }
  /** The digest of the shown plan. The API refuses the request if the plan has changed. */
  planDigest?: string
}

/** Checks the types: the request fits its route. */
export const request = <R extends WriteRoute>(
  route: R,
  options: Pick<CallOptions<R>, Extract<keyof CallOptions<R>, 'params' | 'query' | 'body'>>,
): ActionRequest => ({ route, options: options as ActionRequest['options'] })

/** Escapes characters that a terminal does not show, such as those that reverse the direction of text. */
const toJson = (body: unknown) =>
  JSON.stringify(body).replace(
    /[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
    mark => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

function toPath({ route, options }: ActionRequest): { method: string; path: string } {
  const [method, template] = route.split(' ') as [string, string]
  const params = (options.params ?? {}) as Record<string, string>
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name]!))
  const query = new URLSearchParams((options.query ?? {}) as Record<string, string>).toString()
  return { method, path: path + (query && `?${query}`) }
}

/** The key stays out of the command, and so out of shell histories. */
export function toCurl(action: ActionRequest, origin: string, workspace: string | undefined): string {
  const { method, path } = toPath(action)
  const { body } = action.options
  const parts = [`curl -X ${method} ${quote(origin + path)}`, '-H "X-Api-Key: $SLIPWAY_API_KEY"', `-H 'If-Match: *'`]
  if (workspace) parts.push(`-H 'X-Tenant-Id: ${workspace}'`)
  if (action.planDigest) parts.push(`-H 'Plan-Digest: ${action.planDigest}'`)
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(toJson(body))}`)
  return parts.join(' \\\n  ')
}

export function toCommand(request: ActionRequest): string {
  const { method, path } = toPath(request)
  const { body } = request.options
  const digest = request.planDigest ? ` --plan-digest ${request.planDigest}` : ''
  const send = `slipway api ${method} ${quote(path)}${digest}`
  // Not by `echo`: that of zsh and of dash reads `\n` as the end of a line.
  return body === undefined ? send : `printf %s ${quote(toJson(body))} | ${send} --input -`
}
