// The dashboard in a real browser: signing in, a deployment that changes while it is watched, and how it looks.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import type { Postgres } from '../../src/host/embedded-postgres.ts'
import { createHost } from '../../src/host/node.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { createOperatorLink } from '../../src/sign-in/links.ts'
import { expectAccessible, serveHosts, takePicture, useBrowser, type Visitor } from '../support/browser.ts'
import { startMigratedPostgres } from '../support/migrated-postgres.ts'

const SLIPWAY = 'slipway.example.test'
const WIDE = { width: 1280, height: 800 }
const LOOKS = [
  { colorScheme: 'light', viewport: WIDE },
  { colorScheme: 'dark', viewport: { width: 360, height: 740 } },
] as const
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-dashboard-browser-'))
const { newVisitor } = useBrowser()
const handlers: Parameters<typeof serveHosts>[0] = {}
const paths: string[] = []
let hosts: Awaited<ReturnType<typeof serveHosts>>
let postgres: Postgres
let slipway: ReturnType<typeof createHost>
let origin: string
let workspace: { api_key: string; tenant_id: string; organization_id: string }

beforeAll(async () => {
  postgres = await startMigratedPostgres(join(root, 'postgres'))
  hosts = await serveHosts(handlers)
  origin = hosts.originOf(SLIPWAY)
  slipway = createHost(
    {
      ...{ DATABASE_URL: postgres.url, SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}` },
      ...{ PUBLIC_URL: origin, UPLOADS_DIR: root, RATE_LIMIT_PER_MINUTE: '0' },
    },
    { log: () => {} },
  )
  handlers[SLIPWAY] = (request, env) => {
    paths.push(new URL(request.url).pathname)
    return slipway.app.fetch(request, env)
  }
  workspace = await bootstrap(slipway.app.database, { organization: 'Acme', emails: ['boss@example.com'] })
})
afterAll(async () => {
  hosts?.close()
  await slipway?.close()
  await postgres?.stop()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

async function api<T>(method: string, path: string, body?: unknown): Promise<T> {
  const headers = { 'X-Api-Key': workspace.api_key, 'Content-Type': 'application/json' }
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await slipway.app.fetch(new Request(origin + path, init))
  expect(response.ok, `${method} ${path}`).toBe(true)
  return (response.status === 204 ? undefined : await response.json()) as T
}
type Deployment = { id: string; name: string; latest_revision_id: string }
/** Without an agent its revision waits. */
const createDeployment = (name: string) =>
  api<Deployment>('POST', '/v2/deployments', {
    ...{ name, source: 'internal_source', source_config: {}, source_revision_config: {}, secrets: [] },
  })
const interrupt = ({ id, latest_revision_id }: Deployment) =>
  api('POST', `/v2/deployments/${id}/revisions/${latest_revision_id}/interruption`)

/** With a link like that of `npm run dev`, which leads on to `next`. */
async function signIn({ page }: Pick<Visitor, 'page'>, next = ''): Promise<void> {
  const { organization_id } = workspace
  const token = await createOperatorLink(slipway.app.database, { organization_id, email: 'boss@example.com' })
  const opened = page.waitForResponse(response => response.url().endsWith('/sign-in/link'))
  await page.goto(`${origin}/sign-in?next=${encodeURIComponent(next)}#${token}`)
  expect((await opened).status()).toBe(201)
}

async function openDashboard(path = '/ui/', options: Parameters<typeof newVisitor>[0] = { viewport: WIDE }) {
  const visitor = await newVisitor(options)
  await signIn(visitor, path)
  await isLive(visitor.page)
  return visitor
}
const isLive = (page: Page) =>
  page
    .getByRole('status')
    .filter({ hasText: /^Live$/ })
    .waitFor()
const rowOf = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name })

describe('the dashboard', () => {
  it('leads a person without a session to the sign-in page, and back to the same view', async () => {
    const { page, problems } = await newVisitor()
    await page.goto(`${origin}/ui/deployments?name=shop`)
    await page.getByLabel('API key').fill(workspace.api_key)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await isLive(page)
    expect(page.url()).toBe(`${origin}/ui/${workspace.tenant_id}/deployments?name=shop`)
    expect(problems).toEqual([])
  })

  it('shows what others do as it happens, and is operated with keys', async () => {
    const { page, problems } = await openDashboard()
    await page.getByRole('heading', { name: 'No deployments yet' }).waitFor()
    const shop = await createDeployment('shop')
    await rowOf(page, 'shop').getByText('Waiting for a source', { exact: true }).waitFor()
    await interrupt(shop)
    await rowOf(page, 'shop').getByText('Interrupted', { exact: true }).waitFor()

    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'The latest revision was interrupted' }).waitFor()
    expect(new URL(page.url()).pathname).toBe(`/ui/${workspace.tenant_id}/deployments/${shop.id}`)
    await page.getByRole('button', { name: 'Deploy again', exact: true }).first().click()
    await page.getByText('a new revision of the current configuration is queued').waitFor()
    await page.getByText('r2', { exact: true }).first().waitFor()
    await page.keyboard.press('Control+k')
    await page.keyboard.type('deployments')
    await page.keyboard.press('Enter')
    await rowOf(page, 'shop').waitFor()
    expect(problems).toEqual([])
  })

  it('keeps the filter in the address, and offers to remove one that matches nothing', async () => {
    await createDeployment('search')
    const { page, problems } = await openDashboard('/ui/deployments?name=sea')
    await rowOf(page, 'search').waitFor()
    expect(await rowOf(page, 'shop').count()).toBe(0)
    await page.keyboard.press('/')
    await page.keyboard.type('-of-nothing')
    await page.getByRole('button', { name: 'Show all deployments' }).click()
    await rowOf(page, 'shop').waitFor()
    expect(new URL(page.url()).search).toBe('')
    expect(problems).toEqual([])
  })

  it('has one stream for two tabs, and continues it after the network was cut', async () => {
    const { context, page } = await openDashboard('/ui/deployments')
    const before = paths.filter(path => path === '/v2/events/stream').length
    const second = await context.newPage()
    await second.goto(`${origin}/ui/deployments`)
    await isLive(second)
    const blog = await createDeployment('blog')
    await Promise.all(
      [page, second].map(tab => rowOf(tab, 'blog').getByText('Waiting for a source', { exact: true }).waitFor()),
    )
    expect(paths.filter(path => path === '/v2/events/stream').length).toBe(before)

    await context.setOffline(true)
    await page.getByText(/^Offline since/).waitFor()
    await interrupt(blog)
    await context.setOffline(false)
    await isLive(page)
    await rowOf(page, 'blog').getByText('Interrupted', { exact: true }).waitFor()
  })

  it('stays open when the session ends, and goes on after a new one', async () => {
    const { context, page } = await openDashboard('/ui/deployments?view=unused')
    await runAsSystem(slipway.app.database, sql`delete from sessions`)
    await createDeployment('news')
    const dialog = page.getByRole('dialog', { name: 'Your session has ended' })
    await dialog.waitFor()
    expect(await dialog.getByRole('link', { name: 'Sign in', exact: true }).getAttribute('href')).toContain(
      'view%3Dunused',
    )
    await signIn({ page: await context.newPage() })
    await dialog.getByRole('button', { name: 'I have signed in elsewhere' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('heading', { name: 'No deployment matches' }).waitFor()
  })

  it('has no fault of accessibility and fits the screen, light and wide, dark and on a phone', async () => {
    const deployment = await createDeployment('a-name-as-long-as-names-of-deployments-are-allowed-to-be-here')
    const { page, problems } = await openDashboard('/ui/deployments')
    const check = async (name: string) => {
      for (const { colorScheme, viewport } of LOOKS) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
        await page.setViewportSize(viewport)
        await expectAccessible(page)
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect(overflow, `${name} at ${viewport.width}`).toBe(0)
        await takePicture(page, `${name}-${colorScheme}-${viewport.width}`)
      }
    }
    await rowOf(page, deployment.name).waitFor()
    await check('list')
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Shortcuts' }).waitFor()
    await check('shortcuts')
    await page.keyboard.press('Escape')
    await page.keyboard.press('Control+k')
    await page.getByRole('option').first().waitFor()
    await check('palette')
    await page.goto(`${origin}/ui/deployments/${deployment.id}`)
    await page.getByRole('heading', { name: 'Revisions' }).waitFor()
    await check('deployment')
    await page.getByRole('button', { name: 'Delete deployment', exact: true }).click()
    await page.getByRole('dialog').waitFor()
    await check('question')
    await page.goto(`${origin}/ui/deployments/${crypto.randomUUID()}`)
    await page.getByRole('heading', { name: 'This deployment is gone' }).waitFor()
    await check('gone')
    expect(problems).toEqual([])
  })
})
