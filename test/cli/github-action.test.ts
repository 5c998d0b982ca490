// The GitHub Action, run by a stand-in of the runner against an app that this process serves.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { readInputs } from '../../deploy/github-action/inputs.ts'
import { createPinnedFetch } from '../../src/host/pinned-fetch.ts'
import { type JobResult, readAction, runAction } from '../support/action-runner.ts'
import { type App, newTenant, type Tenant } from '../support/app.ts'
import { makeFolder, runProgram, serveApp } from '../support/cli.ts'
import { silenceRejection, waitFor } from '../support/commands.ts'
import { getPlatformAgent, listRevisions, newDeployment, reportRevision } from '../support/deployments.ts'
import { sendJson, startTokenIssuer, type TokenIssuer } from '../support/token-issuer.ts'

const SOURCE = join(import.meta.dirname, '../../deploy/github-action')
const action = mkdtempSync(join(tmpdir(), 'slipway-action-'))
/** GitHub adds it to the address of its tokens. */
const VERSION = 'api-version=2.0'
let url: string
let app: App
let issuer: TokenIssuer

beforeAll(async () => {
  execFileSync(process.execPath, [join(SOURCE, 'package.ts'), action])
  const foreignFetch = createPinnedFetch({ allowLoopback: true })
  ;({ url, app } = await serveApp(undefined, { allowLoopback: true, foreignFetch }))
  issuer = await startTokenIssuer()
  issuer.instead['/token'] = async ({ url: asked = '', headers }, response) => {
    const query = new URL(asked, issuer.origin).searchParams
    if (headers.authorization !== 'Bearer request-token' || !asked.includes(VERSION)) response.writeHead(401).end()
    else
      sendJson(response, {
        value: await issuer.sign({ aud: query.get('audience'), sub: 'repo:acme/shop:pull_request' }),
      })
  }
})
afterAll(() => {
  issuer.close()
  rmSync(action, { recursive: true, force: true })
})

/** A workspace that trusts the repository, for what the page of the Action gives to its role. */
async function newTrustingTenant(): Promise<Tenant> {
  const tenant = await newTenant({ app })
  const permissions = ['read', 'create', 'update', 'delete'].map(verb => `deployments:${verb}`)
  const { body: role } = await tenant.owner.post('/orgs/current/roles', { display_name: 'CI', permissions })
  const trusted = { name: 'shop', issuer: issuer.origin, subject: 'repo:acme/shop:*', audience: url, role_id: role.id }
  expect((await tenant.post('/v2/trusted-issuers', trusted)).status).toBe(201)
  return tenant
}
/** The variables of a job with the permission `id-token: write`. */
const jobToken = () => ({
  SLIPWAY_API_KEY: '',
  ACTIONS_ID_TOKEN_REQUEST_TOKEN: 'request-token',
  ACTIONS_ID_TOKEN_REQUEST_URL: `${issuer.origin}/token?${VERSION}`,
})
const listKeys = async (tenant: Tenant): Promise<string[]> => {
  const { body } = await tenant.owner.get('/workspaces/current/api-keys', { 'X-Tenant-Id': tenant.tenant_id })
  return body.resources.map(({ id }: { id: string }) => id)
}

type JobOptions = Omit<Partial<Parameters<typeof runAction>[1]>, 'inputs'>

function start(tenant: Tenant, inputs: Record<string, string>, options: JobOptions = {}) {
  const workspace = options.workspace ?? makeFolder({ 'package.json': '{"name": "shop"}', 'server.js': 'serve()' })
  const temp = makeFolder()
  const run = runAction(action, {
    workspace,
    temp,
    ...options,
    env: { SLIPWAY_API_KEY: tenant.key, ...options.env },
    inputs: { url, workspace: tenant.tenant_id, deployment: 'shop', ...inputs },
  })
  return { job: silenceRejection(run), temp }
}

/** The revision of the deployment that has an archive. */
async function waitForRevision(tenant: Tenant, name: string) {
  const { id: revision_id, deployment_id } = await waitFor(async () => {
    const { resources } = (await tenant.get(`/v2/deployments?name=${name}`)).body
    return resources[0] && (await listRevisions(tenant, resources[0].id)).find(({ number }) => number === 1)
  })
  return { deployment_id, revision_id }
}

const HOSTILE = `</pre><img src=x> | @octocat ::error::pwned ##[add-mask]Revision \`x\``
async function logHostileLine(ref: { deployment_id: string; revision_id: string }) {
  const { agent_id, fence, post } = await getPlatformAgent()
  const line = { timestamp: new Date().toISOString(), level: 'INFO', message: HOSTILE }
  const batch = { agent_id, fence, ...ref, kind: 'build', stream: crypto.randomUUID(), from: 0, lines: [line] }
  expect((await post('/v1/sync/logs', batch)).status).toBe(200)
}

