// Plays the driver of a storage that has snapshots, and makes volumes for claims.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { createVolume, DYNAMIC_CLASS } from './nodes.ts'
import type { AnyObject, Objects, Ref } from './objects.ts'

export const VOLUME_SNAPSHOTS = ['snapshot.storage.k8s.io/v1', 'VolumeSnapshot'] as const
/** The size that they tell. */
const RESTORE_SIZE = '3Gi'

/**
 * Snapshots become ready, and claims of snapshots get a volume, as do all of `DYNAMIC_CLASS`. `labels` are those of the
 * snapshots. `folder`: of pods that really run, whose volumes have files.
 */
export function playSnapshotDriver(cluster: Objects, labels: string, folder?: string): { stop(): void } {
  const provided = new Set<string>()
  const copy = (from: string, to: string) => {
    if (folder === undefined) return
    fs.mkdirSync(dirname(join(folder, to)), { recursive: true })
    // With their owners.
    execFileSync('cp', ['-a', join(folder, from), join(folder, to)])
  }
  const listSnapshots = () => cluster.list(...VOLUME_SNAPSHOTS, undefined, labels)
  const listClaims = () => cluster.list('v1', 'PersistentVolumeClaim')
  const play = async () => {
    for (const one of await listSnapshots()) {
      if (one.status?.readyToUse) continue
      const { namespace, uid } = one.metadata!
      const source = (await listClaims()).find(
        ({ metadata }) =>
          metadata!.namespace === namespace && metadata!.name === one.spec.source.persistentVolumeClaimName,
      )
      copy(`volumes/${source?.spec.volumeName}`, `snapshots/${uid}`)
      await cluster.setStatus(one as AnyObject & Ref, { readyToUse: true, restoreSize: RESTORE_SIZE })
    }
    for (const { metadata, spec, status } of await listClaims()) {
      const isMade = spec.dataSource || spec.storageClassName === DYNAMIC_CLASS
      if (!isMade || status?.phase === 'Bound' || provided.has(metadata!.uid!)) continue
      provided.add(metadata!.uid!)
      const { name, namespace, uid } = metadata!
      const volume = `made-${uid!.slice(0, 8)}`
      if (spec.dataSource) {
        const source = (await listSnapshots()).find(
          one => one.metadata!.namespace === namespace && one.metadata!.name === spec.dataSource.name,
        )
        copy(`snapshots/${source?.metadata?.uid}`, `volumes/${volume}`)
      }
      await createVolume(cluster, volume, { name, namespace, uid }, spec.storageClassName)
    }
  }
  let playing = Promise.resolve()
  const timer = setInterval(() => {
    playing = playing.then(play).catch(() => {})
  }, 500)
  return { stop: () => clearInterval(timer) }
}
