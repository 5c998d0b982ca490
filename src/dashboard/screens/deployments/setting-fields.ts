// The settings that a patch can change: their names, groups and values as text (pure).
import type { Deployment } from '../../format/state.ts'

/** `json`: members without a field of their own. */
export type SettingField = {
  path: string
  label: string
  kind: 'text' | 'number' | 'check' | 'json' | 'list'
  hint?: string
  unit?: string
  placeholder?: string
  permission?: 'deployments:change-commands'
  /** The value of a checkbox that is not stored. */
  isOnByDefault?: boolean
}
export type SettingGroup = {
  title: string
  about: string
  fields: SettingField[]
  /** Folded unless a value is set. */
  isRare?: boolean
}

/** Set by an upload, and by no field. */
export const ARCHIVE = 'source_revision_config.source_tarball_path'
export const SPEC = 'source_config.resource_spec'

const text = (path: string, label: string, more: Partial<SettingField> = {}): SettingField => ({
  path,
  label,
  kind: 'text',
  ...more,
})
const command = (name: string, label: string) =>
  text(`source_config.${name}`, label, {
    placeholder: 'Detected',
    permission: 'deployments:change-commands',
  })
const amount = (name: string, label: string, more: Partial<SettingField> = {}): SettingField => ({
  path: `${SPEC}.${name}`,
  label,
  kind: 'number',
  placeholder: 'Default',
  ...more,
})
const json = (name: string, label: string, permission?: SettingField['permission']): SettingField => ({
  path: `${SPEC}.${name}`,
  label,
  kind: 'json',
  ...(permission && { permission }),
})

const pair = (prefix: string, name: 'cpu' | 'memory_mb') => {
  const [label, unit] = name === 'cpu' ? ['CPU', 'cores'] : ['Memory', 'MB']
  const limit = name === 'cpu' ? `${prefix}cpu_limit` : `${prefix}memory_limit_mb`
  return [amount(prefix + name, label, { unit }), amount(limit, `${label} limit`, { unit })]
}
const scale = (prefix: string) => [
  amount(`${prefix}min_scale`, 'Minimum replicas'),
  amount(`${prefix}max_scale`, 'Maximum replicas'),
]
const size = (prefix: string) => [...pair(prefix, 'cpu'), ...pair(prefix, 'memory_mb')]

const BUILD = [
  text('source_revision_config.platform_config_path', 'Configuration file', {
    hint: 'The path of the runtime configuration in the source.',
  }),
  text('source_config.root_directory', 'Root folder', {
    hint: 'The folder of the application in the source, such as apps/web.',
  }),
  command('install_command', 'Install command'),
  command('build_command', 'Build command'),
]
const IMAGE = text('source_revision_config.image_uri', 'Image', { hint: 'Each plan resolves the tag again.' })

const SOURCE_FIELDS: Record<Deployment['source'], SettingField[]> = {
  githost: [
    text('source_revision_config.repo_ref', 'Branch, tag or commit'),
    {
      path: 'source_config.build_on_push',
      label: 'Deploy on push',
      kind: 'check',
      hint: 'A push to the branch creates a revision.',
    },
    {
      path: 'source_config.watch_paths',
      label: 'Watch paths',
      kind: 'list',
      placeholder: 'apps/web/**, !**/*.md',
      hint: 'Globs, separated by commas. A push that changes none of them creates no revision.',
    },
    ...BUILD,
  ],
  internal_source: [text(ARCHIVE, 'Files'), ...BUILD],
  external_container: [IMAGE],
  internal_container: [IMAGE],
  internal_template: [],
}

const REFERENCES: SettingField = {
  path: 'secret_references',
  label: 'Variables from cluster secrets',
  kind: 'json',
  hint: 'A list of objects with `name`, `secret_name` and `secret_key`.',
}

