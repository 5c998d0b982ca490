// Our own agent with an engine that runs nothing, for `npm run protocol-kit -- node protocol-kit/our-agent.ts`.
import { createHash } from 'node:crypto'
import { Agent } from '../src/agent/agent.ts'
import { createControlPlaneClient } from '../src/agent/control-plane/client.ts'
import { FakeEngine } from './fake-engine.ts'

const { SLIPWAY_URL = '', SLIPWAY_LISTENER_KEY = '', SLIPWAY_AGENT_HOME: home = process.cwd() } = process.env
const agent = new Agent({
  // A restart in the same folder keeps the id.
  agent_id: `fake-${createHash('sha256').update(home).digest('hex').slice(0, 12)}`,
  version: 'fake',
  home,
  engine: new FakeEngine(),
  control: createControlPlaneClient({ url: SLIPWAY_URL, key: SLIPWAY_LISTENER_KEY }),
  logToOperator: () => {},
})
process.on('SIGTERM', async () => {
  await agent.close({ stop: true })
  process.exit(0)
})
await agent.run()
