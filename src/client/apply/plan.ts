// Plans what makes a workspace as its documents declare it. Nothing is written before all of it is planned.
import type { Client } from '../client.ts'
import { findWorkspace } from '../export.ts'
import { planDeployment, planPolicy } from './deployment-plan.ts'
import {
  checkDocuments,
  type DeclaredDocument,
  faultOf,
  integrationName,
  KINDS,
  type Kind,
  listenerName,
  titleOf,
} from './documents.ts'
import {
  type ApplyPlan,
  collect,
  type Done,
  digestOf,
  idKey,
  mapInParts,
  type Named,
  type Planned,
  type Planner,
  type PlanOptions,
  type State,
  type Step,
} from './planner.ts'
import { planProvider } from './provider-plan.ts'
import { planDeletions } from './prune-plan.ts'
import { planSchedule } from './schedule-plan.ts'
import {
  planHost,
  planListener,
  planRole,
  planTagKey,
  planTagValue,
  planWebhook,
  planWorkspace,
} from './workspace-plan.ts'

const PLANNERS: Record<Kind, (planner: Planner, document: DeclaredDocument) => Promise<Planned>> = {
  Workspace: planWorkspace,
  Role: planRole,
  Listener: planListener,
  TagKey: planTagKey,
  TagValue: planTagValue,
  Provider: planProvider,
  Deployment: planDeployment,
  PreviewPolicy: planPolicy,
  Schedule: planSchedule,
  Webhook: planWebhook,
  CustomHost: planHost,
}

/** A plan with faults is incomplete and must not be applied. */
export async function planApply(
  client: Client,
  documents: DeclaredDocument[],
  options: PlanOptions = {},
): Promise<ApplyPlan> {
  const faults = checkDocuments(documents)
  if (faults.length > 0) return { steps: [], faults, digest: '' }
  const { signal } = options
  const workspace = await findWorkspace(client, { workspace: options.workspace, signal })
  if (!workspace) throw new Error('Name the workspace: the key is of the organization.')
  const ids: Named = new Map()
  const state = await readState(client, documents, ids, options)
  const faulty = new Set<DeclaredDocument>()
  const addFault: Planner['addFault'] = (document, path, message) => {
    faulty.add(document)
    faults.push(faultOf(document, path, message))
  }
  const hasFault = (document: DeclaredDocument) => faulty.has(document)
  const planner: Planner = { client, signal, options, documents, workspace, state, ids, addFault, hasFault }
  // Sorted by name, so the digest does not depend on the files.
  const ordered = KINDS.flatMap(kind =>
    documents.filter(one => one.kind === kind).toSorted((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)),
  )
  const steps = await mapInParts(ordered, async document =>
    toStep(document, await PLANNERS[document.kind](planner, document)),
  )
  const deletions = options.prune && options.owner ? await planDeletions(planner, options.owner) : []
  const deleted = await Promise.all(deletions.map(one => toStep(one, { action: 'delete', ...one })))
  const all = [...steps, ...deleted]
  const digest = await digestOf(all.map(one => [titleOf(one), one.action, one.digest]))
  return { steps: all, faults, digest }
}

async function toStep({ kind, name }: Pick<DeclaredDocument, 'kind' | 'name'>, planned: Planned): Promise<Step> {
  const { action = 'nothing', changes = [], secrets = [], warnings = [], basis = null, run } = planned
  return {
    kind,
    name,
    action,
    changes,
    secrets,
    warnings,
    digest: await digestOf(action === 'nothing' ? null : [action, basis]),
    run: async () => {
      const done: Done = {}
      if (action !== 'nothing') await run?.(done)
      return done
    },
  }
}

async function readState(
  client: Client,
  documents: DeclaredDocument[],
  ids: Named,
  { signal, prune }: PlanOptions,
): Promise<State> {
  const has = (...kinds: Kind[]) => documents.some(({ kind }) => kinds.includes(kind))
  const names = (member: 'listener' | 'integration' | 'tags') => documents.some(one => one[member] !== undefined)
  const readIf = async <T>(condition: boolean, read: () => Promise<T[]>): Promise<T[]> => (condition ? read() : [])
  const remember = (kind: Kind, name: string, id: string) => void ids.set(idKey(kind, name), id)
  const [roles, listeners, keys, providers, deployments, webhooks, hosts, integrations] = await Promise.all([
    readIf(has('Role'), () => collect(client.list('GET /orgs/current/roles', { query: { limit: 100 }, signal }))),
    readIf(has('Listener') || names('listener'), () =>
      collect(client.list('GET /v2/listeners', { query: { limit: 100 }, signal })),
    ),
    readIf(has('TagKey', 'TagValue') || names('tags'), () =>
      collect(client.list('GET /v2/tag-keys', { query: { limit: 100 }, signal })),
    ),
    readIf(has('Provider'), () => client.call('GET /v2/auth/providers', { signal })),
    readIf(has('Deployment', 'PreviewPolicy', 'Schedule', 'Webhook') || prune === true, () =>
      collect(client.list('GET /v2/deployments', { query: { limit: 100 }, signal })),
    ),
    readIf(has('Webhook'), () => collect(client.list('GET /v2/webhooks', { query: { limit: 100 }, signal }))),
    readIf(has('CustomHost'), () => collect(client.list('GET /v2/custom-hosts', { query: { limit: 100 }, signal }))),
    readIf(names('integration'), () => client.call('GET /v1/integrations/forge/githost/install', { signal })),
  ])
  const values = await mapInParts(keys, ({ id }) =>
    collect(client.list('GET /v2/tag-keys/{tag_key_id}/values', { params: { tag_key_id: id }, signal })),
  )
  for (const [i, { id, key }] of keys.entries()) {
    remember('TagKey', key, id)
    for (const value of values[i]!) remember('TagValue', `${key}=${value.value}`, value.id)
  }
  for (const one of listeners) remember('Listener', listenerName(one), one.id)
  for (const one of integrations) ids.set(`Integration ${integrationName(one)}`, one.id)
  const live = deployments.filter(({ status }) => status !== 'AWAITING_DELETE')
  for (const { id, name } of live) remember('Deployment', name, id)
  return {
    roles: new Map(roles.map(one => [one.display_name, one])),
    listeners: new Map(listeners.map(one => [listenerName(one), one])),
    providers: new Set(providers.map(({ provider_id }) => provider_id)),
    deployments: new Map(live.map(({ id, name }) => [name, id])),
    webhooks,
    hosts: new Set(hosts.map(({ host }) => host)),
  }
}
