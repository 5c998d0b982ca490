import { expect, it } from 'vitest'
import * as roles from '../../../src/people/access/built-in-roles.ts'

it('the built-in roles have the ids that the migrations insert, and no other role is built in', () => {
  const { isBuiltInRole, ADMIN, EDITOR, VIEWER, ORGANIZATION_ADMIN, ORGANIZATION_USER, AUDITOR } = roles
  const ids = [ADMIN, EDITOR, VIEWER, ORGANIZATION_ADMIN, ORGANIZATION_USER, AUDITOR]
  expect(ids).toEqual(ids.map((_, i) => `00000000-0000-4000-8000-00000000000${i + 1}`))
  for (const id of ids) expect(isBuiltInRole(id)).toBe(true)
  expect(isBuiltInRole('00000000-0000-4000-8000-000000000007')).toBe(false)
})
