// The control plane killed with SIGKILL in the middle of each thing that happens at a real Gitea, and Gitea away for a
// while: afterwards, what is deployed is what is there, no preview is left over and no comment is made twice.
// GITEA_BIN names the program. `-- --away=300` keeps Gitea away for five minutes instead of 20 seconds, `--pushes=50`
// pushes 50 times in a row instead of 5, `--repositories=300` deploys from 300 instead of 3.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { check, note, optionOf, runTrial } from '../support/trial.ts'
import { type Answer, findGitea, PERSON, SCOPES, startGitea, waitFor } from './gitea/server.ts'

const ROOT = join(import.meta.dirname, '../../..')
const AWAY_SECONDS = Number(optionOf('away') ?? 20)
const PUSHES = Number(optionOf('pushes') ?? 5)
const REPOSITORIES = Number(optionOf('repositories') ?? 3)
/** A rename is noticed by the next comparison, after five minutes and a half at most. */
const SETTLE_SECONDS = 360
const KILL_EVERY_MS = 10_000
/** Kills come this long after the event, at most. */
const MAX_DELAY_MS = 400
const BRANCHES = Number(optionOf('branches') ?? 12)
const BOB = 'bob:hush-hush-2'
const run = promisify(execFile)

async function trial(): Promise<void> {
  const program = findGitea()
  if (program === null) return
  const work = mkdtempSync(join(tmpdir(), 'slipway-gitea-killed-'))
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  await migrate(postgres.url, { log: () => {} })
  const gitea = await startGitea(program, work)
  cleanup.defer(() => gitea.stop())

  const port = await findFreePort()
  const origin = `http://127.0.0.1:${port}`
  const env = {
    ...process.env,
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PUBLIC_URL: origin,
    PORT: String(port),
    ALLOW_LOOPBACK: 'true',
    UPLOADS_DIR: join(work, 'uploads'),
    RATE_LIMIT_PER_MINUTE: '0',
  }
  const { stdout } = await run(
    process.execPath,
    ['src/host/main.ts', 'bootstrap', '--organization', 'A', '--workspace', 'B'],
    { cwd: ROOT, env },
  )
  const key = /slw_\w+/.exec(stdout)![0]
  let child: ChildProcess | undefined
  async function start(): Promise<void> {
    child = spawn(process.execPath, ['src/host/main.ts', 'start'], { cwd: ROOT, env, stdio: 'ignore' })
    const isUp = await waitFor(async () => (await fetch(`${origin}/readyz`)).ok)
    if (!isUp) throw new Error('The control plane does not answer.')
  }
  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  cleanup.defer(kill)
  await start()

  async function call(method: string, path: string, body?: object): Promise<Answer> {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const response = await fetch(origin + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`)
    return response.status === 204 ? null : response.json()
  }

  await gitea.api('POST', '/orgs', { username: 'acme' })
  await gitea.api('POST', '/orgs/acme/repos', { name: 'shop', default_branch: 'main' })
  const tree = join(work, 'tree')
  const git = async (...args: string[]) =>
    (await run('git', ['-C', tree, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args])).stdout.trim()
  await run('git', ['init', '-q', '-b', 'main', tree])
  await git('remote', 'add', 'origin', `${gitea.origin.replace('//', `//${PERSON}@`)}/acme/shop.git`)
  async function commit(message: string): Promise<string> {
    writeFileSync(join(tree, 'app.txt'), `${message} ${Date.now()}\n`)
    await git('add', '.')
    await git('commit', '-q', '-m', message)
    return git('rev-parse', 'HEAD')
  }
  await commit('Initial')
  await git('push', '-q', 'origin', 'HEAD:main')
  const token = await gitea.createToken('slipway', SCOPES)
  const connection = { host: 'gitea', base_url: gitea.origin, token }
  const { id: integration_id } = await call('POST', '/v1/integrations/forge/githost', connection)
  const newDeployment = (name: string) =>
    call('POST', '/v2/deployments', {
      name,
      source: 'githost',
      source_config: { integration_id, repo_url: `${gitea.origin}/acme/${name}`, build_on_push: true },
      source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
      secrets: [],
    })
  const { id } = await newDeployment('shop')
  await call('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['**'], max: 50 })

  const listShas = async (of: string, limit = 100): Promise<(string | null)[]> =>
    (await call('GET', `/v2/deployments/${of}/revisions?limit=${limit}`)).resources.map(
      ({ commit, source_revision_config }: Answer) => commit?.sha ?? source_revision_config.repo_commit_sha ?? null,
    )
  const newestSha = async (of: string = id) => (await listShas(of, 1))[0]
  const previewOf = async (number: number) =>
    (await call('GET', `/v2/deployments/${id}/previews?limit=100`)).resources.find(
      (one: Answer) => one.number === number,
    )
  const openPull = async (branch: string, as?: string): Promise<number> =>
    (await gitea.api('POST', '/repos/acme/shop/pulls', { title: branch, head: branch, base: 'main' }, as)).number
  const hasHook = async () => (await gitea.api('GET', '/repos/acme/shop/hooks')).length === 1
  check('the webhook is made', await waitFor(hasHook, SETTLE_SECONDS))

  /** Kills at a random moment after the event begins, and starts again. */
  async function killedDuring(event: () => Promise<unknown>): Promise<void> {
    const happening = event()
    await delay(Math.random() * MAX_DELAY_MS)
    await kill()
    await happening
    await start()
  }
  const settles = async (name: string, isSettled: () => Promise<boolean>) => {
    const began = performance.now()
    const isTrue = await waitFor(isSettled, SETTLE_SECONDS)
    check(name, isTrue)
    note(`${Math.round((performance.now() - began) / 1000)} s after the start`)
  }

  const pushed = await commit('Pushed')
  await killedDuring(() => git('push', '-q', 'origin', 'HEAD:main'))
  await settles('killed during a push: it deploys', async () => (await newestSha()) === pushed)

  await git('checkout', '-q', '-b', 'feature/cart')
  await commit('Cart')
  await git('push', '-q', 'origin', 'feature/cart')
  let number = 0
  await killedDuring(async () => {
    number = await openPull('feature/cart')
  })
  await settles(
    'killed as a pull request opens: it has a preview',
    async () => (await previewOf(number))?.state === 'live',
  )
  const next = await commit('More of it')
  await killedDuring(() => git('push', '-q', 'origin', 'feature/cart'))
  await settles('killed during a push to it: it follows', async () => (await previewOf(number))?.head_sha === next)
  const commentsOf = async (one: number) =>
    (await gitea.api('GET', `/repos/acme/shop/issues/${one}/comments`)) as Answer[]
  await settles('it has one comment', async () => (await commentsOf(number)).length === 1)
  await killedDuring(() => gitea.api('PATCH', `/repos/acme/shop/pulls/${number}`, { state: 'closed' }))
  await settles('killed as it closes: its preview ends', async () => (await previewOf(number))?.state === 'ended')

  await gitea.api('POST', '/admin/users', {
    username: 'bob',
    password: BOB.split(':')[1],
    email: 'bob@example.com',
    must_change_password: false,
  })
  await gitea.api('POST', '/repos/acme/shop/forks', {}, BOB)
  await git('checkout', '-q', 'main')
  await git('checkout', '-q', '-b', 'from-bob')
  await commit('From a fork')
  await git('push', '-q', `${gitea.origin.replace('//', `//${BOB}@`)}/bob/shop.git`, 'from-bob')
  let fork = 0
  await killedDuring(async () => {
    fork = await openPull('bob:from-bob', BOB)
  })
  await settles('a pull request of a fork is denied', async () => (await previewOf(fork))?.state === 'denied')

  await git('checkout', '-q', 'main')
  await gitea.stop()
  note(`Gitea is away for ${AWAY_SECONDS} s`)
  await delay(AWAY_SECONDS * 1000)
  await gitea.start()
  const back = await commit('After the absence')
  await killedDuring(() => git('push', '-q', 'origin', 'HEAD:main'))
  await settles('after an absence of the host: a push deploys', async () => (await newestSha()) === back)

  await killedDuring(() => gitea.api('PATCH', '/repos/acme/shop', { name: 'store' }))
  const repoUrl = async () => (await call('GET', `/v2/deployments/${id}`)).source_config.repo_url
  await settles('killed during a rename: repo_url follows', async () => (await repoUrl()).endsWith('/acme/store'))
  await gitea.api('PATCH', '/repos/acme/store', { name: 'shop' })
  await settles('and back', async () => (await repoUrl()).endsWith('/acme/shop'))

  /** Kills and starts again, as long as the work takes. */
  async function killedOften(work: () => Promise<void>): Promise<void> {
    let isOver = false
    const killing = (async () => {
      while (!isOver) {
        await delay(Math.random() * KILL_EVERY_MS)
        await kill()
        await start()
      }
    })()
    await work().finally(() => {
      isOver = true
    })
    await killing
  }

  let last = ''
  await killedOften(async () => {
    for (let i = 0; i < PUSHES; i++) {
      last = await commit(`Push ${i}`)
      await git('push', '-q', 'origin', 'HEAD:main')
    }
  })
  await settles(`${PUSHES} pushes while it is killed: the last one deploys`, async () => (await newestSha()) === last)

  const many: { name: string; id: string; sha: string }[] = []
  for (let i = 0; i < REPOSITORIES; i++) {
    const name = `many-${i}`
    await gitea.api('POST', '/orgs/acme/repos', { name, default_branch: 'main', auto_init: true })
    many.push({ name, id: (await newDeployment(name)).id, sha: '' })
  }
  const hookCount = async ({ name }: { name: string }) =>
    (await gitea.api('GET', `/repos/acme/${name}/hooks`)).length as number
  await settles(`${REPOSITORIES} repositories: each has one webhook`, async () => {
    for (const one of many) if ((await hookCount(one)) !== 1) return false
    return true
  })
  await killedOften(async () => {
    for (const one of many) {
      const file = { content: Buffer.from('hello').toString('base64'), message: 'Pushed', branch: 'main' }
      one.sha = (await gitea.api('POST', `/repos/acme/${one.name}/contents/app.txt`, file)).commit.sha
    }
  })
  await settles(`${REPOSITORIES} repositories pushed to while it is killed: all deploy`, async () => {
    for (const one of many) if ((await newestSha(one.id)) !== one.sha) return false
    return true
  })

  const pulls: number[] = []
  await killedOften(async () => {
    for (let i = 0; i < BRANCHES; i++) {
      await git('checkout', '-q', '-B', `many/${i}`, 'main')
      await commit(`Many ${i}`)
      await git('push', '-q', 'origin', `many/${i}`)
      pulls.push(await openPull(`many/${i}`))
      if (i % 3 === 0) await gitea.api('PATCH', `/repos/acme/shop/pulls/${pulls.at(-1)}`, { state: 'closed' })
    }
  })
  await settles(`${BRANCHES} pull requests while it is killed: previews equal those that are open`, async () => {
    const all = (await call('GET', `/v2/deployments/${id}/previews?limit=100`)).resources as Answer[]
    const live = all.filter(({ state }) => state === 'live').map(one => one.number)
    const open = pulls.filter((_, i) => i % 3 !== 0)
    return live.length === open.length && open.every(one => live.includes(one))
  })
  await delay(5000)
  const counts = await Promise.all(pulls.map(async one => (await commentsOf(one)).length))
  check(
    'no pull request has two comments',
    counts.every(count => count <= 1),
    counts.join(' '),
  )
  let repeated = 0
  for (const of of [id, ...many.map(one => one.id)]) {
    const shas = (await listShas(of)).filter(sha => sha !== null)
    repeated += shas.length - new Set(shas).size
  }
  check('no commit is deployed twice', repeated === 0, `${repeated} are`)
  await gitea.api('POST', '/orgs', { username: 'market' })
  await killedDuring(() => gitea.api('POST', '/repos/acme/shop/transfer', { new_owner: 'market' }))
  await settles('killed during a transfer: repo_url follows', async () => (await repoUrl()).endsWith('/market/shop'))
}

await runTrial(trial)
