// Random policies, roles and tags: the database decides as a naive evaluator that looks at each resource for itself.
import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { operators } from '../../../src/people/access/policies.schema.ts'
import {
  type Condition,
  type Group,
  newLimitedCaller,
  newTaggedDeployment,
  POLICIES,
  type Policy,
  tagValue,
} from '../../support/access-policies.ts'
import { getApp, newTenant } from '../../support/app.ts'
import * as fc from '../../support/seeded-fast-check.ts'

const RESOURCES = 10
const KEYS = ['Env', 'Team', 'env']
const VALUES = ['prod', 'Prod', 'dev', 'p%d', 'p_od', 'prod-eu', '*']
const PATTERNS = ['prod', 'PROD', 'p*', 'p?od', '*d*', '?', '*', 'p%d', '\\*', 'dev']
const PERMISSIONS = ['deployments:read', 'deployments:update'] as const
type Tag = [key: string, value: string]

const condition: fc.Arbitrary<Condition> = fc.record({
  attribute_key: fc.constantFrom(...KEYS, 'Unknown'),
  operator: fc.constantFrom(...operators),
  attribute_value: fc.constantFrom(...PATTERNS),
})
const group: fc.Arbitrary<Group> = fc.record({
  permission: fc.constantFrom(...PERMISSIONS),
  resource_type: fc.constant('deployment'),
  conditions: fc.array(condition, { minLength: 1, maxLength: 3 }),
})
const policy: fc.Arbitrary<Policy> = fc.record({
  effect: fc.constantFrom('allow', 'deny'),
  condition_groups: fc.array(group, { minLength: 1, maxLength: 3 }),
})
const tags: fc.Arbitrary<Tag[]> = fc.uniqueArray(fc.tuple(fc.constantFrom(...KEYS), fc.constantFrom(...VALUES)), {
  maxLength: 5,
  selector: String,
})

// ---- the naive evaluator

function fits(text: string, pattern: string): boolean {
  if (pattern === '') return text === ''
  if (pattern[0] === '*') return fits(text, pattern.slice(1)) || (text !== '' && fits(text.slice(1), pattern))
  return text !== '' && (pattern[0] === '?' || pattern[0] === text[0]) && fits(text.slice(1), pattern.slice(1))
}
const compares = (operator: string, value: string, wanted: string): boolean => {
  if (operator.includes('ignore_case')) return value.toLowerCase() === wanted.toLowerCase()
  return operator.includes('matches') ? fits(value, wanted) : value === wanted
}
const holds = ({ attribute_key, operator, attribute_value }: Condition, of: Tag[]): boolean => {
  const values = of.filter(([key]) => key === attribute_key).map(([, value]) => value)
  if (values.length === 0) return operator.endsWith('_if_exists')
  const some = values.some(value => compares(operator, value, attribute_value))
  return operator.startsWith('not_') ? !some : some
}
function decide(policies: Policy[], permission: string, of: Tag[], isPermitted: boolean): boolean {
  const held = policies.filter(({ condition_groups }) =>
    condition_groups.some(one => one.permission === permission && one.conditions.every(each => holds(each, of))),
  )
  if (held.some(({ effect }) => effect === 'deny')) return false
  return isPermitted || held.some(({ effect }) => effect === 'allow')
}
/** The status of a PATCH, from both decisions. */
function expectedStatus(policies: Policy[], of: Tag[], isPermitted: boolean): number {
  const [read, update] = PERMISSIONS.map(permission => decide(policies, permission, of, isPermitted))
  const isHidden = policies.some(
    ({ effect, condition_groups }) =>
      effect === 'deny' && decide([{ effect: 'allow', condition_groups }], PERMISSIONS[0], of, false),
  )
  if (isHidden) return 404
  if (update) return 200
  return read ? 403 : 404
}

it('admits exactly the resources that a naive evaluator admits', async () => {
  const tenant = await newTenant()
  const tagged = fc.sample(tags, { numRuns: RESOURCES, seed: fc.seed })
  const ids: string[] = []
  for (const of of tagged)
    ids.push(
      (
        await newTaggedDeployment(
          tenant,
          of.map(tag => tag.join('=')),
        )
      ).id,
    )
  // Values that no resource has count as known, too.
  for (const key of KEYS) await tagValue(tenant, `${key}=unused`)
  const callers = [
    { isPermitted: false, ...(await newLimitedCaller(tenant, [], [])) },
    { isPermitted: true, ...(await newLimitedCaller(tenant, [...PERMISSIONS], [])) },
  ]
  await fc.assert(
    fc.asyncProperty(fc.array(policy, { minLength: 1, maxLength: 4 }), async policies => {
      await runAsSystem(
        getApp().database,
        sql`delete from access_policies where organization_id = ${tenant.organization_id}::uuid`,
      )
      const role_ids = callers.map(({ role_id }) => role_id)
      for (const one of policies) await tenant.owner.post(POLICIES, { name: 'Random', ...one, role_ids })
      for (const { isPermitted, role_id, ...caller } of callers) {
        const expected = ids.filter((_, i) => decide(policies, PERMISSIONS[0], tagged[i]!, isPermitted))
        const { body } = await caller.get('/v2/deployments?limit=100')
        const seen = body.resources?.map(({ id }: { id: string }) => id) ?? []
        expect(seen.toReversed(), JSON.stringify(policies)).toEqual(expected)
        const at = policies.length % ids.length
        const patched = await caller.patch(`/v2/deployments/${ids[at]}`, {})
        const allowsUpdate = policies.some(({ effect, condition_groups }) =>
          condition_groups.some(({ permission }) => effect === 'allow' && permission === PERMISSIONS[1]),
        )
        const status = isPermitted || allowsUpdate ? expectedStatus(policies, tagged[at]!, isPermitted) : 403
        expect(patched.status, JSON.stringify([policies, tagged[at]])).toBe(status)
        const question = { role_id, permission: PERMISSIONS[0], resource_type: 'deployment', resource_id: ids[at] }
        const answer = await tenant.owner.post(`${POLICIES}/test`, question)
        expect(answer.body.allowed).toBe(expected.includes(ids[at]!))
      }
    }),
    { numRuns: 25 },
  )
}, 60_000)