const pullRequest = (action: string, repository = 'acme/shop') => ({
  eventName: 'pull_request',
  event: { action, pull_request: { number: 7, head: { repo: { full_name: repository } } } },
})
const listNames = async (tenant: Tenant) =>
  (await tenant.get('/v2/deployments')).body.resources.map(({ name }: { name: string }) => name)
const commandsOf = ({ commands }: JobResult, name: string) => commands.filter(one => one.name === name)

it('puts inputs into scripts as variables only', () => {
  const { inputs, outputs, runs } = readAction(SOURCE)
  const [step] = runs.steps
  expect(step!.run).not.toContain('${{')
  expect(Object.values(step!.env!).sort()).toEqual(
    Object.keys(inputs)
      .map(name => `\${{ inputs.${name} }}`)
      .sort(),
  )
  for (const [name, { value }] of Object.entries(outputs)) expect(value).toBe(`\${{ steps.slipway.outputs.${name} }}`)
})

it('is used by its page with inputs that exist', () => {
  const known = readAction(SOURCE).inputs
  const page = readFileSync(join(SOURCE, '../../docs/deploy/github-action.md'), 'utf8')
  const used = [...page.matchAll(/uses: \.\/.*\n +with:\n((?: {10}.*\n)+)/g)].map(([, block]) =>
    [...block!.matchAll(/^ +([\w-]+):/gm)].map(([, name]) => name!),
  )
  expect(used).toHaveLength(3)
  const required = Object.keys(known).filter(name => known[name]!.required)
  for (const names of used) {
    expect(Object.keys(known)).toEqual(expect.arrayContaining(names))
    expect(names).toEqual(expect.arrayContaining(required))
  }
  for (const name of Object.keys(known)) expect(page).toContain(`| \`${name}\` |`)
})

it('creates and deploys a folder, with outputs and a summary, and keeps nothing', async () => {
  const tenant = await newTrustingTenant()
  const keys = await listKeys(tenant)
  const { job, temp } = start(tenant, { create: 'true' }, { env: jobToken() })
  const ref = await waitForRevision(tenant, 'shop')
  await reportRevision(ref, 'building')
  await logHostileLine(ref)
  await reportRevision(ref, 'deployed', { url: 'http://shop.localhost:9000' })
  const { code, outputs, summary, log, commands } = await job
  expect([code, commands], log).toEqual([0, []])
  expect(outputs).toMatchObject({
    outcome: 'deployed',
    url: 'http://shop.localhost:9000',
    deployment: 'shop',
    revision: '1',
    'deployment-id': ref.deployment_id,
    'revision-id': ref.revision_id,
  })
  expect(JSON.parse(outputs.plan!)).toMatchObject({ creates_revision: true })
  expect(summary).toContain('<a href="http://shop.localhost:9000">')
  expect(summary).toContain(JSON.parse(outputs.plan!).plan_digest)
  expect(log).toContain(HOSTILE)
  expect(log).not.toMatch(/slw_\w{8}|request-token/)
  expect(await listKeys(tenant)).toEqual(keys)
  expect(readdirSync(temp).filter(name => name.startsWith('slipway'))).toEqual([])
})

it('fails with the reason and the last lines of a build, which are neither commands nor markup', async () => {
  const tenant = await newTenant()
  const { job } = start(tenant, { create: 'true' })
  const ref = await waitForRevision(tenant, 'shop')
  await reportRevision(ref, 'building')
  await logHostileLine(ref)
  await reportRevision(ref, 'failed', { message: `npm ci exited with 1: ${HOSTILE}` })
  const result = await job
  const { code, outputs, summary } = result
  expect([code, outputs.outcome, outputs.revision]).toEqual([1, 'build_failed', '1'])
  expect(commandsOf(result, 'error')).toEqual(result.commands)
  expect(result.commands).toHaveLength(1)
  expect(summary).toContain('&#60;/pre&#62;&#60;img src=x&#62;')
  expect(summary).not.toContain('<img')
})

it('keeps a preview while the pull request is open, and removes it once', async () => {
  const tenant = await newTrustingTenant()
  const { id } = await newDeployment(tenant, { name: 'shop' })
  const image = { image: 'ghcr.io/acme/shop:pr-7' }
  const opened = start(tenant, { mode: 'preview', ...image }, { ...pullRequest('opened'), env: jobToken() })
  await reportRevision(await waitForRevision(tenant, 'pr-7--shop'), 'deployed', { url: 'http://pr-7--shop.localhost' })
  const { outputs } = await opened.job
  expect(outputs).toMatchObject({ outcome: 'deployed', deployment: 'pr-7--shop', url: 'http://pr-7--shop.localhost' })
  const preview = async () => (await tenant.get(`/v2/deployments/${id}/previews/${outputs['preview-id']}`)).body
  expect(await preview()).toMatchObject({ kind: 'request', branch: 'pr-7', deployment_id: outputs['deployment-id'] })

  const closed = await start(tenant, { mode: 'preview' }, pullRequest('closed')).job
  expect([closed.code, closed.outputs.outcome, (await preview()).state]).toEqual([0, 'removed', 'ended'])
  const again = await start(tenant, { mode: 'remove-preview', 'pull-request': '7' }).job
  expect([again.code, again.outputs.outcome]).toEqual([0, 'absent'])
})

