// Applications that an agent runs trace themselves, with published clients and without configuration.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { ControlPlane } from '../proof/kit/control-plane.ts'
import { waitFor } from '../support/commands.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'
import { closeAgents, FAST_LIMITS, makeTempFolder, requestRouter, runAgent } from '../support/process-engine.ts'

const resolved = (name: string) => JSON.stringify(import.meta.resolve(name))

/** The path of a request says with which client it is traced. `/environment` shows the names of the variables. */
const APP = `
import { createServer } from 'node:http'
import { BasicTracerProvider, BatchSpanProcessor } from ${resolved('@opentelemetry/sdk-trace-base')}
import { OTLPTraceExporter } from ${resolved('@opentelemetry/exporter-trace-otlp-proto')}

const clients = {
  langsmith: [await import(${resolved('langsmith')}), await import(${resolved('langsmith/traceable')})],
  older: [await import(${resolved('langsmith-0-7')}), await import(${resolved('langsmith-0-7/traceable')})],
}
async function answerTraced([{ Client }, { traceable }], question) {
  const client = new Client()
  const answer = traceable(async ({ question }) => ({ answer: question + '!' }), { name: 'answer', client })
  const output = await answer({ question })
  await client.awaitPendingTraceBatches()
  return output
}
async function answerWithSpan(question) {
  const processor = new BatchSpanProcessor(new OTLPTraceExporter())
  const provider = new BasicTracerProvider({ spanProcessors: [processor] })
  const span = provider.getTracer('app').startSpan('answer')
  const output = { answer: question + '!' }
  span.setAttributes({ 'input.value': JSON.stringify({ question }), 'output.value': JSON.stringify(output) })
  span.end()
  await provider.forceFlush()
  return output
}
console.log('started with', JSON.stringify(process.env))
createServer(async (req, res) => {
  const way = req.url.slice(1)
  const body =
    way === 'environment' ? Object.keys(process.env)
    : clients[way] ? await answerTraced(clients[way], way)
    : way === 'spans' ? await answerWithSpan(way) : 'ok'
  res.end(JSON.stringify(body))
}).listen(process.env.PORT)
`

let plane: ControlPlane
let home: string
let workspace: Awaited<ReturnType<ControlPlane['newWorkspace']>>
beforeAll(async () => {
  plane = await startKitControlPlane()
  home = makeTempFolder()
  fs.mkdirSync(join(home, 'templates/asking'), { recursive: true })
  fs.writeFileSync(join(home, 'templates/asking/slipway.json'), JSON.stringify({ start_command: 'node main.mjs' }))
  fs.writeFileSync(join(home, 'templates/asking/main.mjs'), APP)
  workspace = await plane.newWorkspace()
  const agentHome = join(home, 'agent')
  const engine = new ProcessEngine({ home: agentHome, port: 0, limits: FAST_LIMITS })
  const control = createControlPlaneClient({ url: plane.url, key: workspace.listener_key })
  const options = { agent_id: 'one', version: 'test', home: agentHome, wait: 2, logToOperator: () => {} }
  runAgent(new Agent({ ...options, engine, control, templates: join(home, 'templates') }))
})
afterAll(async () => {
  await closeAgents()
  await plane.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

async function deploy(name: string, over: { source_config?: object; secrets?: object[] } = {}) {
  const { call, listener_id } = workspace
  const { status, body } = await call('POST', '/v2/deployments', {
    name,
    source: 'internal_template',
    source_revision_config: {},
    secrets: over.secrets ?? [],
    source_config: { template_id: 'asking', listener_id, ...over.source_config },
  })
  expect(status, JSON.stringify(body)).toBe(201)
  const read = async () => (await call('GET', `/v2/deployments/${body.id}`)).body
  const { url } = await waitFor(async () => {
    const deployment = await read()
    return deployment.active_revision_id ? deployment : undefined
  })
  const ask = async (path: string) => JSON.parse((await requestRouter(url, path)).body)
  return { id: body.id as string, ask }
}

const ours = (names: string[]) => names.filter(name => /^(LANGSMITH|OTEL)_/.test(name)).sort()
const LANGSMITH = ['LANGSMITH_API_KEY', 'LANGSMITH_ENDPOINT', 'LANGSMITH_PROJECT', 'LANGSMITH_TRACING']
const OTEL = ['ENDPOINT', 'HEADERS', 'PROTOCOL'].map(name => `OTEL_EXPORTER_OTLP_TRACES_${name}`)

test('runs of published clients arrive in the project of the deployment, with inputs and outputs', async () => {
  const { call } = workspace
  const { id, ask } = await deploy('asking')
  expect(ours(await ask('/environment'))).toEqual([...LANGSMITH, ...OTEL])
  for (const way of ['langsmith', 'older', 'spans']) expect(await ask(`/${way}`)).toEqual({ answer: `${way}!` })

  const [project, ...others] = (await call('GET', '/sessions')).body
  expect([project.name, others]).toEqual(['asking', []])
  const { runs } = (await call('POST', '/runs/query', { session: [project.id] })).body
  const shown = runs.map(({ name, status, inputs, outputs }: Record<string, unknown>) => [
    name,
    status,
    inputs,
    outputs,
  ])
  expect(shown.reverse()).toEqual(
    ['langsmith', 'older', 'spans'].map(question => ['answer', 'success', { question }, { answer: `${question}!` }]),
  )

  const lines = await waitFor(async () => {
    const { body: page } = await call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 100, order: 'asc' })
    const messages = page.logs.map(({ message }: { message: string }) => message) as string[]
    return messages.some(message => message.startsWith('started with')) ? messages.join('\n') : undefined
  })
  expect(lines).toContain('"LANGSMITH_API_KEY":"********"')
  expect(lines).toContain('"LANGSMITH_PROJECT":"asking"')
  expect(lines).not.toMatch(/slt_/)
})

test('variables of the user win over the group that they belong to', async () => {
  const { ask } = await deploy('elsewhere', { secrets: [{ name: 'LANGSMITH_PROJECT', value: 'mine' }] })
  expect(ours(await ask('/environment'))).toEqual(['LANGSMITH_PROJECT', ...OTEL])
})

test('a deployment may be left untraced', async () => {
  const { ask } = await deploy('untraced', { source_config: { tracing: false } })
  expect(ours(await ask('/environment'))).toEqual([])
})
