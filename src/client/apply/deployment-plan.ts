// Plans deployments and their preview policies. The server plans what it will change, and its digest binds the write.

import type { Change } from '../changes.ts'
import type { CallOptions, Reply } from '../client.ts'
import { ApiError } from '../errors.ts'
import { type DeclaredDocument, specOf } from './documents.ts'
import {
  addMissingSecret,
  addServerFaults,
  changesOfNew,
  type Deployment,
  type Done,
  findId,
  findSecret,
  isSame,
  MASK,
  ownerOf,
  type Planned,
  type Planner,
  requireId,
  type SecretChange,
} from './planner.ts'
import { planRequestLogs } from './request-logs-plan.ts'
import { planTraffic } from './traffic-plan.ts'

/** Members of `source_config` that the API can clear: a document that leaves them out removes them. */
const CLEARABLE = ['custom_url', 'root_directory', 'install_command', 'build_command'] as const
/** A document that leaves out a database, a Redis or disks keeps them: their data would be out of reach. */
const isStorage = (name: string, stored: Members) =>
  /^(db|redis)_/.test(name) || (/^volume/.test(name) && hasDisks(stored.volumes as Members[] | undefined))
const hasDisks = (volumes: Members[] | undefined) => volumes?.some(volume => volume.persistentVolumeClaim != null)
type Members = Record<string, unknown>
type Secret = { name: string; value: string }

const membersOf = (value: unknown): Members => ({ ...(value as Members | null | undefined) })
const withoutNulls = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const members = Object.entries(value).filter(([, member]) => member !== null && member !== undefined)
  return Object.fromEntries(members.map(([name, member]) => [name, withoutNulls(member)]))
}
const hasMembers = (value: object) => Object.keys(value).length > 0

// ---- deployments

export async function planDeployment(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const id = planner.state.deployments.get(document.name)
  for (const [i, name] of (document.tags ?? []).entries()) findId(planner, document, ['tags', i], 'TagValue', name)
  return id === undefined ? planNewDeployment(planner, document) : planChangedDeployment(planner, document, id)
}

/** Replaces the names in the document by ids. Undefined while a named resource does not exist yet. */
function resolveConfig(planner: Planner, document: DeclaredDocument): Members | undefined {
  const { listener, integration } = document
  const config = withoutNulls(membersOf(specOf(document).source_config)) as Members
  if (listener !== undefined) {
    const id = findId(planner, document, ['listener'], 'Listener', listener)
    if (id === undefined) return undefined
    config.listener_id = id
  }
  if (integration !== undefined) {
    const id = planner.ids.get(`Integration ${integration}`)
    if (id === undefined) {
      const message = `There is no git host ${integration}. Connect it first: integrations hold credentials`
      planner.addFault(document, ['integration'], message)
      return undefined
    }
    config.integration_id = id
  }
  return config
}

async function planNewDeployment(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal, state, ids } = planner
  const secrets: Secret[] = (document.secrets ?? []).map((name, i) => {
    const value = findSecret(planner, document, name)
    if (value === undefined) addMissingSecret(planner, document, ['secrets', i], name)
    return { name, value: value ?? MASK }
  })
  const owner = ownerOf(planner, document, null)
  const config = resolveConfig(planner, document)
  const spec = specOf(document)
  const bodyWith = (source_config: Members | undefined) => ({ ...spec, source_config, secrets, owner }) as never
  const run = async (done: Done, digest?: string) => {
    const body = bodyWith(config ?? resolveConfig(planner, document))
    const deployment = await client.call('POST /v2/deployments', { body, headers: { 'Plan-Digest': digest } })
    done.deployment = deployment
    state.deployments.set(document.name, deployment.id)
    ids.set(`Deployment ${document.name}`, deployment.id)
    await requestLogs.run(client, deployment.id, await traffic.run(client, deployment.id, undefined))
    await setTags(planner, document, deployment.id)
  }
  const traffic = planTraffic(planner, document)
  const requestLogs = planRequestLogs(document)
  const tags = [...traffic.changes, ...requestLogs.changes, ...tagChange(document, [])]
  const added: SecretChange[] = secrets.map(({ name }) => ({ name, change: 'added' }))
  // Missing values are faults already, and what is not created yet has no id to plan with.
  if (config && secrets.every(({ value }) => value !== MASK)) {
    try {
      const plan = await client.plan('POST /v2/deployments', { body: bodyWith(config), signal })
      return {
        action: 'create',
        secrets: plan.secrets,
        warnings: plan.warnings,
        changes: [...plan.changes.filter(({ path }) => path !== 'secrets'), ...ownerChange(null, owner), ...tags],
        basis: [plan.plan_digest, ...settingsOf(document), document.tags],
        run: done => run(done, plan.plan_digest),
      }
    } catch (error) {
      addServerFaults(planner, document, error)
    }
  }
  const { secret_references: _, ...shown } = spec
  const changes = [...changesOfNew({ ...shown, listener: document.listener, owner }), ...tags]
  return {
    action: 'create',
    changes,
    secrets: added,
    basis: [spec, document.listener, ...settingsOf(document), document.tags],
    run: done => run(done),
  }
}

