// Annotation queues for tests: a tenant with traced runs, queues, and further reviewers.
import { newTenant, type Tenant, unusedId } from './app.ts'
import { appendRuns, newTrace } from './new-traces.ts'

export const PLATFORM = '/v1/platform/annotation-queues'
export const outcomeOf = ({ status, body }: { status: number; body: { code?: string } | null }) => [status, body?.code]

export async function newQueueTenant(options: Parameters<typeof newTenant>[0] = {}) {
  const tenant = await newTenant(options)
  const createQueue = async (body: Record<string, unknown> = {}): Promise<{ id: string; [member: string]: unknown }> =>
    (await tenant.post('/annotation-queues', { name: unusedId(), ...body })).body
  return { tenant, createQueue, newRuns: (count: number) => newRuns(tenant, count) }
}

/** Creates roots of different traces. */
async function newRuns(tenant: Tenant, count: number): Promise<string[]> {
  const roots = Array.from({ length: count }, () => ({ ...newTrace().root, inputs: '{"a":12345678901234567890}' }))
  await appendRuns(tenant, roots)
  return roots.map(({ id }) => id)
}

/** Creates another caller with every permission, and returns its identity. */
export async function newReviewer(tenant: Tenant) {
  const { body } = await tenant.post('/workspaces/current/api-keys', { description: unusedId() })
  const headers = { 'X-Api-Key': body.key as string }
  return {
    id: body.id as string,
    get: (path: string) => tenant.get(path, headers),
    post: (path: string, sent: unknown) => tenant.post(path, sent, headers),
  }
}
