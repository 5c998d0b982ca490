// Two control planes on one database make the jobs of schedules over a month of a simulated clock. Each is killed
// again and again, before it asks the database or before it has the answer. An agent starts the jobs, and restarts.
import pg from 'pg'
import { sweepJobs } from '../../../src/hosting/jobs/sweep.ts'
import { createClock } from '../../../src/platform.ts'
import { nextFiring, parseCron } from '../../../src/protocol/cron.ts'
import type { JobReport, JobReportResults, JobWork } from '../../../src/protocol/jobs.schema.ts'
import type { Changes } from '../../../src/protocol/poll.schema.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { makeRandom } from '../support/random.ts'
import { type Client, makeClient } from '../support/retrying-client.ts'
import { createQuietApp, openTestbed, SETTINGS, scaleCount, type Trial, type TrialContext } from '../support/testbed.ts'

const SCHEDULES = 1000
const WORKSPACES = 4
const DEPLOYMENTS = 5
const DAYS = 30
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
/** Trips of a life that is not cut short: two for each page of schedules, and two at the end. */
const MAX_STEPS = 6
const KILLED = 0.3
const OUTAGE = 0.01
const LOOKS_AFTER_MONTH = 20
const CRONS = [
  '15 3 * * *',
  '0 0 * * *',
  '30 2 * * *',
  '40 */6 * * *',
  '5 * * * *',
  '0 9 * * 1',
  '0,20,40 8-17 * * 1-5',
]
const ZONES = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata']
const OVERLAPS = ['skip', 'replace', 'allow']
const DEADLINES = [60, 3600, 6 * 3600]

class KilledError extends Error {}

/** Counts the trips of one life. At the last one, the request is not sent, or its answer is lost. */
function makeLife(lastStep: number, losesAnswer: boolean) {
  let steps = 0
  return <Input extends unknown[], Answer>(send: (...input: Input) => Promise<Answer>) =>
    async (...input: Input): Promise<Answer> => {
      steps++
      if (steps > lastStep || (steps === lastStep && !losesAnswer)) throw new KilledError()
      const answer = await send(...input)
      if (steps >= lastStep) throw new KilledError()
      return answer
    }
}

type Schedule = { id: string; cron: string; time_zone: string; from: number }

