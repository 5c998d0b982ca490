// The disks of a deployment: its volumes of the type `persistentVolumeClaim`, by the name of their claim. Pure.
import * as z from 'zod'
import type { Volume, VolumeMount } from './kubernetes.schema.ts'

/** Engines with images run a built source in this folder. Paths below it mean the same on every engine. */
const APPLICATION_FOLDER = '/app'
const ACCESS_MODES = ['ReadWriteOnce', 'ReadWriteMany', 'ReadWriteOncePod'] as const
type AccessMode = (typeof ACCESS_MODES)[number]

/** The members of a claim that the platform reads. A cluster never sees the last two. */
export const Claim = z.object({
  claimName: z
    .string()
    .regex(/^[a-z0-9][-a-z0-9.]{0,252}$/, { error: 'must be lower-case letters, digits, hyphens and dots' }),
  storage_gi: z.int().min(1).max(65_536).nullish(),
  access_mode: z.enum(ACCESS_MODES).nullish(),
})

export const isDiskName = (name: string): boolean => Claim.shape.claimName.safeParse(name).success

export type Disk = {
  name: string
  /** Null: not said. On a cluster the claim then exists already. */
  storage_gi: number | null
  access_mode: AccessMode | null
  /** The paths of the application's own copies. */
  paths: string[]
}

/** A disk that a source asks for. */
export type SourceDisk = { name: string; path: string; storage_gi: number; access_mode?: AccessMode | undefined }

type Volumes = {
  volumes?: z.output<typeof Volume>[] | null | undefined
  volume_mounts?: z.output<typeof VolumeMount>[] | null | undefined
}

export function listDisks({ volumes, volume_mounts }: Volumes): Disk[] {
  const disks = new Map<string, Disk>()
  for (const { name, persistentVolumeClaim } of volumes ?? []) {
    const { data } = Claim.safeParse(persistentVolumeClaim)
    if (!data) continue
    const paths = (volume_mounts ?? []).filter(mount => mount.name === name).map(({ mountPath }) => mountPath)
    const known = disks.get(data.claimName)
    disks.set(data.claimName, {
      name: data.claimName,
      storage_gi: data.storage_gi ?? known?.storage_gi ?? null,
      access_mode: data.access_mode ?? known?.access_mode ?? null,
      paths: [...(known?.paths ?? []), ...paths],
    })
  }
  return [...disks.values()]
}

/** With the disks of a source. The volumes of the deployment win. */
export function withSourceDisks<Spec extends Volumes>(spec: Spec, disks: readonly SourceDisk[] | null = []): Spec {
  const known = listDisks(spec).map(({ name }) => name)
  const added = disks?.filter(({ name }) => !known.includes(name)) ?? []
  if (added.length === 0) return spec
  return {
    ...spec,
    volumes: [
      ...(spec.volumes ?? []),
      ...added.map(({ name: claimName, path: _, ...claim }) => ({
        name: volumeNameOf(claimName),
        persistentVolumeClaim: { claimName, ...claim },
      })),
    ],
    volume_mounts: [
      ...(spec.volume_mounts ?? []),
      ...added.map(({ name, path }) => ({ name: volumeNameOf(name), mountPath: path })),
    ],
  }
}

const volumeNameOf = (disk: string) => `source-${disk}`

/** The reason why a deployment cannot have the disks of its source beside its own volumes; null if it can. */
export function refuseSourceDisks(spec: Volumes, disks: readonly SourceDisk[]): string | null {
  const own = new Set(listDisks(spec).map(({ name }) => name))
  for (const { name, path } of disks.filter(disk => !own.has(disk.name))) {
    const at = `The disk \`${name}\` of the source`
    if (spec.volumes?.some(volume => volume.name === volumeNameOf(name)))
      return `${at} needs the name \`${volumeNameOf(name)}\`, which a volume of the deployment has. Rename one.`
    if (spec.volume_mounts?.some(({ mountPath }) => mountPath === path))
      return `${at} is at \`${path}\`, where the deployment mounts a volume. Change one of the paths.`
  }
  return null
}

/** One copy at a time may use it. */
export const hasOneWriter = ({ access_mode }: Disk): boolean => access_mode === 'ReadWriteOncePod'

/**
 * The disk that makes a revision start only once the one before has ended. In a cluster two nodes cannot share one that
 * the agent makes, unless it says so.
 */
export const findExclusiveDisk = (spec: Volumes, engine: string | null | undefined): Disk | undefined =>
  listDisks(spec).find(
    disk =>
      hasOneWriter(disk) ||
      (engine === 'kubernetes' && disk.storage_gi !== null && disk.access_mode !== 'ReadWriteMany'),
  )

export const diskVariable = (name: string): string => `SLIPWAY_DISK_${name.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`

/** The path below the folder of the application; null for every other path. */
export function pathInApplication(mountPath: string): string | null {
  const parts = mountPath.split('/').filter(part => part !== '' && part !== '.')
  const [root, ...rest] = parts
  if (!mountPath.startsWith('/') || `/${root}` !== APPLICATION_FOLDER || rest.length === 0) return null
  return rest.includes('..') ? null : rest.join('/')
}

/** The form that a cluster takes. */
export function withoutOwnMembers({ persistentVolumeClaim, ...volume }: z.output<typeof Volume>) {
  const { storage_gi: _, access_mode: __, ...claim } = persistentVolumeClaim ?? {}
  return { ...volume, persistentVolumeClaim: persistentVolumeClaim && claim }
}
