// A real sshd with a bare repository: a deploy key, pinned host keys, pushes, previews of branches, and a killed agent.
// Skipped without the program sshd; --install installs it on Debian.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { requestRouter } from '../../support/process-engine.ts'
import { check, findMissing, note, runTrial, skipped } from '../support/trial.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
const SECRET = 'hush-webhook-secret'
const USER = userInfo().username
const work = mkdtempSync(join(tmpdir(), 'slipway-git-ssh-'))
const run = promisify(execFile)
type Settings = Record<string, string>
// biome-ignore lint/suspicious/noExplicitAny: answers of the API, of which the trial reads a few members
type Answer = any

async function waitFor(isTrue: () => Promise<unknown> | unknown, seconds = 90): Promise<boolean> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(100))
    if (
      await Promise.resolve()
        .then(isTrue)
        .catch(() => false)
    )
      return true
  return false
}

function start(program: string, args: string[], env: Settings, name: string) {
  const child: ChildProcess = spawn(program, args, { env: { PATH: process.env.PATH!, HOME: work, ...env } })
  const log = createWriteStream(join(work, `${name}.log`), { flags: 'a' })
  for (const stream of [child.stdout, child.stderr]) stream!.pipe(log, { end: false })
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    await once(child, 'exit')
  }
  return { stop: () => end('SIGTERM'), kill: () => end('SIGKILL') }
}
const startSlipway = (args: string[], env: Settings, name: string) =>
  start(process.execPath, [MAIN, ...args], env, name)

/** It lets in the keys of `authorized_keys`, as the person who runs the trial. */
async function startSshd(program: string, port: number) {
  if (USER === 'root') mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
  const authorized = join(work, 'authorized_keys')
  writeFileSync(authorized, '')
  const makeHostKey = async (name: string) => {
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(work, name)])
    const { stdout } = await run('ssh-keygen', ['-lf', join(work, `${name}.pub`)])
    return stdout.split(' ')[1]!
  }
  const fingerprints = { first: await makeHostKey('first'), second: await makeHostKey('second') }
  let server: ReturnType<typeof start> | undefined
  const answers = () =>
    new Promise<boolean>(resolve => {
      const socket = connect(port, '127.0.0.1')
      const end = (isUp: boolean) => {
        socket.destroy()
        resolve(isUp)
      }
      socket.once('data', () => end(true)).once('error', () => end(false))
    })
  return {
    fingerprints,
    async start(hostKey: keyof typeof fingerprints) {
      const options = [
        ...[`Port=${port}`, 'ListenAddress=127.0.0.1', `HostKey=${join(work, hostKey)}`, 'UsePAM=no', 'StrictModes=no'],
        ...[`AuthorizedKeysFile=${authorized}`, 'PasswordAuthentication=no', 'PermitRootLogin=prohibit-password'],
        ...['PidFile=none', 'MaxStartups=100', 'PrintMotd=no'],
      ].flatMap(option => ['-o', option])
      server = start(program, ['-D', '-e', '-f', '/dev/null', ...options], {}, 'sshd')
      if (!(await waitFor(answers, 20))) throw new Error(readFileSync(join(work, 'sshd.log'), 'utf8'))
    },
    stop: async () => server?.stop(),
    setKeys: (...keys: string[]) => writeFileSync(authorized, keys.map(key => `restrict ${key}\n`).join('')),
  }
}

/** A bare repository, pushed to by its path. */
async function createRepository(name: string) {
  const [bare, tree] = [join(work, `${name}.git`), join(work, `${name}-tree`)]
  await run('git', ['init', '-q', '--bare', '-b', 'main', bare])
  await run('git', ['clone', '-q', bare, tree])
  const git = async (...args: string[]) =>
    (await run('git', ['-C', tree, '-c', 'user.name=Ada', '-c', 'user.email=ada@example.com', ...args])).stdout.trim()
  async function push(text: string, branch = 'main'): Promise<string> {
    writeFileSync(join(tree, 'package.json'), '{"name": "shop", "scripts": {"start": "node server.cjs"}}')
    writeFileSync(join(tree, 'slipway.json'), '{}')
    const listen = `require('http').createServer((_, res) => res.end(words + Object.keys(process.env)))`
    writeFileSync(join(tree, 'server.cjs'), `const words = '${text} '\n${listen}.listen(process.env.PORT)\n`)
    await git('add', '.')
    await git('commit', '-q', '-m', text)
    await git('push', '-q', 'origin', `HEAD:${branch}`)
    return git('rev-parse', 'HEAD')
  }
  return { bare, tree, git, push }
}

