// Writes: an action is a request with a label, so each button can also be copied as a command.
import type { ActionRequest, WriteRoute } from './action-command.ts'
import { getClient, type Reply } from './client.ts'

export { request } from './action-command.ts'

export type Action = {
  /** The verb and the object: “Interrupt r42”. */
  label: string
  request: ActionRequest
  /** The reason why the caller cannot perform it. The control is then shown, but disabled. */
  unavailable?: string | undefined
  /** The request as it is copied, if its body has secrets. */
  copied?: ActionRequest
  /** The command of the command line, if there is a shorter one than `slipway api`. */
  command?: string
  /** The question before it runs: what is lost and what stays. Without it, the action runs at once. */
  confirm?: {
    title: string
    body: string
    isDestructive?: boolean
    /** The text to type first, if much is lost: the name of the resource. */
    typed?: string
  }
  /** Opens the plan of the action, which applies it. */
  plan?: () => void
  /** The text of the toast. */
  done: string
}

/** The newest version: a workspace can require that a change names a version. */
const OF_ANY_VERSION = { 'If-Match': '*' }

export const perform = ({ route, options, planDigest }: ActionRequest): Promise<Reply<WriteRoute>> =>
  getClient().call(route, { ...options, headers: { ...OF_ANY_VERSION, 'Plan-Digest': planDigest } } as never)
