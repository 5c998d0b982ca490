// Writing: an action is a request with a label, so that each button can also be copied as a command.
import type { ActionRequest, WriteRoute } from './action-command.ts'
import { type CallOptions, getClient, type Reply } from './client.ts'

export type Action = {
  /** The verb and its object: “Interrupt r42”. */
  label: string
  request: ActionRequest
  /** Why the caller cannot do it. It is then offered, but not performed. */
  unavailable?: string | undefined
  /** The request as it is copied, if its body has secrets. */
  copied?: ActionRequest
  /** The command of the command line, if there is a shorter one than `slipway api`. */
  command?: string
  /** What will be gone and what stays. Without it, the action runs at once. */
  confirm?: {
    title: string
    body: string
    isDestructive?: boolean
    /** What a person has to type first, because much is lost: the name of the thing. */
    typed?: string
  }
  /** Says what has happened. */
  done: string
}

/** Only for types: an action whose request fits its route. */
export const request = <R extends WriteRoute>(
  route: R,
  options: Pick<CallOptions<R>, Extract<keyof CallOptions<R>, 'params' | 'query' | 'body'>>,
): ActionRequest => ({ route, options: options as ActionRequest['options'] })

/** Of what is there now: a workspace can require that a change names a version. Plans are bound by their digest. */
const OF_ANY_VERSION = { 'If-Match': '*' }

export const perform = ({ route, options }: ActionRequest): Promise<Reply<WriteRoute>> =>
  getClient().call(route, { headers: OF_ANY_VERSION, ...options } as never)
