// The options of `slipway deploy` that ask for a database, a Redis and disks.
import type { Command } from 'commander'
import { DEFAULT_DISK_GI } from '../protocol/defaults.ts'
import type { NewDeployment } from './deploy-source.ts'
import { usageError } from './failure.ts'
import { collect } from './flags.ts'
import type { Deployment } from './session.ts'
import { parseCount } from './times.ts'

export type StoreFlags = { attachDatabase?: string; database?: boolean; redis?: boolean; disk?: string[] }
type Resources = NonNullable<NewDeployment['source_config']['resource_spec']>

/** Any member asks for one, with the defaults of the others. */
export const DATABASE = { db_max_connections: 100 } satisfies Resources
export const REDIS = { redis_memory_mb: 256 } satisfies Resources

const MAX_DISK_GI = 65_536

export const addStoreOptions = (command: Command): Command =>
  command
    .option('--database', 'give it a Postgres, whose address is in DATABASE_URL')
    .option('--attach-database <variable>', 'try the database whose address is in this variable before each start')
    .option('--redis', 'give it a Redis, whose address is in REDIS_URL')
    .option('--disk <disk>', 'give it a disk: NAME=PATH or NAME=PATH:GIBIBYTES. Can be repeated', collect)

/** The resources that the options ask for beside those that the deployment has. Null: all are there. */
export function readStoreFlags(
  { attachDatabase, database, redis, disk = [] }: StoreFlags,
  deployment?: Pick<Deployment, 'source_config'>,
): Resources | null {
  const stored: Resources = deployment?.source_config.resource_spec ?? {}
  const has = (prefix: string) =>
    Object.entries(stored).some(([name, value]) => value != null && name.startsWith(prefix))
  const resources: Resources = {
    ...(attachDatabase !== undefined && { attached_database: attachDatabase }),
    ...(database && !has('db_') && DATABASE),
    ...(redis && !has('redis_') && REDIS),
    ...(disk.length > 0 && addDisks(stored, disk.map(readDisk))),
  }
  return Object.keys(resources).length === 0 ? null : resources
}

/** Without `storage_gi`, a disk that is there already keeps its size. */
type Disk = { name: string; mountPath: string; storage_gi: number | undefined }

function readDisk(given: string): Disk {
  const [, name, mountPath, size] = /^([a-z0-9][-a-z0-9]{0,49})=(\/[^:]+)(?::(\d+))?$/.exec(given) ?? []
  if (!name || !mountPath)
    throw usageError(`--disk ${given} is not of the form NAME=PATH:GIBIBYTES, such as media=/app/media:5.`)
  const storage_gi = size === undefined ? undefined : parseCount(size, `--disk ${name}`, MAX_DISK_GI)
  return { name, mountPath, storage_gi }
}

/** The API takes both lists as a whole. What the options do not say of a disk stays, such as its access mode. */
function addDisks({ volumes, volume_mounts }: Resources, disks: Disk[]): Resources {
  const names = disks.map(({ name }) => name)
  const repeated = names.find((name, i) => names.indexOf(name) < i)
  if (repeated !== undefined) throw usageError(`--disk names ${repeated} twice.`)
  const isOther = ({ name }: { name: string }) => !names.includes(name)
  const claimOf = ({ name, storage_gi }: Disk) => {
    const known = volumes?.find(volume => volume.name === name)?.persistentVolumeClaim
    return { claimName: name, storage_gi: DEFAULT_DISK_GI, ...known, ...(storage_gi !== undefined && { storage_gi }) }
  }
  return {
    volumes: [
      ...(volumes ?? []).filter(isOther),
      ...disks.map(disk => ({ name: disk.name, persistentVolumeClaim: claimOf(disk) })),
    ],
    volume_mounts: [
      ...(volume_mounts ?? []).filter(isOther),
      ...disks.map(({ name, mountPath }) => ({ name, mountPath })),
    ],
  }
}
