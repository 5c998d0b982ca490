// Explains the errors of the cluster's API: what a user or the operator can do, and whether a retry can help.
import { ApiException } from '@kubernetes/client-node'
import { PermanentError, TransientError } from '../../engine.ts'
import { explainExceededQuota } from './pod-failures.ts'
import { parseJson } from './snapshot-annotations.ts'

export const isNamespaceError = (error: ApiException<unknown>) => /^namespaces? /.test(messageOf(error))

export function messageOf({ body }: ApiException<unknown>): string {
  const status = typeof body === 'string' ? parseJson(body) : body
  const message = (status as { message?: unknown } | null)?.message
  return typeof message === 'string' ? message : typeof body === 'string' ? body.slice(0, 500) : ''
}
function suggestChange(action: string): string {
  if (/ (Ingress|HTTPRoute) /.test(action)) return 'Change custom_url.'
  return / Secret /.test(action) ? 'Change the secrets.' : 'Change resource_spec.'
}

export const EXCEEDED_QUOTA = /exceeded quota/
export const NO_PERMISSION = /User "[^"]*" cannot /

/** Server-side apply answers 500 to an invalid object, such as a duplicate name or an invalid quantity. */
const INVALID_OBJECT = /^failed to (create typed patch object|convert new )/

/** Permanent if a retry cannot help: its message is for the user. */
export function toEngineError(error: unknown, action: string): Error {
  if (!(error instanceof ApiException)) {
    const cause = error instanceof Error ? error : new Error(String(error))
    return new TransientError(`The cluster is unreachable (request: ${action}): ${cause.message}`, { cause })
  }
  const { code } = error
  const message = messageOf(error)
  if (code === 403 && EXCEEDED_QUOTA.test(message)) return new PermanentError(explainExceededQuota(message))
  if (code === 403 && /because it is being terminated/.test(message))
    return new PermanentError(`The namespace is being deleted (${message}). Deploy to another namespace.`)
  // An admission controller also answers 403 to an object that it rejects.
  if (code === 403 && message !== '' && !NO_PERMISSION.test(message))
    return new PermanentError(`The cluster rejected the request to ${action}: ${message}. ${suggestChange(action)}`)
  if (code === 403 || code === 401)
    return new PermanentError(
      `The agent has no permission to ${action} (${message || code}). ` +
        `Ask the operator to grant it to the agent’s service account.`,
    )
  if (code === 404 && isNamespaceError(error))
    return new PermanentError(`The namespace does not exist (${message}). Ask the operator to create it.`)
  if (code === 404)
    return new PermanentError(
      `The cluster does not have the API that is needed to ${action}. ` +
        `Ask the operator to install it, or to configure the agent without it.`,
    )
  if (code === 400 || code === 413 || code === 422 || (code === 500 && INVALID_OBJECT.test(message)))
    return new PermanentError(`The cluster rejected the request to ${action}: ${message}. ${suggestChange(action)}`)
  return new TransientError(`The cluster answered ${code} to the request to ${action}: ${message}`)
}
