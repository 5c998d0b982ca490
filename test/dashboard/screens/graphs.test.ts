// The tab of graphs. The server of graphs is the real one, and the agent forwards its port as agents do.
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { WebSocket as AgentSocket } from 'ws'
import type { Engine } from '../../../src/agent/engine.ts'
import { Tunnels } from '../../../src/agent/tunnels.ts'
import { openGraphs } from '../../graphs/graphs.ts'
import { newTenant } from '../../support/app.ts'
import { check, useDashboard } from '../../support/dashboard.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const dashboard = useDashboard()
let graphs: Awaited<ReturnType<typeof openGraphs>>
beforeAll(async () => {
  graphs = await openGraphs()
})
afterAll(() => graphs.close())

const PLAN = {
  provider: 'graphs',
  kind: 'graphs',
  root: '.',
  install_root: '.',
  tools: [],
  install: null,
  build: null,
  start: 'graphs',
  site: null,
  env: {},
  programs: [],
  certain: [],
  guessed: [],
  warnings: [],
}

/** A deployment whose graphs run here, with its key, and an agent that forwards its port. */
async function startServingGraphs() {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  const policy = { privileged: false, service_accounts: [], tunnels: ['forward'] }
  const { id } = await newDeployment(tenant, makeListenerDeployment(listener))
  const { changes } = await agent.poll({ policy })
  await agent.report(changes[0]!, { state: 'deployed', url: 'http://one.localhost', build_plan: PLAN } as never)
  const { body } = await tenant.get(`/v2/deployments/${id}?reveal=true`)
  const apiKey: string = body.application_key
  const { url } = await graphs.startCopy({ apiKey })
  const port = Number(new URL(url).port)
  const tunnels = new Tunnels({
    engine: {
      openForward: async () => ({ connect: async () => connect(port, '127.0.0.1') }),
    } as Partial<Engine> as Engine,
    openSocket(tunnel, { agent_id, fence }) {
      const query = new URLSearchParams({ agent_id, fence: String(fence) })
      const url = `${dashboard.socketOrigin}/v1/sync/tunnels/${tunnel}?${query}`
      return new AgentSocket(url, { headers: { 'X-Api-Key': key }, rejectUnauthorized: false }) as never
    },
    currentLease: () => ({ agent_id: agent.agent_id, fence: Number(agent.fence) }),
    openSnapshot: () => {
      throw new Error('No snapshot is asked for.')
    },
  })
  const stop = new AbortController()
  const polling = (async () => {
    while (!stop.signal.aborted) tunnels.open((await agent.poll({ wait: 1 })).tunnels ?? [])
  })()
  const end = async () => {
    stop.abort()
    await polling
    await tunnels.closeAll()
  }
  return { tenant, id: id as string, apiKey, end }
}

it('starts runs that stream, cancels them, answers an interrupt, and lists threads by their state', async () => {
  const { tenant, id, apiKey, end } = await startServingGraphs()
  try {
    const { page, problems } = await dashboard.open(tenant, `/deployments/${id}`)
    const addresses: string[] = []
    page.on('request', request => addresses.push(request.url()))
    page.on('websocket', socket => addresses.push(socket.url()))
    await page.getByRole('navigation', { name: 'Deployment', exact: true }).getByText('Graphs').click()
    await page.getByText('No threads yet').waitFor()
    const input = page.getByRole('textbox', { name: 'Input' })
    const start = page.getByRole('button', { name: 'Start run', exact: true })
    await input.fill('{"say":')
    await start.click()
    await expect.poll(() => input.getAttribute('aria-invalid')).toBe('true')
    await check(page, 'graphs-empty')

    await input.fill('{"write":["Hel","lo"],"steps":100000}')
    await start.click()
    await page.getByText('Hello', { exact: true }).waitFor()
    await check(page, 'graphs-streaming')
    await page.getByRole('button', { name: 'Cancel run', exact: true }).click()
    await page.getByText('Cancelled', { exact: true }).waitFor()

    await input.fill('{"say":"one","ask":true}')
    await start.click()
    await page.getByText('May I?', { exact: true }).waitFor()
    await check(page, 'graphs-interrupt')
    await page.getByRole('textbox', { name: 'Answer' }).fill('{"ok":true}')
    await page.getByRole('button', { name: 'Resume', exact: true }).click()
    await page.getByText('The answer is {\\"ok\\":true}.').waitFor()
    await page.getByRole('button', { name: 'Show earlier states', exact: true }).click()
    await page.getByText('Step 1, the end').click()
    const [latest] = await page.getByRole('link', { name: /^Trace of run/ }).all()
    expect(await latest!.getAttribute('href')).toMatch(/\/traces\/run\/[0-9a-f-]{36}$/)
    await check(page, 'graphs-thread')

    await page.getByRole('link', { name: 'All threads', exact: true }).click()
    await page.getByRole('row', { name: 'echo' }).waitFor()
    await page.getByRole('button', { name: 'Interrupted', exact: true }).click()
    await page.getByText('No threads in this state').waitFor()
    await page.getByRole('button', { name: 'Idle', exact: true }).click()
    await page.getByRole('row', { name: 'echo' }).waitFor()
    await check(page, 'graphs-threads')

    expect(addresses.some(address => address.startsWith('wss://'))).toBe(true)
    expect(addresses.filter(address => address.includes(apiKey))).toEqual([])
    const { body } = await tenant.get('/v2/events')
    const types = body.resources.map(({ type }: { type: string }) => type)
    // One for the test itself.
    expect(types.filter((type: string) => type === 'deployment.secrets_revealed')).toHaveLength(2)
    expect(types.filter((type: string) => type === 'tunnel.opened')).toHaveLength(1)
    expect(problems).toEqual([])
  } finally {
    await end()
  }
})
