// Writing: an action is a request with a label, so that each button can also be copied as a command.
import type { ActionRequest, WriteRoute } from './action-command.ts'
import { type CallOptions, getClient, type Reply } from './client.ts'

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

export const perform = ({ route, options, planDigest }: ActionRequest): Promise<Reply<WriteRoute>> =>
  getClient().call(route, { ...options, headers: { 'Plan-Digest': planDigest } } as never)
