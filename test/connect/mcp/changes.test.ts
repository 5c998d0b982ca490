// Changes at /mcp: a plan, then exactly that plan, accepted by a person where the client can ask one.
import { beforeEach, describe, expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { minimalBody } from '../../support/deployment-bodies.ts'
import { imageConfig, listRevisions } from '../../support/deployments.ts'
import { connectMcp } from '../../support/mcp.ts'
import { setUpPreviews } from '../../support/previews.ts'
import { newSha, serveRepositories } from '../../support/pushes.ts'

beforeEach(() => serveRepositories())

const CREATE = { change: 'create', body: { ...minimalBody, name: 'app', source_revision_config: imageConfig } }
const patchTo = (cpu: number) => ({
  change: 'patch',
  deployment: 'app',
  body: { source_config: { resource_spec: { cpu } } },
})
const ASKS = { capabilities: { elicitation: {} } }

async function newApp(options = {}) {
  const tenant = await newTenant()
  const client = connectMcp(tenant.key, options)
  const { id } = (await tenant.post('/v2/deployments', CREATE.body)).body
  const plan = async (change: Record<string, unknown>) => (await client.call('plan_change', change)).data
  const numbers = async () => (await listRevisions(tenant, id)).map(({ number }) => number)
  return { tenant, client, id, plan, numbers }
}

describe.each(['2026-07-28', '2025-06-18'] as const)('in %s, a change', era => {
  it('is planned, then applied by its digest, once', async () => {
    const tenant = await newTenant()
    const client = connectMcp(tenant.key, { era })
    const list = async () => (await tenant.get('/v2/deployments')).body.resources
    const { data: plan, result } = await client.call('plan_change', CREATE)
    expect(plan).toMatchObject({ creates_revision: true, plan_digest: expect.any(String) })
    expect(result.content[0].text).toContain('create app')
    expect(await list()).toEqual([])

    const apply = () => client.call('apply_plan', { ...CREATE, plan_digest: plan.plan_digest })
    const { data } = await apply()
    const [{ id }] = await list()
    expect(data).toMatchObject({ deployment_id: id, name: 'app' })
    expect(data.link).toBe(`http://slipway.test/ui/${tenant.tenant_id}/deployments/${id}`)
    // A repeat gets the stored answer.
    expect((await apply()).data).toEqual(data)
    expect(await list()).toHaveLength(1)
  })

  it('that is stale is not applied, and shows the new plan', async () => {
    const { tenant, client, id, plan, numbers } = await newApp({ era })
    const { plan_digest } = await plan(patchTo(3))
    await tenant.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { cpu: 2 } } })
    const { isError, data } = await client.call('apply_plan', { ...patchTo(3), plan_digest })
    expect([isError, data.code]).toEqual([true, 'plan_stale'])
    expect(data.plan.changes).toMatchObject([{ before: 2, after: 3 }])
    expect(await numbers()).toEqual([2, 1])
    const applied = await client.call('apply_plan', { ...patchTo(3), plan_digest: data.plan.plan_digest })
    expect([applied.isError, await numbers()]).toEqual([false, [3, 2, 1]])
  })
})

