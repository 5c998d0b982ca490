// The Secrets and volume claims of the namespace that the resources of a revision name. Pure.
import type { RevisionSpec } from '../../engine.ts'
import { baseName } from './names.ts'

export type NamedObject = { kind: 'Secret' | 'PersistentVolumeClaim'; name: string; path: string }

type Free = Record<string, unknown> | null | undefined
const memberOf = (value: Free, member: string, name: string): unknown => (value?.[member] as Free)?.[name]

export function listNamedObjects({ resources, secret_references }: RevisionSpec): NamedObject[] {
  const secrets: [path: string, name: unknown][] = [
    ...secret_references.map(({ secret_name }, i): [string, unknown] => [`secret_references.${i}`, secret_name]),
    ...(resources.image_pull_secrets ?? []).map(({ name }, i): [string, unknown] => [
      `resource_spec.image_pull_secrets.${i}`,
      name,
    ]),
  ]
  const claims: typeof secrets = []
  for (const [i, { secret, projected, csi, persistentVolumeClaim }] of (resources.volumes ?? []).entries()) {
    const path = `resource_spec.volumes.${i}`
    // With a size it is one of the deployment's own.
    if (persistentVolumeClaim?.storage_gi == null) claims.push([path, persistentVolumeClaim?.claimName])
    secrets.push([path, secret?.secretName], [path, memberOf(csi, 'nodePublishSecretRef', 'name')])
    const sources = projected?.sources
    for (const source of Array.isArray(sources) ? sources : []) secrets.push([path, memberOf(source, 'secret', 'name')])
  }
  for (const where of ['init_containers', 'sidecars'] as const)
    for (const [i, { env, envFrom }] of (resources[where] ?? []).entries()) {
      const path = `resource_spec.${where}.${i}`
      for (const { valueFrom } of env ?? []) secrets.push([path, memberOf(valueFrom, 'secretKeyRef', 'name')])
      for (const from of envFrom ?? []) secrets.push([path, memberOf(from, 'secretRef', 'name')])
    }
  return [
    ...secrets.map(([path, name]) => ({ kind: 'Secret' as const, name, path })),
    ...claims.map(([path, name]) => ({ kind: 'PersistentVolumeClaim' as const, name, path })),
  ].filter((object): object is NamedObject => typeof object.name === 'string' && object.name !== '')
}

/** Matches the names that names.ts and pull-secrets.ts give, because a user can foretell them. */
const GIVEN_NAME = /^(.+-[0-9a-f]{10})-(r\d+(-tracing|-models|-pull)?|models|db|db-dumps|redis)$/
const DISK_NAME = /^(.+-[0-9a-f]{10})-disk-/

/** The agent gives it to an object of another deployment, perhaps later: a pod waits until an object appears. */
export function isNameOfAnother(name: string, spec: Pick<RevisionSpec, 'name' | 'deployment_id'>): boolean {
  const [, base] = GIVEN_NAME.exec(name) ?? DISK_NAME.exec(name) ?? []
  return base !== undefined && base !== baseName(spec)
}
