// The drains of an agent against a receiver with the decoders of the OpenTelemetry Collector and against rsyslog over
// TLS: receivers and the agent are killed, lost lines and those that came twice are counted, and the CPU at 20,000
// lines a second is measured. Skipped without go and rsyslogd; --install installs them on Debian.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { MetricTotals } from '../../../src/agent/drains/metric-records.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { encodeBatch } from '../../../src/protocol/drain-encoding.ts'
import type { DrainReport } from '../../../src/protocol/drains.schema.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { CACHE, check, findMissing, isInstalling, note, optionOf, runTrial, skipped } from '../support/trial.ts'

const WRITER = join(import.meta.dirname, 'drains/writer.ts')
const PDATA = 'go.opentelemetry.io/collector/pdata@v1.46.0'
const KILLS = Number(optionOf('kills') ?? 10)
const RATE = 20_000
const work = mkdtempSync(join(tmpdir(), 'slipway-drains-'))
const children = new Set<ChildProcess>()

function start(program: string, args: string[], env: Record<string, string> = {}): ChildProcess {
  const child = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] })
  children.add(child)
  return child
}
async function kill(child: ChildProcess, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
  children.delete(child)
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill(signal)
  await once(child, 'exit')
}

type Told = { written: number; cpu_ms: number; report?: DrainReport }
type Target = { folder: string; kind: string; url: string; id: string }

/** The agent's drains in a process. `last` is what it told last. */
function startWriter(target: Target, from: number, rate: number, seconds: number, env: Record<string, string>) {
  const options = JSON.stringify({ ...target, from, rate, seconds })
  const child = start(process.execPath, [WRITER, options], env)
  const writer = { child, last: { written: from, cpu_ms: 0 } as Told }
  createInterface({ input: child.stdout! }).on('line', line => {
    writer.last = JSON.parse(line)
  })
  return writer
}

async function waitFor(isTrue: () => boolean, seconds: number): Promise<boolean> {
  for (const end = Date.now() + seconds * 1000; Date.now() < end; await delay(50)) if (isTrue()) return true
  return false
}

/** Counts the arrivals of each line. */
function countArrivals(file: string): Map<number, number> {
  const counts = new Map<number, number>()
  if (!existsSync(file)) return counts
  for (const [, number] of readFileSync(file, 'utf8').matchAll(/\bline (\d+) x/g))
    counts.set(Number(number), (counts.get(Number(number)) ?? 0) + 1)
  return counts
}

/** Kills the writer and the receiver in turns, then waits until nothing waits any more. */
async function killBoth(name: string, target: Target, startReceiver: () => ChildProcess, file: string, env = {}) {
  let receiver = startReceiver()
  let [from, promised] = [0, [] as [number, number][]]
  for (let i = 0; i < KILLS; i++) {
    const writer = startWriter(target, from, 2000, 3600, env)
    await waitFor(() => writer.last.written > from, 20)
    await delay(300 + 100 * (i % 5))
    await kill(receiver)
    await delay(200)
    if (i % 2) receiver = startReceiver()
    await kill(writer.child)
    promised.push([from, writer.last.written])
    // Lines that were not on the disk yet have other numbers than those to come.
    from = writer.last.written + 10_000
    if (i % 2 === 0) receiver = startReceiver()
  }
  const last = startWriter(target, from, 0, 0, env)
  const isEmpty = await waitFor(() => last.last.report !== undefined && last.last.report.waiting === 0, 60)
  const { sent = 0, dropped = 0 } = last.last.report ?? {}
  await kill(last.child)
  await delay(1000)
  await kill(receiver, 'SIGTERM')
  const counts = countArrivals(file)
  let [total, lost] = [0, 0]
  for (const [first, end] of promised)
    for (let number = first; number < end; number++) {
      total++
      if (!counts.has(number)) lost++
    }
  const twice = [...counts.values()].filter(count => count > 1).length
  note(`${name}: ${KILLS} kills of each; ${total} lines on the disk, ${lost} lost, ${twice} twice; sent ${sent}`)
  check(`${name}: the buffer is empty in the end`, isEmpty)
  check(`${name}: no line that was on the disk is lost`, lost === 0 && total > 0, `${lost} of ${total}`)
  check(`${name}: none is counted as dropped`, dropped === 0, String(dropped))
}

