// A deployment that serves, with an agent that offers terminals.
import { newTenant, type Tenant } from './app.ts'
import { newDeployment } from './deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from './sync-agent.ts'

const FEATURES = ['terminal', 'tty', 'forward', 'postgres']

/** A tenant with a deployment that serves, and the agent that serves it. */
export async function newServingDeployment(tunnels: string[] | null = FEATURES, own?: Tenant) {
  const tenant = own ?? (await newTenant())
  const { listener, key, key_id } = await newListener(tenant)
  const deployment = await newDeployment(tenant, makeListenerDeployment(listener))
  const agent = makeSyncAgent(tenant, key)
  const policy = { privileged: false, service_accounts: [], ...(tunnels && { tunnels }) }
  const { changes } = await agent.poll({ policy })
  await agent.report(changes[0]!, { state: 'deployed', url: 'http://one.localhost' })
  return { tenant, listener, agent, agentKey: key, agentKeyId: key_id, id: deployment.id as string }
}

export type ServingDeployment = Awaited<ReturnType<typeof newServingDeployment>>