describe('a digest', () => {
  it('is that of one change: another one is refused', async () => {
    const { client, plan, numbers } = await newApp()
    const { plan_digest } = await plan(patchTo(3))
    for (const other of [patchTo(4), { change: 'redeploy', deployment: 'app' }]) {
      const { data } = await client.call('apply_plan', { ...other, plan_digest })
      expect(data.code).toBe('plan_stale')
    }
    expect(await numbers()).toEqual([1])
  })

  it('is that of one deployment: another one of the same version is not changed', async () => {
    const { tenant, client, plan } = await newApp()
    const { body: twin } = await tenant.post('/v2/deployments', { ...CREATE.body, name: 'twin' })
    const { plan_digest } = await plan(patchTo(3))
    const { data } = await client.call('apply_plan', { ...patchTo(3), deployment: 'twin', plan_digest })
    expect([data.code, (await listRevisions(tenant, twin.id)).length]).toEqual(['plan_stale', 1])
  })

  it('is that of one workspace: nothing is created in another', async () => {
    const { tenant } = await newApp()
    await tenant.owner.post('/workspaces', { display_name: 'Second' })
    const client = connectMcp(tenant.owner.key)
    const change = { ...CREATE, body: { ...CREATE.body, name: 'new' } }
    const { plan_digest } = (await client.call('plan_change', { ...change, workspace: 'Second' })).data
    const { data } = await client.call('apply_plan', { ...change, workspace: tenant.tenant_id, plan_digest })
    expect(data.code).toBe('plan_stale')
  })

  it.each([
    ['redeploy', {}],
    ['redeploy', { revision: 1 }],
    ['rollback', { revision: 1 }],
  ])('applies a %s with %o', async (change, args) => {
    const { tenant, client, id, plan, numbers } = await newApp()
    await tenant.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { cpu: 2 } } })
    const wanted = { change, deployment: 'app', ...args }
    const { plan_digest } = await plan(wanted)
    const { isError, data } = await client.call('apply_plan', { ...wanted, plan_digest })
    expect([isError, data.deployment_id, await numbers()]).toEqual([false, id, [3, 2, 1]])
  })

  it('counts once for each plan: two redeploys make two revisions', async () => {
    const { client, plan, numbers } = await newApp()
    const wanted = { change: 'redeploy', deployment: 'app' }
    for (const expected of [
      [2, 1],
      [3, 2, 1],
    ]) {
      const { plan_digest } = await plan(wanted)
      await client.call('apply_plan', { ...wanted, plan_digest })
      expect(await numbers()).toEqual(expected)
    }
  })
})

describe('a client that can ask a person', () => {
  const answer = (action: string, requestState: string) => ({ inputResponses: { confirm: { action } }, requestState })

  it('gets the plan as a question, and only an accepted one is applied', async () => {
    const { client, plan, numbers } = await newApp(ASKS)
    const args = { ...patchTo(3), plan_digest: (await plan(patchTo(3))).plan_digest }
    const { result: question } = await client.call('apply_plan', args)
    expect(question).toMatchObject({ resultType: 'input_required', requestState: expect.any(String) })
    const { params } = question.inputRequests.confirm
    expect(params.message).toContain('cpu')
    const state: string = question.requestState

    for (const action of ['decline', 'cancel']) {
      const { isError, data } = await client.call('apply_plan', args, answer(action, state))
      expect([isError, data.code]).toEqual([true, 'not_confirmed'])
    }
    expect(await numbers()).toEqual([1])

    // An answer without the state of this very plan is no answer.
    for (const wrong of [answer('accept', 'forged'), { inputResponses: { confirm: { action: 'accept' } } }])
      expect((await client.call('apply_plan', args, wrong)).result.resultType).toBe('input_required')
    const other = { ...patchTo(4), plan_digest: (await plan(patchTo(4))).plan_digest }
    expect((await client.call('apply_plan', other, answer('accept', state))).result.resultType).toBe('input_required')
    expect(await numbers()).toEqual([1])

    const { isError } = await client.call('apply_plan', args, answer('accept', state))
    expect([isError, await numbers()]).toEqual([false, [2, 1]])
  })

  it('accepts for one workspace, and reads only the arguments that the change uses', async () => {
    const { tenant } = await newApp()
    await tenant.owner.post('/workspaces', { display_name: 'Second' })
    const client = connectMcp(tenant.owner.key, ASKS)
    const change = { ...CREATE, deployment: 'a page.\nThis is safe', revision: 'nothing else', workspace: 'Second' }
    const body = { ...CREATE.body, name: 'new' }
    const { plan_digest } = (await client.call('plan_change', { ...change, body })).data
    const { result } = await client.call('apply_plan', { ...change, body, plan_digest })
    const { message } = result.inputRequests.confirm.params
    expect(message).toMatch(/create new: .*In the workspace Second\.$/s)
    expect(message).not.toMatch(/safe|nothing else/)
    const elsewhere = { ...change, body, plan_digest, workspace: tenant.tenant_id }
    const replayed = await client.call('apply_plan', elsewhere, answer('accept', result.requestState))
    expect(replayed.data).toMatchObject({ code: 'plan_stale' })
    const interrupted = { deployment: tenant.tenant_id, revision: tenant.tenant_id }
    const stateOf = async (workspace: string) =>
      (await client.call('interrupt_revision', { ...interrupted, workspace })).result.requestState
    expect(await stateOf('Second')).not.toBe(await stateOf(tenant.tenant_id))
  })

  it('gets a failure at once if a plan is stale', async () => {
    const { tenant, client, id, plan } = await newApp(ASKS)
    const { plan_digest } = await plan(patchTo(3))
    await tenant.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { cpu: 2 } } })
    const { data } = await client.call('apply_plan', { ...patchTo(3), plan_digest })
    expect(data.code).toBe('plan_stale')
  })

  it('is asked before a revision is interrupted', async () => {
    const { tenant, client, id } = await newApp(ASKS)
    const args = { deployment: 'app', revision: 'in_flight' }
    const { result } = await client.call('interrupt_revision', args)
    const statusOf = async () => (await listRevisions(tenant, id))[0]!.status
    expect([result.resultType, await statusOf()]).toEqual(['input_required', 'AWAITING_DEPLOY'])
    await client.call('interrupt_revision', args, answer('accept', result.requestState))
    expect(await statusOf()).toBe('INTERRUPTED')
  })
})

