// A real Gitea (or Forgejo): webhooks made, lost events made up for, renames, scopes and revoked tokens, statuses.
// GITEA_BIN names the program, GITEA_STATIC its source if templates are not built in. Without the first it is skipped.
// `-- --repositories=300 --pushes=50` are the numbers by default.
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createAdaptorServer } from '@hono/node-server'
import { sql } from 'drizzle-orm'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sweepPreviews } from '../../../src/hosting/previews/sweep.ts'
import { sweepRepositories } from '../../../src/hosting/pushes/repository-sweep.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { check, note, optionOf, runTrial } from '../support/trial.ts'
import { type Answer, findGitea, PERSON, SCOPES, startGitea, waitFor } from './gitea/server.ts'

const REPOSITORIES = Number(optionOf('repositories') ?? 300)
const PUSHES = Number(optionOf('pushes') ?? 50)
const run = promisify(execFile)

async function startSlipway(work: string, databaseUrl: string, port: number) {
  const settings = {
    DATABASE_URL: databaseUrl,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    ALLOW_LOOPBACK: 'true',
    UPLOADS_DIR: work,
    RATE_LIMIT_PER_MINUTE: '0',
  }
  const host = createHost(settings, { log: () => {} })
  const server = createAdaptorServer({ fetch: host.app.fetch, createServer }) as Server
  await new Promise<void>(resolve => server.listen(port, '127.0.0.1', resolve))
  const { config, platform, database, traces, logs, shareGroups } = host.app
  const services = { config, platform, database, sealer: createSealer(config.sealingKeys), traces, logs, shareGroups }
  return {
    database,
    /** Does the work of a minute, with a comparison that is due. */
    async compare(): Promise<void> {
      await runAsSystem(database, sql`update followed_repositories set next_compare_at = '2000-01-01'`)
      await sweepRepositories(services)
      await sweepPreviews(services)
      await finishPendingWork()
    },
    async stop(): Promise<void> {
      await finishPendingWork()
      server.close()
      server.closeAllConnections()
      await host.close()
    },
  }
}

