// `slipway up` killed with SIGKILL before each of its steps, and started twice at once. Each time the next run has to
// finish the installation: one organization, a key that works, and units that run with the files as they are.
// It works in namespaces of its own, with a systemd, a Caddy and a DNS server that only record what they are asked.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { check, note, runTrial, skipped } from '../support/trial.ts'

const MAIN = join(import.meta.dirname, '../../../src/host/main.ts')
const PRELOAD = join(import.meta.dirname, 'killed/kill-at.mjs')
const FAKES = '/run/fakes'
const ADDRESS = '203.0.113.7'
const UNITS = ['slipway', 'slipway-agent', 'slipway-proxy']
/** Every n-th step, to try it in less time. */
const STRIDE = Number(process.env.STRIDE ?? 1)
const OPTIONS = ['--domain', 'slipway.example.com', '--apps-domain', 'apps.example.net', '--email', 'ops@example.com']

async function inNamespace(): Promise<void> {
  const work = fs.mkdtempSync(join(tmpdir(), 'slipway-killed-up-'))
  await using cleanup = new AsyncDisposableStack()
  prepareMachine(work)
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(async () => {
    await postgres.stop()
    execFileSync('umount', ['-l', work])
    fs.rmSync(work, { recursive: true, force: true })
  })
  const dns = createSocket('udp4').on('message', (query, peer) => dns.send(answerQuery(query), peer.port, peer.address))
  dns.bind(53, '127.0.0.1')
  cleanup.defer(() => void dns.close())
  const [key, cert] = ['key', 'cert'].map(name => fs.readFileSync(join(work, `${name}.pem`)))
  // Listens while the unit of the proxy is started.
  const proxy = createServer({ key, cert }, (_, res) => res.end())
  const follow = setInterval(() => {
    const isStarted = fs.existsSync(`${FAKES}/started-slipway-proxy`)
    if (isStarted && !proxy.listening) proxy.listen(443)
    if (!isStarted && proxy.listening) proxy.close().closeAllConnections()
  }, 50)
  cleanup.defer(() => {
    clearInterval(follow)
    if (proxy.listening) proxy.close().closeAllConnections()
  })

  let databases = 0
  /** An owner who is no superuser, as for a first installation. */
  async function createDatabase(): Promise<string> {
    const name = `up_${++databases}`
    const client = new pg.Client(postgres.url)
    await client.connect()
    await client.query(`do $$ begin
      if to_regrole('owner') is null then create role owner login createrole password 'owner'; end if;
    end $$`)
    await client.query(`create database ${name} owner owner`)
    await client.end()
    return `postgres://owner:owner@127.0.0.1:${postgres.port}/${name}`
  }

  const faults: string[] = []
  async function verify(what: string, outputs: string[]): Promise<void> {
    const found = await findFaults(outputs)
    faults.push(...found.map(fault => `${what}: ${fault}`))
  }

  let step = 1
  for (let isKilled = true; isKilled; step += STRIDE) {
    await removeInstallation()
    const options = [...OPTIONS, '--address', ADDRESS, '--database-url', await createDatabase()]
    const first = await up([...options, '--organization', 'Acme'], step)
    isKilled = first.signal === 'SIGKILL'
    const second = await up(options)
    if (second.code !== 0)
      faults.push(`killed before step ${step}, the next run ended with ${second.code}: ${second.output}`)
    else await verify(`killed before step ${step}`, [first.output, second.output])
  }
  check(
    'a first run that was killed is finished by the next',
    faults.length === 0,
    `${step} steps ${faults.join('\n')}`,
  )

  faults.length = 0
  step = 1
  for (let isKilled = true; isKilled; step++) {
    const change = await up(
      ['--email', `ops${step}@example.com`, '--address', `${ADDRESS}`, '--domain', `s${step}.example.com`],
      step,
    )
    isKilled = change.signal === 'SIGKILL'
    const next = await up([])
    if (next.code !== 0) faults.push(`step ${step}: ${next.output}`)
    faults.push(...findStaleUnits().map(unit => `step ${step}: ${unit} runs with old files`))
  }
  check(
    'a change that was killed is finished by the next run',
    faults.length === 0,
    `${step} steps ${faults.join('\n')}`,
  )

  faults.length = 0
  await removeInstallation()
  const options = [...OPTIONS, '--address', ADDRESS, '--database-url', await createDatabase()]
  const both = await Promise.all([up(options), up(options)])
  const refused = both.filter(({ output }) => output.includes('Another `slipway up`')).length
  await verify(
    'two at once',
    both.map(({ output }) => output),
  )
  check(
    'of two runs at once, one is refused or both succeed',
    faults.length === 0,
    `${refused} refused ${faults.join('\n')}`,
  )
  note(`databases: ${databases}`)
}

