// With the real agent, secrets of builds, applications and failures reach neither logs nor status messages.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import type { ControlPlane } from '../proof/kit/control-plane.ts'
import { waitFor } from '../support/commands.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'
import { copyEmptyDatabase } from '../support/migrated-postgres.ts'
import { closeAgents, FAST_LIMITS, makeTempFolder, requestRouter, runAgent } from '../support/process-engine.ts'

const TOKEN = `to"ken&${randomBytes(12).toString('base64')}`
const KEY = `-----BEGIN KEY-----\n${randomBytes(90).toString('base64')}\n-----END KEY-----`
const secrets = [
  { name: 'TOKEN', value: TOKEN },
  { name: 'KEY', value: KEY },
]
/** Prints its environment in every form that must be masked. */
const APP = `
const environment = JSON.stringify(process.env)
const printSecrets = () => {
  for (const value of [process.env.TOKEN, process.env.KEY, process.env.DATABASE_URI]) {
    console.log('raw', value)
    console.log('json', JSON.stringify({ value }))
    console.log('base64', Buffer.from(value).toString('base64'), Buffer.from('xy' + value).toString('base64url'))
    console.log('hex', Buffer.from(value).toString('hex'))
    console.log('form', new URLSearchParams({ value }).toString(), encodeURIComponent(value))
    console.log('x'.repeat(16 * 1024 - 20) + value)
  }
  console.log('all', environment)
  process.stdout.write('unfinished ' + process.env.TOKEN)
}
printSecrets()
process.on('SIGTERM', () => { printSecrets(); process.exit() })
process.stdout.write('\\nprinted\\n')
if (process.env.CRASH) { console.error('gave up with ' + process.env.TOKEN); process.exit(1) }
process.stdout.write('half ' + process.env.TOKEN.slice(0, 9))
const finish = () => console.log(process.env.TOKEN.slice(9) + ' whole')
const answer = (req, res) => res.end('ok', () => req.url === '/finish' && finish())
require('node:http').createServer(answer).listen(process.env.PORT)
`

let plane: ControlPlane
let home: string
beforeAll(async () => {
  plane = await startKitControlPlane()
  home = makeTempFolder()
  fs.mkdirSync(join(home, 'templates/leaky'), { recursive: true })
  const configuration = { start_command: 'node main.cjs', build_command: 'env; env | base64; env | base64 -w 0' }
  fs.writeFileSync(join(home, 'templates/leaky/slipway.json'), JSON.stringify(configuration))
  fs.writeFileSync(join(home, 'templates/leaky/main.cjs'), APP)
})
afterAll(async () => {
  await closeAgents()
  await plane.stop()
  fs.rmSync(home, { recursive: true, force: true })
})

/** A line of an encoded text may end or begin within a secret: fewer characters of it are not recognized there. */
const SHOWN_LENGTH = 15

/** Parts of a value and of its encodings. A log must contain none of them. */
function piecesOf(value: string): string[] {
  const encodings = value.split('\n').flatMap(line => {
    const bytes = Buffer.from(line)
    const shifted = [0, 1, 2].map(shift =>
      Buffer.concat([Buffer.alloc(shift), bytes])
        .toString('base64')
        .slice(4, -4),
    )
    const encoded = [line, bytes.toString('hex'), encodeURIComponent(line), ...shifted]
    return encoded.flatMap(text => [text, text.replaceAll('+', '-').replaceAll('/', '_')])
  })
  return encodings.flatMap(text => Array.from(text, (_, i) => text.slice(i, i + SHOWN_LENGTH)))
}

test('a build and an application that print their environment leak no secret, even if the agent restarts', async () => {
  const { call, listener_id, listener_key } = await plane.newWorkspace()
  const agentHome = join(home, 'agent')
  await copyEmptyDatabase(agentHome)
  const startAgent = () => {
    const engine = new ProcessEngine({ home: agentHome, port: 0, limits: FAST_LIMITS })
    const control = createControlPlaneClient({ url: plane.url, key: listener_key })
    const options = { agent_id: 'one', version: 'test', home: agentHome, wait: 2, logToOperator: () => {} }
    return runAgent(new Agent({ ...options, engine, control, templates: join(home, 'templates') }))
  }
  const agent = startAgent()
  const { status, body } = await call('POST', '/v2/deployments', {
    name: 'leaky',
    source: 'internal_template',
    source_revision_config: {},
    secrets,
    source_config: { template_id: 'leaky', listener_id, resource_spec: { db_storage_gi: 1 } },
  })
  expect(status, JSON.stringify(body)).toBe(201)
  const deployment = `/v2/deployments/${body.id}`
  await waitFor(async () => (await call('GET', deployment)).body.active_revision_id)
  const revision = (await call('GET', deployment)).body.active_revision_id
  const logs = async (path: string): Promise<string[]> => {
    const { body: page } = await call('POST', `/v1/projects/${body.id}/${path}`, { limit: 1000, order: 'asc' })
    return page.logs.map(({ message }: { message: string }) => message)
  }
  const countPrints = (lines: string[]) => lines.filter(line => line === 'printed').length
  const build = await waitFor(async () => {
    const lines = await logs(`revisions/${revision}/build_logs`)
    return lines.some(line => line.startsWith('Built in')) ? lines : undefined
  })
  expect(build).toContain('TOKEN=********')
  const deploy = await waitFor(async () => {
    const lines = await logs('deploy_logs')
    return countPrints(lines) === 1 ? lines : undefined
  })
  expect(deploy.filter(line => line === 'raw ********')).toHaveLength(3)

  // A line that is shown before it is finished.
  await waitFor(async () => (await logs('deploy_logs')).includes('half '))
  await waitFor(async () => (await requestRouter((await call('GET', deployment)).body.url, '/finish')).status === 200)
  const finished = await waitFor(async () => (await logs('deploy_logs')).find(line => line.endsWith(' whole')))
  expect(finished).toBe('******** whole')

  // The next agent adopts the application, and ships its lines only once it knows the secrets.
  await agent.close({ stop: false })
  startAgent()
  const { uri } = JSON.parse(fs.readFileSync(join(agentHome, 'process', body.id, 'database.json'), 'utf8'))
  const crash = { secrets: [...secrets, { name: 'CRASH', value: 'yes' }] }
  expect((await call('PATCH', deployment, crash)).status).toBe(200)
  const failed = await waitFor(async () => {
    const { body: page } = await call('GET', `${deployment}/revisions`)
    return page.resources.find(({ status }: { status: string }) => status === 'DEPLOY_FAILED')
  })
  expect(failed.status_message).toContain('gave up with ********')
  await call('DELETE', deployment)
  const texts = [...build, ...deploy, ...(await logs('deploy_logs')), failed.status_message].join('\n')
  const leaked = [TOKEN, KEY, new URL(uri).password]
    .flatMap(piecesOf)
    .filter(piece => piece.length === SHOWN_LENGTH && texts.includes(piece))
  expect(leaked).toEqual([])
})
