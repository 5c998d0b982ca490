// The client of the API in a page. The session's cookie authenticates it; the workspace is the one in the address.
import { computed, signal } from '@preact/signals'
import { type Client, createClient, type Reply } from '../../client/client.ts'
import { ApiError } from '../../client/errors.ts'

export type { Answer, CallOptions, Item, ListRoute, Reply, Route } from '../../client/client.ts'
export { nextCursor } from '../../client/client.ts'
export { ApiError, ConnectionError } from '../../client/errors.ts'

export type Me = Reply<'GET /v2/me'>
export type Workspace = Me['workspaces'][number]

export const workspaceId = signal<string | undefined>(undefined)
export const caller = signal<Me | undefined>(undefined)
/** A counter that increases when the answer of `/v2/me` has changed, such as the name of a workspace. */
export const meVersion = signal(0)
/** Set when a request found that the session has ended. The page stays, so that no draft is lost. */
export const sessionEnded = signal(false)

async function fetchWithSession(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init)
  if (response.status === 401) sessionEnded.value = true
  return response
}

/** A session is accepted only with this type, also where there is no body: a form of another site cannot send it. */
const HEADERS = { 'Content-Type': 'application/json' }
const client = computed(() =>
  createClient({ url: location.origin, workspace: workspaceId.value, fetch: fetchWithSession, headers: HEADERS }),
)
export const getClient = (): Client => client.value

/** True if the answer compared long texts in part. A page sends no other request that gets a warning. */
export const isPartial = ({ headers }: { headers: Headers }): boolean => headers.has('Slipway-Warnings')

/** The caller, or undefined without a session. */
export async function readMe(): Promise<Me | undefined> {
  try {
    // Until it answers, the page has nothing to show.
    return await createClient({ url: location.origin, timeoutMs: 15_000, retry: { attempts: 3 } }).call('GET /v2/me')
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return undefined
    throw error
  }
}

export const signInAddress = (next: string): string => `/sign-in?next=${encodeURIComponent(next)}`
export const currentPath = (): string => location.pathname + location.search + location.hash
