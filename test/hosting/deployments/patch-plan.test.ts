// The plans of patches: plan_patch() in the database decides, describePatchPlan() renders.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { describePatch } from '../../../src/hosting/deployments/patch.ts'
import { describePatchPlan } from '../../../src/hosting/deployments/plan.ts'
import type { DeploymentPatch } from '../../../src/hosting/deployments/schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type ClearableMember, MASK } from '../../../src/protocol/parts.schema.ts'
import { getApp } from '../../support/app.ts'
import { makeDigest, makeReference, PATCH_MEMBERS, put } from '../../support/patch-members.ts'

const EMPTY = {
  version: 1,
  source: 'githost',
  source_config: {},
  source_revision_config: {},
  secret_references: null,
  secrets: [],
}
type Options = { clear?: ClearableMember[]; keptSecrets?: string[] }

/** `keptSecrets` are those that the database would recognize by their fingerprints. */
async function planPatch(stored: object, patch: object, { clear = [], keptSecrets = [] }: Options = {}) {
  const [row, sent] = [{ ...EMPTY, ...stored }, patch as DeploymentPatch]
  const secrets = (sent.secrets ?? []).map(one => ({
    ...one,
    value: keptSecrets.includes(one.name) ? MASK : one.value,
    fingerprints: [],
  }))
  const query = sql<string[]>`
    select to_json(plan_patch(
      jsonb_populate_record(null::deployments, ${JSON.stringify(row)}::jsonb),
      ${describePatch({ ...sent, clear }, secrets)}::jsonb
    ))`
  const [[[decision]]] = (await runAsSystem(getApp().database, query)) as [[[string]]]
  return describePatchPlan(row, sent, clear, JSON.parse(decision))
}
const DISK = { name: 'data', persistentVolumeClaim: { claimName: 'data' } }
const secret = (name: string, version = 1) => ({ name, version })
const sent = (name: string, value = 'x') => ({ name, value })

/** Other members of each part, so that none comes or goes. */
const RESOURCES_BESIDE = { db_storage_gi: 9, redis_memory_mb: 64, queue_cpu: 9, orchestrator_cpu: 9, executor_cpu: 9 }
type Members = { [name: string]: unknown }
const isObject = (value: unknown): value is Members =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const merge = (one: Members, other: Members): Members => {
  const both = Object.entries(other).map(([name, value]) => {
    const before = one[name]
    return [name, isObject(before) && isObject(value) ? merge(before, value) : value]
  })
  return { ...one, ...Object.fromEntries(both) }
}

describe('a member of a patch', () => {
  it.each(PATCH_MEMBERS)(
    'that changes %s from %j to %j has the effect %s',
    async (path, stored, changed, effect, isRepeatable) => {
      const beside = { source_config: { resource_spec: RESOURCES_BESIDE } }
      const current = path === 'revision_source' ? EMPTY : merge(beside, put(path, stored))
      const plan = await planPatch(current, put(path, changed))
      expect(plan.changes.map(change => [change.path, change.effect])).toEqual([[path, effect]])
      expect(plan.reasons).toEqual(effect === 'revision' ? [path] : [])
      const repeated = await planPatch(current, put(path, stored))
      expect(repeated.reasons).toEqual(isRepeatable ? [path] : [])
      expect((await planPatch(current, put(path, null))).changes).toEqual([])
      expect((await planPatch(beside, put(path, changed))).creates_revision).toBe(
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
  ])('in the member %s, %s: %j', async (member, value, isFixed) => {
    const config = { source_revision_config: { [member]: value } }
    const plan = await planPatch(config, config)
    expect(plan.creates_revision).toBe(!isFixed)
    // Sent again, it may point to something newer.
    expect(plan.warnings).toHaveLength(isFixed ? 0 : 1)
  })
})

it('a changed branch drops the commit that the old one resolved to', async () => {
  const stored = { source_revision_config: { repo_ref: 'main', repo_commit_sha: 'abc' } }
  const plan = await planPatch(stored, { source_revision_config: { repo_ref: 'next' } })
  expect(plan.changes).toEqual([
    { path: 'source_revision_config.repo_ref', before: 'main', after: 'next', effect: 'revision' },
    { path: 'source_revision_config.repo_commit_sha', before: 'abc', after: null, effect: 'revision' },
  ])
  expect(plan.reasons).toEqual(['source_revision_config.repo_ref'])
  expect(plan.warnings).toEqual([])
  expect((await planPatch(stored, { source_config: { install_command: 'npm ci' } })).changes).toHaveLength(1)
})

it('members that are cleared become null, and secrets are cleared by name', async () => {
  const stored = { source_config: { custom_url: 'a.example.com' }, secrets: [secret('KEY')] }
  const plan = await planPatch(stored, {}, { clear: ['custom_url', 'secrets'] })
  expect(plan.changes).toEqual([
    { path: 'source_config.custom_url', before: 'a.example.com', after: null, effect: 'in_place' },
    { path: 'secrets', before: ['KEY'], after: [], effect: 'revision' },
  ])
  expect(plan.secrets).toEqual([{ name: 'KEY', change: 'removed' }])
  expect((await planPatch({}, {}, { clear: ['custom_url', 'secrets'] })).changes).toEqual([])
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
  ])('%s', async (_, secrets, keptSecrets, changes) => {
    const plan = await planPatch(stored, { secrets }, { keptSecrets })
    expect(plan.secrets).toEqual(changes)
    expect(plan.creates_revision).toBe(changes.length > 0)
    expect(plan.changes.map(({ path, effect }) => [path, effect])).toEqual(
      changes.length > 0 ? [['secrets', 'revision']] : [],
    )
  })
})

