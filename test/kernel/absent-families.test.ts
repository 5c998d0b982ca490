// Families of operations that are not here are refused by name, and none of ours is among them.
import { expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { describeAbsentFamily } from '../../src/kernel/http/absent-families.ts'
import { newTenant } from '../support/app.ts'

const ID = '5d41402a-bc4b-4a76-b971-9d911017c592'
const PATHS = [
  '/repos',
  '/api/v1/repos/a/b',
  '/api/v2/sandboxes/boxes',
  '/api/v1/agents',
  '/v2/sql/query',
  `/api/v1/annotation-queues/${ID}/export`,
  `/api/v1/platform/annotation-queues/${ID}/items/${ID}/finals/correct`,
  '/api/v1/runs/rules/decision-models',
]
it.each(PATHS)('%s names its family in the error of an unknown path', async path => {
  const { put } = await newTenant()
  const [absent, unknown] = [await put(path, {}), await put('/nothing/of/the/kind', {})]
  expect([absent.status, absent.body.code]).toEqual([404, 'route_not_found'])
  expect(absent.body.detail).not.toBe(unknown.body.detail)
})

it('no operation of ours is in an absent family', async () => {
  const operations = await loadOperations()
  expect(operations.length).toBeGreaterThan(300)
  expect(operations.filter(({ path }) => describeAbsentFamily(path) !== undefined)).toEqual([])
})
