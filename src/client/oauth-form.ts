// A form sent to an endpoint of OAuth, whose failures are not problems but errors by RFC 6749.
import { ApiError, isProblem, toConnectionError } from './errors.ts'

export type FormOptions = { url: string; headers?: Record<string, string>; signal?: AbortSignal | undefined }

const TIMEOUT_MS = 30_000

export async function postForm<Answer>(
  { url, headers, signal }: FormOptions,
  path: string,
  fields: Record<string, string>,
): Promise<Answer> {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  const target = url.replace(/\/$/, '') + path
  try {
    const response = await fetch(target, {
      method: 'POST',
      redirect: 'error',
      headers: { ...headers, 'Content-Type': 'application/x-www-form-urlencoded' },
      body: String(new URLSearchParams(fields)),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
    const body: unknown = await response.json().catch(() => undefined)
    if (response.ok && body !== undefined) return body as Answer
    if (isProblem(body)) throw new ApiError(response, body)
    const { error: code, error_description, request_id } = (body ?? {}) as Partial<Record<string, string>>
    const detail = error_description ?? `The server answered ${response.status}, which is no answer of Slipway.`
    throw new ApiError(response, { detail, ...(code && { code }), ...(request_id && { request_id }) })
  } catch (error) {
    signal?.throwIfAborted()
    throw error instanceof ApiError ? error : toConnectionError(target, error)
  }
}
