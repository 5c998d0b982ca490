// The dashboard in a real Chromium. Its app serves https for the browser, on the database of `getApp()`: what tests do
// through a tenant's requests, or through an agent, its pages show.
import type { Server } from 'node:http'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, vi } from 'vitest'
import { createFolderFiles, DASHBOARD_FOLDER } from '../../src/host/dashboard-folder.ts'
import { takeSockets } from '../../src/host/sockets.ts'
import { createOperatorLink } from '../../src/people/sign-in/links.ts'
import type { StreamLimits } from '../../src/platform.ts'
import { type App, type AppOptions, startApp, type Tenant } from './app.ts'
import { expectAccessible, serveHosts, takePicture, useBrowser, type Visitor } from './browser.ts'

const SLIPWAY = 'slipway.example.test'
export const WIDE = { width: 1280, height: 800 }
export const PHONE = { width: 360, height: 740 }
const LOOKS = [
  { colorScheme: 'light', viewport: WIDE, rules: undefined },
  // The other rules look at the elements, which are those of the first look.
  { colorScheme: 'dark', viewport: PHONE, rules: ['color-contrast', 'target-size', 'scrollable-region-focusable'] },
] as const
/** It looks often, so that tests need not wait. */
const liveStreams: StreamLimits = {
  seconds: 900,
  trips: 1_000_000,
  perKey: 1_000,
  lookMs: [300, 600],
  keyCheckMs: 1_000,
}

type SignedInTenant = Pick<Tenant, 'organization_id' | 'tenant_id'>
type VisitOptions = Parameters<ReturnType<typeof useBrowser>['newVisitor']>[0] & { email?: string }

/** Call it at the top of a file. Its tests are skipped where no Chromium can run. */
export function useDashboard({ settings = {}, overrides = {} }: Pick<AppOptions, 'settings' | 'overrides'> = {}) {
  const { newVisitor } = useBrowser()
  const handlers: Parameters<typeof serveHosts>[0] = {}
  let hosts: Awaited<ReturnType<typeof serveHosts>>
  const dashboard = {
    origin: '',
    /** The same for an agent, on this machine. */
    socketOrigin: '',
    app: undefined as unknown as App,
    /** The paths of all requests to the app. */
    paths: [] as string[],
    newVisitor,
    signIn,
    open,
  }
  // These tests are long, and share their processor with others.
  vi.setConfig({ testTimeout: 120_000 })
  afterAll(() => vi.resetConfig())
  beforeAll(async () => {
    hosts = await serveHosts(handlers)
    dashboard.origin = hosts.originOf(SLIPWAY)
    dashboard.socketOrigin = `wss://127.0.0.1:${new URL(dashboard.origin).port}`
    dashboard.app = startApp({
      settings: { PUBLIC_URL: dashboard.origin, ...settings },
      overrides: { assets: createFolderFiles(DASHBOARD_FOLDER), liveStreams, ...overrides },
    })
    takeSockets(hosts.server as Server, dashboard.app, async () => {})
    handlers[SLIPWAY] = (request, env) => {
      dashboard.paths.push(new URL(request.url).pathname)
      return dashboard.app.fetch(request, env)
    }
  })
  afterAll(() => hosts?.close())

  /** Opens a link like that of `npm run dev`, which leads on to `next`. */
  async function signIn(
    { page }: Pick<Visitor, 'page'>,
    { organization_id }: SignedInTenant,
    { next = '', email = 'owner@example.com' } = {},
  ): Promise<void> {
    const token = await createOperatorLink(dashboard.app.database, { organization_id, email })
    const opened = page.waitForResponse(response => response.url().endsWith('/sign-in/link'))
    await page.goto(`${dashboard.origin}/sign-in?next=${encodeURIComponent(next)}#${token}`)
    expect((await opened).status()).toBe(201)
  }

  /** A new person at the page of this path, such as `/deployments`, once it is live. */
  async function open(tenant: SignedInTenant, path: string, { email, ...options }: VisitOptions = {}) {
    // Motion is drawn again sixty times a second.
    const visitor = await newVisitor({ viewport: WIDE, reducedMotion: 'reduce', ...options })
    await signIn(visitor, tenant, { next: `/ui/${tenant.tenant_id}${path}`, ...(email && { email }) })
    await isLive(visitor.page)
    return visitor
  }
  return dashboard
}

export const isLive = (page: Page): Promise<void> =>
  page
    .getByRole('status')
    .filter({ hasText: /^Live$/ })
    .waitFor()

const PHONE_TABS = `document.querySelector('[aria-label="Main screens"]')`
const HELD_BARS = `document.querySelectorAll('[data-bar]')`

/** Animations for people who asked for less motion: there should be none. */
const MOVING = `document.getAnimations()
  .filter(({ effect }) => effect.getComputedTiming().duration > 0)
  .map(({ animationName, transitionProperty }) => animationName ?? transitionProperty)`

/** Expects no fault of accessibility, no motion and no scrolling sideways: light and wide, dark and on a phone. */
export async function check(page: Page, name: string): Promise<void> {
  for (const { colorScheme, viewport, rules } of LOOKS) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await page.setViewportSize(viewport)
    // An element that a bar covers has no size that could be pressed.
    await page.evaluate(`
      scrollTo(0, 0)
      ${PHONE_TABS}.style.display = 'none'
      for (const bar of ${HELD_BARS}) bar.style.position = 'static'`)
    await expectAccessible(page, rules && [...rules])
    const { moving, overflow } = await page.evaluate<{ moving: string[]; overflow: number }>(`{
      for (const bar of ${HELD_BARS}) bar.style.position = ''
      ${PHONE_TABS}.style.display = ''
      ;({ moving: ${MOVING}, overflow: document.documentElement.scrollWidth - innerWidth })
    }`)
    expect(moving, name).toEqual([])
    expect(overflow, `${name} at ${viewport.width}`).toBe(0)
    await takePicture(page, `${name}-${colorScheme}-${viewport.width}`)
  }
  await page.setViewportSize(WIDE)
}
