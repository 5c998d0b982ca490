// From an empty workspace to a URL that answers: a real agent runs what the pages create.
import * as fs from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createAdaptorServer } from '@hono/node-server'
import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Agent } from '../../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../../src/agent/engines/process.ts'
import { foreignServers, newTenant, type Tenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { combineHosts, makeGitea, makeRepositories } from '../../support/fake-git-hosts.ts'
import { newIntegration } from '../../support/integrations.ts'
import { closeAgents, FAST_LIMITS, makeTempFolder, runAgent } from '../../support/process-engine.ts'

const dashboard = useDashboard()
/** A walk waits for an agent, a build and a start. */
const WALK_MS = 60_000
const root = makeTempFolder()
let server: Server
let tenant: Tenant

const serving = (text: string) =>
  `require('http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)`

function writeFiles(folder: string, files: Record<string, string>): string {
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(join(folder, name, '..'), { recursive: true })
    fs.writeFileSync(join(folder, name), text)
  }
  return folder
}

/** The name of the installation is one that only the browser resolves: links to archives lead to the port. */
async function serveAgent(): Promise<string> {
  let url = ''
  const fetch = async (request: Request, env: unknown) => {
    const response = await dashboard.app.fetch(request, env as never)
    if (!response.headers.get('Content-Type')?.includes('json')) return response
    return new Response((await response.text()).replaceAll(dashboard.origin, url), response)
  }
  server = createAdaptorServer({ fetch }) as Server
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return url
}

beforeAll(async () => {
  writeFiles(join(root, 'templates/greeter'), {
    'package.json': JSON.stringify({ description: 'Greets whoever asks.', scripts: { start: 'node server.cjs' } }),
    'slipway.json': JSON.stringify({ start_command: 'node server.cjs' }),
    'server.cjs': serving('Hello'),
  })
  const url = await serveAgent()
  tenant = await newTenant()
  const { body: listener } = await tenant.post('/v2/listeners', { compute_type: 'local', compute_id: 'workbench' })
  const { body: key } = await tenant.post(`/v2/listeners/${listener.id}/keys`, {})
  const home = join(root, 'agent')
  const engine = new ProcessEngine({ home, port: 0, limits: FAST_LIMITS })
  const control = createControlPlaneClient({ url, key: key.api_key ?? key.key })
  const options = { agent_id: 'one', version: 'test', home, wait: 5, logToOperator: () => {} }
  runAgent(new Agent({ ...options, engine, control, templates: join(root, 'templates') }))
})
afterAll(async () => {
  await closeAgents()
  server?.close()
  server?.closeAllConnections()
  fs.rmSync(root, { recursive: true, force: true, maxRetries: 9 })
})

/** With keys only. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor()
  for (let i = 0; i < 60; i++) {
    if (await target.evaluate(element => element === element.ownerDocument.activeElement)) return
    await page.keyboard.press('Tab')
  }
  throw new Error(`${target} is not reached by Tab`)
}

const nameField = (page: Page) => page.getByLabel('Name', { exact: true })
const isChecked = (page: Page) => page.getByText('Nothing is created until you confirm the plan.').waitFor()
const openNew = async (from: string) => (await dashboard.open(tenant, `/new?from=${from}`)).page
const choose = (page: Page, what: 'folder' | 'archive', path: string) =>
  page.locator(`input[data-choose=${what}]`).setInputFiles(path)

/** Drags a folder onto the page, like from a file manager. */
async function drop(page: Page, target: Locator, path: string): Promise<void> {
  const { x, y, width, height } = (await target.boundingBox())!
  const session = await page.context().newCDPSession(page)
  const data = { items: [], files: [path], dragOperationsMask: 1 }
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
    await session.send('Input.dispatchDragEvent', { type, x: x + width / 2, y: y + height / 2, data })
}