async function startControlPlane(cleanup: AsyncDisposableStack) {
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  const command = async (args: string[], env: Settings) =>
    (await run(process.execPath, [MAIN, ...args], { env: { PATH: process.env.PATH!, ...env } })).stdout
  await command(['migrate'], { DATABASE_OWNER_URL: postgres.url })
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const settings = {
    SEALING_KEYS: `k1:${Buffer.from(crypto.getRandomValues(new Uint8Array(32))).toString('base64url')}`,
    UPLOADS_DIR: join(work, 'uploads'),
    PUBLIC_URL: url,
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
  }
  const plane = startSlipway(['start'], { ...settings, PORT: `${port}`, HOST: '127.0.0.1' }, 'control-plane')
  cleanup.defer(() => plane.stop())
  if (!(await waitFor(async () => (await fetch(`${url}/readyz`)).ok)))
    throw new Error('The control plane is not ready.')
  const created = await command(['bootstrap', '--organization', 'Acme', '--platform-listener', 'machine'], settings)
  const [key, listenerKey] = created.match(/slw_\w+/g)!
  async function send(method: string, path: string, body?: unknown): Promise<Answer> {
    const headers = { 'X-Api-Key': key!, 'Content-Type': 'application/json' }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    const response = await fetch(url + path, init)
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    return text ? JSON.parse(text) : null
  }
  return { url, send, listenerKey: listenerKey! }
}

const keyFolders = () => readdirSync(tmpdir()).filter(name => name.startsWith('slipway-ssh-'))

