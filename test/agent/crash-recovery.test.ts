// An agent killed at any step of a rollout: the next one resumes it without a second replica or a failed request.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type Command, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import { makeTempFolder, pollRouter, requestRouter } from '../support/process-engine.ts'

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

const agent = () =>
  startCommand('src/agent/main.ts', ['--home', home, '--port', '20000', '--stop'], {
    SLIPWAY_URL: control.url,
    SLIPWAY_LISTENER_KEY: 'key',
    AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
  })
const files = (text: string) => ({
  'app.json': JSON.stringify({ start_command: 'node main.mjs', build_command: 'node build.mjs' }),
  'build.mjs': 'setTimeout(() => console.log("half"), 200); setTimeout(() => console.log("whole"), 600)',
  'main.mjs': `import { createServer } from 'node:http'
createServer((req, res) => res.end('${text} ' + process.pid)).listen(process.env.PORT)`,
})
const source = () => ({
  source: 'githost' as const,
  platform_config_path: 'app.json',
  git: { url: git.url, ref: 'main', commit_sha: null },
})
const deployed = (by: Command, revision: string) =>
  by.until(() => control.reportedStates(revision).includes('deployed'))
const urlOf = () => control.reports.findLast(({ url }) => url)!.url!

/** The processes of the deployment: replicas, builds and their descendants. */
function running(): number[] {
  return fs.readdirSync('/proc').flatMap(pid => {
    if (!/^\d+$/.test(pid)) return []
    try {
      // A shell that waits for its child is no replica.
      const shell = fs.readFileSync(`/proc/${pid}/comm`, 'latin1').trim() === 'sh'
      return !shell && fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(home) ? Number(pid) : []
    } catch {
      return []
    }
  })
}

test.runIf(process.platform === 'linux').each(['build', 'half built', 'start', 'switch', 'drain', 'stop', 'forget'])(
  'an agent killed at the step `%s` leaves no orphan and no failed request',
  async step => {
    git.push(files('old'))
    const first = agent()
    await deployed(first, control.want(id, source()))
    const url = urlOf()
    const seen = new Set<string>()
    let polling = true
    onTestFinished(() => {
      polling = false
    })
    const client = pollRouter(
      url,
      () => polling,
      answer => seen.add(answer),
    )

    git.push(files('new'))
    const revision = control.want(id, source())
    const mark = first.output.out.length
    await first.until(() =>
      step === 'half built'
        ? control.logs.some(({ of, message }) => of === revision && message === 'half')
        : first.output.out.slice(mark).includes(`step=${step} `),
    )
    await first.stop('SIGKILL')
    const second = agent()
    await deployed(second, revision)
    await waitFor(() => [...seen].some(answer => answer.startsWith('200 new')))
    const [, , serving] = (await waitFor(async () => {
      const { body } = await requestRouter(url)
      return body.startsWith('new') && `200 ${body}`.split(' ')
    })) as string[]
    // Left are one replica of the new revision, the retained build of the old one, the cache and the source.
    const kept = (name: string) => fs.existsSync(join(home, 'builds', id, name, 'kept.json'))
    await waitFor(() => fs.readdirSync(join(home, 'builds', id)).filter(name => !kept(name)).length === 3)
    await waitFor(() => running().join() === serving)
    polling = false
    await client
    expect([...seen].map(answer => answer.split(' ').slice(0, 2).join(' '))).toEqual(
      expect.arrayContaining(['200 old', '200 new']),
    )
    expect([...seen].filter(answer => !/^200 (old|new) /.test(answer))).toEqual([])
    expect([...seen].filter(answer => answer.startsWith('200 old')).length).toBe(1)
    // Before the agent has installed its signal handlers, SIGTERM would not stop the applications.
    await second.until(() => second.output.out.includes('lease acquired'))
    expect(await second.stop('SIGTERM'), second.output.err).toBe(0)
    await waitFor(() => running().length === 0)
  },
)