export function listGroups(source: Deployment['source']): SettingGroup[] {
  const sourceFields = SOURCE_FIELDS[source]
  return [
    ...(sourceFields.length > 0
      ? [{ title: 'Source and build', about: 'The source of the next revision.', fields: sourceFields }]
      : []),
    {
      title: 'Address',
      about: 'A custom domain or URL, in addition to the one from the listener.',
      fields: [text('source_config.custom_url', 'Custom URL', { placeholder: 'shop.example.com' })],
    },
    {
      title: 'Tracing',
      about: 'Tracing clients in the application send runs to the project of the deployment, without configuration.',
      fields: [{ path: 'source_config.tracing', label: 'Tracing enabled', kind: 'check', isOnByDefault: true }],
    },
    {
      title: 'Scale',
      about: 'The number of replicas and the resources of each. The default limit is twice the request.',
      fields: [
        ...scale(''),
        text(`${SPEC}.scale_metric`, 'Scale by', {
          placeholder: 'concurrency',
          hint: '`concurrency`, `requests`, `cpu`, `memory`, `queue`, or `fixed`.',
        }),
        amount('scale_target', 'Target per copy'),
        text(`${SPEC}.scale_path`, 'Queue path', {
          placeholder: '/queue',
          hint: 'Answers the number of waiting tasks.',
        }),
        amount('idle_seconds', 'Sleep after', { unit: 's', hint: 'Without a request, if the minimum is 0.' }),
        amount('frozen_seconds', 'Frozen first', { unit: 's' }),
        ...size(''),
        amount('health_timeout_seconds', 'Health timeout', { unit: 's' }),
        amount('request_limit', 'Requests at once per copy'),
        amount('drain_seconds', 'Drain before a stop', { unit: 's' }),
        text(`${SPEC}.protocol`, 'Protocol', { placeholder: 'http', hint: '`http`, or `h2c` for gRPC.' }),
        { ...json('process_scale', 'Copies of other processes'), hint: 'Such as `{"worker": 2}`.' },
        json('process_scaling', 'Scaling of other processes'),
        json('process_resources', 'Resources of other processes'),
      ],
    },
    {
      title: 'Database',
      about:
        'Set any value to create a Postgres database. Without values the database is detached, and its data is kept.',
      fields: [
        ...size('db_'),
        amount('db_storage_gi', 'Storage', { unit: 'GiB' }),
        amount('db_max_connections', 'Maximum connections'),
        text('source_config.resource_spec.attached_database', 'Variable with the address of an attached database', {
          placeholder: 'DATABASE_URL',
          hint: 'It has no metrics, backups or snapshots here.',
        }),
      ],
      isRare: true,
    },
    { title: 'Redis', about: 'Set any value to create a Redis.', fields: size('redis_'), isRare: true },
    {
      title: 'Queue workers',
      about: 'Set any value to run workers. Other values default to those of the application.',
      fields: [...scale('queue_'), ...size('queue_')],
      isRare: true,
    },
    {
      title: 'Orchestrator and executor',
      about: 'Set any value to run this process beside the application.',
      fields: [...scale('orchestrator_'), ...size('orchestrator_')]
        .map(named('Orchestrator: '))
        .concat(size('executor_').map(named('Executor: '))),
      isRare: true,
    },
    {
      title: 'Disks',
      about: 'Volumes with a claim stay through revisions. Each value is JSON.',
      fields: [
        {
          ...json('volumes', 'Volumes'),
          hint: 'Such as `[{"name": "a", "persistentVolumeClaim": {"claimName": "a"}}]`.',
        },
        { ...json('volume_mounts', 'Volume mounts'), hint: 'Such as `[{"name": "a", "mountPath": "/app/media"}]`.' },
      ],
      isRare: true,
    },
    {
      title: 'Cluster',
      about: 'For listeners on Kubernetes. Each value is JSON, as in a manifest.',
      fields: [
        text(`${SPEC}.service_account_name`, 'Service account'),
        json('image_pull_secrets', 'Image pull secrets'),
        json('labels', 'Labels'),
        json('annotations', 'Annotations'),
        json('init_containers', 'Init containers', 'deployments:change-commands'),
        json('sidecars', 'Sidecars', 'deployments:change-commands'),
        ...(source === 'external_container' ? [REFERENCES] : []),
      ],
      isRare: true,
    },
  ]
}
const named =
  (prefix: string) =>
  (field: SettingField): SettingField => ({ ...field, label: prefix + field.label })

const SOURCES = Object.keys(SOURCE_FIELDS) as Deployment['source'][]
const FIELDS = new Map(
  SOURCES.flatMap(source => listGroups(source).flatMap(({ fields }) => fields)).map(field => [field.path, field]),
)
export const fieldAt = (path: string): SettingField => FIELDS.get(path)!

/** The stored value as text of the field. */
export function readValue(deployment: Deployment, path: string): string {
  const value = path
    .split('.')
    .reduce<unknown>((parent, name) => (parent as Record<string, unknown> | null | undefined)?.[name], deployment)
  const { kind, isOnByDefault = false } = fieldAt(path)
  if (kind === 'check') return String(value ?? isOnByDefault)
  if (value === null || value === undefined) return ''
  if (kind === 'list') return (value as string[]).join(', ')
  return kind === 'json' ? JSON.stringify(value, null, 2) : String(value)
}

/** Undefined is absent. Invalid text is sent unchanged: the API explains the fault. */
export function parseValue({ kind }: Pick<SettingField, 'kind'>, text: string): unknown {
  if (kind === 'check') return text === 'true'
  if (kind === 'list') return text.split(',').flatMap(item => item.trim() || [])
  if (text.trim() === '') return undefined
  if (kind === 'number') return Number.isFinite(Number(text)) ? Number(text) : text
  if (kind === 'text') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
