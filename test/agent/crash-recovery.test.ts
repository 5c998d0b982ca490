// An agent that is killed during a rollout: the next one resumes it without a second replica or a failed request.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type Command, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import { makeTempFolder, requestRouter, startPolling } from '../support/process-engine.ts'

let home: string
let control: ControlPlane
let git: GitServer
const id = randomUUID()

beforeEach(async () => {
  home = makeTempFolder()
  ;[control, git] = await Promise.all([startControlPlane(), startGitServer()])
})
afterEach(async () => {
  await stopCommands()
  await Promise.all([control.stop(), git.stop()])
  fs.rmSync(home, { recursive: true, force: true })
})

const startAgent = () =>
  startCommand('src/agent/main.ts', ['--home', home, '--port', '20000', '--stop'], {
    SLIPWAY_URL: control.url,
    SLIPWAY_LISTENER_KEY: 'key',
    AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
  })
const makeFiles = (text: string) => ({
  'app.json': JSON.stringify({ start_command: 'node main.mjs', build_command: 'node build.mjs' }),
  'build.mjs': 'console.log("half"); setTimeout(() => console.log("whole"), 400)',
  'main.mjs': `import { createServer } from 'node:http'
createServer((req, res) => res.end('${text} ' + process.pid)).listen(process.env.PORT)`,
})
const makeSource = () => ({
  source: 'githost' as const,
  platform_config_path: 'app.json',
  git: { url: git.url, ref: 'main', commit_sha: null },
})
const waitUntilDeployed = (agent: Command, revision: string) =>
  agent.until(() => control.reportedStates(revision).includes('deployed'))

/** The processes of the deployment: replicas, builds and their descendants. */
function listApplicationProcesses(): number[] {
  return fs.readdirSync('/proc').flatMap(pid => {
    if (!/^\d+$/.test(pid)) return []
    try {
      // Neither the router nor a shell that waits for its child is a replica.
      const commandLine = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      if (/^(\/bin\/)?sh\0|router-main/.test(commandLine)) return []
      return fs.readFileSync(`/proc/${pid}/environ`, 'utf8').includes(home) ? Number(pid) : []
    } catch {
      return []
    }
  })
}

/** Deploys `next` beside `previous`, kills the agent at this step, and returns the agent that completed the rollout. */
async function killDuringRollout(agent: Command, step: string, url: string, previous: string, next: string) {
  const client = startPolling(url)
  onTestFinished(client.stop)
  git.push(makeFiles(next))
  const logLength = agent.output.out.length
  const revision = control.want(id, makeSource())
  await agent.until(() =>
    step === 'half built'
      ? control.logs.some(({ of, message }) => of === revision && message === 'half')
      : agent.output.out.slice(logLength).includes(`step=${step} `),
  )
  await agent.stop('SIGKILL')
  const nextAgent = startAgent()
  await waitUntilDeployed(nextAgent, revision)
  const pid = await waitFor(async () => {
    const [text, pid] = (await requestRouter(url)).body.split(' ')
    return text === next && pid
  })
  // One build is left besides the retained ones, with the cache and the source.
  const isRetained = (name: string) => fs.existsSync(join(home, 'builds', id, name, 'kept.json'))
  await waitFor(() => fs.readdirSync(join(home, 'builds', id)).filter(name => !isRetained(name)).length === 3)
  await waitFor(() => listApplicationProcesses().join() === pid)
  await waitFor(() => client.responses().some(response => response.startsWith(`200 ${next} `)))
  await client.stop()
  const responses = client.responses().map(response => response.split(' ').slice(0, 2).join(' '))
  expect(new Set(responses)).toEqual(new Set([`200 ${previous}`, `200 ${next}`]))
  // The old replica was never restarted.
  expect(responses.filter(response => response === `200 ${previous}`)).toHaveLength(1)
  return nextAgent
}

test.runIf(process.platform === 'linux').each([
  ['before the switch', ['build', 'half built', 'start']],
  ['after the new revision is healthy', ['switch', 'drain', 'stop', 'forget']],
])('an agent that is killed %s leaves no orphan and no failed request', async (_, steps) => {
  git.push(makeFiles('v0'))
  let agent = startAgent()
  await waitUntilDeployed(agent, control.want(id, makeSource()))
  const { url } = control.reports.findLast(({ url }) => url)!
  for (const [i, step] of steps.entries())
    agent = await killDuringRollout(agent, step, url!, `v${i}`, `v${i + 1}`).catch(cause => {
      throw new Error(`The agent was killed at the step ${step}: ${cause.message}`, { cause })
    })
  // Before the agent has installed its signal handlers, SIGTERM would not stop the applications.
  await agent.until(() => agent.output.out.includes('lease acquired'))
  expect(await agent.stop('SIGTERM'), agent.output.err).toBe(0)
  await waitFor(() => listApplicationProcesses().length === 0)
})
