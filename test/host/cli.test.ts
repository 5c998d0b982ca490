// `slipway` against one real `npm run dev`, through a pipe and on a terminal: from a folder to a URL that answers.
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { writeDevPointer } from '../../src/host/dev-pointer.ts'
import type { DevState } from '../../src/host/home-folder.ts'
import { hasTerminal, startCliIn, startCliOnTerminal } from '../support/cli-process.ts'
import { waitFor } from '../support/commands.ts'
import { bootstrapKey, readDevInstallation } from '../support/dev-installation.ts'
import { startLocalGitea } from '../support/local-gitea.ts'

const execute = promisify(execFile)
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-cli-'))
/** The command line finds `npm run dev` through this folder alone: it gets no address and no key. */
const env = { SLIPWAY_CONFIG_HOME: join(root, 'config') }

let dev: DevState
beforeAll(async () => {
  const { home } = await readDevInstallation()
  const state = JSON.parse(fs.readFileSync(join(home, 'dev.json'), 'utf8')) as DevState
  // Other files use the workspace of the installation.
  dev = { ...state, api_key: await bootstrapKey(home, '--organization', 'Command line') }
  vi.stubEnv('SLIPWAY_CONFIG_HOME', env.SLIPWAY_CONFIG_HOME)
  writeDevPointer(dev)
  vi.unstubAllEnvs()
})
afterAll(() => {
  for (const gate of gates) {
    gate.close()
    gate.closeAllConnections()
  }
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

const serving = (text: string) =>
  `require('http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)`
/** An application without dependencies. */
function makeApplication(name: string, files: Record<string, string> = {}): string {
  const cwd = join(root, name)
  const manifest = JSON.stringify({ name, scripts: { start: 'node server.cjs' } })
  for (const [file, text] of Object.entries({ 'package.json': manifest, 'server.cjs': serving('first'), ...files })) {
    fs.mkdirSync(join(cwd, file, '..'), { recursive: true })
    fs.writeFileSync(join(cwd, file), text)
  }
  return cwd
}
/** Without it, the start command is `npm start`, which takes three times as long. */
const withStartCommand = (settings = {}) => ({
  'slipway.json': JSON.stringify({ start_command: 'node server.cjs', ...settings }),
})
const makeFailingApplication = (name: string) =>
  makeApplication(name, {
    ...withStartCommand({ build_command: 'node build.cjs' }),
    'build.cjs': `console.log('Reading the sources'); console.error('No such module: left-pad'); process.exit(7)`,
  })
const gates: Server[] = []
/** Its build waits until the test lets it go on. */
async function makeWaitingApplication(name: string) {
  const held: ServerResponse[] = []
  let isHeld = true
  const gate = createServer((_, response) => void (isHeld ? held.push(response) : response.end()))
  gates.push(gate)
  await once(gate.listen(0, '127.0.0.1'), 'listening')
  const { port } = gate.address() as AddressInfo
  const cwd = makeApplication(name, {
    ...withStartCommand({ build_command: 'node build.cjs' }),
    'build.cjs': `require('http').get('http://127.0.0.1:${port}', answer => answer.resume())`,
  })
  const goOn = () => {
    isHeld = false
    for (const response of held) response.end()
  }
  return { cwd, goOn }
}
const run = (cwd: string, ...args: string[]) => startCliIn({ cwd, env }, args).exited
const INSTALLATION_ONLY = [expect.objectContaining({ type: 'installation' })]
const linesBesides = ({ err }: { err: string }): unknown[] =>
  err
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
/** Uses curl, which resolves `.localhost` as browsers do. */
const fetchText = async (url: string) => (await execute('curl', ['-s', url])).stdout
const callApi = async (method: string, path: string, body?: object) => {
  const headers = { 'X-Api-Key': dev.api_key, 'Content-Type': 'application/json' }
  const response = await fetch(dev.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  return (await response.json()) as Record<string, string>
}

it('deploys a folder of 1,000 files that nothing configures to a URL that answers, and rolls back', async () => {
  const data = Array.from({ length: 1_000 }, (_, i) => [`data/${i % 10}/${i}.txt`, `${i}`])
  const cwd = makeApplication('journal', Object.fromEntries(data))
  const first = await run(cwd, 'deploy', '--create', '--yes')
  expect([first.code, linesBesides(first), first.objects[0]!.files]).toEqual([0, INSTALLATION_ONLY, 1_002])
  const { url } = first.objects.at(-1) as { url: string }
  expect(await fetchText(url)).toBe('first')

  fs.rmSync(join(cwd, 'data'), { recursive: true })
  fs.writeFileSync(join(cwd, 'server.cjs'), serving('second'))
  expect((await run(cwd, 'deploy', '--yes')).code).toBe(0)
  expect(await fetchText(url)).toBe('second')
  const back = await run(cwd, 'rollback', 'journal', '1', '--yes')
  expect(back.objects.find(({ type }) => type === 'plan')).toMatchObject({
    changes: [{ path: 'source_revision_config.source_tarball_path' }],
  })
  expect([back.code, await fetchText(url)]).toEqual([0, 'first'])

  const namesake = makeApplication('elsewhere', { 'package.json': '{"name": "journal"}' })
  const taken = await run(namesake, 'deploy', '--yes')
  expect([taken.code, taken.error?.next]).toEqual([2, 'slipway deploy --name journal --yes'])
  fs.symlinkSync('nowhere', join(namesake, 'link'))
  const broken = await run(namesake, 'deploy', '--yes')
  expect([broken.code, broken.error?.message]).toEqual([2, expect.stringContaining('nowhere')])
})

it('exits with 1 when the build fails, with the reason and the last lines of the build', async () => {
  const { code, error, objects } = await run(makeFailingApplication('broken'), 'deploy', '--create', '--yes')
  expect([code, error]).toEqual([1, expect.objectContaining({ code: 'build_failed', next: 'slipway explain broken' })])
  expect(error!.message).toContain('7')
  expect(error!.last_lines).toEqual(expect.arrayContaining(['Reading the sources', 'No such module: left-pad']))
  expect(objects.filter(({ type }) => type === 'log').length).toBeGreaterThan(0)
})

it('deploys a repository and a template by their names', async () => {
  const gitea = await startLocalGitea(join(root, 'git'))
  try {
    const cwd = makeApplication('store', withStartCommand())
    const ada = ['-c', 'user.name=Ada', '-c', 'user.email=ada@example.com']
    for (const args of [
      ['init', '-q', '-b', 'main'],
      ['add', '.'],
      [...ada, 'commit', '-qm', 'Start'],
      ['push', '-q', gitea.create('acme/store'), 'main'],
    ])
      await execute('git', args, { cwd })
    const host = { host: 'gitea', base_url: gitea.origin, token: 'hush-token', webhook_secret: 'hush-webhook-secret' }
    await callApi('POST', '/v1/integrations/forge/githost', host)
    const [repository, template] = await Promise.all([
      run(root, 'deploy', '--repo', 'acme/store', '--create', '--yes'),
      run(root, 'deploy', '--template', 'web-service', '--create', '--yes'),
    ])
    for (const deployed of [repository, template])
      expect([deployed.code, linesBesides(deployed)]).toEqual([0, INSTALLATION_ONLY])
    const urls = [repository, template].map(({ objects }) => objects.at(-1)!.url as string)
    expect(await Promise.all(urls.map(fetchText))).toEqual(['first', expect.stringContaining('"web-service"')])
  } finally {
    gitea.close()
  }
})

describe.runIf(hasTerminal)('on a terminal', () => {
  const start = (cwd: string, ...args: string[]) => startCliOnTerminal(args, { cwd, env })
  const linesOf = (screen: string) => stripVTControlCharacters(screen).split(/[\r\n]+/)

  it('asks one question, to which Enter says yes, and ends with a URL that answers', async () => {
    const { exited, type, screen } = start(makeApplication('memos', withStartCommand()), 'deploy')
    await waitFor(() => screen().includes('[Y/n]'))
    type('\r')
    const { code, screen: shown } = await exited
    expect(code, shown).toBe(0)
    expect(shown.match(/\[[Yy]\/[Nn]\]/g)).toHaveLength(1)
    const url = linesOf(shown)
      .findLast(line => line.trim())!
      .match(/http:\S+/)![0]
    expect(await fetchText(url)).toBe('first')
  })

  it('shows the lines of a failing build once', async () => {
    const { code, screen } = await start(makeFailingApplication('failing'), 'deploy', '--yes').exited
    expect([code, linesOf(screen).filter(line => line.trim() === 'No such module: left-pad').length], screen).toEqual([
      1, 1,
    ])
  })

  it('leaves a build that takes longer than --timeout, or after Ctrl-C, and comes back to it', async () => {
    const { cwd, goOn } = await makeWaitingApplication('slow')
    const late = await start(cwd, 'deploy', '--yes', '--timeout', '1').exited
    expect([late.code, late.screen]).toEqual([3, expect.stringContaining('slipway status slow')])
    fs.writeFileSync(join(cwd, 'server.cjs'), serving('second'))
    const { exited, type, screen } = start(cwd, 'deploy', '--yes')
    await waitFor(() => linesOf(screen()).some(line => /^revision 2 /.test(line)))
    type('\x03')
    const left = await exited
    expect([left.code, left.screen]).toEqual([130, expect.stringContaining('slipway status slow')])
    goOn()
    const { deployment_id } = JSON.parse(fs.readFileSync(join(cwd, '.slipway/link.json'), 'utf8'))
    await waitFor(async () => (await callApi('GET', `/v2/deployments/${deployment_id}`)).serving === 'current')
    const status = await run(cwd, 'status')
    expect(status.objects[0]).toMatchObject({ name: 'slow', serving: 'current' })
    expect(await fetchText(status.objects[0]!.url as string)).toBe('second')
  })
})
