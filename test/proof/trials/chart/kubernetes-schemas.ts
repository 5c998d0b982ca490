// JSON Schemas for kubeconform, made from the API description in the Go module of Kubernetes.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CACHE, findMissing, isInstalling } from '../../support/trial.ts'

type Schema = {
  $ref?: string
  type?: string
  format?: string
  properties?: Record<string, Schema>
  items?: Schema
  additionalProperties?: Schema | boolean
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[]
}
type Definitions = Record<string, Schema>

const KINDS = [
  'ConfigMap',
  'Deployment',
  'HorizontalPodAutoscaler',
  'Ingress',
  'Job',
  'NetworkPolicy',
  'PersistentVolumeClaim',
  'Pod',
  'PodDisruptionBudget',
  'Role',
  'RoleBinding',
  'Secret',
  'Service',
  'ServiceAccount',
  'StatefulSet',
]

/** The folder with the schemas of this version, or why they are missing. `--install` downloads them. */
export function findSchemas(version: string): { folder: string } | { missing: string } {
  const folder = join(CACHE, `kubernetes-schemas-${version}`)
  if (existsSync(folder)) return { folder }
  const missing = isInstalling ? findMissing('go', 'unzip') : `its schemas are not in ${CACHE}: --install`
  if (missing) return { missing }
  const module = `k8s.io/kubernetes@v${version}`
  const { Zip } = JSON.parse(execFileSync('go', ['mod', 'download', '-json', module], { encoding: 'utf8' }))
  const file = `${module}/api/openapi-spec/swagger.json`
  const { definitions } = JSON.parse(execFileSync('unzip', ['-p', Zip, file], { encoding: 'utf8', maxBuffer: 2 ** 28 }))
  const schemas = Object.entries(definitions as Definitions).flatMap(([name, schema]) => {
    const [only, ...others] = schema['x-kubernetes-group-version-kind'] ?? []
    if (!only || others.length > 0 || !KINDS.includes(only.kind)) return []
    const group = only.group === '' ? '' : `-${only.group.split('.')[0]}`
    return [[`${only.kind.toLowerCase()}${group}-${only.version}.json`, inline(definitions, name)] as const]
  })
  mkdirSync(folder)
  for (const [file, schema] of schemas) writeFileSync(join(folder, file), JSON.stringify(schema))
  return { folder }
}

/** Without references, and closed. */
function inline(definitions: Definitions, name: string): object {
  if (name.endsWith('.IntOrString')) return { type: ['string', 'integer'] }
  if (name.endsWith('.Quantity')) return { type: ['string', 'number'] }
  const convert = (schema: Schema): object => {
    if (schema.$ref) return inline(definitions, schema.$ref.replace('#/definitions/', ''))
    const { properties, items, additionalProperties, type } = schema
    if (properties) return { type: 'object', additionalProperties: false, properties: mapValues(properties, convert) }
    if (items) return { type, items: convert(items) }
    if (typeof additionalProperties === 'object') return { type, additionalProperties: convert(additionalProperties) }
    return type ? { type } : {}
  }
  return convert(definitions[name]!)
}

const mapValues = <T, R>(record: Record<string, T>, change: (value: T) => R): Record<string, R> =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]))