export default {
  id: 'schedules',
  what: 'two control planes make the jobs of 1,000 schedules over a simulated month, killed at any step',
  target: 'each due time has one job or is reported as missed; no job starts twice; no overlap that is not allowed',
  async run(context: TrialContext) {
    const random = makeRandom(context.seed)
    const pick = <Item>(items: Item[]): Item => items[Math.floor(random() * items.length)]!
    let ahead = 0
    const clock = createClock(() => ahead)
    const settings = { JOB_RETENTION_DAYS: '365', EVENTS_PER_DAY: '0' }
    const testbed = await openTestbed(context, { settings, overrides: { clock, deliveriesPerRequest: 0 } })
    const { app, system } = testbed.pools.connections
    const send = (key: string) => openCaller(makeClient(testbed.app.fetch, key))

    const agents: Agent[] = []
    const schedules: Schedule[] = []
    const perDeployment = Math.ceil(scaleCount(context, SCHEDULES) / WORKSPACES / DEPLOYMENTS)
    for (let workspace = 0; workspace < WORKSPACES; workspace++) {
      const call = send((await testbed.tenant()).api_key)
      const agent = await openAgent(call, send, random)
      agents.push(agent)
      for (const id of await agent.deploy(DEPLOYMENTS))
        for (let number = 0; number < perDeployment; number++) {
          const [cron, time_zone] = [pick(CRONS), pick(ZONES)]
          const { status, body } = await call('POST', `/v2/deployments/${id}/schedules`, {
            name: `s${number}`,
            cron,
            time_zone,
            command: 'true',
            overlap: pick(OVERLAPS),
            deadline_seconds: pick(DEADLINES),
            retries: pick([0, 0, 1]),
          })
          if (status !== 201) throw new Error(JSON.stringify(body))
          schedules.push({ id: body.id, cron, time_zone, from: Date.parse(body.created_at) })
        }
    }

    let kills = 0
    const openControlPlane = () => {
      let guard = makeLife(0, false)
      const databaseConnections = {
        app: ((...trip: Parameters<typeof app>) => guard(app)(...trip)) as typeof app,
        system: ((...trip: Parameters<typeof system>) => guard(system)(...trip)) as typeof system,
      }
      const own = createQuietApp(
        { ...SETTINGS, DATABASE_URL: testbed.url, ...settings },
        { clock, databaseConnections },
      )
      return async (lastStep: number) => {
        guard = makeLife(lastStep, random() < 0.5)
        await sweepJobs(own).catch(error => {
          if (!(error instanceof KilledError) && !(error.cause instanceof KilledError)) throw error
          kills++
        })
      }
    }
    const [live, liveBeside] = [openControlPlane(), openControlPlane()]
    const firstStep = () => (random() < KILLED ? 1 + Math.floor(random() * MAX_STEPS) : Number.POSITIVE_INFINITY)
    const end = ahead + scaleCount(context, DAYS) * DAY_MS
    while (ahead < end) {
      ahead += random() < OUTAGE ? 12 * 60 * MINUTE_MS * random() : Math.ceil(random() * 40) * MINUTE_MS
      await Promise.all([live(firstStep()), liveBeside(firstStep())])
      for (const agent of agents) await agent.work()
      context.progress(`day ${(ahead / DAY_MS).toFixed(1)} of ${DAYS}, ${kills} killed`)
    }
    await live(Number.POSITIVE_INFINITY)
    const until = clock.now()
    for (let look = 0; look < LOOKS_AFTER_MONTH; look++) {
      ahead += 11 * MINUTE_MS
      for (const agent of agents) await agent.work(true)
      await live(Number.POSITIVE_INFINITY)
    }

    const database = new pg.Client({ connectionString: testbed.url })
    await database.connect()
    context.defer(() => database.end())
    const { lost, doubled, runs, missed } = await compareDueTimes(database, schedules, until)
    const count = async (statement: string) => Number((await database.query(statement)).rows[0].count)
    const overlapping = await count(`
      select count(*) from jobs a join jobs b using (schedule_id)
      where a.id < b.id and a.is_serial and b.is_serial
        and a.started_at < b.finished_at and b.started_at < a.finished_at`)
    const startedTwice = agents.reduce((sum, agent) => sum + agent.startedTwice(), 0)
    return {
      measured:
        `${lost} due times lost, ${doubled} doubled, ${startedTwice} jobs started twice, ` + `${overlapping} overlaps`,
      met: runs > 0 && lost + doubled + startedTwice + overlapping === 0,
      notes: [
        `${schedules.length} schedules: ${runs} due times have a job, ${missed} were reported as missed; ` +
          `${kills} killed`,
      ],
      figures: { lost, doubled, startedTwice, overlapping, runs, missed, kills },
    }
  },
} satisfies Trial

type Agent = Awaited<ReturnType<typeof openAgent>>
type Send = ReturnType<typeof openCaller>

/** Bodies without a type. */
const openCaller = (client: Client) => async (method: string, path: string, sent?: unknown) => {
  const { status, body } = await client.send(method, path, sent)
  return { status, body: Object(body) }
}