it('plans a deploy, and creates nothing', async () => {
  const tenant = await newTenant()
  const planned = await start(tenant, { mode: 'plan', image: 'ghcr.io/acme/shop:next' }).job
  expect([planned.code, planned.outputs.outcome]).toEqual([0, 'planned'])
  expect(JSON.parse(planned.outputs.plan!)).toMatchObject({ creates_revision: true })
  expect(await listNames(tenant)).toEqual([])
})

it('signs later steps in, and describes a token that the workspace does not trust', async () => {
  const tenant = await newTrustingTenant()
  const { job } = start(tenant, { mode: 'setup', deployment: '' }, { env: jobToken() })
  const { code, env, paths } = await job
  expect(code).toBe(0)
  const [program] = paths.map(folder => join(folder, 'slipway'))
  const { PATH = '' } = process.env
  const listed = await runProgram([program!, 'list'], { env: { PATH, ...env } }).exited
  expect([listed.code, listed.objects]).toEqual([0, []])

  const stranger = await start(await newTenant(), { mode: 'plan' }, { env: jobToken() }).job
  expect([stranger.code, stranger.outputs.outcome]).toEqual([1, 'token_refused'])
  expect(stranger.commands[0]!.message).toContain('repo:acme/shop:pull_request')
})

it('names all faults of its inputs at once, and does nothing for a pull request of a fork', async () => {
  const tenant = await newTenant()
  const wrong = { url: 'shop', workspace: 'x', deployment: '--yes', mode: 'push', timeout: 'soon', create: 'maybe' }
  const refused = await start(tenant, { ...wrong, image: 'shop:1', folder: 'app' }).job
  expect([refused.code, refused.outputs.outcome]).toEqual([1, 'usage'])
  for (const name of [...Object.keys(wrong), 'image']) expect(refused.commands[0]!.message).toContain(name)

  const fork = { ...pullRequest('opened', 'mallory/shop'), env: { SLIPWAY_API_KEY: '' } }
  const skipped = await start(tenant, { mode: 'preview' }, fork).job
  expect([skipped.code, skipped.outputs.outcome, skipped.commands[0]?.name]).toEqual([0, 'skipped', 'notice'])
  const target = await start(tenant, { mode: 'preview' }, { ...fork, eventName: 'pull_request_target' }).job
  expect([target.code, target.outputs.outcome]).toEqual([1, 'usage'])
  expect(await listNames(tenant)).toEqual([])
  // A workflow that another one starts has the rights of this repository, too.
  const inputs = { MODE: 'deploy', URL: 'https://a.example', WORKSPACE: tenant.tenant_id, DEPLOYMENT: 'shop' }
  const given = Object.entries({ ...inputs, TIMEOUT: '900', CREATE: 'true' }).map(([name, value]) => [
    `INPUT_${name}`,
    value,
  ])
  const env = { ...Object.fromEntries(given), GITHUB_REPOSITORY: 'acme/shop', SLIPWAY_API_KEY: 'key' }
  const previewOf = (eventName: string, event: object, create = 'false') =>
    readInputs(
      { ...env, INPUT_MODE: 'preview', INPUT_CREATE: create, GITHUB_EVENT_NAME: eventName, GITHUB_REF_NAME: 'topic' },
      event,
    )
  expect(previewOf('push', {})).toMatchObject({ inputs: { mode: 'preview', preview: 'topic' } })
  expect(previewOf('push', {}, 'true')).toHaveProperty('faults')
  expect(previewOf('delete', { ref: 'old', ref_type: 'branch' })).toMatchObject({
    inputs: { mode: 'remove-preview', preview: 'old' },
  })
  expect(previewOf('delete', { ref: 'v1', ref_type: 'tag' })).toHaveProperty('skip')
  const startedBy = (head_repository: { full_name: string } | null) =>
    readInputs(env, { workflow_run: { head_repository } })
  expect([
    startedBy({ full_name: 'acme/shop' }),
    startedBy({ full_name: 'mallory/shop' }),
    startedBy(null),
  ]).toMatchObject([{ inputs: { mode: 'deploy' } }, { skip: expect.any(String) }, { skip: expect.any(String) }])
})
