// The nodes and volumes of the cluster.
import type { Objects } from './objects.ts'

export const STORAGE_CLASS = 'trial'
/** The class whose volumes are made for their claims. */
export const DYNAMIC_CLASS = 'trial-dynamic'

export async function createKwokNode(cluster: Objects, name: string): Promise<void> {
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name,
      labels: { 'slipway-trial/node': 'kwok', 'kubernetes.io/hostname': name },
      annotations: { 'kwok.x-k8s.io/node': 'fake' },
    },
    spec: {},
  })
}

/** Volumes that claims are bound to. Nothing is mounted on nodes that kwok plays. */
export async function createVolumes(cluster: Objects, count: number): Promise<void> {
  for (const name of [STORAGE_CLASS, DYNAMIC_CLASS])
    await cluster.apply({
      apiVersion: 'storage.k8s.io/v1',
      kind: 'StorageClass',
      metadata: { name },
      ...({ provisioner: 'kubernetes.io/no-provisioner', volumeBindingMode: 'Immediate' } as object),
    })
  for (let i = 1; i <= count; i++) await createVolume(cluster, `trial-${i}`)
}

type ClaimRef = { name?: string | undefined; namespace?: string | undefined; uid?: string | undefined }
/** With `claim` it is for that claim alone. */
export async function createVolume(
  cluster: Objects,
  name: string,
  claim?: ClaimRef,
  storageClassName = STORAGE_CLASS,
): Promise<void> {
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      capacity: { storage: '100Gi' },
      accessModes: ['ReadWriteOnce'],
      storageClassName,
      persistentVolumeReclaimPolicy: 'Retain',
      hostPath: { path: `/var/lib/trial/${name}` },
      ...(claim && { claimRef: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim } }),
    },
  })
}

/** A namespace that refuses pods which the profile `restricted` does not allow, and warns of them. */
export async function createRestrictedNamespace(cluster: Objects, name: string, nodes: string): Promise<void> {
  const levels = ['enforce', 'warn', 'audit'].map(mode => [`pod-security.kubernetes.io/${mode}`, 'restricted'])
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name,
      labels: Object.fromEntries(levels),
      annotations: { 'scheduler.alpha.kubernetes.io/node-selector': `slipway-trial/node=${nodes}` },
    },
  })
}
