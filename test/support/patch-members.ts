import { RESOURCE_MEMBERS } from '../../src/protocol/resources.schema.ts'

// The members of a patch, each with values to change it between, and the effect of such a change.
const ID = '9f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const OTHER_ID = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
export const makeDigest = (digit: string) => `app@sha256:${digit.repeat(64)}`
export const makeReference = (name: string) => ({ name, secret_name: 'app', secret_key: 'key' })

/** An object with the member at the path. */
export const put = (path: string, value: unknown): Record<string, unknown> =>
  path.split('.').reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Record<string, unknown>

const RESOURCES: Record<string, [stored: unknown, changed: unknown]> = {
  scale_metric: ['cpu', 'memory'],
  idle_seconds: [10, 20],
  protocol: ['http', 'h2c'],
  labels: [{ team: 'a' }, { team: 'b' }],
  annotations: [{ team: 'a' }, { team: 'b' }],
  service_account_name: ['a', 'b'],
  image_pull_secrets: [[{ name: 'a' }], []],
  volumes: [[{ name: 'a', emptyDir: {} }], []],
  volume_mounts: [[{ name: 'a', mountPath: '/a' }], [{ name: 'a', mountPath: '/b' }]],
  init_containers: [[{ name: 'a', image: 'a' }], []],
  sidecars: [[{ name: 'b', image: 'a' }], [{ name: 'b', image: 'b' }]],
}

/** `isRepeatable`: the stored value creates a revision if it is sent again. */
export const PATCH_MEMBERS: [path: string, stored: unknown, changed: unknown, effect: string, isRepeatable?: true][] = [
  ['name', 'shop', 'store', 'immutable'],
  ['source', 'githost', 'internal_source', 'immutable'],
  ['source_config.integration_id', OTHER_ID, ID, 'immutable'],
  ['source_config.repo_url', 'https://gitea.example.com/acme/app', 'https://git.example.com/acme/else', 'immutable'],
  ['source_config.deployment_type', 'dev', 'prod', 'immutable'],
  ['source_config.template_id', 'web', 'chat', 'immutable'],
  ['source_config.listener_id', OTHER_ID, ID, 'immutable'],
  ['source_config.listener_config', { k8s_namespace: 'apps' }, { k8s_namespace: 'more' }, 'immutable'],
  ['source_config.build_on_push', false, true, 'in_place'],
  ['source_config.watch_paths', ['apps/web/**'], ['apps/api/**'], 'in_place'],
  ['source_config.custom_url', 'a.example.com', 'b.example.com', 'in_place'],
  ...RESOURCE_MEMBERS.map((name): (typeof PATCH_MEMBERS)[number] => {
    const [stored, changed] = RESOURCES[name] ?? [1, 2]
    // The number of copies changes at once. Anything else needs other copies.
    return [
      `source_config.resource_spec.${name}`,
      stored,
      changed,
      /_scal(e|ing)$|^scale_|^(idle|frozen)_/.test(name) ? 'in_place' : 'revision',
    ]
  }),
  ['source_config.root_directory', 'apps/web', 'apps/api', 'in_place'],
  ['source_config.install_command', 'npm ci', 'npm install', 'in_place'],
  ['source_config.build_command', 'make', 'make all', 'in_place'],
  ['source_config.tracing', true, false, 'in_place'],
  ['source_revision_config.repo_ref', 'main', 'next', 'revision', true],
  ['source_revision_config.repo_ref', 'refs/tags/v1', 'refs/tags/v2', 'revision', true],
  ['source_revision_config.repo_ref', 'a'.repeat(40), 'b'.repeat(40), 'revision'],
  ['source_revision_config.image_uri', 'app:1', 'app:2', 'revision', true],
  ['source_revision_config.image_uri', 'app', 'app:2', 'revision', true],
  ['source_revision_config.image_uri', makeDigest('a'), makeDigest('b'), 'revision'],
  ['source_revision_config.platform_config_path', 'a.json', 'b.json', 'revision'],
  ['source_revision_config.source_tarball_path', 'uploads/1', 'uploads/2', 'revision'],
  ['secret_references', [makeReference('A')], [makeReference('B')], 'revision'],
  ['secret_references', [makeReference('A')], [], 'revision'],
  ['revision_source', 'githost', 'internal_source', 'revision', true],
]
