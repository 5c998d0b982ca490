// Instance admins: an address alone makes nobody one, because anyone can add a member with it.
import { beforeAll, describe, expect, it } from 'vitest'
import { ADMIN, ORGANIZATION_ADMIN } from '../../src/people/access/built-in-roles.ts'
import { GRANT_TYPE } from '../../src/people/sign-in/device.ts'
import { type App, newTenant, type Reply, send, type Tenant } from '../support/app.ts'
import { openLink, signInByOperator, startAdministeredApp, vouchFor } from '../support/instance-admins.ts'

let tenant: Tenant
let app: App
let email: string
beforeAll(async () => {
  ;({ app, email } = startAdministeredApp())
  tenant = await newTenant({ app })
})

const INSTALLATION = [
  '/v2/admin/installation',
  '/v2/admin/installation/organizations',
  '/v2/admin/installation/workspaces',
  '/v2/admin/installation/listeners',
  '/orgs/current/usage/backfill-export?installation=true',
]
type Reader = { get(path: string): Promise<Reply> }
async function readCodes(reader: Reader): Promise<(string | number)[]> {
  const replies = await Promise.all(INSTALLATION.map(path => reader.get(path)))
  return [...new Set(replies.map(({ status, body }) => body?.code ?? status))]
}
const isListedAsAdmin = async (member_id: string) =>
  (await tenant.owner.get(`/orgs/current/members/${member_id}`)).body.is_instance_admin
const sendForm = (path: string, fields: Record<string, string>) =>
  send('POST', path, {
    app,
    raw: new TextEncoder().encode(String(new URLSearchParams(fields))),
    headers: { 'Content-Type': 'application/x-www-form-urlencoded' },
  })
/** The key of a command line that the session approves. */
async function newPersonalKey(session: Awaited<ReturnType<typeof openLink>>, scope?: string) {
  const fields = { client_id: 'slipway-cli', ...(scope && { scope }) }
  const { device_code, user_code } = (await sendForm('/device/code', fields)).body
  const approval = { workspace_id: tenant.tenant_id, access: 'all' }
  expect((await session.post(`/v2/me/device-requests/${user_code}/approval`, approval)).status).toBe(204)
  const token = await sendForm('/device/token', { grant_type: GRANT_TYPE, client_id: 'slipway-cli', device_code })
  return tenant.as(token.body.access_token)
}
const joinWorkspace = (member_id: string) => tenant.post('/workspaces/current/members', { member_id, role_id: ADMIN })

describe('a listed address', () => {
  it('whose member the operator has signed in sees the whole installation', async () => {
    const admin = await signInByOperator(tenant, email, app)
    expect(await readCodes(admin)).toEqual([200])
    expect((await admin.get('/v2/me')).body.is_instance_admin).toBe(true)
    expect(await isListedAsAdmin(admin.member_id)).toBe(true)
  })

  it('counts for nothing while an organization alone says whose it is', async () => {
    const stranger = await newTenant({ app })
    const member = (await stranger.owner.post('/orgs/current/members', { email, role_id: ORGANIZATION_ADMIN })).body
    expect(member.is_instance_admin).toBe(false)
    const { body: link } = await stranger.owner.post(`/orgs/current/members/${member.id}/sign-in-links`)
    const claimed = await openLink(link.url.split('#')[1], app)
    expect(await readCodes(claimed)).toEqual(['instance_admin_required'])
    expect((await claimed.get('/v2/me')).body.is_instance_admin).toBe(false)

    // The real person signs in: the member is hers then, and the session that somebody else opened still is not.
    await vouchFor(email, app)
    expect(await readCodes(claimed)).toEqual(['instance_admin_required'])
    // She makes no link for herself that would count: whoever made it could be another one.
    const again = await stranger.owner.post(`/orgs/current/members/${member.id}/sign-in-links`)
    expect(await readCodes(await openLink(again.body.url.split('#')[1], app))).toEqual(['instance_admin_required'])
  })

  it('counts for the personal key that its verified session has approved, and for no key made with that', async () => {
    const other = startAdministeredApp()
    ;({ app, email } = other)
    tenant = await newTenant({ app })
    const admin = await signInByOperator(tenant, email, app)
    await joinWorkspace(admin.member_id)
    const key = await newPersonalKey(admin)
    expect(await readCodes(key)).toEqual([200])
    const child = (await key.post('/workspaces/current/api-keys', { description: 'CI' })).body
    expect(await readCodes(tenant.as(child.key))).toEqual(['instance_admin_required'])
    const narrow = await newPersonalKey(admin, 'deployments:read')
    expect(await readCodes(narrow)).toEqual(['permission_missing'])
  })

  it('does not count for a personal key that a session of a made link has approved', async () => {
    const [member] = (await tenant.owner.get(`/orgs/current/members?email=${email}`)).body.resources
    const { body: link } = await tenant.owner.post(`/orgs/current/members/${member.id}/sign-in-links`)
    const key = await newPersonalKey(await openLink(link.url.split('#')[1], app))
    expect(await readCodes(key)).toEqual(['instance_admin_required'])
  })

  it('does not count for keys of the workspace and of the organization', async () => {
    expect(await readCodes(tenant)).toEqual(['instance_admin_required'])
    expect(await readCodes(tenant.owner)).toEqual(['instance_admin_required'])
  })
})

it('another verified person is no instance admin', async () => {
  const session = await signInByOperator(tenant, `not-${email}`, app)
  expect(await readCodes(session)).toEqual(['instance_admin_required'])
})

it('nobody is an instance admin without the setting', async () => {
  const bare = startAdministeredApp({ INSTANCE_ADMIN_EMAILS: '' })
  const own = await newTenant({ app: bare.app })
  expect(await readCodes(await signInByOperator(own, bare.email, bare.app))).toEqual(['instance_admin_required'])
})