/** Ends most jobs at once, and some later. Sometimes it restarts, and knows nothing any more. */
async function openAgent(call: Send, send: (key: string) => Send, random: () => number) {
  const { body: listener } = await call('POST', '/v2/listeners', { compute_type: 'local', compute_id: 'machine' })
  const { body: key } = await call('POST', `/v2/listeners/${listener.id}/keys`, {})
  const sync = send(key.key)
  const { public_key } = makeEnvelopeOpener()
  let lease: { fence: number | null; cursor: number | null } = { fence: null, cursor: null }
  const starts = new Map<string, number>()
  const running = new Set<string>()

  const policy = { privileged: false, service_accounts: [], jobs: true }
  async function poll(): Promise<Changes> {
    const { status, body } = await sync('POST', '/v1/sync/poll', { agent_id: 'agent', public_key, policy, ...lease })
    if (status !== 200) throw new Error(JSON.stringify(body))
    lease = { fence: body.lease.fence, cursor: body.cursor }
    return body
  }
  async function report(reports: JobReport[]): Promise<JobReportResults['results']> {
    if (reports.length === 0) return []
    const { body } = await sync('POST', '/v1/sync/jobs', { agent_id: 'agent', fence: lease.fence, reports })
    return body.results
  }
  const endOf = (job_id: string): JobReport =>
    random() < 0.1 ? { job_id, state: 'failed', exit_code: 1 } : { job_id, state: 'succeeded', exit_code: 0 }

  async function start(queued: JobWork[]): Promise<void> {
    const answers = await report(queued.map(({ job_id }) => ({ job_id, state: 'running' })))
    for (const { job_id, accepted } of answers) {
      if (!accepted) continue
      starts.set(job_id, (starts.get(job_id) ?? 0) + 1)
      running.add(job_id)
    }
  }

  return {
    startedTwice: () => [...starts.values()].filter(count => count > 1).length,
    async deploy(count: number): Promise<string[]> {
      for (let number = 0; number < count; number++)
        await call('POST', '/v2/deployments', makeImageBody({ source_config: { listener_id: listener.id } }))
      const { changes } = await poll()
      const reports = changes.map(({ deployment_id, generation, revision }: Work) => ({
        deployment_id,
        generation,
        revision_id: revision!.id,
        state: 'deployed',
        healthy: true,
      }))
      await sync('POST', '/v1/sync/report', { agent_id: 'agent', fence: lease.fence, reports })
      return reports.map(({ deployment_id }) => deployment_id)
    },
    async work(all = false): Promise<void> {
      if (random() < 0.02) lease = { fence: null, cursor: null }
      for (;;) {
        const { jobs = [], resync, more } = await poll()
        const known = jobs.filter(({ status }) => status === 'RUNNING').map(({ job_id }) => job_id)
        const cancelled = jobs.filter(({ cancel }) => cancel).map(({ job_id }) => job_id)
        if (resync && !more) for (const id of running) if (!known.includes(id)) running.delete(id)
        for (const id of known) running.add(id)
        await start(jobs.filter(({ status }) => status === 'QUEUED'))
        for (const id of cancelled) running.delete(id)
        const ended = [...running].filter(() => all || random() < 0.9)
        for (const id of ended) running.delete(id)
        const reports = ended.map(endOf).concat(cancelled.map(job_id => ({ job_id, state: 'cancelled' })))
        for (let from = 0; from < reports.length; from += 100) await report(reports.slice(from, from + 100))
        if (jobs.length === 0 && !more) return
      }
    },
  }
}

type JobRow = { due_at: Date; missed_until: Date | null; missed_count: number | null }

async function compareDueTimes(database: pg.Client, schedules: Schedule[], until: number) {
  const totals = { lost: 0, doubled: 0, runs: 0, missed: 0 }
  for (const { id, cron, time_zone, from } of schedules) {
    const { rows } = await database.query<JobRow>(
      `select due_at, missed_until, missed_count from jobs
      where schedule_id = $1 and due_at <= $2 and attempt = 1`,
      [id, new Date(until)],
    )
    const parsed = parseCron(cron)
    const expected: number[] = []
    for (let due = nextFiring(parsed, from, time_zone)!; due <= until; due = nextFiring(parsed, due + 1, time_zone)!)
      expected.push(due)
    const covered = new Map<number, number>(expected.map(due => [due, 0]))
    for (const { due_at, missed_until } of rows)
      for (const due of missed_until ? expected : [due_at.getTime()])
        if (!missed_until || (due >= due_at.getTime() && due <= missed_until.getTime()))
          covered.set(due, (covered.get(due) ?? 1) + 1)
    const counts = [...covered.values()]
    totals.lost += counts.filter(count => count === 0).length
    totals.doubled += counts.filter(count => count > 1).length
    totals.missed += rows.reduce((sum, row) => sum + (row.missed_count ?? 0), 0)
    totals.runs += rows.filter(row => !row.missed_until).length
  }
  return totals
}
