// The database of a deployment, with the real control plane and agent: created, used and removed.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { waitFor } from '../support/commands.ts'
import { startKitControlPlane } from '../support/kit-control-plane.ts'
import { closeAgents, FAST_LIMITS, makeTempFolder, requestRouter, runAgent } from '../support/process-engine.ts'

const APP = `
const { createRequire } = require('node:module')
const pg = createRequire(${JSON.stringify(join(import.meta.dirname, '../../package.json'))})('pg')
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URI })
require('node:http').createServer(async (_, res) => {
  const { rows } = await pool.query('select current_user as name')
  res.end(rows[0].name)
}).listen(process.env.PORT)
`

test('a deployment starts when its database is ready, uses it, and is deleted with it', async () => {
  const home = makeTempFolder()
  const plane = await startKitControlPlane()
  const { call, listener_id, listener_key } = await plane.newWorkspace()
  const templates = join(home, 'templates')
  fs.mkdirSync(join(templates, 'asking'), { recursive: true })
  fs.writeFileSync(join(templates, 'asking/slipway.json'), JSON.stringify({ start_command: 'node main.cjs' }))
  fs.writeFileSync(join(templates, 'asking/main.cjs'), APP)
  const engine = new ProcessEngine({ home: join(home, 'agent'), port: 0, limits: FAST_LIMITS })
  const agent = new Agent({
    agent_id: 'one',
    version: 'test',
    home: join(home, 'agent'),
    engine,
    templates,
    wait: 2,
    logToOperator: () => {},
    control: createControlPlaneClient({ url: plane.url, key: listener_key }),
  })
  try {
    const { status, body } = await call('POST', '/v2/deployments', {
      name: 'asking',
      source: 'internal_template',
      source_revision_config: {},
      secrets: [],
      source_config: { template_id: 'asking', listener_id, resource_spec: { db_storage_gi: 1 } },
    })
    expect(status, JSON.stringify(body)).toBe(201)
    expect(body.status).toBe('AWAITING_DATABASE')
    runAgent(agent)
    const ready = await waitFor(async () => {
      const deployment = (await call('GET', `/v2/deployments/${body.id}`)).body
      return deployment.active_revision_id && deployment.url ? deployment : undefined
    })
    expect(ready.status).toBe('READY')
    expect((await requestRouter(ready.url)).body).toBe('app')

    await call('DELETE', `/v2/deployments/${body.id}`)
    await waitFor(async () => (await call('GET', `/v2/deployments/${body.id}`)).status === 404)
    expect(await engine.deployments()).toEqual([])
  } finally {
    await closeAgents()
    await plane.stop()
    fs.rmSync(home, { recursive: true, force: true })
  }
})