describe('a new deployment', () => {
  it(
    'from a template is created with keys only, up to the URL that answers',
    async () => {
      const { page, context, problems } = await dashboard.open(tenant, '/')
      await page.getByRole('heading', { name: 'No deployments yet' }).waitFor()
      await check(page, 'empty-workspace')
      await page.keyboard.press('c')
      await tabTo(page, page.getByRole('radio', { name: 'greeter' }))
      await page.keyboard.press('Space')
      await tabTo(page, nameField(page))
      await page.keyboard.press('Control+a')
      await page.keyboard.type('Hello There')
      await page.getByText('One field needs a change.').waitFor()
      await page.getByText('must be 1 to 63 lower-case letters').waitFor()
      await page.keyboard.press('Control+a')
      await page.keyboard.type('hello-there')
      await isChecked(page)
      await page.keyboard.press('Control+Enter')
      await page.getByRole('dialog', { name: 'Create hello-there?' }).waitFor()
      await check(page, 'new-plan')
      await page.keyboard.press('Control+Enter')
      const url = await page
        .getByRole('region', { name: 'URL' })
        .getByRole('link', { name: /localhost/ })
        .textContent()
      await check(page, 'new-answers')
      const visited = context.waitForEvent('page')
      await page.keyboard.press('o')
      const site = await visited
      await site.waitForLoadState()
      expect([site.url(), await site.locator('body').textContent()]).toEqual([`${url}/`, 'Hello'])
      expect(problems).toEqual([])
    },
    WALK_MS,
  )

  it(
    'from a dropped folder is packed by its ignore files, uploaded, built, and answers',
    async () => {
      const folder = writeFiles(join(root, 'diary'), {
        'package.json': JSON.stringify({
          name: 'diary',
          scripts: { start: 'node server.cjs', build: 'node build.cjs' },
        }),
        'server.cjs': `require('http').createServer((_, res) => res.end(
        [process.env.TOKEN, require('fs').existsSync('.env'), require('fs').existsSync('dist')].join())
      ).listen(process.env.PORT)`,
        'build.cjs': `console.log('\\u001b[32mNothing to build'); if (process.env.TOKEN !== 'hush') process.exit(7)`,
        'dist/old.js': '',
        'node_modules/left-pad/index.js': '',
        '.gitignore': 'dist\n',
        '.env': 'TOKEN=wrong\nPORT=3000\n',
      })
      const page = await openNew('folder')
      const problems: string[] = []
      page.on('pageerror', error => problems.push(String(error)))
      const place = page.getByRole('region', { name: 'Files' })
      await drop(page, place, folder)
      await page.getByText('.env may contain secrets, and is excluded.').waitFor()
      await page.getByRole('button', { name: 'Add .env as variables' }).click()
      await page.getByText('Packed files').click()
      const excluded = page.getByRole('list', { name: 'Excluded' }).getByRole('listitem')
      expect(await excluded.allTextContents()).toEqual(['dist/', 'node_modules/', '.env'])
      await page.getByLabel('Runs on').selectOption({ index: 1 })
      await isChecked(page)
      await check(page, 'new-folder-packed')
      await page.getByRole('button', { name: 'Review the plan' }).click()
      await page.getByRole('button', { name: 'Create diary' }).click()
      await page.getByText('The deployment is not serving').waitFor()
      await page.getByRole('list', { name: 'Log' }).getByText('Nothing to build', { exact: true }).waitFor()
      await check(page, 'new-build-failed')
      writeFiles(folder, { 'build.cjs': '' })
      await choose(page, 'folder', folder)
      await page.getByRole('button', { name: 'Upload and deploy' }).click()
      const url = await page
        .getByRole('region', { name: 'URL' })
        .getByRole('link', { name: /localhost/ })
        .textContent()
      await page.getByRole('link', { name: 'Open the deployment' }).click()
      await page.getByRole('button', { name: 'Upload a changed folder' }).click()
      await choose(page, 'folder', folder)
      await page.getByRole('button', { name: 'Upload and plan' }).click()
      const plan = page.getByRole('dialog', { name: 'Deploy changed files of diary' })
      await plan.getByRole('button', { name: /^Deploy: create r/ }).click()
      await plan.waitFor({ state: 'detached' })
      await page.goto(url!)
      expect(await page.locator('body').textContent()).toBe('wrong,false,false')
      expect(problems).toEqual([])
    },
    WALK_MS,
  )

  it('from a repository is planned with the branch, once a git host is connected', async () => {
    const page = await openNew('repository')
    expect(await page.getByRole('link', { name: 'Connect a git host' }).getAttribute('href')).toMatch(/\/integrations$/)
    const host = makeGitea()
    const repositories = makeRepositories(40)
    host.accounts.set('hush-token', { id: 7, login: 'acme', repositories })
    foreignServers.fetch = combineHosts(host)
    await newIntegration(tenant, { base_url: host.base })
    await page.reload()
    await page.getByRole('button', { name: 'Show more' }).click()
    await page.getByRole('radio', { name: 'acme/repo-00030' }).waitFor()
    await page.getByLabel('Filter repositories by name').fill('00007')
    await page.getByRole('radio', { name: 'acme/repo-00007' }).click()
    await page.getByLabel('Branch', { exact: true }).fill('not a branch')
    await page.getByText('must be a git ref').waitFor()
    await page.getByLabel('Branch', { exact: true }).fill('release')
    await isChecked(page)
    await check(page, 'new-repository')
    await page.getByRole('button', { name: 'Review the plan' }).click()
    const dialog = page.getByRole('dialog', { name: 'Create repo-00007?' })
    await dialog.getByText('release', { exact: true }).waitFor()
    await page.keyboard.press('Escape')
    // The address opens the same view for everyone in the workspace.
    await page.reload()
    expect(await page.getByLabel('Branch', { exact: true }).inputValue()).toBe('release')
  })

  it('is refused at its field before anything is created', async () => {
    await tenant.post('/v2/deployments', {
      name: 'taken',
      source: 'internal_source',
      source_config: {},
      source_revision_config: {},
      secrets: [],
    })
    const page = await openNew('folder')
    const file = writeFiles(join(root, 'archives'), { 'taken.tar.gz': 'not an archive' })
    await choose(page, 'archive', join(file, 'taken.tar.gz'))
    await page.getByText('taken.tar.gz is not compressed with gzip.').waitFor()
    fs.writeFileSync(join(file, 'taken.tar.gz'), Buffer.from([0x1f, 0x8b]))
    fs.truncateSync(join(file, 'taken.tar.gz'), 201 * 1024 ** 2)
    await choose(page, 'archive', join(file, 'taken.tar.gz'))
    await page.getByText('taken.tar.gz has more than 200 MB, which is the limit.').waitFor()
    fs.truncateSync(join(file, 'taken.tar.gz'), 100)
    await choose(page, 'archive', join(file, 'taken.tar.gz'))
    await page.getByText('One field needs a change.').waitFor()
    expect(await nameField(page).getAttribute('aria-invalid')).toBe('true')
    await nameField(page).fill('free')
    await page.getByText('Environment variables').click()
    const rows = page.getByRole('list', { name: 'Environment variables' }).getByRole('listitem')
    const addRow = page.getByRole('button', { name: 'Add variable' })
    await addRow.click()
    await page.keyboard.type('PORT')
    await page.getByLabel('Value of PORT').fill('1')
    await rows.nth(0).getByText('is set by the platform').waitFor()
    expect(page.url()).not.toContain('PORT')
    await page.getByRole('button', { name: 'Remove PORT' }).click()
    await isChecked(page)
    await addRow.click()
    const paste = (text: string) =>
      page.evaluate(pasted => {
        const clipboardData = new DataTransfer()
        clipboardData.setData('text', pasted)
        document.activeElement!.dispatchEvent(
          new ClipboardEvent('paste', { clipboardData, cancelable: true, bubbles: true }),
        )
      }, text)
    await paste('A=1\nno equals here')
    await page.getByText('Line 2 is not NAME=value.').waitFor()
    await paste('PORT=1\nA="two\nlines"\nTOKEN=hush\n1B=x\n')
    await rows.nth(2).getByText('must').waitFor()
    expect(await rows.count()).toBe(3)
    await page.getByText('One field needs a change.').waitFor()
    const hiding = () =>
      page
        .getByLabel('Value of TOKEN')
        .evaluate(field => getComputedStyle(field).getPropertyValue('-webkit-text-security'))
    expect(await hiding()).toBe('disc')
    await check(page, 'new-variables')
    await page.getByRole('button', { name: 'Show values' }).click()
    expect(await hiding()).toBe('none')
    await page.getByRole('button', { name: 'Remove 1B' }).click()
    await isChecked(page)
  })
})
