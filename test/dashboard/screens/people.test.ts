// Who may do what, and what was done: members, roles, keys, the workspace, one's account and the audit log.
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { ADMIN, EDITOR } from '../../../src/access/built-in-roles.ts'
import { finishPendingWork } from '../../../src/kernel/wait-until.ts'
import { newTenant } from '../../support/app.ts'
import { check, isLive, useDashboard } from '../../support/dashboard.ts'

const dashboard = useDashboard()

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true })
const heading = (page: Page, name: string) => page.getByRole('heading', { name, exact: true })

/** A press says why it is unavailable. */
async function pressUnavailable(page: Page, name: string): Promise<void> {
  await button(page, name).focus()
  await page.keyboard.press('Enter')
}

async function setUp() {
  const tenant = await newTenant()
  const { owner } = tenant
  await owner.patch('/orgs/current', { display_name: 'Acme' })
  const inWorkspace = { 'X-Tenant-Id': tenant.tenant_id }
  for (const [email, full_name, role_id] of [
    ['grace@example.com', 'Grace Hopper', EDITOR],
    ['alan@example.com', 'Alan Turing', ADMIN],
  ])
    await owner.post('/workspaces/current/members', { email, full_name, role_id }, inWorkspace)
  const permissions = ['deployments:read', 'deployments:update', 'events:read']
  const description = 'Rolls back and interrupts'
  await owner.post('/orgs/current/roles', { display_name: 'Operator', description, permissions })
  await tenant.post('/workspaces/current/api-keys', {
    description: 'Deploy from CI',
    permissions: ['deployments:read'],
  })
  const { body: team } = await tenant.post('/v2/tag-keys', { key: 'team' })
  for (const value of ['payments', 'search']) await tenant.post(`/v2/tag-keys/${team.id}/values`, { value })
  return tenant
}

