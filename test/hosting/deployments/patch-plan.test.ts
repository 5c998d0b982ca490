// The plans of patches: plan_patch() in the database decides, describePatchPlan() renders.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { describePatch } from '../../../src/hosting/deployments/patch.ts'
import { describePatchPlan } from '../../../src/hosting/deployments/plan.ts'
import type { DeploymentPatch } from '../../../src/hosting/deployments/schema.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { type ClearableMember, MASK } from '../../../src/protocol/parts.schema.ts'
import { getApp } from '../../support/app.ts'
import { makeDigest, makeReference, PATCH_MEMBERS } from '../../support/patch-members.ts'

const EMPTY = { version: 1, source_config: {}, source_revision_config: {}, secret_references: null, secrets: [] }
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
const secret = (name: string, version = 1) => ({ name, version })
const sent = (name: string, value = 'x') => ({ name, value })

describe('a member of a patch', () => {
  it.each(PATCH_MEMBERS)(
    'that changes %s from %j to %j has the effect %s',
    async (path, stored, changed, effect, isRepeatable) => {
      const [outer, inner] = path.split('.') as [string, string?]
      const put = (value: unknown) => ({ [outer]: inner ? { [inner]: value } : value })
      const current = { ...EMPTY, ...(outer === 'revision_source' ? {} : put(stored)) }
      const plan = await planPatch(current, put(changed))
      expect(plan.changes.map(change => [change.path, change.effect])).toEqual([[path, effect]])
      expect(plan.reasons).toEqual(effect === 'revision' ? [path] : [])
      const repeated = await planPatch(current, put(stored))
      expect(repeated.reasons).toEqual(isRepeatable ? [path] : [])
      expect((await planPatch(current, put(null))).changes).toEqual([])
      expect((await planPatch({}, put(changed))).creates_revision).toBe(
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

const warningsOf = async (path: string, before: unknown, after: unknown): Promise<string[]> => {
  const [outer, inner] = path.split('.') as [string, string?]
  const put = (value: unknown) => ({ [outer]: inner ? { [inner]: value } : value })
  return (await planPatch(before === null ? {} : put(before), put(after))).warnings
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
  ])('about %s that changes from %j to %j: %j', async (path, before, after, expected) => {
    const warnings = await warningsOf(path, before, after)
    expect(warnings).toHaveLength(expected.length)
    for (const [i, pattern] of expected.entries()) expect(warnings[i]).toMatch(pattern)
  })

  it('names each secret that goes, and none that stays', async () => {
    const stored = { secrets: ['A', 'B', 'C', 'D'].map(name => secret(name)) }
    const { warnings } = await planPatch(stored, { secrets: [sent('D', MASK)] })
    expect(warnings).toEqual([expect.stringMatching(/secrets A, B and C\.$/)])
    const [one] = (await planPatch({ secrets: [secret('A')] }, { secrets: [sent('B')] })).warnings
    expect(one).toMatch(/secret A\.$/)
  })
})
