// Tells that the data of a deployment are those of another engine, which the agent of this machine ran before.
import * as fs from 'node:fs'
import { join } from 'node:path'

const OTHERS = { process: 'container', container: 'process' } as const
/** In the folder of a deployment: those of both engines, of processes, and of containers. */
const STORE_RECORDS = ['disks.json', 'database.json', 'redis.json', 'stores.json']

/** `home`: the folder with one of each engine. */
export function describeLeftData(home: string, engine: keyof typeof OTHERS, deployment_id: string): string | null {
  const other = OTHERS[engine]
  if (!STORE_RECORDS.some(name => fs.existsSync(join(home, other, deployment_id, name)))) return null
  return (
    `The ${other} engine, which this agent ran before, still has data of this deployment: the ${engine} engine has ` +
    `begun without them. Restore snapshots of its disks and a dump of its database, or have the operator run the ` +
    `${other} engine again.`
  )
}
