// The logs and metrics of a deployment in a real browser.
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { expect, it } from 'vitest'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { getPlatformAgent, newDeployment, reportRevision } from '../../support/deployments.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'

const dashboard = useDashboard()

const timeOf = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const linesFrom = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => ({ message: `line ${first + i}`, timestamp: timeOf(first + i) }))

// By selectors of CSS: with 10,000 lines, the others search 60,000 elements.
const rowsOf = (page: Page) => page.locator('[id^="line-"]')
const hasState = (page: Page, text: string) => page.locator('#log-state').getByText(text, { exact: true }).waitFor()
const pressButton = (page: Page, name: string) => page.locator('button', { hasText: name }).click()
const readMessages = (page: Page) =>
  page.evaluate<string[]>("[...document.querySelectorAll('[id^=line-]')].map(row => row.lastElementChild.textContent)")
const lastLine = (page: Page, message: string) => rowsOf(page).last().getByText(message, { exact: true }).waitFor()
const numbersUpTo = (last: number) => Array.from({ length: last }, (_, i) => `line ${i + 1}`)

/** Headless pages are never hidden by themselves. */
const setHidden = (page: Page, hidden: boolean) =>
  page.evaluate(`(() => {
    Object.defineProperty(document, 'hidden', { configurable: true, value: ${hidden} })
    document.dispatchEvent(new Event('visibilitychange'))
  })()`)

