// R21: branches are pushed and deleted, and pull requests opened and closed, while the control plane is killed again
// and again, at any step: from then on, none of its requests arrives. The git host sends each webhook once.
import { createHmac, randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { sweepPreviews } from '../../../src/hosting/previews/sweep.ts'
import { sweepRepositories } from '../../../src/hosting/pushes/repository-sweep.ts'
import { sweepDeliveries } from '../../../src/hosting/pushes/sweep.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { type Row, runAsSystem } from '../../../src/kernel/db/db.ts'
import { createClock } from '../../../src/platform.ts'
import { makeRandom } from '../support/random.ts'
import { makeClient } from '../support/retrying-client.ts'
import { createQuietApp, openTestbed, SETTINGS, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const BRANCHES = 1000
/** Below the limit of a policy, so that each has a deployment. */
const MAX_ALIVE = 40
const PULL_SHARE = 0.2
const KILL_SHARE = 0.5
/** Trips and requests of a life that is not cut short. */
const MAX_STEPS = 60
/** Longer than a lease, and than the pause between comparisons. */
const LIFE_MS = 6 * 60_000
const MAX_LAST_LIVES = 60
const SECRET = 'hush-webhook-secret'
const ORIGIN = 'http://127.0.0.1:49151'
const REPOSITORY = { id: 7, name: 'shop', owner: { login: 'acme' }, default_branch: 'main' }
const HOOK_EVENTS = ['push', 'delete', 'pull_request', 'pull_request_sync']
const ZERO_SHA = '0'.repeat(40)

class KilledError extends Error {}
type Life = Pick<ReturnType<typeof makeLife>, 'guard'>

/** Counts the steps of one life. At the last one, the request is not sent, or its answer is lost. */
function makeLife(lastStep: number, losesAnswer: boolean) {
  let steps = 0
  const guard =
    <Input extends unknown[], Answer>(send: (...input: Input) => Promise<Answer>) =>
    async (...input: Input): Promise<Answer> => {
      steps++
      if (steps > lastStep || (steps === lastStep && !losesAnswer)) throw new KilledError()
      const answer = await send(...input)
      if (steps >= lastStep) throw new KilledError()
      return answer
    }
  return { guard, isOver: () => steps >= lastStep }
}

type Pull = { number: number; branch: string; sha: string; state: 'open' | 'closed'; updated_at: string }

/** Answers as Gitea does, with its repository in memory. */
function makeHost(now: () => number) {
  let count = 0
  const heads = new Map([['main', shaOf(++count)]])
  const pulls = new Map<number, Pull>()
  const comments = new Map<number, string[]>()
  let hook: object = {}
  const about = () => ({
    repository: { ...REPOSITORY, html_url: `${ORIGIN}/acme/shop`, clone_url: `${ORIGIN}/acme/shop.git` },
    sender: { id: 1, login: 'ada' },
  })
  const describe = ({ number, branch, sha, state, updated_at }: Pull) => {
    const repo = { id: REPOSITORY.id }
    return { number, state, updated_at, head: { ref: branch, sha, repo }, base: { repo } }
  }
  const pullEvent = (action: string, pull: Pull) => ({
    event: 'pull_request',
    payload: { action, number: pull.number, pull_request: describe(pull), ...about() },
  })
  const touch = (pull: Pull, change: Partial<Pull>) =>
    Object.assign(pull, change, { updated_at: new Date(now()).toISOString() })

  async function answer(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    const rest = pathname.slice('/api/v1'.length)
    if (rest === '/user') return Response.json({ id: 1, login: 'bot' })
    if (/^\/repositories\/7$|^\/repos\/acme\/shop$/.test(rest)) return Response.json({ ...REPOSITORY, empty: false })
    const [, path = ''] = /^\/repos\/acme\/shop(\/.*)$/.exec(rest) ?? []
    const page = Number(searchParams.get('page') ?? 1)
    if (path === '/commits') {
      const ref = searchParams.get('sha') ?? ''
      const number = /^refs\/pull\/(\d+)\/head$/.exec(ref)?.[1]
      const sha = number ? pulls.get(Number(number))?.sha : heads.get(ref.replace(/^refs\/heads\//, ''))
      if (!sha) return Response.json({ message: 'not found' }, { status: 404 })
      return Response.json([{ sha, commit: { message: `Commit ${sha}`, author: { name: 'Ada' } } }])
    }
    if (path === '/branches') {
      const all = [...heads].map(([name, id]) => ({ name, commit: { id } }))
      const headers = page * 50 < all.length ? { Link: '<next>; rel="next"' } : {}
      return Response.json(all.slice((page - 1) * 50, page * 50), { headers })
    }
    if (path === '/pulls') {
      const open = [...pulls.values()].filter(({ state }) => state === 'open')
      return Response.json(page === 1 ? open.map(describe) : [])
    }
    const pull = pulls.get(Number(/^\/pulls\/(\d+)$/.exec(path)?.[1]))
    if (pull) return Response.json(describe(pull))
    if (path.startsWith('/hooks')) {
      if (request.method === 'GET') return Response.json(path === '/hooks' ? [] : hook)
      if (!path.endsWith('/tests')) hook = { id: 1, ...((await request.json()) as object), events: HOOK_EVENTS }
      return Response.json(hook, { status: 201 })
    }
    const [, number] = /^\/issues\/(\d+)\/comments$/.exec(path) ?? []
    if (number === undefined) return Response.json({ id: 1 }, { status: request.method === 'PATCH' ? 200 : 201 })
    const written = comments.get(Number(number)) ?? []
    if (request.method === 'GET')
      return Response.json(written.map((body, i) => ({ id: Number(number) * 10 + i, body })))
    comments.set(Number(number), [...written, ((await request.json()) as { body: string }).body])
    return Response.json({ id: Number(number) * 10 + written.length }, { status: 201 })
  }

  return {
    heads,
    pulls,
    comments,
    fetch: ((input: RequestInfo | URL, init?: RequestInit) => answer(new Request(input, init))) as typeof fetch,
    push(branch: string) {
      const before = heads.get(branch) ?? ZERO_SHA
      const after = shaOf(++count)
      heads.set(branch, after)
      const commits = [{ id: after, message: 'A change', author: { name: 'Ada' } }]
      return { event: 'push', payload: { ref: `refs/heads/${branch}`, before, after, commits, ...about() } }
    },
    /** A host closes the pull request of a branch that is deleted. */
    remove(branch: string) {
      heads.delete(branch)
      return { event: 'delete', payload: { ref: branch, ref_type: 'branch', ...about() } }
    },
    open(number: number, branch: string) {
      const pull: Pull = { number, branch, sha: heads.get(branch)!, state: 'open', updated_at: '' }
      pulls.set(number, touch(pull, {}))
      return pullEvent('opened', pull)
    },
    synchronize: (pull: Pull) => pullEvent('synchronized', touch(pull, { sha: heads.get(pull.branch)! })),
    close: (pull: Pull) => pullEvent('closed', touch(pull, { state: 'closed' })),
  }
}
const shaOf = (number: number): string => number.toString(16).padStart(8, '0').repeat(5)

type Delivery = { event: string; payload: object }

export default {
  id: 'R21',
  what: 'branches and pull requests change while the control plane is killed at any step',
  target: '1,000 branches: at rest, previews equal branches; no orphan, no comment twice',
  async run(context: TrialContext) {
    const testbed = await openTestbed(context)
    const random = makeRandom(context.seed)
    let ahead = 0
    const now = () => Date.now() + ahead
    const host = makeHost(now)
    const { app, system } = testbed.pools.connections
    const settings = { ...SETTINGS, ALLOW_LOOPBACK: 'true', DATABASE_URL: testbed.url, EVENTS_PER_DAY: '0' }
    const openApp = ({ guard }: Life) =>
      createQuietApp(settings, {
        clock: createClock(() => ahead),
        foreignFetch: guard(host.fetch as (...input: unknown[]) => Promise<Response>) as typeof fetch,
        databaseConnections: { app: guard(app), system: guard(system) },
      })
    const whole = makeLife(Number.POSITIVE_INFINITY, false)
    const servicesOf = (opened: ReturnType<typeof openApp>) => {
      const { config, platform, database, traces, logs, shareGroups } = opened
      return { config, platform, database, traces, logs, shareGroups, sealer: createSealer(config.sealingKeys) }
    }

    const { tenant_id, api_key } = await testbed.tenant()
    const { send } = makeClient(openApp(whole).fetch, api_key)
    const account = { host: 'gitea', base_url: ORIGIN, token: 'hush-token', webhook_secret: SECRET }
    const connected = await send('POST', '/v1/integrations/forge/githost', account)
    if (connected.status !== 201) throw new Error(`No integration: ${JSON.stringify(connected.body)}`)
    const integration = connected.body.id
    const parent = await send('POST', '/v2/deployments', {
      name: 'shop',
      source: 'githost',
      source_config: { integration_id: integration, repo_url: `${ORIGIN}/acme/shop`, build_on_push: true },
      source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
      secrets: [],
    })
    const policy = { branches: ['**'], kinds: ['pull_requests', 'branches'], ttl: 90 * 86_400, max: 50 }
    if (parent.status !== 201) throw new Error(`No deployment: ${JSON.stringify(parent.body)}`)
    const set = await send('PUT', `/v2/deployments/${parent.body.id}/preview-policy`, policy)

    async function deliver(opened: ReturnType<typeof openApp>, { event, payload }: Delivery): Promise<void> {
      const body = JSON.stringify(payload)
      const headers = {
        'Content-Type': 'application/json',
        'X-Gitea-Event': event,
        'X-Gitea-Delivery': randomUUID(),
        'X-Gitea-Signature': createHmac('sha256', SECRET).update(body).digest('hex'),
      }
      const url = `http://slipway.test/v1/integrations/forge/githost/${integration}/webhook`
      await Promise.resolve(opened.fetch(new Request(url, { method: 'POST', headers, body }))).catch(() => {})
      await finishPendingWork()
    }
    /** Each schedule goes on after a failure of another one, as it does in `src/schedule.ts`. */
    async function sweep(opened: ReturnType<typeof openApp>): Promise<void> {
      for (const work of [sweepDeliveries, sweepRepositories, sweepPreviews]) {
        await work(servicesOf(opened)).catch(() => {})
        await finishPendingWork()
      }
      ahead += LIFE_MS
    }
    // Its first comparison knows the branches that there are.
    await sweep(openApp(whole))

    let [pushed, killed, nextPull] = [0, 0, 1]
    const pick = <T>(all: T[]): T => all[Math.floor(random() * all.length)]!
    const branchCount = scaleCount(context, BRANCHES)
    function change(): Delivery[] {
      const alive = [...host.heads.keys()].filter(name => name !== 'main')
      const pullOf = (branch: string) =>
        [...host.pulls.values()].find(one => one.branch === branch && one.state === 'open')
      if (alive.length < MAX_ALIVE && (alive.length === 0 || random() < 0.5)) {
        pushed++
        // Two branches in ten read alike.
        const name = random() < 0.2 ? `feature/${pushed}` : `feature-${pushed + (random() < 0.1 ? 1 : 0)}`
        return [host.push(name)]
      }
      const branch = pick(alive)
      const pull = pullOf(branch)
      const act = random()
      if (act < 0.4) return [host.remove(branch), ...(pull ? [host.close(pull)] : [])]
      if (pull && act < 0.6) return [host.close(pull)]
      if (!pull && act < 0.4 + PULL_SHARE) return [host.open(nextPull++, branch)]
      return [host.push(branch), ...(pull ? [host.synchronize(pull)] : [])]
    }
    while (pushed < branchCount) {
      const isKilled = random() < KILL_SHARE
      const life = isKilled ? makeLife(1 + Math.floor(random() * MAX_STEPS), random() < 0.5) : whole
      const opened = openApp(life)
      for (const delivery of change()) await deliver(opened, delivery)
      if (isKilled || random() < 0.2) await sweep(opened)
      if (isKilled && life.isOver()) killed++
      context.progress(`${pushed} of ${branchCount} branches, ${killed} killed`)
    }

    const { database } = testbed.app
    const read = async (query: ReturnType<typeof sql<Row>>) => ((await runAsSystem(database, query)) as Row[][])[0]!
    const wanted = () =>
      [...host.heads]
        .filter(([name]) => name !== 'main')
        .map(([branch, sha]) => {
          const pull = [...host.pulls.values()].find(one => one.branch === branch && one.state === 'open')
          return `${pull?.number ?? 'branch'} ${branch} ${sha} live`
        })
        .toSorted()
    const found = async () =>
      (
        await read(sql<Row>`
          select coalesce(v.number::text, 'branch') || ' ' || v.branch || ' '
            || coalesce(d.source_revision_config ->> 'repo_commit_sha', 'none') || ' ' || v.state
          from previews v
          left join deployments d on d.id = v.deployment_id and d.deleting_at is null
          where v.tenant_id = ${tenant_id}::uuid and v.state <> 'ended'`)
      )
        .map(([text]) => text as string)
        .toSorted()
    const differences = async () => {
      const [should, is] = [wanted(), await found()]
      return [...should.filter(one => !is.includes(one)), ...is.filter(one => !should.includes(one))]
    }
    let lives = 0
    for (; lives < MAX_LAST_LIVES && (lives < 2 || (await differences()).length > 0); lives++)
      await sweep(openApp(whole))

    const different = await differences()
    const [[counted]] = (await read(sql<Row>`
      select count(*)::integer
      from deployments c
      where c.tenant_id = ${tenant_id}::uuid and c.parent_deployment_id is not null and c.deleting_at is null
        and not exists (select from previews v where v.deployment_id = c.id and v.state <> 'ended')`)) as [[string]]
    const orphans = Number(counted)
    const doubled = [...host.comments.values()].filter(bodies => bodies.length > 1).length
    return {
      measured:
        `${different.length} of ${wanted().length} differ after ${pushed} branches; ${orphans} orphans; ` +
        `${doubled} comments twice`,
      met: set.status === 200 && killed > 0 && different.length === 0 && orphans === 0 && doubled === 0,
      notes: [
        `${killed} killed; at rest after ${lives} lives; ${nextPull - 1} pull requests`,
        ...different.slice(0, 5),
      ],
      figures: { branches: pushed, killed, pulls: nextPull - 1, different: different.length, orphans, doubled, lives },
    }
  },
} satisfies Trial