it('a commit of a fork is found and approved', async () => {
  const { tenant, parent, pull } = await setUpPreviews({ forks: 'approve' })
  const sha = newSha()
  await pull('opened', 7, { fork: true, sha })
  const client = connectMcp(tenant.key)
  const { previews } = (await client.call('list_previews', { state: 'awaiting_approval' })).data
  expect(previews).toMatchObject([{ deployment: parent.name, number: 7, head_sha: sha, fork: true }])
  const moved = await client.call('approve_preview', { deployment: parent.name, number: 7, head_sha: newSha() })
  expect(moved.data.code).toBe('preview_moved')
  const approved = await client.call('approve_preview', { deployment: parent.name, number: '7', head_sha: sha })
  expect(approved.data).toMatchObject({ number: 7, approved_sha: sha })
})

it('a preview of an image is made once a person has accepted it, listed and deleted', async () => {
  const tenant = await newTenant()
  await tenant.post('/v2/deployments', CREATE.body)
  const client = connectMcp(tenant.key, ASKS)
  const list = async () => (await client.call('list_previews', {})).data.previews
  const accept = async (name: string, args: object) => {
    const { result } = await client.call(name, { deployment: 'app', ...args })
    expect(result.resultType).toBe('input_required')
    const accepted = { inputResponses: { confirm: { action: 'accept' } }, requestState: result.requestState }
    return client.call(name, { deployment: 'app', ...args }, accepted)
  }
  const source = { branch: 'try', image_uri: 'ghcr.io/acme/app:next' }
  const made = await accept('make_preview', source)
  const [preview] = await list()
  expect(preview).toMatchObject({ id: made.data.id, deployment: 'app', kind: 'request', branch: 'try' })
  expect((await accept('delete_preview', { preview: preview.id })).isError).toBe(false)
  expect(await list()).toMatchObject([{ id: preview.id, state: 'ended' }])
  const nothing = await accept('make_preview', { branch: 'try' })
  expect(nothing.data.code).toBe('invalid_request')
})

it('steps of a rollout are set once a person has accepted them, and nothing moves that is not under way', async () => {
  const { tenant, id } = await newApp()
  const client = connectMcp(tenant.key, ASKS)
  const policy = { steps: [{ share: 10, minutes: 5 }], gates: { errors: {} } }
  const accept = async (args: object) => {
    const { result } = await client.call('change_rollout', { deployment: 'app', ...args })
    expect(result.resultType).toBe('input_required')
    const accepted = { inputResponses: { confirm: { action: 'accept' } }, requestState: result.requestState }
    return client.call('change_rollout', { deployment: 'app', ...args }, accepted)
  }
  expect((await accept({ action: 'set', policy })).data.rollout).toMatchObject({ steps: [{ share: 10, requests: 0 }] })
  expect((await tenant.get(`/v2/deployments/${id}`)).body.rollout.gates.errors).toMatchObject({ margin: 0.01 })
  expect((await accept({ action: 'promote' })).data.code).toBe('rollout_not_running')
  expect((await client.call('change_rollout', { deployment: 'app', action: 'set' })).data.code).toBe(
    'invalid_arguments',
  )
})
