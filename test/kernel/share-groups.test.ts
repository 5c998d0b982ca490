import { expect, it } from 'vitest'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { createShareGroups, isStranger } from '../../src/kernel/limits/share-groups.ts'
import { getApp, newTenant } from '../support/app.ts'

const MINUTE = 60_000

it('groups keys that were seen by their workspace, and others by the network of their address', () => {
  const clock = { now: 0 }
  const groups = createShareGroups(() => clock.now)
  const ofAddress = groups.groupOf('hash', '2001:db8::1')
  expect(isStranger(ofAddress)).toBe(true)
  expect(groups.groupOf(undefined, '2001:db8::2')).toBe(ofAddress)
  expect(groups.groupOf('hash', '2001:db8:0:1::1')).toBe(ofAddress)
  expect(groups.groupOf('hash', '2001:db8:1::1')).not.toBe(ofAddress)
  expect(isStranger(groups.groupOf(undefined, undefined))).toBe(true)
  groups.remember('hash', 'organization', 'workspace')
  expect(groups.groupOf('hash', '2001:db8::1')).toBe('workspace')
  clock.now = 16 * MINUTE
  expect(groups.groupOf('hash', '2001:db8::1')).toBe(ofAddress)
})

it('forgets keys that were seen long ago in favor of others', () => {
  const groups = createShareGroups(() => 0)
  for (let i = 0; i <= 10_000; i++) groups.remember(`hash ${i}`, 'organization', 'workspace')
  expect(isStranger(groups.groupOf('hash 0', '192.0.2.1'))).toBe(true)
  expect(groups.groupOf('hash 1', '192.0.2.1')).toBe('workspace')
})

it('keeps the keys of an organization beside another that has many', () => {
  const groups = createShareGroups(() => 0)
  groups.remember('quiet', 'one', 'workspace')
  for (let i = 0; i <= 10_000; i++) groups.remember(`loud ${i}`, 'other', `workspace ${i}`)
  expect(groups.groupOf('quiet', '192.0.2.1')).toBe('workspace')
})

it('learns the workspace that a key has entered last', async () => {
  const { shareGroups } = getApp()
  const tenant = await newTenant()
  const groupOf = (key: string) => shareGroups.groupOf(sha256Hex(key), undefined)
  expect(isStranger(groupOf(tenant.key))).toBe(true)
  await tenant.get('/v2/deployments')
  expect(groupOf(tenant.key)).toBe(tenant.tenant_id)
  await tenant.owner.get('/workspaces')
  expect(groupOf(tenant.owner.key)).toBe(tenant.organization_id)
  const { body: other } = await tenant.owner.post('/workspaces', { display_name: 'Other' })
  await tenant.owner.get('/v2/deployments', { 'X-Tenant-Id': tenant.tenant_id })
  expect(groupOf(tenant.owner.key)).toBe(tenant.tenant_id)
  await tenant.owner.get('/v2/deployments', { 'X-Tenant-Id': other.id })
  expect(groupOf(tenant.owner.key)).toBe(other.id)
})