async function trial(): Promise<void> {
  const missing = findMissing('git', 'sshd')
  if (missing) return skipped(missing)
  // It starts itself again, so it needs its own path.
  const program = (await run('which', ['sshd'])).stdout.trim()
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const port = await findFreePort()
  const sshd = await startSshd(program, port)
  cleanup.defer(() => sshd.stop())
  await sshd.start('first')
  const repository = await createRepository('shop')
  await repository.push('one')
  const { url, send, listenerKey } = await startControlPlane(cleanup)
  const startAgent = () =>
    startSlipway(
      ['agent', '--home', join(work, 'agent'), '--stop'],
      {
        SLIPWAY_URL: url,
        SLIPWAY_LISTENER_KEY: listenerKey,
        AGENT_RUN_AS: USER,
        AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
      },
      'agent',
    )
  let agent = startAgent()
  cleanup.defer(() => agent.stop())
  await waitFor(() => readFileSync(join(work, 'agent.log'), 'utf8').includes('lease acquired'))

  const base_url = `ssh://${USER}@127.0.0.1:${port}${repository.bare}`
  const connected = await send('POST', '/v1/integrations/forge/githost', {
    host: 'git',
    base_url,
    webhook_secret: SECRET,
  })
  const path = `/v1/integrations/forge/githost/${connected.id}`
  const read = () => send('GET', path)
  const problemOf = async () => (await read()).problem?.code ?? null
  /** By the generic webhook. */
  const lookNow = async () => {
    const answer = await fetch(`${url}${path}/webhook`, { method: 'POST', headers: { 'X-Slipway-Token': SECRET } })
    if (answer.status !== 202) throw new Error(`The webhook answered ${answer.status}.`)
  }
  check('a connection begins unverified, with a key to paste', connected.ssh.state === 'unverified')
  note(connected.ssh.public_key)

  const { id } = await send('POST', '/v2/deployments', {
    name: 'shop',
    source: 'githost',
    source_config: { integration_id: connected.id, repo_url: base_url, build_on_push: true },
    source_revision_config: { repo_ref: 'main', platform_config_path: 'slipway.json' },
    secrets: [],
  })
  const deployment = () => send('GET', `/v2/deployments/${id}`)
  const newest = async () => (await send('GET', `/v2/deployments/${id}/revisions`)).resources[0]
  const answerOf = async (address: string) => (await requestRouter(address)).body
  const serves = async (text: string) => (await answerOf((await deployment()).url)).startsWith(`${text} `)
  check(
    'the agent pins the host key, and the host refuses a key that is not there',
    await waitFor(async () => {
      const { ssh, problem } = await read()
      return problem?.code === 'key_refused' && ssh.host_keys[0]?.fingerprint === sshd.fingerprints.first
    }),
  )
  check(
    'the build fails by name',
    await waitFor(async () => /refuses the deploy key/.test((await newest()).status_message ?? '')),
    JSON.stringify(await newest()),
  )

  let began = performance.now()
  const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)} s`
  sshd.setKeys(connected.ssh.public_key)
  await lookNow()
  check('once the key is pasted, it deploys', await waitFor(() => serves('one')), JSON.stringify(await newest()))
  note(`served ${seconds()} after the key was pasted`)
  check('the connection is verified', (await read()).ssh.state === 'verified' && (await problemOf()) === null)
  const variables = await answerOf((await deployment()).url)
  check('the application has nothing of git or ssh in its environment', !/GIT_|SSH_/.test(variables), variables)

  began = performance.now()
  const second = await repository.push('two')
  await lookNow()
  check('a push deploys', await waitFor(() => serves('two')), JSON.stringify(await newest()))
  note(`served ${seconds()} after the push`)
  check('its revision has the commit', (await newest()).commit?.sha === second)

  // ---- host keys
  await sshd.stop()
  await sshd.start('second')
  await lookNow()
  const isRefused = async () => {
    const { ssh } = await read()
    return (await problemOf()) === 'host_key_changed' && ssh.refused_host_key?.fingerprint === sshd.fingerprints.second
  }
  check('a changed host key is refused by name, and shown', await waitFor(isRefused), JSON.stringify(await read()))
  await send('POST', `/v2/deployments/${id}/redeploy`, {}).catch(() =>
    send('PATCH', `/v2/deployments/${id}`, { source_revision_config: { repo_ref: 'main' } }),
  )
  check(
    'a build refuses it, too',
    await waitFor(async () => /another host key/.test((await newest()).status_message ?? '')),
    JSON.stringify(await newest()),
  )
  check('what serves goes on', await serves('two'))
  await send('PATCH', path, { accept_host_key: sshd.fingerprints.second })
  await repository.push('three')
  await lookNow()
  check(
    'once a person accepts it, a push deploys',
    await waitFor(() => serves('three')),
    JSON.stringify(await newest()),
  )

  // ---- deploy keys
  const { ssh } = await send('PATCH', path, { new_deploy_key: true })
  await repository.push('four')
  await lookNow()
  check('a new key that is not pasted yet stops nothing', await waitFor(() => serves('four')))
  sshd.setKeys(connected.ssh.public_key, ssh.next_public_key)
  await lookNow()
  check(
    'it takes the place of the old one once the host accepts it',
    await waitFor(async () => (await read()).ssh.public_key === ssh.next_public_key),
  )
  sshd.setKeys(ssh.next_public_key)
  await repository.push('five')
  await lookNow()
  check('the old one is not needed any more', await waitFor(() => serves('five')))
  sshd.setKeys()
  await lookNow()
  check(
    'a removed key is a problem of the connection',
    await waitFor(async () => (await problemOf()) === 'key_refused'),
  )
  sshd.setKeys(ssh.next_public_key)
  await lookNow()
  check('and none once it is back', await waitFor(async () => (await problemOf()) === null))

  // ---- branches
  await send('PUT', `/v2/deployments/${id}/preview-policy`, { branches: ['feature/*'], kinds: ['branches'] })
  const comparedAt = async () => (await send('GET', `/v2/deployments/${id}/explain`)).repository.compared_at
  const before = await comparedAt()
  await lookNow()
  // The first comparison after the policy says which branches were there before it.
  await waitFor(async () => (await comparedAt()) !== before)
  await repository.push('cart', 'feature/cart')
  await lookNow()
  const previews = async () => (await send('GET', `/v2/deployments/${id}/previews`)).resources as Answer[]
  const isLive = async () => {
    const [preview] = await previews()
    const { url: address } = await send('GET', `/v2/deployments/${preview.deployment_id}`)
    return (await answerOf(address)).startsWith('cart ')
  }
  check('a branch gets a preview that serves', await waitFor(isLive), JSON.stringify(await previews()))
  await repository.git('push', '-q', 'origin', ':feature/cart')
  await lookNow()
  check('it ends with the branch', await waitFor(async () => (await previews())[0]?.state === 'ended'))

  // ---- submodules
  const parts = await createRepository('parts')
  await parts.push('parts')
  writeFileSync(join(repository.tree, '.gitmodules'), '[submodule "parts"]\n\tpath = parts\n\turl = ../parts.git\n')
  const partsHead = await parts.git('rev-parse', 'HEAD')
  await repository.git('update-index', '--add', '--cacheinfo', `160000,${partsHead},parts`)
  await repository.push('six')
  await lookNow()
  check('a submodule of the same host is fetched', await waitFor(() => serves('six')), JSON.stringify(await newest()))

  // ---- the host away, and an agent killed
  await sshd.stop()
  await lookNow()
  const explained = async () => JSON.stringify(await send('GET', `/v2/deployments/${id}/explain`))
  check(
    'a host that is away is no problem of the connection',
    (await waitFor(async () => (await explained()).includes('does not answer'))) && (await problemOf()) === null,
    await explained(),
  )
  await sshd.start('second')
  await repository.push('seven')
  await lookNow()
  const isUsing = await waitFor(() => keyFolders().length > 0, 20)
  await agent.kill()
  note(isUsing ? 'killed while it used a key' : 'killed while it used no key')
  agent = startAgent()
  await lookNow()
  check('an agent that was killed goes on', await waitFor(() => serves('seven'), 180), JSON.stringify(await newest()))
  check('no key is left on the machine', await waitFor(() => keyFolders().length === 0), `${keyFolders()}`)
  const built = await send('POST', `/v1/projects/${id}/revisions/${(await newest()).id}/build_logs`, {})
  const logs = JSON.stringify(built) + readFileSync(join(work, 'agent.log'), 'utf8')
  check('no key is in a log', logs.includes('Fetching') && !/PRIVATE KEY|b3BlbnNzaC1r/.test(logs))
}

await runTrial(trial)