function prepareMachine(work: string): void {
  const shell = (script: string) => execFileSync('sh', ['-euc', script], { stdio: ['ignore', 'ignore', 'inherit'] })
  shell(`
    mount --make-rprivate /
    mount -t tmpfs none ${work}
    chmod 755 ${work}
    mkdir ${work}/upper ${work}/work ${work}/postgres
    mount -t overlay overlay -o lowerdir=/etc,upperdir=${work}/upper,workdir=${work}/work /etc
    mount -t tmpfs none /run
    mkdir -p /run/systemd/system ${FAKES} /etc/systemd/system
    rm -f /etc/resolv.conf /etc/systemd/system/slipway*
    echo nameserver 127.0.0.1 >/etc/resolv.conf
    ip link set lo up
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=slipway.example.com \
      -keyout ${work}/key.pem -out ${work}/cert.pem 2>/dev/null`)
  const fake = (name: string, text: string) =>
    fs.writeFileSync(join(FAKES, name), `#!/bin/sh\n${text}`, { mode: 0o755 })
  fake('caddy', 'echo v2.8.0')
  fake('useradd', `for last; do :; done; touch ${FAKES}/user-$last`)
  fake('id', `[ -e ${FAKES}/user-$2 ]`)
  for (const unit of UNITS) fs.writeFileSync(`${FAKES}/env-${unit}`, filesOf(unit).slice(1).join(' '))
  fake(
    'systemctl',
    `case $1 in
      is-active) [ -e ${FAKES}/started-\${2%.service} ] ;;
      restart) cat /etc/systemd/system/$2.service $(cat ${FAKES}/env-$2) | sha256sum >${FAKES}/started-$2 ;;
    esac`,
  )
}

/** The files that a unit reads when it starts. */
const filesOf = (unit: string): string[] => [
  `/etc/systemd/system/${unit}.service`,
  ...(unit === 'slipway' ? ['/etc/slipway/control-plane.env'] : []),
  ...(unit === 'slipway-agent' ? ['/etc/slipway/agent.env'] : []),
]

async function removeInstallation(): Promise<void> {
  for (const folder of ['/etc/slipway', '/etc/slipway-proxy', '/run/slipway-up'])
    fs.rmSync(folder, { recursive: true, force: true })
  for (const unit of UNITS) {
    fs.rmSync(`/etc/systemd/system/${unit}.service`, { force: true })
    fs.rmSync(`${FAKES}/started-${unit}`, { force: true })
  }
  for (const user of ['slipway', 'slipway-proxy']) fs.rmSync(`${FAKES}/user-${user}`, { force: true })
  // The server of the proxy ends.
  await delay(500)
}

/** Every name leads to this machine. */
function answerQuery(query: Buffer): Buffer {
  const end = query.indexOf(0, 12) + 5
  const isA = query.readUInt16BE(end - 4) === 1
  const head = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0])
  const answer = Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, ...ADDRESS.split('.').map(Number)])
  return Buffer.concat([head, query.subarray(12, end), ...(isA ? [answer] : [])])
}

async function up(args: string[], killAt?: number) {
  const preload = killAt === undefined ? [] : ['--import', PRELOAD]
  const env = { PATH: `${FAKES}:${process.env.PATH}`, HOME: '/root', KILL_AT: String(killAt ?? '') }
  const child = spawn(process.execPath, [...preload, MAIN, 'up', ...args], { env })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', chunk => (output += chunk))
  const [code, signal] = await once(child, 'close')
  return { code, signal, output }
}

function findStaleUnits(): string[] {
  return UNITS.filter(unit => {
    const texts = filesOf(unit).map(file => fs.readFileSync(file))
    const now = createHash('sha256').update(Buffer.concat(texts)).digest('hex')
    return fs.readFileSync(`${FAKES}/started-${unit}`, 'utf8').split(' ')[0] !== now
  })
}

async function findFaults(outputs: string[]): Promise<string[]> {
  const faults: string[] = []
  if (outputs.at(-1)?.includes('Correct these')) return [outputs.at(-1)!]
  const last = await up([])
  if (last.code !== 0 || !last.output.includes('Nothing to change')) faults.push(`a further run says ${last.output}`)
  const settings = fs.readFileSync('/etc/slipway/control-plane.env', 'utf8')
  const read = (name: string) => new RegExp(`^${name}="?([^"\n]*)`, 'm').exec(settings)?.[1] ?? ''
  if (!/^k1:[\w-]{43}$/.test(read('SEALING_KEYS'))) faults.push('there is no sealing key')
  const open = fs.readdirSync('/etc/slipway').filter(name => (fs.statSync(`/etc/slipway/${name}`).mode & 0o77) !== 0)
  faults.push(...open.map(name => `others can read ${name}`))
  for (const name of ['DATABASE_URL', 'DATABASE_SYSTEM_URL']) {
    const client = new pg.Client(read(name))
    await client.connect().then(
      () => client.end(),
      error => faults.push(`${name} does not work: ${error.message}`),
    )
  }
  const client = new pg.Client(read('DATABASE_SYSTEM_URL'))
  await client.connect()
  await client.query('set role slipway_system')
  const organizations = await client.query('select display_name from organizations')
  if (organizations.rowCount !== 1) faults.push(`there are ${organizations.rowCount} organizations`)
  const { rows } = await client.query('select key_hash from api_keys')
  await client.end()
  const isKnown = (key: string) =>
    rows.some(({ key_hash }) => key_hash === createHash('sha256').update(key).digest('hex'))
  const printed = outputs.join('\n').match(/slw_\w+/g) ?? []
  if (printed.length === 0) faults.push('no key was printed')
  faults.push(...printed.filter(key => !isKnown(key)).map(() => 'a printed key does not work'))
  return faults
}

if (process.env.IN_NAMESPACE) await runTrial(inNamespace)
else if (process.getuid?.() !== 0 || spawnSync('unshare', ['-m', '-n', 'true']).status !== 0)
  skipped('everything: needs root on Linux')
else {
  const args = ['-m', '-n', '-p', '-f', '--mount-proc', process.execPath, import.meta.filename]
  const child = spawn('unshare', args, { stdio: 'inherit', env: { ...process.env, IN_NAMESPACE: '1' } })
  const [code] = await once(child, 'exit')
  process.exitCode = code ?? 1
}
