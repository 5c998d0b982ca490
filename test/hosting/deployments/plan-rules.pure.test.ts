// The plans of changes, as pure functions: effects of members, secrets, losses, and what a rollback restores.
import { describe, expect, it } from 'vitest'
import {
  compareRevisions,
  hasSecrets,
  IN_PLACE_MEMBERS,
  isJsonEqual,
  isMasked,
  planCreation,
  planPatchChanges,
  planRestoreChanges,
  replacesSecrets,
} from '../../../src/hosting/deployments/plan.ts'
import { DeploymentPatch, type NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { MASK } from '../../../src/protocol/parts.schema.ts'
import { makeDigest, makeReference, PATCH_MEMBERS } from '../../support/patch-members.ts'

const ID = '9f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
const EMPTY = { version: 1, source_config: {}, source_revision_config: {}, secret_references: null, secrets: [] }
const planPatch = (stored: object, patch: object, options?: Parameters<typeof planPatchChanges>[2]) =>
  planPatchChanges({ ...EMPTY, ...stored }, patch as DeploymentPatch, options)
const secret = (name: string, version = 1) => ({ name, version })
const sent = (name: string, value = 'x') => ({ name, value })

describe('a member of a patch', () => {
  it('has a row in the table of effects', () => {
    const { source_config, source_revision_config, ...whole } = DeploymentPatch.shape
    const inner = (name: string, member: { unwrap(): { unwrap(): { shape: object } } }) =>
      Object.keys(member.unwrap().unwrap().shape).map(one => `${name}.${one}`)
    const all = [
      ...inner('source_config', source_config as never),
      ...inner('source_revision_config', source_revision_config as never),
      ...Object.keys(whole).filter(name => name !== 'secrets'),
    ]
    expect([...new Set(PATCH_MEMBERS.map(([path]) => path))].sort()).toEqual(all.sort())
  })

  it.each(PATCH_MEMBERS)(
    'that changes %s from %j to %j has the effect %s',
    (path, stored, changed, effect, isRepeatable) => {
      const [outer, inner] = path.split('.') as [string, string?]
      const put = (value: unknown) => ({ [outer]: inner ? { [inner]: value } : value })
      const current = { ...EMPTY, ...(outer === 'revision_source' ? {} : put(stored)) }
      const plan = planPatchChanges(current, put(changed) as DeploymentPatch)
      expect(plan.changes.map(change => [change.path, change.effect])).toEqual([[path, effect]])
      expect(plan.reasons).toEqual(effect === 'revision' ? [path] : [])
      const repeated = planPatchChanges(current, put(stored) as DeploymentPatch)
      expect(repeated.reasons).toEqual(isRepeatable ? [path] : [])
      expect(planPatchChanges(current, put(null) as DeploymentPatch).changes).toEqual([])
      expect(planPatchChanges(EMPTY, put(changed) as DeploymentPatch).creates_revision).toBe(
        effect === 'revision' && !(Array.isArray(changed) && changed.length === 0),
      )
    },
  )
})

describe('a reference that names one thing for good', () => {
  const [commit, digest] = ['a'.repeat(40), makeDigest('a')]
  it.each([
    ['repo_ref', commit, true],
    ['repo_ref', 'a'.repeat(64), true],
    ['repo_ref', `x${commit}`, false],
    ['repo_ref', `${commit}x`, false],
    ['repo_ref', 'a'.repeat(41), false],
    ['repo_ref', 'a'.repeat(63), false],
    ['repo_ref', 'a'.repeat(65), false],
    ['repo_ref', `${commit}${'-'.repeat(24)}`, false],
    ['image_uri', digest, true],
    ['image_uri', `${digest}a`, false],
    ['image_uri', `${digest} `, false],
    ['image_uri', `app@sha256:${'a'.repeat(63)}`, false],
  ])('in %s %s: %j', (member, value, isFixed) => {
    const config = { source_revision_config: { [member]: value } }
    const plan = planPatch(config, config)
    expect(plan.creates_revision).toBe(!isFixed)
    // Sent again, it may point to something newer.
    expect(plan.warnings).toHaveLength(isFixed ? 0 : 1)
  })
})

it('a changed branch drops the commit that the old one resolved to', () => {
  const stored = { source_revision_config: { repo_ref: 'main', repo_commit_sha: 'abc' } }
  const plan = planPatch(stored, { source_revision_config: { repo_ref: 'next' } })
  expect(plan.changes).toEqual([
    { path: 'source_revision_config.repo_ref', before: 'main', after: 'next', effect: 'revision' },
    { path: 'source_revision_config.repo_commit_sha', before: 'abc', after: null, effect: 'revision' },
  ])
  expect(plan.reasons).toEqual(['source_revision_config.repo_ref'])
  expect(plan.warnings).toEqual([])
  expect(planPatch(stored, { source_config: { install_command: 'npm ci' } }).changes).toHaveLength(1)
})

it('members that are cleared become null, and secrets are cleared by name', () => {
  const stored = { source_config: { custom_url: 'a.example.com' }, secrets: [secret('KEY')] }
  const plan = planPatch(stored, {}, { clear: ['custom_url', 'secrets'] })
  expect(plan.changes).toEqual([
    { path: 'source_config.custom_url', before: 'a.example.com', after: null, effect: 'in_place' },
    { path: 'secrets', before: ['KEY'], after: [], effect: 'revision' },
  ])
  expect(plan.secrets).toEqual([{ name: 'KEY', change: 'removed' }])
  expect(planPatch(EMPTY, {}, { clear: ['custom_url', 'secrets'] }).changes).toEqual([])
})

describe('secrets', () => {
  const stored = { secrets: [secret('KEPT'), secret('OLD')] }
  it.each<[string, object[] | undefined, string[], object[]]>([
    ['that are not sent stay', undefined, [], []],
    ['of an empty list stay', [], [], []],
    ['that are masked stay', [sent('KEPT', MASK), sent('OLD', MASK)], [], []],
    ['with the stored value stay', [sent('KEPT'), sent('OLD')], ['KEPT', 'OLD'], []],
    [
      'are added, changed and removed',
      [sent('KEPT', MASK), sent('OLD'), sent('NEW', MASK)],
      [],
      [
        { name: 'OLD', change: 'changed' },
        { name: 'NEW', change: 'added' },
      ],
    ],
    ['that are left out are removed', [sent('KEPT', MASK)], [], [{ name: 'OLD', change: 'removed' }]],
    ['of another name do not keep it', [sent('KEPT'), sent('OLD', MASK)], [], [{ name: 'KEPT', change: 'changed' }]],
  ])('%s', (_, secrets, keptSecrets, changes) => {
    const plan = planPatch(stored, { secrets }, { keptSecrets })
    expect(plan.secrets).toEqual(changes)
    expect(plan.creates_revision).toBe(changes.length > 0)
    expect(plan.changes.map(({ path, effect }) => [path, effect])).toEqual(
      changes.length > 0 ? [['secrets', 'revision']] : [],
    )
  })

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

const warningsOf = (path: string, before: unknown, after: unknown): string[] => {
  const [outer, inner] = path.split('.') as [string, string?]
  const put = (value: unknown) => ({ [outer]: inner ? { [inner]: value } : value })
  return planPatch(before === null ? {} : put(before), put(after)).warnings
}

describe('a warning', () => {
  const SPEC = 'source_config.resource_spec'
  // The names in it are what a person decides by.
  it.each<[string, unknown, unknown, RegExp[]]>([
    [SPEC, null, { cpu: 1 }, []],
    [SPEC, { cpu: 1 }, { cpu: 2 }, []],
    [SPEC, { cpu: 1 }, {}, [/^`cpu` returns to/]],
    [SPEC, { cpu: 1, memory_mb: 512, min_scale: 1 }, {}, [/^`cpu`, `memory_mb` and `min_scale` return to/]],
    [SPEC, { cpu: 1, db_cpu: 1, db_memory_mb: 512 }, { cpu: 1 }, [/`DATABASE_URI`/]],
    [SPEC, { queue_cpu: 1, redis_cpu: 1 }, {}, [/^Removes queue workers and Redis\.$/]],
    [SPEC, { queue_cpu: 1, cpu: 1, memory_mb: 512 }, { queue_cpu: 1 }, [/^`cpu` and `memory_mb` return to/]],
    [SPEC, { orchestrator_cpu: 1 }, {}, [/^Removes orchestrator\.$/]],
    [SPEC, { executor_cpu: 1, cpu: 1 }, {}, [/^Removes executor\.$/, /^`cpu` returns/]],
    [SPEC, { db_cpu: 1, db_memory_mb: 512 }, { db_cpu: 1 }, [/^`db_memory_mb` returns/]],
    [SPEC, { labels: { a: 'b' } }, {}, [/^Removes `labels`\.$/]],
    ['secret_references', [makeReference('A'), makeReference('B')], [makeReference('B')], [/reference A\.$/]],
    ['secret_references', [makeReference('A')], [makeReference('A'), makeReference('B')], []],
    ['secret_references', [makeReference('A'), makeReference('B')], [], [/references A and B\.$/]],
  ])('about %s that changes from %j to %j: %j', (path, before, after, expected) => {
    const warnings = warningsOf(path, before, after)
    expect(warnings).toHaveLength(expected.length)
    for (const [i, pattern] of expected.entries()) expect(warnings[i]).toMatch(pattern)
  })

  it('names each secret that goes, and none that stays', () => {
    const stored = { secrets: ['A', 'B', 'C', 'D'].map(name => secret(name)) }
    const { warnings } = planPatch(stored, { secrets: [sent('D', MASK)] })
    expect(warnings).toEqual([expect.stringMatching(/secrets A, B and C\.$/)])
    const [one] = planPatch({ secrets: [secret('A')] }, { secrets: [sent('B')] }).warnings
    expect(one).toMatch(/secret A\.$/)
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
        { path: 'source_config.install_command', before: null, after: 'npm ci', effect: 'revision' },
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
      {
        path: 'source_config.resource_spec',
        before: { cpu: 2, memory_mb: 1 },
        after: { cpu: 2 },
        effect: 'revision',
      },
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
    expect(IN_PLACE_MEMBERS).toEqual(['build_on_push', 'custom_url'])
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
      { path: 'source_config.resource_spec', before: { cpu: 2, memory_mb: 1 }, after: { cpu: 2 } },
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