it('follows 10,000 lines of a log, also after its tab was hidden, finds text in them and links to a line', async () => {
  const { tenant, id, openLog } = await newLoggedDeployment({ name: 'shop' })
  const send = openLog()
  for (let first = 1; first < 9_800; first += 980) await send(linesFrom(first, 980))
  const { page, problems, context } = await dashboard.open(tenant, `/deployments/${id}/logs`)
  await hasState(page, '9,800 lines read')
  await lastLine(page, 'line 9800')

  await setHidden(page, true)
  await hasState(page, 'Paused while the tab is hidden')
  await send(linesFrom(9_801, 150))
  await setHidden(page, false)
  await lastLine(page, 'line 9950')
  await send(linesFrom(9_951, 49))
  await lastLine(page, 'line 9999')
  expect(await readMessages(page)).toEqual(numbersUpTo(9_999))
  const scrolled = '(log => log.scrollHeight - log.scrollTop - log.clientHeight)(document.querySelector("[role=log]"))'
  await expect.poll(() => page.evaluate<number>(scrolled)).toBeLessThan(12)

  // A person who reads further up is not moved, but told what arrives.
  await page.locator('[role=log]').hover()
  await page.mouse.wheel(0, -600)
  await page.locator('label', { hasText: 'Follow' }).locator('input:not(:checked)').waitFor()
  await send([{ message: '\u001b[31mred\u001b[0m <b>line</b>', level: 'ERROR', timestamp: timeOf(10_000) }])
  await page.locator('button', { hasText: '1 new line' }).waitFor()
  await page.keyboard.press('End')
  await rowsOf(page).last().getByText('red <b>line</b>').waitFor()

  await page.keyboard.press('/')
  await page.keyboard.type('line 77')
  await page.locator('[role=status]', { hasText: /^111 lines$/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.locator('[role=status]', { hasText: /^1 of 111$/ }).waitFor()
  await page.locator('#line-77[aria-current]').waitFor()
  expect(new URL(page.url()).search).toBe('?find=line+77&line=77')
  await pressButton(page, 'Error')
  await hasState(page, '1 line read')
  expect(new URL(page.url()).searchParams.get('level')).toBe('error')
  expect(await readMessages(page)).toEqual(['red <b>line</b>'])
  await page.close()

  // A link to a line that is far back shows it, before the newest lines are read.
  const linked = await context.newPage()
  await linked.goto(`${dashboard.origin}/ui/deployments/${id}/logs?line=1234`)
  await linked.locator('#line-1234[aria-current]').getByText('line 1234').waitFor()
  await hasState(linked, '10,000 lines read')
  expect((await readMessages(linked)).slice(0, -1)).toEqual(numbersUpTo(9_999))
  // The page scrolls back to the line after the newest lines are drawn.
  const readTop = async () => (await linked.locator('#line-1234').boundingBox())!.y
  await expect.poll(async () => Math.floor((await readTop()) / 800)).toBe(0)

  const saving = linked.waitForEvent('download')
  await linked.locator('button[aria-label=Download]').click()
  const lines = readFileSync(await (await saving).path(), 'utf8').split('\n')
  expect([lines.length, lines[0], lines.at(-2)]).toEqual([
    10_001,
    `${timeOf(1)} INFO r1 deploy line 1`,
    `${timeOf(10_000)} ERROR r1 deploy red <b>line</b>`,
  ])
  expect(problems).toEqual([])
}, 60_000)

it('explains a failed build, and plots metrics with a table behind each chart', async () => {
  const tenant = await newTenant()
  const { id, latest_revision_id: first } = await newDeployment(tenant, { name: 'shop' })
  await reportRevision({ deployment_id: id, revision_id: first }, 'deployed')
  await tenant.patch(`/v2/deployments/${id}`, { source_config: { build_command: 'npm run build' } })
  const { body } = await tenant.post(`/v2/deployments/${id}/revisions`, {})
  const second = { deployment_id: id, revision_id: body.id as string }
  await reportRevision(second, 'building')
  const agent = await getPlatformAgent()
  const log = { ...second, kind: 'build', stream: crypto.randomUUID(), from: 0 }
  const messages = ['Building: npm run build', 'transforming', 'error: "a" is not exported by b.js', 'at b.js:4']
  const lines = messages.map((message, i) => ({ message, level: 'INFO', timestamp: timeOf(i) }))
  const { agent_id, fence } = agent
  await agent.post('/v1/sync/logs', { agent_id, fence, ...log, lines })
  const minute = Math.floor(Date.now() / 60_000) * 60_000
  const copies = [{ copy: '1', running: true, restarts: 0, memory_bytes: 3 * 2 ** 20 }]
  const points = [3, 2, 1].map(ago => ({
    deployment_id: id,
    revision_id: first,
    copies,
    at: new Date(minute - ago * 60_000).toISOString(),
  }))
  expect((await agent.post('/v1/sync/metrics', { agent_id, fence, points })).body).toEqual({ refused: [] })

  const { page, problems } = await dashboard.open(tenant, `/deployments/${id}/logs`)
  await rowsOf(page).last().waitFor()
  await reportRevision(second, 'failed', { message: 'The command `npm run build` ended with exit code 1.' })
  await page.getByRole('heading', { name: /failed: r2/ }).waitFor()
  const reason = page
    .locator('section')
    .filter({ has: page.getByRole('heading', { name: /failed: r2/ }) })
    .last()
  await reason.getByText(/^Build command/).waitFor()
  await reason.getByText('Changed since r1, the last that was deployed').waitFor()
  await reason
    .getByText(/build command/)
    .first()
    .waitFor()
  await check(page, 'logs')
  await reason.getByRole('link', { name: 'Open this line in the log' }).click()
  await page.locator('#line-3[aria-current]').waitFor()

  await page.getByRole('log').focus()
  await page.keyboard.press('m')
  const memory = page.getByRole('figure').filter({ has: page.getByRole('heading', { name: 'Memory' }) })
  await memory.getByText('3 MiB', { exact: true }).first().waitFor()
  const cpu = page.getByRole('figure').filter({ has: page.getByRole('heading', { name: 'CPU' }) })
  await cpu.getByText('does not measure this').waitFor()
  await memory.getByRole('img').focus()
  await page.keyboard.press('Home')
  await memory.getByText('–', { exact: true }).first().waitFor()
  await memory.getByText('Table').click()
  const table = memory.getByRole('table')
  const measured = table.getByRole('row').filter({ hasText: '3 MiB' })
  await measured.nth(2).waitFor()
  expect(await measured.count()).toBe(3)
  await page.getByRole('figure').filter({ hasText: 'Deploys per day' }).getByText('2, 1 failed').waitFor()
  await check(page, 'metrics')
  await page.getByRole('button', { name: '7 days' }).click()
  await page.waitForURL(/range=7d/)
  await memory.getByText('3 MiB', { exact: true }).first().waitFor()
  expect(problems).toEqual([])
})
