// Pages in a real Chromium: one for all files of a worker, and a new profile for each visitor.
import { mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createAdaptorServer } from '@hono/node-server'
import type { AxeResults } from 'axe-core'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { makeCertificate } from './certificate.ts'
import { launchChromium } from './chromium.ts'

export type Visitor = {
  context: BrowserContext
  page: Page
  /** Errors of scripts and of policies, files that are missing, and requests of a page to another origin. */
  problems: string[]
}

/** One for all files of this worker, because it starts slowly. It ends with the worker. */
let launching: Promise<Browser | string> | undefined

/** Call it at the top of a file. Its tests are skipped where no Chromium can run. */
export function useBrowser() {
  let browser: Browser | string
  const contexts: BrowserContext[] = []
  beforeAll(async () => {
    launching ??= launchChromium()
    browser = await launching
    if (typeof browser === 'string') console.warn(browser)
  })
  beforeEach(({ skip }) => {
    if (typeof browser === 'string') skip(browser)
  })
  afterEach(() => Promise.all(contexts.splice(0).map(context => context.close())))

  /** Another person at another computer: shares no cookies with earlier visitors. */
  async function newVisitor(options: BrowserContextOptions = {}): Promise<Visitor> {
    const context = await (browser as Browser).newContext({ ignoreHTTPSErrors: true, ...options })
    contexts.push(context)
    // Shorter than a test, so that what was waited for is named.
    // A page of 5,000 runs takes 15 seconds where other tests share two slow cores.
    context.setDefaultTimeout(60_000)
    const page = await context.newPage()
    return { context, page, problems: collectProblems(page) }
  }
  return { newVisitor }
}

function collectProblems(page: Page): string[] {
  const problems: string[] = []
  const originOf = (url: string) => (URL.canParse(url) ? new URL(url).origin : url)
  // Refused calls are logged too, and those that were cut. Tests look at what the page makes of them.
  const isRefusedCall = (text: string) =>
    /^Failed to load resource: (the server responded|net::ERR_NETWORK_CHANGED)/.test(text)
  /** Requests end when the machine gets another network interface, such as that of a container. */
  const cut: string[] = []
  page.on('requestfailed', request => {
    if (request.failure()?.errorText === 'net::ERR_NETWORK_CHANGED') cut.push(request.url())
  })
  page.on('pageerror', error => {
    if (!cut.some(url => String(error).includes(url))) problems.push(String(error))
  })
  page.on('console', message => {
    if (message.type() === 'error' && !isRefusedCall(message.text())) problems.push(message.text())
  })
  page.on('request', request => {
    const isForeign = originOf(request.url()) !== originOf(page.url()) && /^(http|ws)/.test(request.url())
    if (isForeign && !request.isNavigationRequest()) problems.push(`request to ${request.url()}`)
  })
  page.on('response', response => {
    const type = response.request().resourceType()
    const isFile = ['script', 'stylesheet', 'image', 'font'].includes(type)
    if (isFile && response.status() >= 400) problems.push(`${response.status()} for ${response.url()}`)
  })
  return problems
}

/** Every page that is loaded has to read it again. It is half the size of the module's own `source`. */
const AXE = readFileSync(fileURLToPath(import.meta.resolve('axe-core/axe.min.js')), 'utf8')
const STANDARDS = ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa']

/** Checks all rules of the standards, or only `rules`. */
export async function expectAccessible(page: Page, rules?: string[]): Promise<void> {
  if (!(await page.evaluate('"axe" in window'))) await page.evaluate(AXE)
  const options = JSON.stringify({ runOnly: rules ?? STANDARDS, resultTypes: ['violations'] })
  const { violations } = await page.evaluate<AxeResults>(`axe.run(${options})`)
  const faults = violations.flatMap(({ id, nodes }) => nodes.map(node => `${id}: ${node.html}`))
  expect(faults, page.url()).toEqual([])
}

/** Saves a picture if SCREENSHOTS_DIR names a folder. */
export async function takePicture(page: Page, name: string): Promise<void> {
  const folder = process.env.SCREENSHOTS_DIR
  if (!folder) return
  mkdirSync(folder, { recursive: true })
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
}

type Fetch = Parameters<typeof createAdaptorServer>[0]['fetch']

/** Serves hosts below `.test` on one port. Chromium finds them here, with their certificate. */
export async function serveHosts(hosts: Record<string, Fetch>) {
  const server = createAdaptorServer({
    createServer,
    serverOptions: makeCertificate('*.test'),
    fetch: (request, env) =>
      hosts[new URL(request.url).hostname]?.(request, env) ?? new Response('no such host', { status: 404 }),
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    server,
    originOf: (host: string) => `https://${host}:${port}`,
    close: () => {
      server.close()
      if ('closeAllConnections' in server) server.closeAllConnections()
    },
  }
}
