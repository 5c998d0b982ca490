// Signing in, in a real browser at a real OpenID Connect server. The app, the applications that it hosts and strangers
// have host names of their own, so that the browser decides what belongs to the same site.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bootstrap } from '../../src/access/bootstrap.ts'
import type { Postgres } from '../../src/host/embedded-postgres.ts'
import { createHost } from '../../src/host/node.ts'
import { expectAccessible, serveHosts, takePicture, useBrowser } from '../support/browser.ts'
import { createIdentityProvider, listenLocally, oidcSettings, type Person } from '../support/identity-provider.ts'
import { startMigratedPostgres } from '../support/migrated-postgres.ts'

const SLIPWAY = 'slipway.example.test'
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-sign-in-browser-'))
const lines: Record<string, unknown>[] = []
const { newVisitor } = useBrowser()
const handlers: Parameters<typeof serveHosts>[0] = {}
let hosts: Awaited<ReturnType<typeof serveHosts>>
let provider: Awaited<ReturnType<typeof listenLocally>>
let postgres: Postgres
let slipway: ReturnType<typeof createHost>
let origin: string
let owner: string
/** Who signs in at the provider. */
const person: Person = { sub: 'ada' }

beforeAll(async () => {
  postgres = await startMigratedPostgres(join(root, 'postgres'))
  hosts = await serveHosts(handlers)
  origin = hosts.originOf(SLIPWAY)
  provider = await listenLocally(at => createIdentityProvider(at, `${origin}/sign-in/oidc/callback`, () => person))
  slipway = createHost(
    {
      ...{ DATABASE_URL: postgres.url, SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}` },
      ...{ PUBLIC_URL: origin, APPS_DOMAIN: 'apps.example.test', ALLOW_LOOPBACK: 'true', UPLOADS_DIR: root },
      ...{ RATE_LIMIT_PER_MINUTE: '0', ...oidcSettings(provider.origin) },
    },
    { log: line => void lines.push(line) },
  )
  handlers[SLIPWAY] = slipway.app.fetch
  const input = { organization: 'Acme', emails: ['boss@example.com'], scope: 'organization' as const }
  owner = (await bootstrap(slipway.app.database, input)).api_key
})
afterAll(async () => {
  hosts?.close()
  provider?.close()
  await slipway?.close()
  await postgres?.stop()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

describe('the page', () => {
  const looks = [
    { colorScheme: 'light', viewport: { width: 1280, height: 800 } },
    { colorScheme: 'dark', viewport: { width: 360, height: 740 } },
  ] as const
  it.each(looks)('is accessible in $colorScheme, $viewport.width pixels wide', async look => {
    const { page, problems } = await newVisitor(look)
    const name = `sign-in-${look.colorScheme}-${look.viewport.width}`
    await page.goto(`${origin}/sign-in`)
    await page.getByLabel('API key').fill(owner)
    await takePicture(page, name)
    await expectAccessible(page)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('You are signed in to Acme').waitFor()
    await takePicture(page, `${name}-signed-in`)
    await expectAccessible(page)
    expect(problems).toEqual([])
  })
})
