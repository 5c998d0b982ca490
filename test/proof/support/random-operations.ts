// Random operations of many tenants with each other's ids. Whatever is requested, nothing of another tenant may be
// returned or changed.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { loadOperations } from '../../../src/app.ts'
import { type Database, runAsSystem } from '../../../src/kernel/db/db.ts'
import type { KeyedOperation, Operation } from '../../../src/kernel/http/routes.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { makePicker, makeRandom } from './random.ts'

const operations = await loadOperations()

type App = { fetch(request: Request): Response | Promise<Response>; database: Database }
type Tenant = { key: string; own: string; ids: Record<string, string[]> }
type OperationOptions = {
  app: App
  tenants: number
  operations: number
  seed: number
  progress?: (done: number) => void
}

type OperationTotals = { sent: number; succeeded: number; swapped: number; foreign: string[]; broken: string[] }

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g
const tenantOperations = operations.filter(one => one.kind !== 'open').filter(({ path }) => path.startsWith('/v2/'))

export async function runRandomOperations({
  app,
  tenants: count,
  operations: total,
  seed,
  progress,
}: OperationOptions): Promise<OperationTotals> {
  const pick = makePicker(makeRandom(seed))
  const owner = new Map<string, Tenant>()
  const tenants: Tenant[] = []
  const result: OperationTotals = { sent: 0, succeeded: 0, swapped: 0, foreign: [], broken: [] }

  /** An id belongs to the tenant whose answer first named it. */
  const recordId = (tenant: Tenant, name: string, id: string) => {
    if (owner.has(id)) return
    owner.set(id, tenant)
    tenant.ids[name] = [...(tenant.ids[name] ?? []).slice(-30), id]
  }

  async function sendRequest(self: Tenant, operation: KeyedOperation, ids: Tenant): Promise<void> {
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => pick(ids.ids[name] ?? [ids.own]))
    const search = makeQuery(operation, ids)
    const schema = operation.kind === 'json' ? operation.body : undefined
    const body = schema && JSON.stringify(swapIds(makeBody(schema), ids))
    const tenant = pick([self, self, self, ids]).own
    const request = new Request(`http://slipway.test${path}${search}`, {
      method: operation.method.toUpperCase(),
      headers: { 'X-Api-Key': self.key, 'X-Tenant-Id': tenant, 'Content-Type': 'application/json' },
      ...(body && { body }),
    })
    const response = await app.fetch(request)
    const text = await response.text()
    result.sent++
    if (ids !== self) result.swapped++
    const outcome = `${operation.id} answered ${response.status}`
    // Foreign servers cannot be reached here.
    const canFail = operation.kind === 'json' && operation.callsExternalServers && response.status === 502
    if (response.status >= 500 && !canFail) result.broken.push(outcome)
    if (response.status < 300) result.succeeded++
    const sent = `${path}${search}${body ?? ''}`
    for (const [id] of text.matchAll(UUID)) {
      const tenant = owner.get(id)
      if (tenant && tenant !== self && !sent.includes(id)) result.foreign.push(`${outcome} with ${id}`)
    }
    // An operation with a foreign id in its path can succeed only by touching what it names.
    if (ids !== self && response.status < 300 && /\{/.test(operation.path)) result.foreign.push(outcome)
    if (response.status === 201) recordDeployment(self, JSON.parse(text))
  }

  const recordDeployment = (self: Tenant, body: Record<string, unknown>) => {
    if (typeof body.latest_revision_id !== 'string') return
    recordId(self, 'deployment_id', body.id as string)
    recordId(self, 'revision_id', body.latest_revision_id)
  }

  const create = tenantOperations.find(({ id }) => id === 'createDeployment')!
  for (let i = 0; i < count; i++) {
    const admin = await bootstrap(app.database, { organization: `org-${crypto.randomUUID()}` })
    const tenant: Tenant = { key: admin.api_key, own: admin.tenant_id, ids: {} }
    tenants.push(tenant)
    for (const [name, id] of Object.entries(admin)) if (/^[\da-f-]{36}$/.test(id)) recordId(tenant, name, id)
    for (let n = 0; n < 3; n++) await sendRequest(tenant, create, tenant)
  }
  const runWorker = async () => {
    while (result.sent < total) {
      const self = pick(tenants)
      const others = tenants.filter(tenant => tenant !== self)
      const operation = pick(tenantOperations)
      await sendRequest(self, operation, pick([self, pick(others)]))
      progress?.(result.sent)
    }
  }
  await Promise.all(Array.from({ length: 4 }, runWorker))
  result.foreign.push(...(await findCrossedRows(app.database)))
  return result
}

/** The example of the document, with a unique name so that it can be created. */
function makeBody(body: z.ZodType): Record<string, unknown> {
  const { example = {} } = (body.meta() ?? {}) as { example?: Record<string, unknown> }
  return { ...example, ...('name' in example && { name: `app-${crypto.randomUUID()}` }) }
}

/** Ids of that tenant wherever the body has a member for one. */
function swapIds(body: Record<string, unknown>, { ids }: Tenant): Record<string, unknown> {
  const members = Object.entries(body).map(([name, value]) => [name, ids[name]?.at(-1) ?? value])
  return Object.fromEntries(members)
}

function makeQuery({ query }: Operation, { ids }: Tenant): string {
  // A request that waits would block the others.
  if (query && 'timeout' in query.shape) return '?timeout=0'
  if (!query || !('deployment_ids' in query.shape)) return ''
  return `?deployment_ids=${(ids.deployment_id ?? []).slice(-5).join()}`
}

/** Rows of one tenant that refer to another's, and events that another tenant's key caused. */
async function findCrossedRows(database: Database): Promise<string[]> {
  const foreignDeployments = sql`deployments p on p.id = c.deployment_id where c.tenant_id <> p.tenant_id`
  const counts = {
    revisions: sql`select count(*) from revisions c join ${foreignDeployments}`,
    secrets: sql`select count(*) from deployment_secrets c join ${foreignDeployments}`,
    projects: sql`select count(*) from projects c join ${foreignDeployments}`,
    actors: sql`
      select count(*)
      from revisions c join api_keys k on k.id = c.actor_id
      where c.organization_id <> k.organization_id`,
    events: sql`
      select count(*)
      from events e join api_keys k on k.id = e.actor_id
      where e.organization_id <> k.organization_id`,
    subjects: sql`
      select count(*)
      from events e join deployments d on d.id = e.subject_id
      where e.tenant_id <> d.tenant_id`,
  }
  const rows = await runAsSystem(database, ...Object.values(counts))
  return Object.keys(counts).flatMap((name, i) => {
    const count = Number((rows[i] as string[][])[0]![0])
    return count > 0 ? [`${count} ${name} refer to another tenant`] : []
  })
}
