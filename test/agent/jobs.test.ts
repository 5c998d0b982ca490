// Jobs with real processes against a fake control plane: started once, found after a restart, cancelled, lost.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient, RequestRefused } from '../../src/agent/control-plane/client.ts'
import type { Engine, RunEnd } from '../../src/agent/engine.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { JobRunner, type Runnable, toShell } from '../../src/agent/jobs/job-runner.ts'
import type { JobReport } from '../../src/protocol/jobs.schema.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { closeAgents, FAST_LIMITS, LOOPBACK_NETWORKS, makeTempFolder, runAgent } from '../support/process-engine.ts'

let home: string
let control: ControlPlane
let file: string

beforeEach(async () => {
  home = makeTempFolder()
  control = await startControlPlane()
  file = join(home, 'written')
  fs.writeFileSync(file, '')
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

function startAgent(folder = home) {
  const agent = new Agent({
    agent_id: 'agent-1',
    version: 'test',
    home: folder,
    engine: new ProcessEngine({ home: folder, port: 0, limits: FAST_LIMITS }),
    networks: LOOPBACK_NETWORKS,
    wait: 5,
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: () => {},
  })
  runAgent(agent)
  return agent
}
async function deploy(id = randomUUID() as string, secrets = {}) {
  const revision = control.want(id, { source: 'internal_template', template_id: 'web-service' }, { secrets })
  await waitFor(() => control.reportedStates(revision).includes('deployed'))
  return { id, revision }
}
const statesOf = (job: string) => control.jobReports.filter(one => one.job_id === job).map(({ state }) => state)
const endOf = (job: string) =>
  waitFor(() => control.jobReports.find(one => one.job_id === job && one.state !== 'running'))
const linesOf = (job: string) => control.logs.filter(({ of }) => of === job).map(({ message }) => message)
const written = () => fs.readFileSync(file, 'utf8')

test('a job runs in the environment of what serves, and its lines come before its end', async () => {
  startAgent()
  const { id, revision } = await deploy(undefined, { GREETING: 'hello there' })
  const job = control.wantJob(id, ['sh', '-c', `echo "$GREETING" >> ${file}; echo $PORT.; pwd; exit 3`])
  expect(await endOf(job)).toMatchObject({ state: 'failed', exit_code: 3, revision_id: revision })
  expect(statesOf(job)).toEqual(['running', 'failed'])
  expect(written()).toBe('hello there\n')
  // The paths are those of its terminals.
  expect(linesOf(job)).toEqual(['.', expect.stringMatching(`^${home}/`)])
  const others = ['exit 0', 'kill -9 $$', 'sleep 30'].map(command =>
    control.wantJob(id, command, { timeout_seconds: command === 'sleep 30' ? 1 : 60 }),
  )
  expect(await Promise.all(others.map(async other => (await endOf(other)).state))).toEqual([
    'succeeded',
    'failed',
    'timed_out',
  ])
  await waitFor(() => fs.readdirSync(join(home, 'jobs')).length === 0)
})

test('a job outlives its agent, and a newer revision, and is not started again', async () => {
  const first = startAgent()
  const { id, revision } = await deploy()
  const job = control.wantJob(
    id,
    `echo begun >> ${file}; while [ ! -e ${file}.go ]; do sleep 0.1; done; ls > ${file}.ls`,
  )
  await waitFor(() => written() !== '')
  await first.close({ stop: false })
  // Also where an earlier release of the control plane takes over for a time.
  control.faults.hidesJobs = true
  const second = startAgent()
  const { revision: newer } = await deploy(id)
  await second.close({ stop: false })
  control.faults.hidesJobs = false
  startAgent()
  const folder = join(home, 'process', id, 'revisions', revision)
  await waitFor(() => fs.existsSync(join(home, 'process', id, 'revisions', newer)))
  expect(statesOf(job)).toEqual(['running'])
  fs.writeFileSync(`${file}.go`, '')
  expect(await endOf(job)).toMatchObject({ state: 'succeeded', exit_code: 0 })
  expect(written()).toBe('begun\n')
  expect(fs.readFileSync(`${file}.ls`, 'utf8')).toContain('package.json')
  await waitFor(() => !fs.existsSync(folder))
})

test('a job is cancelled, also by the next agent', async () => {
  const first = startAgent()
  const { id } = await deploy()
  const [job, later] = ['a', 'b'].map(name => control.wantJob(id, `echo ${name} >> ${file}; sleep 100`)) as [
    string,
    string,
  ]
  await waitFor(() => written().length === 4)
  control.cancelJob(job)
  expect(await endOf(job)).toMatchObject({ state: 'cancelled' })
  await first.close({ stop: false })
  control.cancelJob(later)
  startAgent()
  expect(await endOf(later)).toMatchObject({ state: 'cancelled' })
})

test('a job does not hold up the deletion of its deployment', async () => {
  startAgent()
  const { id } = await deploy()
  const job = control.wantJob(id, `echo a >> ${file}; sleep 100`)
  await waitFor(() => written().length > 0)
  control.wantAbsent(id)
  expect(await endOf(job)).toMatchObject({ state: 'cancelled' })
  await waitFor(() => !fs.existsSync(join(home, 'process', id)))
})

test('a job that an agent on another machine has started is reported as lost, and not started', async () => {
  startAgent()
  const { id } = await deploy()
  const job = control.wantJob(id, `echo again >> ${file}`, { status: 'RUNNING' })
  expect(await endOf(job)).toMatchObject({ state: 'lost' })
  expect(written()).toBe('')
})

test('a job that was cancelled before its start is not started, and one without a revision fails', async () => {
  startAgent()
  const { id } = await deploy()
  const job = control.wantJob(id, `echo started >> ${file}`, { starts_in_ms: 2_000 })
  control.forgetJob(job)
  const other = control.wantJob(randomUUID(), 'true')
  expect(await endOf(other)).toMatchObject({ state: 'failed', reason: expect.stringContaining('No revision') })
  const after = control.wantJob(id, 'true', { starts_in_ms: 2_500 })
  expect(await endOf(after)).toMatchObject({ state: 'succeeded' })
  expect(written()).toBe('')
})

/** Its engine finds a command only once it was looked for in vain, as while an image is fetched. */
function makeSlowRunner(onReports: (reports: JobReport[]) => void) {
  const accepted: JobReport[] = []
  const looks = new Map<string, { times: number; end: PromiseWithResolvers<RunEnd> }>()
  const engine = {
    runOnce: (_: unknown, __: unknown, { id }: { id: string }) => {
      looks.set(id, { times: 0, end: Promise.withResolvers() })
      return looks.get(id)!.end.promise
    },
    async forgetRun(_: string, id: string) {
      const look = looks.get(id)!
      if (++look.times > 1) look.end.resolve({ exit_code: null, reason: 'was ended' })
    },
  } as Partial<Engine> as Engine
  const runner = new JobRunner({
    engine,
    control: {
      async jobs({ reports }) {
        onReports(reports)
        accepted.push(...reports)
        return { results: reports.map(({ job_id }) => ({ job_id, accepted: true, code: null })) }
      },
    },
    currentLease: () => ({ agent_id: 'agent-1', fence: 1 }),
    findServing: () => ({ spec: { revision_id: randomUUID() }, artifact: {} }) as Runnable,
    findSpec: () => null,
    perform: async () => {},
    log: () => {},
    flushLogs: async () => {},
    redact: (_, text) => text,
    onEnd: () => {},
    onFenced: () => {},
    logEvent: () => {},
    folder: null,
  })
  const work = { status: 'QUEUED', command: 'true', timeout_seconds: 60, starts_in_ms: 0, cancel: false } as const
  const newJob = () => ({ ...work, job_id: randomUUID(), deployment_id: randomUUID() })
  const flushing = setInterval(() => void runner.flush(), 5)
  const states = (job: string) => accepted.filter(({ job_id }) => job_id === job).map(({ state }) => state)
  return { runner, newJob, states, isRun: (id: string) => looks.has(id), stop: () => clearInterval(flushing) }
}

test('a job that is cancelled while its command is being started is looked for until it ends', async () => {
  const { runner, newJob, states, isRun, stop } = makeSlowRunner(() => {})
  const job = newJob()
  runner.apply([job], false)
  await waitFor(() => isRun(job.job_id))
  runner.apply([{ ...job, status: 'RUNNING', cancel: true }], false)
  await waitFor(() => states(job.job_id).includes('cancelled'))
  stop()
})

test('a report that is refused does not take others with it', async () => {
  let bad: string | undefined
  const { runner, newJob, states, stop } = makeSlowRunner(reports => {
    if (reports.some(({ job_id }) => job_id === bad)) throw new RequestRefused(422, 'invalid_request', '', null)
  })
  const jobs = [newJob(), newJob(), newJob()]
  bad = jobs[0]!.job_id
  runner.apply(jobs, false)
  await waitFor(() => jobs.slice(1).every(({ job_id }) => states(job_id).includes('running')))
  expect(states(bad)).toEqual([])
  stop()
})

test.each([
  ['echo $HOME', 'echo $HOME'],
  [['echo', 'it\'s "$HOME"', ''], `'echo' 'it'\\''s "$HOME"' ''`],
])('%j is given to the shell as %s', (command, text) => {
  expect(toShell(command)).toBe(text)
})