async function planChangedDeployment(planner: Planner, document: DeclaredDocument, id: string): Promise<Planned> {
  const { client, signal } = planner
  const params = { deployment_id: id }
  const { reply: stored, etag } = await client.answer('GET /v2/deployments/{deployment_id}', { params, signal })
  const owner = ownerOf(planner, document, stored.owner)
  if (stored.preview !== null) planner.addFault(document, ['name'], 'is a preview, which its pull request creates')
  const spec = specOf(document)
  if (spec.source !== stored.source)
    planner.addFault(document, ['spec', 'source'], `cannot be changed: it is ${stored.source}. Delete it first`)
  const tagged = document.tags
    ? (await client.call('GET /v2/deployments/{deployment_id}/tags', { params, signal })).resources
    : []
  const tags = document.tags
    ? tagChange(
        document,
        tagged.map(({ key, value }) => `${key}=${value}`),
      )
    : []
  const patch = describePatch(planner, document, stored)
  const protection = findProtection(spec, stored)
  const traffic = planTraffic(planner, document, stored)
  const requestLogs = planRequestLogs(document, stored.request_logs)
  const base = {
    changes: [
      ...ownerChange(stored.owner, owner),
      ...protectionChange(stored, protection),
      ...traffic.changes,
      ...requestLogs.changes,
      ...tags,
    ],
    basis: [etag, owner, protection, ...settingsOf(document), document.tags] as unknown[],
  }
  let plan: Awaited<ReturnType<typeof client.plan<'PATCH /v2/deployments/{deployment_id}'>>> | undefined
  const call = { params, query: { clear: patch?.clear ?? [] }, body: (patch?.body ?? {}) as never, signal }
  if (patch && !planner.hasFault(document)) {
    try {
      plan = await client.plan('PATCH /v2/deployments/{deployment_id}', call)
    } catch (error) {
      addServerFaults(planner, document, error)
    }
  }
  const isPatched = plan !== undefined && (plan.changes.length > 0 || plan.creates_revision)
  if (!isPatched && base.changes.length === 0) return {}
  const run = async (done: Done) => {
    let version = etag
    if (isPatched) {
      const headers = { 'Plan-Digest': plan!.plan_digest, 'If-Match': version }
      const { signal: _, ...write } = call
      const answer = await client.answer('PATCH /v2/deployments/{deployment_id}', { ...write, headers })
      version = answer.etag
      if (plan!.creates_revision) done.deployment = answer.reply
    }
    if (owner !== undefined) {
      const headers = { 'If-Match': version }
      version = (await client.answer('PUT /v2/deployments/{deployment_id}/owner', { params, body: { owner }, headers }))
        .etag
    }
    if (protection !== undefined) {
      const headers = { 'If-Match': version }
      const path = 'PUT /v2/deployments/{deployment_id}/protection'
      version = (await client.answer(path, { params, body: protection, headers })).etag
    }
    await requestLogs.run(client, id, await traffic.run(client, id, version))
    if (tags.length > 0) await setTags(planner, document, id, tagged)
  }
  const shown = plan?.changes.filter(({ path }) => path !== 'secrets') ?? []
  return {
    action: 'change',
    run,
    secrets: plan?.secrets ?? [],
    warnings: plan?.warnings ?? [],
    changes: [...shown, ...base.changes],
    basis: [...base.basis, isPatched ? plan!.plan_digest : null],
  }
}

type Clear = NonNullable<CallOptions<'PATCH /v2/deployments/{deployment_id}'>['query']>['clear']
type Patch = { body: Members; clear: NonNullable<Clear> }