describe('a warning', () => {
  const SPEC = 'source_config.resource_spec'
  const REFERENCES = 'secret_references'
  // The names in it are what a person decides by.
  it.each<[string, unknown, unknown, RegExp[]]>([
    [REFERENCES, [makeReference('A'), makeReference('B')], [makeReference('B')], [/reference A\.$/]],
    [REFERENCES, [makeReference('A')], [makeReference('A'), makeReference('B')], []],
    [REFERENCES, [makeReference('A'), makeReference('B')], [], [/references A and B\.$/]],
    [SPEC, null, { cpu: 1 }, []],
    [SPEC, { cpu: 1 }, { cpu: 2 }, []],
    [SPEC, { labels: { a: 'b' }, volumes: [{ name: 'a', emptyDir: {} }] }, { volumes: [] }, [/^Removes `volumes`\.$/]],
    [SPEC, { volumes: [DISK] }, { volumes: [{ name: 'a', emptyDir: {} }] }, [/^Keeps the disk `data`/]],
    ['source_config.build_command', 'make', 'make all', [/^`build_command` takes effect with the next revision\.$/]],
  ])('about %s that changes from %j to %j: %j', async (path, before, after, expected) => {
    const { warnings } = await planPatch(before === null ? {} : put(path, before), put(path, after))
    expect(warnings).toEqual(expected.map(pattern => expect.stringMatching(pattern)))
  })

  it.each<[object, string[], RegExp[]]>([
    [{ cpu: 1 }, ['cpu'], [/^`cpu` returns to/]],
    [
      { cpu: 1, memory_mb: 512, min_scale: 1 },
      ['cpu', 'memory_mb', 'min_scale'],
      [/^`cpu`, `memory_mb` and `min_scale` return to/],
    ],
    [{ cpu: 1, db_cpu: 1, db_memory_mb: 512 }, ['db_cpu', 'db_memory_mb'], [/`DATABASE_URI`/]],
    [{ queue_cpu: 1, redis_cpu: 1 }, ['queue_cpu', 'redis_cpu'], [/^Removes queue workers\.$/, /^Removes Redis /]],
    [{ queue_cpu: 1, cpu: 1, memory_mb: 512 }, ['cpu', 'memory_mb'], [/^`cpu` and `memory_mb` return to/]],
    [{ orchestrator_min_scale: 1 }, ['orchestrator_min_scale'], [/^Removes orchestrator\.$/]],
    [{ db_cpu: 1, db_memory_mb: 512 }, ['db_memory_mb'], [/^`db_memory_mb` returns/]],
    [{ labels: { a: 'b' } }, ['labels'], [/^Removes `labels`\.$/]],
    [{ volumes: [DISK] }, ['volumes'], [/^Removes `volumes`\.$/, /^Removes the disk `data` /]],
  ])('about %j of which %j is cleared: %j', async (resource_spec, names, expected) => {
    const stored = { source_config: { resource_spec } }
    const clear = names.map(name => `resource_spec.${name}` as ClearableMember)
    const { warnings, reasons } = await planPatch(stored, {}, { clear })
    expect(warnings).toEqual(expected.map(pattern => expect.stringMatching(pattern)))
    expect(reasons).toEqual(names.filter(name => name !== 'min_scale').map(name => `${SPEC}.${name}`))
    expect(await planPatch(stored, { source_config: { resource_spec: {} } })).toMatchObject({
      changes: [],
      warnings: [],
    })
  })

  it('names each secret that goes, and none that stays', async () => {
    const stored = { secrets: ['A', 'B', 'C', 'D'].map(name => secret(name)) }
    const { warnings } = await planPatch(stored, { secrets: [sent('D', MASK)] })
    expect(warnings).toEqual([expect.stringMatching(/secrets A, B and C\.$/)])
    const [one] = (await planPatch({ secrets: [secret('A')] }, { secrets: [sent('B')] })).warnings
    expect(one).toMatch(/secret A\.$/)
  })
})