it('invites a person with a smaller role, who is told whose account it is and what it may not do', async () => {
  const tenant = await setUp()
  const { page, problems } = await dashboard.open(tenant, '/members')
  await button(page, 'Hide whose account this is').click()
  await link(page, 'Grace Hopper').waitFor()
  await check(page, 'members')
  await page.keyboard.press('n')
  await page.getByLabel('E-mail address').fill('ada@example.com')
  await page.getByLabel('Name', { exact: true }).fill('Ada Lovelace')
  await page.getByLabel('Role in this workspace').selectOption({ label: 'Viewer' })
  await page.getByText('See deployments with their revisions').waitFor()
  await check(page, 'members-new')
  await button(page, 'Add member').click()
  const shown = page.getByRole('status', { name: 'Sign-in link. It is shown only now' })
  const url = (await shown.locator('code').textContent())!

  const ada = await dashboard.newVisitor()
  await ada.page.goto(`${url.replace('#', `?next=/ui/${tenant.tenant_id}/members#`)}`)
  await isLive(ada.page)
  await ada.page.getByText('Signed in as Ada Lovelace of Acme, by a link.').waitFor()
  await pressUnavailable(ada.page, 'Invite member')
  await ada.page
    .getByText('Your role here does not have the permission workspaces:manage-members', { exact: false })
    .waitFor()
  await ada.page.keyboard.press('g')
  await ada.page.keyboard.press('a')
  await heading(ada.page, 'Your role cannot read the audit log').waitFor()
  await ada.page.getByText('Auditor, Organization Admin', { exact: false }).waitFor()

  await link(page, 'Open the page of Ada Lovelace').click()
  await page.getByLabel('Role in this workspace').selectOption({ label: 'Editor' })
  await button(page, 'Make Ada Lovelace Editor').click()
  await page.getByText('Ada Lovelace is Editor in this workspace', { exact: false }).waitFor()
  await check(page, 'member')
  await button(page, 'Remove from organization').click()
  const question = page.getByRole('dialog')
  expect(await question.getByRole('button', { name: 'Remove from organization' }).isDisabled()).toBe(true)
  await question.getByLabel('Type ada@example.com to go on').fill('ada@example.com')
  await question.getByRole('button', { name: 'Keep it' }).click()
  expect(await page.evaluate('document.activeElement?.textContent')).toBe('Remove from organization')
  await button(page, 'Remove from organization').click()
  await question.getByRole('textbox').fill('ada@example.com')
  await question.getByRole('button', { name: 'Remove from organization' }).click()
  await heading(page, 'This person is no longer a member').waitFor()
  expect(problems.filter(problem => !/404/.test(problem))).toEqual([])
})

it('creates a key that is shown once, says what it may do, and revokes it', async () => {
  const tenant = await setUp()
  const { page, problems } = await dashboard.open(tenant, '/keys')
  await button(page, 'Hide whose account this is').click()
  await link(page, 'Deploy from CI').waitFor()
  await check(page, 'keys')
  await page.keyboard.press('n')
  await page.getByLabel('Description').fill('Reads for the wall')
  await page.getByRole('radio', { name: 'Only what reads' }).check()
  await check(page, 'keys-new')
  await button(page, 'Create key').click()
  const shown = page.getByRole('status', { name: 'The key. It is shown only now' })
  const key = (await shown.locator('code').textContent())!
  const asKey = tenant.as(key)
  expect((await asKey.get('/v2/deployments')).status).toBe(200)
  expect((await asKey.post('/v2/tag-keys', { key: 'x' })).body.code).toBe('permission_missing')
  await link(page, 'Open the page of the key').click()
  await heading(page, 'Reads for the wall').waitFor()
  expect(await page.getByText(key).count()).toBe(0)
  await check(page, 'key')
  await button(page, 'Revoke key').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke key' }).click()
  await page.getByText('The key “Reads for the wall” is revoked.').waitFor()
  expect((await asKey.get('/v2/deployments')).body.code).toBe('key_revoked')
  expect(await link(page, 'Reads for the wall').count()).toBe(0)
  expect(problems).toEqual([])
})

it('says in words what a role may do, and changes one of the organization', async () => {
  const tenant = await setUp()
  const { page, problems } = await dashboard.open(tenant, '/roles')
  await button(page, 'Hide whose account this is').click()
  await check(page, 'roles')
  await page.keyboard.press('n')
  await heading(page, 'Create a role').waitFor()
  await check(page, 'role-new')
  await page.goBack()
  await link(page, 'Operator').click()
  await page.getByText('Change, deploy, roll back and interrupt deployments').waitFor()
  await button(page, 'Change role').click()
  await page.getByLabel('Delete deployments').check()
  await check(page, 'role-form')
  await button(page, 'Save role').click()
  await page.getByText('4 permissions').waitFor()
  await page.goBack()
  await link(page, 'Editor').click()
  await heading(page, 'Editor').waitFor()
  await pressUnavailable(page, 'Change role')
  await page.getByText('A built-in role cannot be changed.', { exact: false }).waitFor()
  expect(problems).toEqual([])
})

it('renames the workspace, edits its tags, and exports it as a file', async () => {
  const tenant = await setUp()
  const { page, problems } = await dashboard.open(tenant, '/settings')
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('Production')
  await button(page, 'Save workspace').click()
  await heading(page, 'Production').waitFor()
  await page.getByRole('navigation', { name: 'Path' }).getByText('Production').waitFor()
  const team = page.getByRole('region', { name: 'Tag key team' })
  await team.getByRole('textbox', { name: 'Add value' }).fill('billing')
  await page.keyboard.press('Enter')
  await team.getByText('billing').waitFor()
  await check(page, 'settings')
  await link(page, 'New workspace').click()
  await page.getByLabel('Name', { exact: true }).waitFor()
  await check(page, 'workspace-new')
  await page.goBack()
  const download = page.waitForEvent('download')
  await button(page, 'Export as YAML').click()
  const file = await download
  expect(file.suggestedFilename()).toBe('production.yaml')
  expect(await readFile(await file.path(), 'utf8')).toContain('name: "team=billing"')
  await page.getByText('Exported Production to production.yaml').waitFor()
  await button(page, 'Delete workspace').click()
  const question = page.getByRole('dialog')
  expect(await question.getByRole('button', { name: 'Delete workspace' }).isDisabled()).toBe(true)
  await page.keyboard.press('Escape')

  const other = await dashboard.open(tenant, '/account')
  await page.getByRole('button', { name: 'Production' }).first().click()
  await page.getByRole('link', { name: 'Your account and sessions' }).first().click()
  await button(page, 'End session').first().waitFor()
  await check(page, 'account')
  await button(page, 'End session').first().click()
  await page.getByRole('dialog').getByRole('button', { name: 'End session' }).click()
  await button(page, 'End session').first().waitFor({ state: 'detached' })
  await other.page.reload()
  await other.page.getByRole('button', { name: 'Sign in' }).waitFor()
  expect(problems).toEqual([])
})

it('shows what was changed, before and after, what was refused, and exports what is chosen', async () => {
  const tenant = await setUp()
  const { body: role } = await tenant.owner.post('/orgs/current/roles', { display_name: 'Watcher', permissions: [] })
  await tenant.owner.patch(`/orgs/current/roles/${role.id}`, { display_name: 'Observer' })
  await tenant.post('/v2/tag-keys', { key: 'team' })
  await finishPendingWork()
  const { page, problems } = await dashboard.open(tenant, '/audit')
  await button(page, 'Hide whose account this is').click()
  await page.getByText('Refused: tag_key_taken').waitFor()
  const entries = page.locator('details')
  await entries.filter({ hasText: 'Update role' }).locator('summary').click()
  const changes = page.getByRole('table', { name: 'What role.updated changed' })
  expect(await changes.getByRole('row').last().innerText()).toMatch(/display_name\s+Watcher\s+Observer/)
  await check(page, 'audit')
  await button(page, role.id).click()
  await entries.nth(2).waitFor({ state: 'detached' })
  expect(await entries.locator('summary b').allInnerTexts()).toEqual(['Update role', 'Create role'])
  await page.getByLabel('What', { exact: true }).selectOption({ label: 'Update role' })
  await entries.nth(1).waitFor({ state: 'detached' })
  expect(new URL(page.url()).search).toBe(`?subject_id=${role.id}&operation=update_role`)
  const download = page.waitForEvent('download')
  await button(page, 'Export as NDJSON').click()
  const lines = (await readFile(await (await download).path(), 'utf8')).trim().split('\n')
  expect(lines.map(line => JSON.parse(line).operation)).toEqual(['update_role'])
  await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/audit?result=refused`)
  await page.getByText('Refused: tag_key_taken').waitFor()
  expect(await entries.locator('summary b').allInnerTexts()).toEqual(['Create tag key'])
  expect(problems).toEqual([])
})
