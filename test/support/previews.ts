// Deployments with a preview policy, and pull requests of their repository.
import { expect } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { sweepPreviews } from '../../src/hosting/previews/sweep.ts'
import { getServices, newTenant, type Tenant, withClockAhead } from './app.ts'
import { deliverAndSettle, newRepository, newRepositoryDeployment } from './pushes.ts'

export const getPolicyPath = (id: string) => `/v2/deployments/${id}/preview-policy`
export const OVERLAY_SECRETS = [{ name: 'OVERLAY', value: 'over' }]

export async function setUpPreviews(policy: object = {}, over: object = {}) {
  const tenant = await newTenant()
  const repository = await newRepository(tenant)
  const parent = await newRepositoryDeployment(tenant, repository, 0, over as Record<string, unknown>)
  const set = await tenant.put(getPolicyPath(parent.id), { branches: ['**'], secrets: OVERLAY_SECRETS, ...policy })
  expect(set.status).toBe(200)
  const integration = repository.integrations[0]!
  const pull = async (...args: Parameters<typeof repository.pull>) => {
    const reply = await deliverAndSettle(integration, repository.pull(...args))
    expect(reply.status).toBe(202)
  }
  const previews = async () => (await tenant.get(`/v2/deployments/${parent.id}/previews`)).body.resources
  const preview = async (number = 1) => (await previews()).find((one: { number: number }) => one.number === number)
  const child = async (number = 1) => {
    const { deployment_id } = await preview(number)
    return deployment_id && (await tenant.get(`/v2/deployments/${deployment_id}?reveal=true`)).body
  }
  const sweep = (ahead = 0) => withClockAhead(ahead, () => sweepPreviews(getServices()))
  const approve = async (head_sha: string, number = 1, as: { post: Tenant['post'] } = tenant) => {
    const reply = await as.post(`/v2/deployments/${parent.id}/previews/${number}/approval`, { head_sha })
    await finishPendingWork()
    return reply
  }
  const live = async () =>
    (await tenant.get('/v2/deployments?limit=100')).body.resources.filter(
      (one: { parent_deployment_id: string | null; status: string }) =>
        one.parent_deployment_id !== null && one.status !== 'AWAITING_DELETE',
    )
  return { tenant, repository, parent, pull, previews, preview, child, sweep, approve, live }
}
export const mapSecretValues = ({ secrets }: { secrets: { name: string; value: string }[] }) =>
  Object.fromEntries(secrets.map(({ name, value }) => [name, value]))
