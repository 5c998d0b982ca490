// The claims of disks whose size is known. Those without a size name claims that exist already. Pure.
import type { KubernetesObject, V1PersistentVolumeClaim, V1Volume } from '@kubernetes/client-node'
import { type Disk, listDisks, withoutOwnMembers } from '../../../protocol/disks.ts'
import type { RevisionSpec } from '../../engine.ts'
import { COMPONENT_LABEL, DISK_INFIX, diskName, INSTANCE_LABEL, metadataOf } from './names.ts'
import type { KubernetesSettings } from './settings.ts'

const DISK_COMPONENT = 'disk'

/** Disks that the agent makes. */
export const ownDisksOf = ({ resources }: Pick<RevisionSpec, 'resources'>): Disk[] =>
  listDisks(resources).filter(({ storage_gi }) => storage_gi !== null)

export const diskClaimsOf = (settings: KubernetesSettings, spec: RevisionSpec): V1PersistentVolumeClaim[] =>
  ownDisksOf(spec).map(({ name, storage_gi, access_mode }) => ({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: metadataOf(settings, spec, diskName(spec, name), { component: DISK_COMPONENT }),
    spec: {
      accessModes: [access_mode ?? 'ReadWriteOnce'],
      resources: { requests: { storage: `${storage_gi}Gi` } },
      ...(settings.storage_class !== null && { storageClassName: settings.storage_class }),
    },
  }))

/** The name of the disk that an object is the claim of; null for any other object. */
export function diskOf({ kind, metadata }: KubernetesObject): string | null {
  const { name = '', labels = {} } = metadata ?? {}
  const prefix = `${labels[INSTANCE_LABEL]}${DISK_INFIX}`
  const isDisk = kind === 'PersistentVolumeClaim' && labels[COMPONENT_LABEL] === DISK_COMPONENT
  return isDisk && name.startsWith(prefix) ? name.slice(prefix.length) : null
}

export function volumesOf(spec: RevisionSpec): V1Volume[] {
  const own = new Set<unknown>(ownDisksOf(spec).map(({ name }) => name))
  return (spec.resources.volumes ?? []).map(volume => {
    const { persistentVolumeClaim: claim, ...rest } = withoutOwnMembers(volume)
    if (!claim) return rest as unknown as V1Volume
    const name = claim.claimName as string
    const claimName = own.has(name) ? diskName(spec, name) : name
    return { ...rest, persistentVolumeClaim: { ...claim, claimName } } as unknown as V1Volume
  })
}
