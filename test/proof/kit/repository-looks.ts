// The scenario of repositories by SSH, for agents that look at them.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { fingerprintOf } from '../../../src/kernel/crypto/openssh-key.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import type { SeenRepository } from '../../../src/protocol/repository-looks.schema.ts'
import type { ScenarioContext } from './scenario-context.ts'
import { type SshHost, startSshHost } from './ssh-host.ts'

const INTEGRATIONS = '/v1/integrations/forge/githost'
const PATH = '/v1/sync/repositories'

export async function lookAtRepository(context: ScenarioContext): Promise<void> {
  await context.start()
  const { id } = await context.deploy()
  await context.waitUntilServing(id)
  const polls = context.exchanges('/poll')
  if (!polls.some(({ request }) => request.policy?.features?.includes('git_ssh'))) return
  const host = await startSshHost({ 'refs/heads/main': 'a'.repeat(40), 'refs/tags/v1': 'b'.repeat(40) })
  try {
    await tryHost(context, host)
  } finally {
    await host.stop()
  }
}

async function tryHost(context: ScenarioContext, host: SshHost): Promise<void> {
  const integration = await connect(context, host)
  const readAccess = async () => (await context.call('GET', `${INTEGRATIONS}/${integration}`)).body.ssh
  const look = (what: string) => awaitLook(context, integration, what)

  const first = await look('the first look is reported')
  assert(
    first.problem?.code !== 'address_refused',
    'The agent refuses 127.0.0.1, where the kit has its host. Allow it.',
  )
  assert(!first.problem, `The agent cannot read the repository: ${first.problem?.message}`)
  assert(first.host_key === host.hostKey(), 'The report does not have the key that the host showed.')
  assert.deepEqual(first.refs?.toSorted(), listRefs(host), 'The report does not have the refs of the repository.')
  await context.waitFor('the integration is verified', async () => (await readAccess()).state === 'verified')

  const same = await look('the second look is reported')
  assert(!same.refs && same.digest === first.digest, 'The agent sends refs that the control plane knows.')

  host.refs['refs/heads/main'] = 'c'.repeat(40)
  const moved = await look('a look after a push is reported')
  assert.deepEqual(moved.refs?.toSorted(), listRefs(host), 'The report does not have the pushed commit.')

  // The agent may look as soon as there is a new key.
  const before = host.offered.length
  await context.call('PATCH', `${INTEGRATIONS}/${integration}`, { new_deploy_key: true })
  const rotated = await look('a look with a new key, which the host does not know, is reported')
  const { public_key } = await readAccess()
  assert(!rotated.problem, 'The agent does not try the next key after one that the host refuses.')
  assert(rotated.key_fingerprint === fingerprintOf(public_key), 'The report does not name the key that was accepted.')
  assert(new Set(host.offered.slice(before)).size === 2, 'The agent does not try the new key first.')

  host.changeHostKey()
  const offeredBefore = host.offered.length
  const refused = await look('a look at a host with another key is reported')
  assert(refused.problem?.code === 'host_key_changed', 'The agent accepts another key than the pinned one.')
  assert(refused.host_key === host.hostKey(), 'The report does not have the key that the host shows now.')
  assert(host.offered.length === offeredBefore, 'The agent tried its deploy key at a host with another key.')

  const sent = context.exchanges().map(({ request }) => request)
  assert(!JSON.stringify(sent).includes('PRIVATE KEY'), 'The agent sent the private key of the repository.')
}

const listRefs = ({ refs }: SshHost) =>
  Object.entries(refs)
    .map(([name, sha]) => `${sha} ${name}`)
    .sort()

/** Returns the integration of the host, from which a deployment of the agent's listener is deployed. */
async function connect({ call, listener_id, plane }: ScenarioContext, { url, admit }: SshHost): Promise<string> {
  const { body: integration } = await call('POST', INTEGRATIONS, {
    host: 'git',
    base_url: url,
    webhook_secret: randomUUID(),
  })
  admit(integration.ssh.public_key)
  const { status, body } = await call('POST', '/v2/deployments', {
    name: `kit-${randomUUID()}`,
    source: 'githost',
    source_config: { integration_id: integration.id, repo_url: integration.base_url, build_on_push: true },
    source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
    secrets: [],
  })
  assert(status === 201, `The deployment was refused: ${JSON.stringify(body)}`)
  // Only listeners of the platform run repositories, and the agent has one of the workspace.
  await runAsSystem(
    plane.database,
    sql`
      update deployments
      set listener_id = ${listener_id}::uuid, generation = generation + 1
      where id = ${body.id}::uuid`,
  )
  return integration.id
}

/** Makes the look due. Returns the first report once no other look is due: that of a change may come beside it. */
async function awaitLook(
  { plane, exchanges, waitFor }: ScenarioContext,
  integration: string,
  what: string,
): Promise<SeenRepository> {
  const listReports = () => exchanges(PATH).filter(({ status }) => status === 204)
  const { length } = listReports()
  await plane.housekeep()
  const due = sql`update followed_repositories set look_at = '2000-01-01' where integration_id = ${integration}::uuid`
  await runAsSystem(plane.database, due)
  const report = await waitFor(what, () => listReports()[length]?.request)
  const query = sql<[boolean]>`
    select f.look_at > clock() and not is_looking(f, l.fence)
    from followed_repositories f
    join listeners l on l.id = f.listener_id
    where f.integration_id = ${integration}::uuid`
  await waitFor('no look is due', async () => {
    const [[row]] = (await runAsSystem(plane.database, query)) as [[boolean][]]
    return row?.[0]
  })
  return report
}
