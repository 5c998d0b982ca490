// Writing: an action is a request with a label, so that each button can also be copied as a command.
import type { ActionRequest, WriteRoute } from './action-command.ts'
import { getClient, type Reply } from './client.ts'

export { request } from './action-command.ts'

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
  /** Shows its plan, which performs it. */
  plan?: () => void
  /** Says what has happened. */
  done: string
}

/** Of what is there now: a workspace can require that a change names a version. */
const OF_ANY_VERSION = { 'If-Match': '*' }

export const perform = ({ route, options, planDigest }: ActionRequest): Promise<Reply<WriteRoute>> =>
  getClient().call(route, { ...options, headers: { ...OF_ANY_VERSION, 'Plan-Digest': planDigest } } as never)
