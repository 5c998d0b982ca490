// The environment and the volumes of a pod, from the Secrets, ConfigMaps and claims that it names.
import * as fs from 'node:fs'
import { join } from 'node:path'
import type { V1Container, V1ObjectFieldSelector, V1Pod, V1Volume } from '@kubernetes/client-node'
import type { AnyObject, Objects } from './objects.ts'

/** Like the kubelet's CreateContainerConfigError: it may still appear. */
export class MissingReference extends Error {}

export type PodFacts = { cluster: Objects; pod: V1Pod; address: string; folder: string; volumes: string }

const namespaceOf = ({ pod }: PodFacts) => pod.metadata!.namespace!

async function readData(facts: PodFacts, kind: 'Secret' | 'ConfigMap', name: string, optional = false) {
  const object = await facts.cluster.read({ apiVersion: 'v1', kind, metadata: { namespace: namespaceOf(facts), name } })
  if (object === null && optional) return {}
  if (object === null) throw new MissingReference(`${kind.toLowerCase()} "${name}" not found`)
  const decode = (value: string) => (kind === 'Secret' ? Buffer.from(value, 'base64').toString() : value)
  const { data = {} } = object as AnyObject
  return Object.fromEntries(Object.entries(data as Record<string, string>).map(([key, value]) => [key, decode(value)]))
}

async function readKey(facts: PodFacts, kind: 'Secret' | 'ConfigMap', name: string, key: string, optional = false) {
  const value = (await readData(facts, kind, name, optional))[key]
  if (value === undefined && !optional) throw new MissingReference(`couldn't find key ${key} in ${kind} ${name}`)
  return value
}

function readField({ pod, address }: PodFacts, { fieldPath }: V1ObjectFieldSelector): string {
  if (fieldPath === 'status.podIP') return address
  const label = /^metadata\.labels\['(.+)'\]$/.exec(fieldPath)?.[1]
  if (label !== undefined) return pod.metadata!.labels?.[label] ?? ''
  const found = fieldPath.split('.').reduce((at: unknown, key) => (at as Record<string, unknown>)?.[key], pod)
  return String(found ?? '')
}

export async function resolveEnvironment(facts: PodFacts, container: V1Container): Promise<Record<string, string>> {
  const all: Record<string, string> = {}
  for (const { configMapRef, secretRef, prefix = '' } of container.envFrom ?? []) {
    const [kind, ref] = configMapRef ? (['ConfigMap', configMapRef] as const) : (['Secret', secretRef!] as const)
    const data = await readData(facts, kind, ref.name!, ref.optional)
    for (const [name, value] of Object.entries(data)) all[prefix + name] = value
  }
  for (const { name, value, valueFrom } of container.env ?? []) {
    const { secretKeyRef: secret, configMapKeyRef: map, fieldRef } = valueFrom ?? {}
    const resolved = secret
      ? await readKey(facts, 'Secret', secret.name!, secret.key, secret.optional)
      : map
        ? await readKey(facts, 'ConfigMap', map.name!, map.key, map.optional)
        : fieldRef
          ? readField(facts, fieldRef)
          : (value ?? '').replace(/\$\(([A-Za-z_]\w*)\)/g, (text, other) => all[other] ?? text)
    if (resolved !== undefined) all[name] = resolved
  }
  return all
}

const writeFiles = (folder: string, files: Record<string, string>) => {
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(folder, name), text, { mode: 0o644 })
}

/** Returns the folder on this machine that the volume is. */
export async function prepareVolume(facts: PodFacts, volume: V1Volume): Promise<string> {
  const { cluster, folder, volumes, pod } = facts
  if (volume.persistentVolumeClaim) {
    const metadata = { namespace: namespaceOf(facts), name: volume.persistentVolumeClaim.claimName }
    const claim = await cluster.read({ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata })
    if (!claim?.spec.volumeName) throw new MissingReference(`persistentvolumeclaim "${metadata.name}" is not bound`)
    const path = join(volumes, claim.spec.volumeName)
    fs.mkdirSync(path, { recursive: true })
    giveToGroup(path, pod)
    return path
  }
  const path = join(folder, volume.name)
  fs.mkdirSync(path, { recursive: true })
  giveToGroup(path, pod)
  const pick = (data: Record<string, string>, items?: { key: string; path: string }[]) =>
    items ? Object.fromEntries(items.map(({ key, path }) => [path, data[key] ?? ''])) : data
  if (volume.secret)
    writeFiles(
      path,
      pick(await readData(facts, 'Secret', volume.secret.secretName!, volume.secret.optional), volume.secret.items),
    )
  if (volume.configMap)
    writeFiles(
      path,
      pick(
        await readData(facts, 'ConfigMap', volume.configMap.name!, volume.configMap.optional),
        volume.configMap.items,
      ),
    )
  for (const { serviceAccountToken: token, configMap, secret, downwardAPI } of volume.projected?.sources ?? []) {
    if (token)
      writeFiles(path, { [token.path]: await cluster.createToken(namespaceOf(facts), pod.spec!.serviceAccountName!) })
    if (configMap) writeFiles(path, pick(await readData(facts, 'ConfigMap', configMap.name!), configMap.items))
    if (secret) writeFiles(path, pick(await readData(facts, 'Secret', secret.name!), secret.items))
    for (const { path: file, fieldRef } of downwardAPI?.items ?? [])
      if (fieldRef) writeFiles(path, { [file]: readField(facts, fieldRef) })
  }
  return path
}

/** Does what `fsGroup` asks of a node. */
function giveToGroup(path: string, { spec }: V1Pod): void {
  const group = spec?.securityContext?.fsGroup
  if (group === undefined) return
  fs.chownSync(path, 0, group)
  fs.chmodSync(path, 0o2770)
}
