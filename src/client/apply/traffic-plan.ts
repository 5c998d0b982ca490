// Plans the traffic settings and the rollout that a document of a deployment declares. Left out, both stay.
import { GATE_DEFAULTS, STEP_DEFAULTS } from '../../protocol/defaults.ts'
import type { Change } from '../changes.ts'
import type { Reply } from '../client.ts'
import type { DeclaredDocument } from './documents.ts'
import { findSecret, isSame, MASK, type Planner } from './planner.ts'

type Deployment = Pick<Reply<'GET /v2/deployments/{deployment_id}'>, 'traffic' | 'traffic_settings' | 'rollout'>
type Settings = Deployment['traffic_settings']
type Rollout = NonNullable<Deployment['rollout']>
type DeclaredGates = { [Name in 'errors' | 'latency' | 'restarts']?: object | null } & {
  webhook?: { url: string } | null
  scores?: object[]
}
export type SettingsPlan = {
  changes: Change[]
  /** Returns the version after it. */
  run: (client: Planner['client'], deployment_id: string, version: string | undefined) => Promise<string | undefined>
}

const DEFAULTS: Settings = { starts_at: 100, sticky: null }
const FRESH: Deployment = { traffic: [], traffic_settings: DEFAULTS, rollout: null }

/** `stored`: as it is, or undefined for a deployment that is still to be created. */
export function planTraffic(planner: Planner, document: DeclaredDocument, stored: Deployment = FRESH): SettingsPlan {
  const settings = document.traffic && ({ ...DEFAULTS, ...document.traffic } as Settings)
  const hasNewSettings = settings !== undefined && !isSame(settings, stored.traffic_settings)
  const rollout = document.rollout && withSecret(planner, document, stored.rollout)
  const hasNewRollout = document.rollout !== undefined && !isSame(rollout ?? null, stored.rollout)
  const changes: Change[] = [
    ...(hasNewSettings ? [{ path: 'traffic', before: stored.traffic_settings, after: settings }] : []),
    ...(hasNewRollout ? [{ path: 'rollout', before: stored.rollout, after: shown(rollout) }] : []),
  ]
  return {
    changes,
    async run(client, deployment_id, version) {
      const params = { deployment_id }
      const headers = (etag: string | undefined) => (etag === undefined ? {} : { 'If-Match': etag })
      const setTraffic = async () => {
        if (!hasNewSettings) return
        const body = { ...settings, shares: sharesOf(stored) }
        const call = { params, body, headers: headers(version) }
        version = (await client.answer('PUT /v2/deployments/{deployment_id}/traffic', call)).etag
      }
      const setRollout = async () => {
        if (!hasNewRollout) return
        const call = { params, headers: headers(version) }
        const path = '/v2/deployments/{deployment_id}/rollout' as const
        version = rollout
          ? (await client.answer(`PUT ${path}`, { ...call, body: rollout as never })).etag
          : (await client.answer(`DELETE ${path}`, call)).etag
      }
      // A policy and a first share exclude each other.
      for (const step of rollout ? [setTraffic, setRollout] : [setRollout, setTraffic]) await step()
      return version
    },
  }
}

/** Without them, a revision beside the one that serves would get all traffic. */
const sharesOf = ({ traffic }: Deployment) =>
  traffic.length > 1 || traffic.some(({ name }) => name !== null)
    ? traffic.map(({ revision_id, share, name }) => ({ revision_id, share, name }))
    : []

/** With the defaults of the API for members that are left out, and the secret of the file or the stored one. */
function withSecret(planner: Planner, document: DeclaredDocument, stored: Rollout | null) {
  const { steps, gates } = document.rollout as { steps: object[]; gates?: DeclaredGates }
  const { errors = null, latency = null, restarts = null, webhook = null, scores = [] } = gates ?? {}
  const isKept = stored?.gates.webhook?.url === webhook?.url && stored?.gates.webhook?.secret != null
  const secret = webhook && (isKept ? MASK : (findSecret(planner, document, 'rollout.secret') ?? null))
  return {
    steps: steps.map(step => ({ ...STEP_DEFAULTS, ...step })),
    gates: {
      errors: errors && { ...GATE_DEFAULTS.errors, ...errors },
      latency: latency && { ...GATE_DEFAULTS.latency, ...latency },
      restarts: restarts && { ...GATE_DEFAULTS.restarts, ...restarts },
      webhook: webhook && { url: webhook.url, secret },
      scores: scores.map(gate => ({ ...GATE_DEFAULTS.scores, ...gate })),
    },
  }
}

const shown = (rollout: ReturnType<typeof withSecret> | null | undefined) =>
  rollout?.gates.webhook
    ? { ...rollout, gates: { ...rollout.gates, webhook: { url: rollout.gates.webhook.url } } }
    : (rollout ?? null)
