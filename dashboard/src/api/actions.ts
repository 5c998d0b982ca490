// Writing: an action is a request with a label, so that whatever can be pressed can also be copied as a command.
import type { CallOptions, Reply, Route } from './client.ts'
import { getClient, workspaceId } from './client.ts'

type WriteRoute = Exclude<Route, `GET ${string}`>
export type ActionRequest = { route: WriteRoute; options: { params?: object; query?: object; body?: unknown } }

export type Action = {
  /** The verb and its object: “Interrupt r42”. */
  label: string
  request: ActionRequest
  /** The command of the command line, if there is a shorter one than `slipway api`. */
  command?: string
  /** What will be gone and what stays. Without it, the action runs at once. */
  confirm?: { title: string; body: string; isDestructive?: boolean }
  /** Says what has happened. */
  done: string
}

/** Only for types: an action whose request fits its route. */
export const request = <R extends WriteRoute>(
  route: R,
  options: Pick<CallOptions<R>, Extract<keyof CallOptions<R>, 'params' | 'query' | 'body'>>,
): ActionRequest => ({ route, options: options as ActionRequest['options'] })

export const perform = ({ route, options }: ActionRequest): Promise<Reply<WriteRoute>> =>
  getClient().call(route, options as never)

const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function toPath({ route, options }: ActionRequest): { method: string; path: string } {
  const [method, template] = route.split(' ') as [string, string]
  const params = (options.params ?? {}) as Record<string, string>
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name]!))
  const query = new URLSearchParams((options.query ?? {}) as Record<string, string>).toString()
  return { method, path: path + (query && `?${query}`) }
}

/** The key stays out of the command, and so out of shell histories. */
export function toCurl(action: ActionRequest): string {
  const { method, path } = toPath(action)
  const { body } = action.options
  const parts = [`curl -X ${method} ${quote(location.origin + path)}`, '-H "X-Api-Key: $SLIPWAY_API_KEY"']
  if (workspaceId.value) parts.push(`-H 'X-Tenant-Id: ${workspaceId.value}'`)
  if (body !== undefined) parts.push(`-H 'Content-Type: application/json'`, `-d ${quote(JSON.stringify(body))}`)
  return parts.join(' \\\n  ')
}

export function toCommand({ request, command }: Pick<Action, 'request' | 'command'>): string {
  if (command) return command
  const { method, path } = toPath(request)
  const { body } = request.options
  const send = `slipway api ${method} ${quote(path)}`
  return body === undefined ? send : `echo ${quote(JSON.stringify(body))} | ${send} --input -`
}