/** Only what differs: sending the same branch or tag again would create a revision. */
function describePatch(planner: Planner, document: DeclaredDocument, stored: Deployment): Patch | undefined {
  const spec = specOf(document)
  const config = resolveConfig(planner, document)
  if (!config) return undefined
  const differing = (wanted: Members, before: unknown): Members =>
    Object.fromEntries(
      Object.entries(withoutNulls(wanted) as Members).filter(
        ([name, value]) => !isSame(value, withoutNulls(membersOf(before)[name])),
      ),
    )
  const source_config = differing(config, stored.source_config)
  const source_revision_config = differing(membersOf(spec.source_revision_config), stored.source_revision_config)
  const references = (spec.secret_references as unknown[] | null | undefined) ?? []
  const resources = [membersOf(stored.source_config.resource_spec), membersOf(config.resource_spec)] as const
  const clear: string[] = [
    ...CLEARABLE.filter(name => config[name] == null && stored.source_config[name] != null),
    ...Object.keys(withoutNulls(resources[0]) as Members)
      .filter(name => resources[1][name] == null && !isStorage(name, resources[0]))
      .map(name => `resource_spec.${name}`),
  ]
  const secrets = listSecrets(planner, document, stored)
  if (secrets?.length === 0 && stored.secrets.length > 0) clear.push('secrets')
  const body = {
    ...(hasMembers(source_config) && { source_config }),
    ...(hasMembers(source_revision_config) && { source_revision_config }),
    ...(!isSame(references, stored.secret_references ?? []) && { secret_references: references }),
    ...(secrets && secrets.length > 0 && { secrets }),
  }
  return hasMembers(body) || clear.length > 0 ? { body, clear: clear as Patch['clear'] } : undefined
}

/** Undefined if the document names none, or exactly those that are stored and gives no value. */
function listSecrets(planner: Planner, document: DeclaredDocument, stored: Deployment): Secret[] | undefined {
  if (!document.secrets) return undefined
  const names = stored.secrets.map(({ name }) => name)
  const secrets = document.secrets.map((name, i) => {
    const value = findSecret(planner, document, name)
    if (value === undefined && !names.includes(name)) addMissingSecret(planner, document, ['secrets', i], name)
    return { name, value: value ?? MASK }
  })
  const isKept = secrets.every(({ value }) => value === MASK) && isSame(document.secrets.toSorted(), names.toSorted())
  return isKept ? undefined : secrets
}

/** The members beside `spec` that are written by requests of their own. */
const settingsOf = ({ traffic, rollout, request_logs }: DeclaredDocument) => [traffic, rollout, request_logs]

type Protection = Deployment['protection']
/** A document that names none leaves it: what is closed is not opened by leaving a line out. */
function findProtection({ protection }: Members, stored: Deployment): Protection | undefined {
  if (protection == null) return undefined
  const wanted = { open_paths: [], ...(protection as object) } as unknown as Protection
  return isSame(wanted, stored.protection) ? undefined : wanted
}
const protectionChange = (stored: Deployment, after: Protection | undefined): Change[] =>
  after === undefined ? [] : [{ path: 'protection', before: stored.protection, after }]

const ownerChange = (before: string | null, after: string | undefined): Change[] =>
  after === undefined ? [] : [{ path: 'owner', before, after }]

function tagChange({ tags = [] }: DeclaredDocument, before: string[]): Change[] {
  const [old, next] = [before.toSorted(), [...new Set(tags)].sort()]
  return isSame(old, next) ? [] : [{ path: 'tags', before: old.length > 0 ? old : null, after: next }]
}

async function setTags(
  planner: Planner,
  { tags = [] }: DeclaredDocument,
  deployment_id: string,
  stored: { tag_value_id: string; key: string; value: string }[] = [],
): Promise<void> {
  const { client } = planner
  const ids = tags.map(name => requireId(planner, 'TagValue', name))
  const added = ids.filter(id => !stored.some(one => one.tag_value_id === id))
  const params = { deployment_id }
  if (added.length > 0)
    await client.call('POST /v2/deployments/{deployment_id}/tags', { params, body: { tag_value_ids: added } })
  for (const { tag_value_id } of stored.filter(one => !ids.includes(one.tag_value_id)))
    await client.call('DELETE /v2/deployments/{deployment_id}/tags/{tag_value_id}', {
      params: { deployment_id, tag_value_id },
    })
}

// ---- preview policies

type Policy = Reply<'GET /v2/deployments/{deployment_id}/preview-policy'>
/** The defaults of the API for members that a document leaves out. */
const POLICY_DEFAULTS = {
  kinds: ['pull_requests'],
  ttl: 604_800,
  max: 10,
  forks: 'deny',
  inherited_secrets: [],
  resource_spec: null,
  database: null,
}

