// The state of a listener in words, and the commands that start its agent (pure).
import type { Item } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Listener = Item<'GET /v2/listeners'>

/** The same limit as in the obstacles of a deployment. */
const SILENT_AFTER_MS = 2 * 60_000

export function stateOfListener({ last_seen_at }: Pick<Listener, 'last_seen_at'>, now: number): State {
  if (last_seen_at === null) return { word: 'Waiting for an agent', tone: 'busy', shape: 'queued' }
  return now - Date.parse(last_seen_at) < SILENT_AFTER_MS
    ? { word: 'Connected', tone: 'ok', shape: 'check' }
    : { word: 'Silent', tone: 'warn', shape: 'triangle' }
}

export const describeType = ({ compute_type, compute_config }: Pick<Listener, 'compute_type' | 'compute_config'>) => {
  const { k8s_namespaces: namespaces } = compute_config
  if (compute_type === 'local') return 'Machine'
  return namespaces.length > 0 ? `Kubernetes, ${namespaces.join(', ')}` : 'Kubernetes, any namespace'
}

/** Before its agent has connected, only the kind of the listener is known. */
export const describeAbilities = ({ compute_type, engine }: Pick<Listener, 'compute_type' | 'engine'>): string =>
  engine
    ? `Its agent runs the ${engine} engine. What that refuses is refused when a deployment is planned.`
    : compute_type === 'k8s'
      ? 'Runs images as Kubernetes objects. Builds sources if the agent has an image builder.'
      : 'Builds sources, and runs them as processes, or as containers if the agent has a container engine.'

export type Engine = 'process' | 'container' | 'kubernetes'
export const enginesOf = ({ compute_type }: Pick<Listener, 'compute_type'>): Engine[] =>
  compute_type === 'k8s' ? ['kubernetes'] : ['process', 'container']

type AgentCommand = { engine: Engine; origin: string; namespaces: string[]; key: string | undefined }
export function agentCommand({ engine, origin, namespaces, key }: AgentCommand): string {
  const settings = [
    `SLIPWAY_URL=${origin}`,
    `SLIPWAY_LISTENER_KEY=${key ?? 'YOUR-KEY'}`,
    ...(engine === 'kubernetes' ? [`K8S_NAMESPACES=${namespaces.join(',') || 'apps'}`] : []),
  ]
  const options = engine === 'process' ? '' : ` -- --engine ${engine}`
  return `${settings.join(' ')} npm run agent${options}`
}
