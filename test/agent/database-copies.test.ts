// The copy of a database for a preview, by an agent with a real Postgres: once, before anything starts, and by name.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { readJson } from '../../src/agent/system/files.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { copyEmptyDatabase } from '../support/migrated-postgres.ts'
import { connect, query } from '../support/postgres.ts'
import { closeAgents, FAST_LIMITS, LOOPBACK_NETWORKS, makeTempFolder, runAgent } from '../support/process-engine.ts'

let home: string
let control: ControlPlane
/** Has a line for each start. */
const starts = () => join(home, 'starts')

beforeEach(async () => {
  home = makeTempFolder()
  await copyEmptyDatabase(home)
  control = await startControlPlane()
  const code = `require('node:fs').appendFileSync('${starts()}', 'x')
    require('node:http').createServer((_, res) => res.end('ok')).listen(process.env.PORT)`
  for (const [name, more] of Object.entries({ plain: {}, migrated: { release_command: 'true' } })) {
    const folder = join(home, 'templates', name)
    fs.mkdirSync(folder, { recursive: true })
    fs.writeFileSync(join(folder, 'slipway.json'), JSON.stringify({ start_command: 'node main.cjs', ...more }))
    fs.writeFileSync(join(folder, 'main.cjs'), code)
  }
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

function startAgent() {
  const engine = new ProcessEngine({ home, port: 0, limits: { ...FAST_LIMITS, backup_ms: 50 } })
  return runAgent(
    new Agent({
      templates: join(home, 'templates'),
      agent_id: 'agent-1',
      version: 'test',
      home,
      engine,
      networks: LOOPBACK_NETWORKS,
      wait: 5,
      control: createControlPlaneClient({ url: control.url, key: 'key' }),
      logToOperator: () => {},
    }),
  )
}
const want = (id: string, more: object = {}, template_id = 'plain') =>
  control.want(
    id,
    { source: 'internal_template', template_id, resource_spec: withDefaults({ db_storage_gi: 1 }, 'dev') },
    { needs_database: true, ...more },
  )
const hasReported = (revision: string, state: string) =>
  waitFor(() => control.reportedStates(revision).some(one => one === state))
const databaseOf = (id: string) =>
  readJson<{ uri: string; password: string }>(join(home, 'process', id, 'database.json'))!
const read = async (id: string) =>
  (await query<{ n: number }>(databaseOf(id).uri, 'select n from visits order by n')).map(({ n }) => n)
const write = (id: string, n: number) => query(databaseOf(id).uri, `insert into visits values (${n})`)
const heldOf = (id: string) => [...control.snapshots.held.values()].filter(one => one.deployment_id === id)
const copyOf = (from_deployment_id: string, copied = false) => ({
  database_copy: { from_deployment_id, from_name: 'shop', copied },
})

test('a preview begins with the data of its parent, and nothing of it starts before that is known', async () => {
  const first = startAgent()
  const [parent, preview] = [randomUUID(), randomUUID()]
  await hasReported(want(parent), 'deployed')
  await query(databaseOf(parent).uri, 'create table visits (n int); insert into visits values (1)')
  const session = await connect(databaseOf(parent).uri)

  // The answer to the report is lost, and the agent ends.
  control.faults.onReport = ({ deployment_id, state }) => {
    if (deployment_id === preview && state === 'database_ready') control.setOffline(true)
  }
  const revision = want(preview, copyOf(parent))
  await waitFor(() => control.reports.some(one => one.deployment_id === preview && one.state === 'database_ready'))
  expect(await read(preview)).toEqual([1])
  expect((await session.query('select n from visits')).rows).toEqual([{ n: 1 }])
  await write(parent, 2)
  await first.close({ stop: true })
  expect(fs.readFileSync(starts(), 'utf8')).toBe('x')
  control.faults.onReport = () => {}
  control.setOffline(false)
  startAgent()
  await hasReported(revision, 'deployed')
  expect(await read(preview)).toEqual([1, 2])
  expect(databaseOf(preview).password).not.toBe(databaseOf(parent).password)

  // The next commit keeps it, and no snapshot of it is kept that nobody asked for.
  await write(preview, 7)
  await write(parent, 3)
  await hasReported(want(preview, copyOf(parent, true)), 'deployed')
  expect(await read(preview)).toEqual([1, 2, 7])
  expect(heldOf(preview)).toEqual([])
  control.updateWork(preview, { wanted: 'absent', revision: null, serving: null })
  await waitFor(() => control.reports.some(({ state }) => state === 'removed'))
  expect(heldOf(preview)).toEqual([])
  expect(fs.existsSync(join(home, 'databases', preview))).toBe(false)
  expect(await read(parent)).toEqual([1, 2, 3])
})

test('a copy that fails ends the revision with the name of the database, and the next one tries again', async () => {
  startAgent()
  const [parent, preview] = [randomUUID(), randomUUID()]
  const failed = want(preview, copyOf(parent))
  await hasReported(failed, 'failed')
  const { message } = control.reports.findLast(({ revision_id }) => revision_id === failed)!
  expect(message).toContain('`shop`')
  expect(control.reports.some(({ state }) => state === 'database_ready')).toBe(false)
  await hasReported(want(parent), 'deployed')
  await query(
    databaseOf(parent).uri,
    `create table visits as select 1 as n, repeat('x', 1000) from generate_series(1, 9)`,
  )
  // Its history is gone: a snapshot is taken.
  await waitFor(() => fs.existsSync(join(home, 'backups/process', parent)))
  fs.rmSync(join(home, 'backups'), { recursive: true })
  const copied = want(preview, copyOf(parent), 'migrated')
  await hasReported(copied, 'deployed')
  expect(await read(preview)).toHaveLength(9)
  const lines = control.logs.filter(({ of, kind }) => of === copied && kind === 'deploy').map(({ message }) => message)
  const [copy, release] = ['is a copy of', 'Release command'].map(text => lines.findIndex(line => line.includes(text)))
  expect([copy! >= 0, release! > copy!]).toEqual([true, true])
  const snapshots = fs.readdirSync(join(home, 'snapshots'))
  const reasons = snapshots.map(
    id => readJson<{ reason: string }>(join(home, 'snapshots', id, 'snapshot.json'))!.reason,
  )
  expect(reasons).not.toContain('automatic')
})
