// A program for tests that kill it: opens a process engine and restores a database, or waits for a backup of it.
//   node test/support/restore-database.ts HOME DEPLOYMENT_ID [SNAPSHOT_FOLDER]
import { makeUnit, openEngine } from './process-engine.ts'

const [home, deployment_id, folder] = process.argv.slice(2)
const { engine } = await openEngine(home!, { limits: { backup_ms: folder ? 60_000 : 20 } })
while (!(await engine.observe(deployment_id!)).database?.ready) await new Promise(setImmediate)
console.log('ready')
if (folder) {
  const ref = { deployment_id: deployment_id!, revision_id: deployment_id! }
  await engine.restoreSnapshot(makeUnit(ref), 'database', { folder }, new AbortController().signal)
  console.log('restored')
}
setInterval(() => {}, 1_000)