export async function planPolicy(planner: Planner, document: DeclaredDocument): Promise<Planned> {
  const { client, signal } = planner
  const deployment_id = findId(planner, document, ['name'], 'Deployment', document.name)
  const params = { deployment_id: deployment_id ?? '' }
  const stored = deployment_id === undefined ? undefined : await readPolicy(planner, deployment_id)
  const { secrets: _, ...spec } = specOf(document)
  const { secrets, hooks } = listPolicySecrets(planner, document, stored)
  const protection = spec.protection && { open_paths: [], ...(spec.protection as object) }
  const wanted = withoutNulls({ ...POLICY_DEFAULTS, ...spec, protection })
  const body = { ...spec, secrets, ...(hooks && { hooks }) } as never
  const names = (list: { name: string }[]) => list.map(({ name }) => name).toSorted()
  const shown = (policy: { secrets: { name: string }[] }, addresses: object | null | undefined) => ({
    secrets: names(policy.secrets),
    hooks: withoutNulls({ ...addresses, secret: null }),
  })
  if (stored && secrets.every(({ value }) => value === MASK) && (!hooks || hooks.secret === MASK)) {
    const { branches, kinds, ttl, max, forks, inherited_secrets, resource_spec, database } = stored
    const before = withoutNulls({
      ...{ branches, kinds, ttl, max, forks, inherited_secrets, resource_spec, database },
      // Left out, it stays.
      protection: spec.protection == null ? null : stored.protection,
    })
    if (
      isSame(
        { ...(wanted as object), ...shown({ secrets }, hooks) },
        { ...(before as object), ...shown(stored, stored.hooks) },
      )
    )
      return {}
  }
  const action = stored ? 'change' : 'create'
  if (planner.hasFault(document)) return { action }
  const set = async (id: string, digest?: string) =>
    client.call('PUT /v2/deployments/{deployment_id}/preview-policy', {
      params: { deployment_id: id },
      body,
      headers: { 'Plan-Digest': digest },
    })
  if (deployment_id === undefined) {
    const changes = [...changesOfNew(spec), ...(hooks ? changesOfNew({ hooks: { ...hooks, secret: undefined } }) : [])]
    const run = () => set(requireId(planner, 'Deployment', document.name))
    return {
      action,
      changes,
      secrets: secrets.map(({ name }) => ({ name, change: 'added' })),
      basis: [spec, hooks?.on_create, hooks?.on_delete],
      run,
    }
  }
  try {
    const plan = await client.plan('PUT /v2/deployments/{deployment_id}/preview-policy', { params, body, signal })
    const storedNames = stored?.secrets.map(({ name }) => name) ?? []
    const changed: SecretChange[] = plan.new_values.map(name => ({
      name,
      change: storedNames.includes(name) || (name === 'hooks.secret' && stored?.hooks) ? 'changed' : 'added',
    }))
    return {
      action,
      changes: plan.changes,
      secrets: changed,
      warnings: plan.warnings,
      basis: plan.plan_digest,
      run: () => set(deployment_id, plan.plan_digest),
    }
  } catch (error) {
    addServerFaults(planner, document, error)
    return { action }
  }
}

export async function readPolicy({ client, signal }: Planner, deployment_id: string): Promise<Policy | undefined> {
  const call = client.call('GET /v2/deployments/{deployment_id}/preview-policy', { params: { deployment_id }, signal })
  return call.catch(error => {
    if (error instanceof ApiError && error.code === 'preview_policy_not_found') return undefined
    throw error
  })
}

/** A stored value stays: nothing tells whether a given one is another. */
function listPolicySecrets(planner: Planner, document: DeclaredDocument, stored: Policy | undefined) {
  const names = stored?.secrets.map(({ name }) => name) ?? []
  const secrets = (document.secrets ?? []).map((name, i): Secret => {
    const value = names.includes(name) ? MASK : findSecret(planner, document, name)
    if (value === undefined) addMissingSecret(planner, document, ['secrets', i], name)
    return { name, value: value ?? MASK }
  })
  if (!document.hooks || !hasMembers(document.hooks)) return { secrets, hooks: undefined }
  const { on_create, on_delete } = document.hooks
  const known = [stored?.hooks?.on_create, stored?.hooks?.on_delete]
  // A stored secret must not sign for a new address.
  const isKept = stored?.hooks != null && [on_create, on_delete].every(url => url === undefined || known.includes(url))
  const secret = isKept ? MASK : findSecret(planner, document, 'hooks.secret')
  if (secret === undefined) addMissingSecret(planner, document, ['hooks'], 'hooks.secret')
  return { secrets, hooks: { ...document.hooks, secret: secret ?? MASK } }
}
