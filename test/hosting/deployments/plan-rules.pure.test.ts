// The plans of new deployments and of rollbacks, as pure functions. patch-plan.test.ts has those of patches.
import { describe, expect, it } from 'vitest'
import {
  compareRevisions,
  hasSecrets,
  IN_PLACE_MEMBERS,
  isJsonEqual,
  isMasked,
  KEPT_MEMBERS,
  planCreation,
  planRestoreChanges,
  replacesSecrets,
} from '../../../src/hosting/deployments/plan.ts'
import { DeploymentPatch, type NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { MASK } from '../../../src/protocol/parts.schema.ts'
import { ResourceSpec } from '../../../src/protocol/resources.schema.ts'
import { PATCH_MEMBERS } from '../../support/patch-members.ts'

const ID = '9f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const EMPTY = { version: 1, source_config: {}, source_revision_config: {}, secret_references: null, secrets: [] }
const secret = (name: string, version = 1) => ({ name, version })
const sent = (name: string, value = 'x') => ({ name, value })

describe('a member of a patch', () => {
  it('has a row in the table of effects', () => {
    const { source_config, source_revision_config, ...whole } = DeploymentPatch.shape
    const inner = (name: string, member: { unwrap(): { unwrap(): { shape: object } } }) =>
      Object.keys(member.unwrap().unwrap().shape).map(one => `${name}.${one}`)
    const all = [
      ...inner('source_config', source_config as never).filter(path => path !== 'source_config.resource_spec'),
      ...Object.keys(ResourceSpec.shape).map(name => `source_config.resource_spec.${name}`),
      ...inner('source_revision_config', source_revision_config as never),
      ...Object.keys(whole).filter(name => name !== 'secrets'),
    ]
    expect([...new Set(PATCH_MEMBERS.map(([path]) => path))].sort()).toEqual(all.sort())
  })
})

describe('secrets', () => {
  it('are replaced by those that are sent, or by none', () => {
    expect([isMasked(sent('A', MASK)), isMasked(sent('A'))]).toEqual([true, false])
    expect([{}, { secrets: [] }, { secrets: [sent('A')] }].map(one => hasSecrets(one as never))).toEqual([
      false,
      false,
      true,
    ])
    expect(replacesSecrets({} as DeploymentPatch, [])).toBe(false)
    expect(replacesSecrets({} as DeploymentPatch, ['secrets'])).toBe(true)
    expect(replacesSecrets({ secrets: [sent('A')] } as DeploymentPatch, [])).toBe(true)
    expect(replacesSecrets({} as DeploymentPatch, ['custom_url'])).toBe(false)
  })
})

describe('the plan of a new deployment', () => {
  const body = {
    name: 'app',
    source: 'githost',
    source_config: { integration_id: ID, build_on_push: true, install_command: 'npm ci' },
    source_revision_config: { repo_ref: 'main' },
    secrets: [sent('KEY')],
  }

  it('has every member, and no effect but in place and of the first revision', () => {
    const plan = planCreation(body as unknown as NewDeployment)
    expect(plan).toEqual({
      creates_revision: true,
      reasons: ['created'],
      changes: [
        { path: 'name', before: null, after: 'app', effect: 'in_place' },
        { path: 'source', before: null, after: 'githost', effect: 'in_place' },
        { path: 'source_config.integration_id', before: null, after: ID, effect: 'in_place' },
        { path: 'source_config.build_on_push', before: null, after: true, effect: 'in_place' },
        { path: 'source_config.install_command', before: null, after: 'npm ci', effect: 'in_place' },
        { path: 'source_revision_config.repo_ref', before: null, after: 'main', effect: 'revision' },
        { path: 'secrets', before: null, after: ['KEY'], effect: 'revision' },
      ],
      secrets: [{ name: 'KEY', change: 'added' }],
      warnings: [],
    })
  })

  it('has no change of secrets without secrets', () => {
    const { changes, secrets } = planCreation({ ...body, secrets: [] } as unknown as NewDeployment)
    expect(secrets).toEqual([])
    expect(changes.map(({ path }) => path)).not.toContain('secrets')
  })
})

describe('a rollback', () => {
  const now = {
    source_config: { install_command: 'new', custom_url: 'new.example.com', resource_spec: { cpu: 2, memory_mb: 1 } },
    source_revision_config: { repo_ref: 'main', repo_commit_sha: 'b' },
    secret_references: null,
    secrets: [secret('SAME'), secret('CHANGED', 2), secret('ADDED')],
  }
  const before = {
    source_config: { install_command: 'old', custom_url: 'old.example.com', resource_spec: { cpu: 2 } },
    source_revision_config: { repo_ref: 'main', repo_commit_sha: 'a' },
    secret_references: null,
    secrets: [secret('SAME'), secret('CHANGED', 1), secret('GONE')],
  }

  it('restores the members of the revision, its commit and its secrets, and keeps those of the deployment', () => {
    const plan = planRestoreChanges(now, before, 'rolled_back')
    expect(plan).toMatchObject({ creates_revision: true, reasons: ['rolled_back'] })
    expect(plan.changes).toEqual([
      { path: 'source_config.resource_spec.memory_mb', before: 1, after: null, effect: 'revision' },
      { path: 'source_config.install_command', before: 'new', after: 'old', effect: 'revision' },
      { path: 'source_revision_config.repo_commit_sha', before: 'b', after: 'a', effect: 'revision' },
      {
        path: 'secrets',
        before: ['SAME', 'CHANGED', 'ADDED'],
        after: ['SAME', 'CHANGED', 'GONE'],
        effect: 'revision',
      },
    ])
    expect(plan.secrets).toEqual([
      { name: 'CHANGED', change: 'changed' },
      { name: 'GONE', change: 'added' },
      { name: 'ADDED', change: 'removed' },
    ])
    expect(plan.warnings).toHaveLength(2)
    const scale = ['', 'queue_', 'orchestrator_'].flatMap(part => [`${part}min_scale`, `${part}max_scale`])
    const ways = ['scale_metric', 'scale_target', 'scale_path', 'idle_seconds', 'frozen_seconds']
    scale.splice(2, 0, ...ways, 'process_scale', 'process_scaling')
    const kept = ['build_on_push', 'watch_paths', 'custom_url', ...scale.map(name => `resource_spec.${name}`)]
    expect(KEPT_MEMBERS).toEqual(kept)
    expect(IN_PLACE_MEMBERS).toEqual([...kept, 'root_directory', 'install_command', 'build_command', 'tracing'])
  })

  it('that restores one secret has its change', () => {
    const { changes } = planRestoreChanges(
      { ...EMPTY, secrets: [secret('A', 2)] },
      { ...EMPTY, secrets: [secret('A')] },
      'x',
    )
    expect(changes.map(({ path }) => path)).toEqual(['secrets'])
  })

  it('to the same content changes nothing, and creates a revision', () => {
    const same = { creates_revision: true, reasons: ['redeployed'], changes: [], secrets: [], warnings: [] }
    expect(planRestoreChanges(now, now, 'redeployed')).toEqual(same)
  })

  it('is compared with all members, and with the versions of secrets in the order of their names', () => {
    expect(compareRevisions(now, before)).toEqual([
      { path: 'source_config.custom_url', before: 'new.example.com', after: 'old.example.com' },
      { path: 'source_config.resource_spec.memory_mb', before: 1, after: null },
      { path: 'source_config.install_command', before: 'new', after: 'old' },
      { path: 'source_revision_config.repo_commit_sha', before: 'b', after: 'a' },
      { path: 'secrets.ADDED', before: 1, after: null },
      { path: 'secrets.CHANGED', before: 2, after: 1 },
      { path: 'secrets.GONE', before: null, after: 1 },
    ])
    expect(compareRevisions({ ...now, source: 'githost' } as never, now)).toEqual([
      { path: 'source', before: 'githost', after: null },
    ])
  })
})

it.each<[unknown, unknown, boolean]>([
  [1, 1, true],
  [1, 2, false],
  [1, {}, false],
  [{}, 1, false],
  [null, null, true],
  [null, {}, false],
  [{}, null, false],
  [[], {}, false],
  [{ a: 1, b: 2 }, { b: 2, a: 1 }, true],
  [{ a: 1 }, { a: 1, b: 2 }, false],
  [{ a: undefined }, { b: undefined }, false],
  [{ a: { b: [1] } }, { a: { b: [1] } }, true],
  [{ a: { b: [1] } }, { a: { b: [2] } }, false],
  [[1, 2], [2, 1], false],
  [['a'], { 0: 'a' }, false],
])('%j and %j are the same JSON: %j', (a, b, isEqual) => expect(isJsonEqual(a, b)).toBe(isEqual))
