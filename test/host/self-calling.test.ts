// Applications that an agent runs call models with a published client, and without a key in their configuration.
import * as fs from 'node:fs'
import { join } from 'node:path'
import * as jose from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { ControlPlane } from '../proof/kit/control-plane.ts'
import { waitFor } from '../support/commands.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'
import { type ModelServer, startModelServer } from '../support/model-server.ts'
import { closeAgents, FAST_LIMITS, makeTempFolder, requestRouter, runAgent } from '../support/process-engine.ts'

/** `/token` shows the token and logs it. Any other path is the id of a model. */
const APP = `
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import OpenAI from ${JSON.stringify(import.meta.resolve('openai'))}

const readToken = () => readFile(process.env.SLIPWAY_MODEL_TOKEN_FILE, 'utf8')
async function ask(model) {
  const models = new OpenAI({ baseURL: process.env.SLIPWAY_MODELS_URL + model, apiKey: readToken, maxRetries: 0 })
  const messages = [{ role: 'user', content: 'Hello' }]
  const { choices } = await models.chat.completions.create({ model: 'small-1', messages })
  return choices[0].message.content
}
createServer(async (req, res) => {
  try {
    const token = req.url === '/token' && (await readToken())
    if (token) console.log('token', token)
    res.end(JSON.stringify(token || (await ask(req.url))))
  } catch (error) {
    res.end(JSON.stringify(error.code ?? error.message))
  }
}).listen(process.env.PORT)
`

let plane: ControlPlane
let home: string
let models: ModelServer
let workspace: Awaited<ReturnType<ControlPlane['newWorkspace']>>
let id: string
let ask: (path: string) => Promise<string>
beforeAll(async () => {
  ;[plane, models] = await Promise.all([startKitControlPlane(), startModelServer()])
  home = makeTempFolder()
  fs.mkdirSync(join(home, 'templates/calling'), { recursive: true })
  fs.writeFileSync(join(home, 'templates/calling/slipway.json'), JSON.stringify({ start_command: 'node main.mjs' }))
  fs.writeFileSync(join(home, 'templates/calling/main.mjs'), APP)
  workspace = await plane.newWorkspace()
  const { call, listener_id, listener_key } = workspace
  const agentHome = join(home, 'agent')
  const engine = new ProcessEngine({ home: agentHome, port: 0, limits: FAST_LIMITS })
  const control = createControlPlaneClient({ url: plane.url, key: listener_key })
  const options = { agent_id: 'one', version: 'test', home: agentHome, wait: 2, logToOperator: () => {} }
  runAgent(new Agent({ ...options, engine, control, templates: join(home, 'templates'), model_tokens_ms: 3000 }))
  const { body } = await call('POST', '/v2/deployments', {
    name: 'calling',
    source: 'internal_template',
    source_revision_config: {},
    secrets: [],
    source_config: { template_id: 'calling', listener_id },
  })
  id = body.id
  const { url } = await waitFor(async () => {
    const deployment = (await call('GET', `/v2/deployments/${id}`)).body
    return deployment.active_revision_id ? deployment : undefined
  })
  ask = async path => JSON.parse((await requestRouter(url, path)).body)
})
afterAll(async () => {
  await closeAgents()
  await Promise.all([plane.stop(), models.close()])
  fs.rmSync(home, { recursive: true, force: true })
})

async function saveModel(over: object): Promise<string> {
  const { call } = workspace
  const { status, body } = await call('POST', '/v1/model-configurations', {
    name: `model-${crypto.randomUUID()}`,
    provider: 'openai_compatible',
    base_url: models.url,
    model: 'small-1',
    ...over,
  })
  expect(status, JSON.stringify(body)).toBe(201)
  return body.id
}
const waitForToken = () => waitFor(async () => /^eyJ/.test(await ask('/token')) || undefined)

test('a call arrives with a token of ours for the model, and as a run in the project of the deployment', async () => {
  const { call, organization_id, tenant_id } = workspace
  await waitForToken()
  const model = await saveModel({ auth_type: 'jwt', trace_project: 'calls' })
  expect(await ask(`/${model}`)).toBe('You said: Hello')

  const { headers } = models.calls.at(-1)!
  expect(JSON.stringify(headers)).not.toContain((await ask('/token')).split('.')[2])
  expect(headers.authorization).toBeUndefined()
  const keys = jose.createRemoteJWKSet(new URL(`${plane.url}/.well-known/jwks.json`))
  const { payload } = await jose.jwtVerify(headers['x-llm-auth']!, keys, { audience: models.url })
  expect(payload).toMatchObject({ actor_type: 'deployment', sub: id, organization_id, workspace_id: tenant_id })
  expect(payload).toMatchObject({ model_provider: 'openai_compatible', model_name: 'small-1', streaming: false })

  const run = await waitFor(async () => {
    const [project] = (await call('GET', '/sessions?name=calling')).body
    const { runs } = (await call('POST', '/runs/query', { session: [project.id] })).body
    return runs.find((one: { run_type: string }) => one.run_type === 'llm')
  })
  expect(run).toMatchObject({ status: 'success', inputs: { messages: [{ role: 'user', content: 'Hello' }] } })
  expect((await call('GET', '/sessions?name=calls')).body).toEqual([])
  const { total, days } = (await call('GET', `/v1/model-usage?configuration_id=${model}`)).body
  expect([total.calls, days[0].deployment_id]).toEqual([1, id])
})

test('a model that is not open to the deployment does not exist for it', async () => {
  await waitForToken()
  const closed = await saveModel({ auth_type: 'none', deployment_ids: [] })
  expect(await ask(`/${closed}`)).toBe('model_not_found')
  const open = await saveModel({ auth_type: 'none', deployment_ids: [id] })
  expect(await ask(`/${open}`)).toBe('You said: Hello')
})

test('the token is renewed without a restart, and no log shows one', async () => {
  const { call } = workspace
  await waitForToken()
  const tokens = new Set<string>()
  await waitFor(async () => tokens.add(await ask('/token')).size > 1 || undefined)
  const lines = await waitFor(async () => {
    const { body } = await call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000, order: 'asc' })
    const messages = body.logs.map(({ message }: { message: string }) => message) as string[]
    return messages.filter(message => message.startsWith('token')).length > 1 ? messages.join('\n') : undefined
  })
  for (const token of tokens) expect(lines).not.toContain(token.split('.')[2])
})

test('a rotation ends the token, and the next one comes without a redeploy', async () => {
  const { call } = workspace
  await waitForToken()
  const model = await saveModel({ auth_type: 'none' })
  const before = await ask('/token')
  const callAs = (token: string) =>
    fetch(`${plane.url}/v1/model-proxy/${model}/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ model: 'small-1', messages: [{ role: 'user', content: 'Hello' }] }),
    }).then(async answer => [answer.status, ((await answer.json()) as { code?: string }).code])
  expect(await callAs(before)).toEqual([200, undefined])
  expect((await call('POST', `/v2/deployments/${id}/trace-key/rotation`)).status).toBe(204)
  expect(await callAs(before)).toEqual([401, 'key_revoked'])
  expect(await waitFor(async () => (await ask(`/${model}`)) === 'You said: Hello' || undefined)).toBe(true)
})
