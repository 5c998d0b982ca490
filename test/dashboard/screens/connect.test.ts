// Listeners, OAuth providers, git hosts and webhooks, in a real browser.
import type { Page } from 'playwright-core'
import { describe, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { createPinnedFetch } from '../../../src/host/pinned-fetch.ts'
import { foreignServers, newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { makeFakeFetch } from '../../support/fake-fetch.ts'
import { makeGitea, makeRepositories } from '../../support/fake-git-hosts.ts'
import { realServers } from '../../support/real-servers.ts'
import { makeListenerDeployment, makeSyncAgent } from '../../support/sync-agent.ts'
import { startReceiver } from '../../support/webhook-receiver.ts'

/** Receivers of webhooks are real, on this machine. Everything else has its real name, and is in the test. */
const fetchLocally = createPinnedFetch({ allowLoopback: true })
const foreignFetch: typeof fetch = (input, init) =>
  (new URL(new Request(input, init).url).hostname === '127.0.0.1' ? fetchLocally : foreignServers.fetch)(input, init)
const dashboard = useDashboard({ settings: { ALLOW_LOOPBACK: 'true' }, overrides: { foreignFetch } })

const openAt = async (path: string) => {
  const tenant = await newTenant({ app: dashboard.app })
  return { tenant, ...(await dashboard.open(tenant, path)) }
}
const press = (page: Page, name: string) => page.getByRole('button', { name, exact: true }).click()
const seeHeading = (page: Page, name: string | RegExp) => page.getByRole('heading', { name }).first().waitFor()
const rowOf = (page: Page, text: string) => page.getByRole('row').filter({ hasText: text })

describe('the dashboard', () => {
  it('registers a listener, shows the key of its agent once, and says when the agent is first heard', async () => {
    const { page, problems, tenant } = await openAt('/listeners')
    await seeHeading(page, 'No listeners yet')
    await page.keyboard.press('n')
    await page.getByLabel('Name', { exact: true }).fill('build-server-1')
    await check(page, 'listener-new')
    await page.keyboard.press('Control+Enter')
    await seeHeading(page, 'build-server-1')
    await page.getByText('Checking every 2 seconds').waitFor()
    await press(page, 'Create agent key')
    const key = await page.getByLabel('Copy the key now').getByText(/^slw_/).innerText()
    await page.getByText(`SLIPWAY_LISTENER_KEY=${key} npm run agent`).waitFor()

    await makeSyncAgent(tenant, key).poll({ version: '1.4.0' })
    await page.getByText('The agent connected').waitFor()
    const listener = { id: new URL(page.url()).pathname.split('/').at(-1)! }
    await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
    await rowOf(page, 'shop').waitFor()
    await page.reload()
    await rowOf(page, 'shop').waitFor()
    expect(await page.getByText(key).count()).toBe(0)
    await check(page, 'listener')

    await page.getByRole('button', { name: 'Delete listener', exact: true }).press('Enter')
    await page.getByText('The listener serves 1 deployment. Delete them first.').first().waitFor()
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/listeners?name=build`)
    await rowOf(page, 'build-server-1').getByText('1 deployment', { exact: true }).waitFor()
    await check(page, 'listeners')
    expect(problems).toEqual([])
  })

  it('discovers an OAuth provider step by step before it creates it, and explains a discovery that fails', async () => {
    const { sentry, open } = realServers
    foreignServers.fetch = makeFakeFetch({ ...sentry.sites, ...open.sites })
    const { page, problems, tenant } = await openAt('/providers')
    await seeHeading(page, 'No OAuth providers yet')
    await page.keyboard.press('n')
    const address = page.getByLabel('Address of the MCP server')
    await address.fill(open.server)
    await press(page, 'Discover')
    await seeHeading(page, 'The discovery stopped')
    await page.getByText('It answers without authorization.').waitFor()
    await seeHeading(page, 'What to do')

    await address.fill(sentry.server)
    await page.keyboard.press('Enter')
    await seeHeading(page, 'The discovery is complete')
    const steps = page.getByRole('list', { name: 'Steps of the discovery' })
    await steps.getByRole('listitem').filter({ hasText: '404' }).getByText('Not found.').first().waitFor()
    expect(await steps.getByRole('heading').allInnerTexts()).toEqual([
      expect.stringContaining('Ask the MCP server'),
      expect.stringContaining('Find the authorization server'),
      expect.stringContaining('Ask the authorization server'),
      expect.stringContaining('Obtain a client'),
    ])
    expect((await tenant.get('/v2/auth/providers')).body).toEqual([])
    await check(page, 'discovery')
    await press(page, 'Create Sentry')
    await seeHeading(page, 'Sentry')
    await seeHeading(page, 'The last check, step by step')
    expect(new URL(page.url()).pathname).toBe(`/ui/${tenant.tenant_id}/providers/sentry`)

    foreignServers.fetch = makeFakeFetch({})
    await press(page, 'Check again')
    await page.getByText('Unreachable', { exact: true }).first().waitFor()
    await press(page, 'Edit')
    await check(page, 'provider-unreachable')
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/providers?view=attention`)
    await rowOf(page, 'Sentry').getByText('Unreachable', { exact: true }).waitFor()
    await check(page, 'providers')
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/providers/new/by-hand`)
    await press(page, 'Create provider')
    await page.getByRole('alert').waitFor()
    await check(page, 'provider-by-hand')
    expect(problems).toEqual([])
  })

  it('connects a git host, finds its repositories, and says what to do when it is revoked', async () => {
    const gitea = makeGitea()
    gitea.accounts.set('token-of-acme', { id: 7, login: 'acme', repositories: makeRepositories(60) })
    foreignServers.fetch = makeFakeFetch(gitea.sites)
    const { page, problems, tenant } = await openAt('/integrations')
    await seeHeading(page, 'No git host is connected')
    await page.keyboard.press('n')
    await press(page, 'Get installation URL')
    const install = page.getByRole('link', { name: 'Continue at GitHub' })
    expect(await install.getAttribute('href')).toMatch(/^https:\/\/github\.com\/apps\//)
    await page.getByRole('radio', { name: /^Gitea/ }).check()
    await page.getByLabel('Address of the host').fill(gitea.base)
    await page.getByLabel('Access token', { exact: true }).fill('token-of-acme')
    await check(page, 'git-host-new')
    await page.keyboard.press('Control+Enter')
    await page.getByLabel('Copy the webhook secret now').waitFor()
    await press(page, 'Open acme')
    await page.getByText('The first 50').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type(makeRepositories(60)[41]!.name)
    await page.getByText('The first 50').waitFor({ state: 'detached' })
    await check(page, 'git-host')

    gitea.accounts.clear()
    await press(page, 'Check again')
    await seeHeading(page, 'Connection revoked')
    await page.getByText('Revoked at the host').or(page.getByText('Checked')).first().waitFor()
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/integrations`)
    await rowOf(page, 'acme').getByText('Revoked', { exact: true }).waitFor()
    await check(page, 'git-hosts')

    gitea.accounts.set('another-token', { id: 7, login: 'acme', repositories: makeRepositories(60) })
    await rowOf(page, 'acme').getByRole('link', { name: 'acme' }).click()
    await seeHeading(page, 'Connection revoked')
    await check(page, 'git-host-revoked')
    await page.getByLabel('New access token', { exact: true }).fill('another-token')
    await press(page, 'Replace token')
    await page.getByRole('heading', { name: 'Connection revoked' }).waitFor({ state: 'detached' })
    await page.getByText('The first 50').waitFor()
    expect(problems).toEqual([])
  })

  it('sends a test event by a webhook, and delivers again what its receiver refused', async () => {
    const receiver = await startReceiver()
    onTestFinished(receiver.close)
    const { page, problems, tenant } = await openAt('/webhooks')
    await seeHeading(page, 'No webhooks yet')
    await page.keyboard.press('n')
    await page.getByLabel('URL').fill(receiver.url)
    await page.getByRole('radio', { name: /Selected types/ }).check()
    await page.getByRole('checkbox', { name: /tag_key/ }).check()
    await check(page, 'webhook-new')
    await page.keyboard.press('Control+Enter')
    await page.getByLabel('Copy the secret now').waitFor()
    await page.getByRole('link', { name: /send a test event/ }).click()
    await press(page, 'Send test event')
    await seeHeading(page, 'The test event was accepted')
    expect(receiver.messages.map(({ json }) => json.type)).toEqual(['webhook.ping'])

    receiver.answer = response => response.writeHead(500, { 'Content-Type': 'text/plain' }).end('No room here')
    await tenant.post('/v2/tag-keys', { key: 'team' })
    await finishPendingWork()
    await rowOf(page, 'tag_key.created').getByText('To be retried').waitFor()
    await page.getByText('Failing', { exact: true }).first().waitFor()
    await check(page, 'webhook-failing')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    const dialog = page.getByRole('dialog')
    await dialog.getByText('No room here').waitFor()
    expect(new URL(page.url()).searchParams.get('delivery')).toMatch(/^[0-9a-f-]{36}$/)
    receiver.answer = receiver.accept
    await dialog.getByRole('button', { name: 'Deliver again', exact: true }).click()
    await dialog.getByText('Delivered', { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    await rowOf(page, 'tag_key.created').getByText('Delivered', { exact: true }).waitFor()

    await press(page, 'Rotate secret')
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret', exact: true }).click()
    await page.getByLabel('Copy the new secret now').waitFor()
    await press(page, 'Pause')
    await page.getByText('Paused', { exact: true }).first().waitFor()
    await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/webhooks`)
    await rowOf(page, receiver.url).getByText('Paused', { exact: true }).waitFor()
    await check(page, 'webhooks')
    expect(problems).toEqual([])
  })
})