/** Built once, in the cache. */
function buildReceiver(): string {
  const folder = join(CACHE, 'otlp-receiver')
  const program = join(folder, 'receiver')
  mkdirSync(folder, { recursive: true })
  copyFileSync(join(import.meta.dirname, 'drains/receiver.go'), join(folder, 'main.go'))
  const go = (...args: string[]) => execFileSync('go', args, { cwd: folder, stdio: 'pipe' })
  if (!existsSync(join(folder, 'go.mod'))) go('mod', 'init', 'receiver')
  go('get', PDATA)
  go('mod', 'tidy')
  go('build', '-o', program, '.')
  return program
}

async function tryOtlp(): Promise<void> {
  const program = buildReceiver()
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const target = { folder: join(work, 'otlp'), kind: 'otlp', url, id: crypto.randomUUID() }
  const file = join(work, 'otlp.txt')
  await killBoth('OTLP', target, () => start(program, [`127.0.0.1:${port}`, file]), file)

  const receiver = start(program, [`127.0.0.1:${port}`, join(work, 'fast.txt')])
  const point = { deployment_id: 'd', revision_id: 'r', at: new Date().toISOString(), unreached: 1 }
  const copy = { copy: '1', running: true, restarts: 0, cpu_ms: 5, memory_bytes: 7, statuses: '0,1,0,0,0' }
  const copies = [{ ...copy, latencies: `1${',0'.repeat(15)}` }]
  const records = new MetricTotals().add({ ...point, copies })
  const metrics = encodeBatch('otlp', url, [{ signal: 'metrics', resource: {}, records }])
  const headers = { 'Content-Type': metrics.contentType }
  const { status } = await fetch(metrics.url, { method: 'POST', headers, body: metrics.body })
  check('OTLP: the decoders of the collector take metrics', status === 200, String(status))

  const seconds = 20
  const fast = { ...target, folder: join(work, 'fast'), id: crypto.randomUUID() }
  const writer = startWriter(fast, 0, RATE, seconds, {})
  await waitFor(() => writer.last.written >= RATE * seconds, 60)
  const isSent = await waitFor(() => writer.last.report?.sent === RATE * seconds, 60)
  const { cpu_ms, report } = writer.last
  await kill(writer.child)
  await kill(receiver)
  const counts = countArrivals(join(work, 'fast.txt'))
  note(
    `${RATE} lines/s for ${seconds} s: ${counts.size} arrived, CPU ${(cpu_ms / seconds / 10).toFixed(0)} % of a core`,
  )
  const all = RATE * seconds
  check('20,000 lines a second: all arrive, none is dropped', isSent && counts.size === all && report?.dropped === 0)
}

async function trySyslog(): Promise<void> {
  const port = await findFreePort()
  const { key, cert } = makeCertificate('localhost')
  for (const [name, text] of Object.entries({ key, cert })) writeFileSync(join(work, `${name}.pem`), text)
  const file = join(work, 'syslog.txt')
  const config = join(work, 'rsyslog.conf')
  writeFileSync(
    config,
    `global(workDirectory="${work}" maxMessageSize="64k" DefaultNetstreamDriver="ossl"
  DefaultNetstreamDriverCAFile="${work}/cert.pem" DefaultNetstreamDriverCertFile="${work}/cert.pem"
  DefaultNetstreamDriverKeyFile="${work}/key.pem")
module(load="imtcp" StreamDriver.Name="ossl" StreamDriver.Mode="1" StreamDriver.AuthMode="anon")
input(type="imtcp" port="${port}" address="127.0.0.1")
template(name="text" type="string" string="%app-name% %procid% %msgid%%msg%\\n")
main_queue(queue.type="direct")
*.* action(type="omfile" file="${file}" template="text" asyncWriting="off" flushOnTXEnd="on")
`,
  )
  const target = {
    folder: join(work, 'syslog'),
    kind: 'syslog',
    url: `tls://localhost:${port}`,
    id: crypto.randomUUID(),
  }
  const startRsyslog = () => start('rsyslogd', ['-n', '-f', config, '-i', join(work, `rsyslog-${Date.now()}.pid`)])
  await killBoth('rsyslog', target, startRsyslog, file, { NODE_EXTRA_CA_CERTS: join(work, 'cert.pem') })
}

await runTrial(async () => {
  try {
    const missing = findMissing('go')
    if (missing) skipped(missing)
    else await tryOtlp()
    const noSyslog = findMissing('rsyslogd')
    if (noSyslog) return skipped(noSyslog)
    if (isInstalling) execFileSync('apt-get', ['install', '--yes', '-qq', 'rsyslog-openssl'], { stdio: 'pipe' })
    await trySyslog()
  } finally {
    for (const child of children) await kill(child)
    rmSync(work, { recursive: true, force: true })
  }
})
