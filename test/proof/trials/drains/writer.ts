// The drains of an agent in a process of its own, which the trial kills: writes numbered lines, or points of metrics,
// to one drain, and prints the number of the last one that is on the disk.
import { parseNetworks } from '../../../../src/agent/builds/allowed-address.ts'
import { Drains } from '../../../../src/agent/drains/drains.ts'
import type { DrainReport, WorkDrain } from '../../../../src/protocol/drains.schema.ts'

const { folder, kind, url, id, from, rate, seconds, signal = 'logs', epoch = 0 } = JSON.parse(process.argv[2]!)
const FLUSH_MS = 250
const COPIES = 20
const REF = { deployment_id: id, revision_id: id }
const TENANT = crypto.randomUUID()
const PADDING = 'x'.repeat(100)

let report: DrainReport | undefined
const drains = new Drains({
  folder,
  networks: parseNetworks('127.0.0.0/8, ::1/128'),
  keys: { public_key: '', open: () => ({}) as never },
  control: {
    drains: async ({ drains: reports }) => {
      report = reports.at(-1)
    },
  },
  currentLease: () => ({ agent_id: 'trial', fence: 1 }),
  logEvent: (event, fields) => console.error(event, fields),
  report_ms: 0,
  pause_ms: 100,
})
const drain: WorkDrain = {
  id,
  tenant_id: TENANT,
  kind,
  url,
  compression: 'gzip',
  signals: [signal],
  deployment_ids: null,
  filter: { min_level: null, processes: [], contains: null },
  sampling_rate: 1,
  access: null,
}
drains.describe(REF.deployment_id, { tenant_id: TENANT, name: 'trial' })
await drains.take({ digest: 'one', list: [drain] }, 'listener')

/** The memory of the copy is the number, and so is the time, in hundredths of a second. */
const toPoint = (number: number) => ({
  ...REF,
  at: new Date(epoch + number * 10).toISOString(),
  copies: [{ copy: '1', running: true, restarts: 0, cpu_ms: 5, memory_bytes: number }],
})

const startedAt = performance.now()
let next = from as number
const writeDue = async () => {
  const due = from + Math.floor((Math.min(seconds, (performance.now() - startedAt) / 1000) * rate) as number)
  const timestamp = new Date().toISOString()
  const lines = Array.from({ length: Math.max(0, due - next) }, (_, i) => ({
    timestamp,
    level: 'INFO' as const,
    process: `worker-${(next + i) % COPIES}`,
    message: `line ${next + i} ${PADDING}`,
  }))
  if (signal === 'metrics') drains.addPoints(lines.map((_, i) => toPoint(next + i)))
  else drains.addLines(REF, 'deploy', lines)
  next = Math.max(next, due)
  await drains.flush()
  // A flush that was in progress has not written these.
  await drains.flush()
  const { user, system } = process.cpuUsage()
  console.log(JSON.stringify({ written: next, cpu_ms: (user + system) / 1000, report }))
}
for (;;) {
  await writeDue()
  await new Promise(resolve => setTimeout(resolve, FLUSH_MS))
}
