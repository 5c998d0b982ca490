// Tracing in a real browser: projects, their runs, and a trace with its tree.
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import type { Storage } from '../../../src/platform.ts'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newDeployment } from '../../support/deployments.ts'
import { toRuns } from '../../support/example-traces.ts'
import { post } from '../../support/trace-operations.ts'
import { appendLongTrace, fillProject } from '../../support/traced-project.ts'
import { append } from '../../support/traces.ts'

const objects = new Map<string, Uint8Array>()
const uploads: Storage = {
  put: async (path, body) => void objects.set(path, body as Uint8Array),
  get: async path => (objects.has(path) ? new Response(objects.get(path) as never).body : null),
  remove: async () => {},
}
const dashboard = useDashboard({ overrides: { storage: uploads } })

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true })
const link = (page: Page, name: string) => page.getByRole('link', { name, exact: true })
const rows = (page: Page) => page.locator('tbody tr')
const searchOf = (page: Page) => new URL(page.url()).searchParams
const focusedRow = (page: Page) => page.evaluate<string>("document.activeElement.closest('tr')?.innerText ?? ''")

it('leads from a workspace without traces to projects, their runs and charts', async () => {
  const tenant = await newTenant()
  const { page, problems } = await dashboard.open(tenant, '/traces')
  await button(page, 'Hide this notice').click()
  await page.getByText('LANGSMITH_TRACING=true').waitFor()
  await check(page, 'traces-empty')
  await fillProject(tenant)
  await page.reload()
  await link(page, 'support-agent').waitFor()
  await check(page, 'traces')
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await rows(page).nth(23).waitFor()
  await page.getByRole('figure').filter({ hasText: 'Error rate' }).getByText('13 % in 7 days').waitFor()
  await check(page, 'runs')

  await button(page, 'Failed').click()
  await rows(page).nth(3).waitFor({ state: 'detached' })
  expect(searchOf(page).get('status')).toBe('error')
  await button(page, 'All').click()
  await page.keyboard.press('/')
  await page.keyboard.type('shoes meta:user=alan latency:>1s')
  // A slow machine shows the matches of a part of it, too.
  await expect.poll(() => rows(page).allInnerTexts()).toEqual(Array(2).fill(expect.stringContaining('blue shoes')))
  await page.keyboard.press('Escape')
  await page.keyboard.type('tokens:many')
  await page.getByText('is ignored').waitFor()
  await page.keyboard.press('Escape')
  await button(page, 'All runs').click()
  await page.getByLabel('Type').selectOption({ label: 'Tool' })
  await rows(page).filter({ hasText: 'find_order' }).nth(23).waitFor()
  await expect.poll(() => rows(page).count()).toBe(24)

  // The fault of a filter is shown at its field, and the address keeps the filter.
  await button(page, 'Filter language').click()
  await page.getByLabel('Filter', { exact: true }).fill('eq(nothing, 1)')
  await page.keyboard.press('Enter')
  await page.getByText('there is no field').waitFor()
  await check(page, 'runs-filter')
  await page.getByLabel('Filter', { exact: true }).fill('eq(status, "error")')
  await page.keyboard.press('Enter')
  await rows(page).nth(3).waitFor({ state: 'detached' })
  await page.reload()
  await expect.poll(() => rows(page).count()).toBe(3)
  await page.locator('main').focus()
  await page.keyboard.press('j')
  await page.keyboard.press('j')
  expect(await focusedRow(page)).toContain('find_order')

  await page.keyboard.press('m')
  await page.getByRole('figure').filter({ hasText: 'Tokens' }).locator('canvas').waitFor()
  await check(page, 'trace-charts')
  const latency = page.getByRole('figure').filter({ has: page.getByRole('heading', { name: 'Latency' }) })
  await latency.getByText('Table').click()
  await latency.getByRole('row').nth(2).waitFor()
  expect(problems).toEqual([])
})

it('shows a trace as a tree that keys move through, with messages, errors, metadata and feedback', async () => {
  const tenant = await newTenant()
  const { id, roots } = await fillProject(tenant, { traces: 4 })
  const { page, problems } = await dashboard.open(tenant, `/traces/${id}/${roots[3]}`)
  await button(page, 'Hide this notice').click()
  await page.getByRole('region', { name: 'Error' }).getByText('The warehouse did not answer').waitFor()
  await check(page, 'trace-failed')
  const tree = page.getByRole('tree')
  const selected = tree.getByRole('treeitem', { selected: true })
  await tree.focus()
  await page.keyboard.press('ArrowDown')
  await selected.filter({ hasText: 'find similar questions' }).waitFor()
  await page.keyboard.press('ArrowLeft')
  await selected.filter({ hasText: '1 below' }).waitFor()
  expect(await tree.getByRole('treeitem').count()).toBe(5)
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('ArrowRight')
  await selected.filter({ hasText: 'embed' }).waitFor()
  await page.keyboard.press('n')
  await selected.filter({ hasText: 'find_order' }).filter({ hasText: 'Failed' }).waitFor()
  await page.keyboard.press('k')
  await selected.filter({ hasText: 'ChatModel' }).waitFor()
  const output = page.getByRole('region', { name: 'Output' })
  await output.getByRole('heading', { name: 'Assistant' }).waitFor()
  await output.getByText('Calls find_order').waitFor()
  await page.getByText('gpt-4.1').waitFor()
  await check(page, 'trace-model')
  await page.reload()
  await selected.filter({ hasText: 'ChatModel' }).waitFor()

  await tree.focus()
  await page.keyboard.press('Home')
  await page.getByRole('tab', { name: 'Metadata' }).click()
  await check(page, 'trace-metadata')
  await page.getByRole('tab', { name: 'Feedback' }).click()
  await page.getByLabel('Key', { exact: true }).fill('helpful')
  await page.getByLabel('Score').fill('often')
  await button(page, 'Give feedback').click()
  await page.getByText('must be a number').waitFor()
  await page.getByLabel('Score').fill('0.25')
  await page.getByLabel('Comment').fill('It gave up.')
  await button(page, 'Give feedback').click()
  await page.getByRole('tab', { name: 'Feedback 1' }).waitFor()
  await page.getByText('It gave up.').waitFor()
  await check(page, 'trace-feedback')
  await button(page, 'Share').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Share', exact: true }).click()
  const address = await page.getByText('/public/').textContent()
  expect((await dashboard.app.fetch(new Request(address!), {})).status).toBe(200)
  await button(page, 'End sharing').click()
  await page.getByText('/public/').waitFor({ state: 'detached' })
  expect((await dashboard.app.fetch(new Request(address!), {})).status).toBe(404)
  expect(problems.filter(problem => !/422/.test(problem))).toEqual([])
})

