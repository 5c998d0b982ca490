// The drains of an agent against a receiver with the decoders of the OpenTelemetry Collector and against rsyslog over
// TLS: receivers and the agent are killed, lost lines and those that came twice are counted, and the CPU at 20,000
// lines a second is measured. Skipped without go and rsyslogd; --install installs them on Debian.
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { MetricTotals } from '../../../src/agent/drains/metric-records.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { encodeBatch } from '../../../src/protocol/drain-encoding.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { CACHE, check, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'
import { countArrivals, endAll, kill, killBoth, start, startWriter, waitFor, work } from './drains/kill-both.ts'

const PDATA = 'go.opentelemetry.io/collector/pdata@v1.46.0'
const RATE = 20_000

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
  await killBoth('OTLP', target, {
    start: () => start(program, [`127.0.0.1:${port}`, file]),
    count: () => countArrivals(file),
  })

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
  await killBoth('rsyslog', target, {
    start: startRsyslog,
    count: () => countArrivals(file),
    env: { NODE_EXTRA_CA_CERTS: join(work, 'cert.pem') },
  })
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
    await endAll()
  }
})