async function trial(): Promise<void> {
  const program = findGitea()
  if (program === null) return
  const work = mkdtempSync(join(tmpdir(), 'slipway-gitea-'))
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  await migrate(postgres.url)
  const gitea = await startGitea(program, work)
  cleanup.defer(() => gitea.stop())
  const port = await findFreePort()
  let slipway = await startSlipway(work, postgres.url, port)
  cleanup.defer(() => slipway.stop())

  const { api_key } = await bootstrap(slipway.database, { organization: 'Acme', emails: ['a@example.com'] })
  const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json' }
  async function call(method: string, path: string, body?: object): Promise<Answer> {
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const response = await fetch(`http://127.0.0.1:${port}${path}`, init)
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.status === 204 ? null : response.json()
  }

  await gitea.api('POST', '/orgs', { username: 'acme' })
  await gitea.api('POST', '/orgs', { username: 'market' })
  await gitea.api('POST', '/orgs/acme/repos', { name: 'shop', default_branch: 'main' })
  const tree = join(work, 'tree')
  const git = async (...args: string[]) =>
    (await run('git', ['-C', tree, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args])).stdout.trim()
  const remote = gitea.origin.replace('//', `//${PERSON}@`)
  await run('git', ['init', '-q', '-b', 'main', tree])
  await git('remote', 'add', 'origin', `${remote}/acme/shop.git`)
  async function commit(message: string): Promise<string> {
    writeFileSync(join(tree, 'app.txt'), `${message} ${Date.now()}\n`)
    await git('add', '.')
    await git('commit', '-q', '-m', message)
    return git('rev-parse', 'HEAD')
  }
  await commit('Initial')
  await git('push', '-q', 'origin', 'HEAD:main')

  const token = await gitea.createToken('slipway', SCOPES)
  const { id: integration } = await call('POST', '/v1/integrations/forge/githost', {
    host: 'gitea',
    base_url: gitea.origin,
    token,
  })
  const integrationPath = `/v1/integrations/forge/githost/${integration}`
  const newDeployment = (name: string, repo_url: string) =>
    call('POST', '/v2/deployments', {
      name,
      source: 'githost',
      source_config: { integration_id: integration, repo_url, build_on_push: true },
      source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
      secrets: [],
    })
  for (const [what, url] of [
    ['a repository that does not exist', `${gitea.origin}/acme/missing`],
    ['a repository of another host', 'https://github.com/acme/shop'],
  ] as const) {
    const refused = await newDeployment('missing', url).catch(String)
    check(`${what} is refused`, `${refused}`.includes('422'), `${refused}`)
  }
  const { id } = await newDeployment('shop', `${gitea.origin}/acme/shop`)
  const explain = () => call('GET', `/v2/deployments/${id}/explain`)
  const newest = async () => (await call('GET', `/v2/deployments/${id}/revisions`)).resources[0]
  const newestSha = async () => {
    const { commit, source_revision_config } = await newest()
    return commit?.sha ?? source_revision_config.repo_commit_sha
  }
  const previewsOf = async () => (await call('GET', `/v2/deployments/${id}/previews`)).resources as Answer[]
  const openPull = async (branch: string): Promise<number> =>
    (await gitea.api('POST', '/repos/acme/shop/pulls', { title: branch, head: branch, base: 'main' })).number

  await slipway.compare()
  const hooks = async (path = 'acme/shop') => (await gitea.api('GET', `/repos/${path}/hooks`)) as Answer[]
  const [hook] = await hooks()
  const boxes = ['push', 'delete', 'pull_request', 'pull_request_sync']
  check(
    'the webhook is made with four events',
    boxes.every(box => hook?.events.includes(box)),
    `${hook?.events}`,
  )
  const heardAt = async () => (await explain()).repository.heard_at
  check('its test delivery arrives', await waitFor(async () => (await heardAt()) !== null))
  await gitea.api('PATCH', `/repos/acme/shop/hooks/${hook.id}`, { events: ['push'] })
  await slipway.compare()
  check('a webhook that lost its events is repaired', (await hooks())[0]?.events.includes('pull_request_sync'))

  const pushed = await commit('Pushed')
  await git('push', '-q', 'origin', 'HEAD:main')
  check('a push deploys', await waitFor(async () => (await newestSha()) === pushed))
  const statusesOf = (sha: string) => gitea.api('GET', `/repos/acme/shop/commits/${sha}/statuses`) as Promise<Answer[]>
  check('its commit has a status', await waitFor(async () => (await statusesOf(pushed)).length > 0))
  const before = await heardAt()
  await commit('Words [skip ci]')
  await git('push', '-q', 'origin', 'HEAD:main')
  await waitFor(async () => (await heardAt()) !== before)
  await slipway.compare()
  check('a commit with [skip ci] is not deployed, by the comparison neither', (await newestSha()) === pushed)

  await call('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['**'] })
  await git('checkout', '-q', '-b', 'feature/cart')
  const cart = await commit('Cart')
  await git('push', '-q', 'origin', 'feature/cart')
  const number = await openPull('feature/cart')
  const stateOf = async (one: number) => (await previewsOf()).find(preview => preview.number === one)?.state
  check('a pull request gets a preview', await waitFor(async () => (await stateOf(number)) === 'live'))
  const next = await commit('More of it')
  await git('push', '-q', 'origin', 'feature/cart')
  const followed = async () => (await previewsOf()).find(preview => preview.number === number)?.head_sha === next
  check('a push to it deploys', await waitFor(followed))
  check(
    'the overtaken commit is not pending',
    await waitFor(async () => (await statusesOf(cart)).at(0)?.status === 'success'),
  )

  await slipway.stop()
  await git('checkout', '-q', 'main')
  const unheard = await commit('Unheard')
  await git('push', '-q', 'origin', 'HEAD:main', 'HEAD:feature/late')
  await gitea.api('PATCH', `/repos/acme/shop/pulls/${number}`, { state: 'closed' })
  await git('checkout', '-q', '-b', 'feature/other')
  await commit('Other')
  await git('push', '-q', 'origin', 'feature/other')
  const late = await openPull('feature/other')
  await delay(3000)
  slipway = await startSlipway(work, postgres.url, port)
  await slipway.compare()
  check('a push while Slipway was away deploys', (await newestSha()) === unheard)
  check('a pull request that was closed meanwhile has no preview', (await stateOf(number)) === 'ended')
  check('one that was opened meanwhile has a preview', (await stateOf(late)) === 'live')
  check(
    'no commit of the closed one is pending',
    await waitFor(async () => (await statusesOf(next)).at(0)?.status === 'success'),
  )

  // The platform of this trial has no agent: the deployment itself stays pending.
  const settledAs = (sha: string, state: string) =>
    waitFor(async () => {
      const statuses = (await statusesOf(sha)).filter(({ context }) => context !== 'slipway/shop/deploy')
      return statuses.at(0)?.status === state
    })
  const setPolicy = (over: object = {}) =>
    call('PUT', `/v2/deployments/${id}/preview-policy`, {
      branches: ['**'],
      kinds: ['pull_requests', 'branches'],
      forks: 'approve',
      ...over,
    })
  await setPolicy()
  const ofBranch = async (branch: string) =>
    (await previewsOf()).find(preview => preview.kind === 'branch' && preview.branch === branch)
  await git('checkout', '-q', '-b', 'solo', 'main')
  const solo = await commit('Solo')
  await git('push', '-q', 'origin', 'solo')
  const isSoloLive = async () => {
    const { state, head_sha } = (await ofBranch('solo')) ?? {}
    return state === 'live' && head_sha === solo
  }
  check('a branch without a pull request gets a preview', await waitFor(isSoloLive))
  const pullOfSolo = await openPull('solo')
  const isOnlyOne = async () => (await stateOf(pullOfSolo)) === 'live' && (await ofBranch('solo'))?.state === 'ended'
  check('its pull request takes the preview over', await waitFor(isOnlyOne))
  await gitea.api('POST', `/repos/acme/shop/pulls/${pullOfSolo}/merge`, { Do: 'fast-forward-only' })
  check('a fast-forward merge deploys its head', await waitFor(async () => (await newestSha()) === solo))
  await git('push', '-q', 'origin', ':solo')
  const soloEnded = async () =>
    [await stateOf(pullOfSolo), (await ofBranch('solo'))?.state].every(one => one === 'ended')
  check('a deleted branch has no preview', await waitFor(soloEnded))
  check('its preview leaves nothing pending at the merged head', await settledAs(solo, 'success'))

  await setPolicy({ max: 1 })
  await git('checkout', '-q', '-b', 'crowded', 'main')
  const crowded = await commit('Crowded')
  await git('push', '-q', 'origin', 'crowded')
  const tooMany = await openPull('crowded')
  check('a pull request beyond the limit waits', await waitFor(async () => (await stateOf(tooMany)) === 'full'))
  check('its commit is not pending', await settledAs(crowded, 'success'))
  await setPolicy({ max: 50 })
  await slipway.compare()
  check('it gets its preview once there is room', (await stateOf(tooMany)) === 'live')

  const bob = 'bob:hush-hush-2'
  const [username, password] = bob.split(':')
  const person = { username, password, email: 'bob@example.com', must_change_password: false }
  await gitea.api('POST', '/admin/users', person)
  await gitea.api('POST', '/repos/acme/shop/forks', {}, bob)
  await git('checkout', '-q', '-b', 'from-bob', 'main')
  const foreign = await commit('From a fork')
  await git('push', '-q', `${gitea.origin.replace('//', `//${bob}@`)}/bob/shop.git`, 'from-bob')
  const toMain = { title: 'from-bob', head: 'bob:from-bob', base: 'main' }
  const { number: fork } = await gitea.api('POST', '/repos/acme/shop/pulls', toMain, bob)
  const isWaiting = async () => (await stateOf(fork)) === 'awaiting_approval'
  check('a pull request of a fork waits for its approval', await waitFor(isWaiting))
  check('its commit is not pending either', await settledAs(foreign, 'success'))
  await call('POST', `/v2/deployments/${id}/previews/${fork}/approval`, { head_sha: foreign })
  check('it has a preview once it is approved', await waitFor(async () => (await stateOf(fork)) === 'live'))

  await git('checkout', '-q', '-B', 'main', solo)
  let last = ''
  for (let i = 0; i < PUSHES; i++) {
    last = await commit(`Push ${i}`)
    await git('push', '-q', 'origin', 'HEAD:main')
  }
  check(`the last of ${PUSHES} pushes is the newest revision`, await waitFor(async () => (await newestSha()) === last))

  await gitea.api('PATCH', '/repos/acme/shop', { name: 'store' })
  await git('remote', 'set-url', 'origin', `${remote}/acme/store.git`)
  const renamed = await commit('Renamed')
  await git('push', '-q', 'origin', 'HEAD:main')
  check('a push to the renamed repository deploys', await waitFor(async () => (await newestSha()) === renamed))
  await gitea.api('POST', '/repos/acme/store/transfer', { new_owner: 'market' })
  await slipway.compare()
  const repoUrl = async () => (await call('GET', `/v2/deployments/${id}`)).source_config.repo_url
  check(
    'repo_url follows a rename and a transfer',
    (await repoUrl()) === `${gitea.origin}/market/store`,
    await repoUrl(),
  )

  const readOnly = await gitea.createToken('read-only', ['read:user', 'read:repository'])
  await call('PATCH', integrationPath, { token: readOnly })
  const [made] = await hooks('market/store')
  await gitea.api('PATCH', `/repos/market/store/hooks/${made.id}`, { events: ['push'] })
  await slipway.compare()
  const problem = async () => (await call('GET', integrationPath)).problem
  check('a missing scope is told in Gitea’s words', (await problem())?.message.includes('write:repository'))
  note(`${(await problem())?.message}`)
  await gitea.api('DELETE', '/users/ada/tokens/read-only')
  await slipway.compare()
  check('a revoked token revokes the integration', (await call('GET', integrationPath)).state === 'revoked')
  await call('PATCH', integrationPath, { token })
  await slipway.compare()
  const repaired = await call('GET', integrationPath)
  check(
    'a new token ends both',
    repaired.state === 'active' && repaired.problem === null,
    JSON.stringify(repaired.problem),
  )

  for (let i = 0; i < REPOSITORIES; i++) await gitea.api('POST', '/orgs/acme/repos', { name: `many-${i}` })
  await gitea.api('PATCH', '/repos/acme/many-0', { archived: true })
  const began = performance.now()
  const listed = await call('GET', `${integrationPath}/repos`)
  note(`${listed.length} repositories listed in ${Math.round(performance.now() - began)} ms`)
  check('all repositories are listed', listed.length === REPOSITORIES + 1)
  check('an archived one is marked', listed.filter((one: Answer) => one.archived).length === 1)
  check('empty ones are marked', listed.filter((one: Answer) => one.empty).length === REPOSITORIES)

  await call('DELETE', `/v2/deployments/${id}`)
  await slipway.compare()
  check('the webhook is removed with the last deployment', (await hooks('market/store')).length === 0)
}

await runTrial(trial)