it('reads what is stored apart from a run when it is asked for, and downloads attachments', async () => {
  const tenant = await newTenant()
  const lines = Array.from({ length: 8_000 }, (_, i) => ({ number: i, text: '<b>one</b> of many' }))
  const [run] = toRuns(
    {
      name: 'report',
      type: 'chain',
      from: 0,
      to: 900,
      inputs: { lines },
      outputs: { done: true },
      attachments: [{ name: 'note.html', type: 'text/html', bytes: new TextEncoder().encode('<script>1</script>') }],
    },
    new Date(),
    'reports',
  )
  await append(tenant, [post(run!)], dashboard.app)
  expect(objects.size).toBe(2)
  const { page, problems } = await dashboard.open(tenant, `/traces/run/${run!.id}`)
  const input = page.getByRole('region', { name: 'Input' })
  await input.getByText('stored separately').waitFor()
  await input.getByRole('button', { name: 'Show the input' }).click()
  await input.getByText('<b>one</b> of many').first().waitFor()
  await input.getByRole('button', { name: 'Show all lines' }).click()
  await expect.poll(() => input.locator('pre').textContent()).toContain('"number": 7999')
  const attachment = page.getByRole('link', { name: 'note.html' })
  const downloading = page.waitForEvent('download')
  await attachment.click()
  expect((await downloading).suggestedFilename()).toBe('note.html')
  // Chromium cancels the download of a page on a busy machine, so its bytes are read here.
  const address = await attachment.getAttribute('href')
  const response = await dashboard.app.fetch(new Request(new URL(address!, dashboard.origin)), {})
  expect([response.status, response.headers.get('content-disposition'), await response.text()]).toEqual([
    200,
    'attachment',
    '<script>1</script>',
  ])
  expect(problems).toEqual([])
})

it('shows the traces of a deployment on its page', async () => {
  const tenant = await newTenant()
  const { id } = await newDeployment(tenant, { name: 'shop' })
  const { page, problems } = await dashboard.open(tenant, `/deployments/${id}`)
  await button(page, 'Hide this notice').click()
  await page.getByRole('heading', { name: 'shop' }).waitFor()
  await page.keyboard.press('t')
  await page.getByText('Wrap a function').waitFor()
  await check(page, 'deployment-traces-empty')
  await fillProject(tenant, { name: 'shop', traces: 3 })
  await page.reload()
  await rows(page).nth(2).waitFor()
  await check(page, 'deployment-traces')
  await link(page, 'Open the project').click()
  await link(page, 'Deployment').waitFor()
  expect(problems).toEqual([])
})

it('scrolls through a trace of 2,000 runs, and finds one of them', async () => {
  const tenant = await newTenant()
  const trace = await appendLongTrace(tenant, 2_000)
  const { page, problems } = await dashboard.open(tenant, '/traces')
  const [{ id }] = (await tenant.get('/sessions?name=long')).body
  await page.goto(`${dashboard.origin}/ui/${tenant.tenant_id}/traces/${id}/${trace}`)
  await page.getByText('2,000 runs').first().waitFor()
  const tree = page.getByRole('tree')
  const items = page.locator('[role=treeitem]')
  await expect.poll(() => items.count()).toBe(2_000)
  await tree.focus()
  await page.keyboard.press('End')
  await page.locator('[role=treeitem][aria-selected=true]', { hasText: 'step 1998' }).waitFor()
  // Scrolling costs the layout of the blocks in view, and nothing is rendered again.
  const { laidOut, changes } = await page.evaluate<{ laidOut: number; changes: number }>(`(async () => {
    const tree = document.querySelector('[role=tree]')
    const rows = [...tree.querySelectorAll('[role=treeitem]')]
    tree.scrollTop = 0
    const observer = new MutationObserver(() => {})
    observer.observe(tree, { subtree: true, childList: true, attributes: true, characterData: true })
    let laidOut = 0
    for (let i = 0; i < 60; i++) {
      tree.scrollTop += 400
      await new Promise(resolve => requestAnimationFrame(() => requestAnimationFrame(resolve)))
      laidOut = Math.max(laidOut, rows.filter(row => row.checkVisibility({ contentVisibilityAuto: true })).length)
    }
    return { laidOut, changes: observer.takeRecords().length }
  })()`)
  expect(laidOut).toBeGreaterThan(0)
  expect(laidOut).toBeLessThan(400)
  expect(changes).toBe(0)
  await page.keyboard.press('/')
  await page.keyboard.type('step 1242')
  await items.nth(3).waitFor({ state: 'detached' })
  await items.locator('span > span:first-child', { hasText: /^step 1242$/ }).waitFor()
  await check(page, 'trace-long')
  expect(problems).toEqual([])
})
