// Runs for tests, as the store takes them.
import { type Ctx, createKeylessCaller } from '../../src/kernel/http/context.ts'
import type { Permission } from '../../src/kernel/permissions.ts'
import { getServices, type Tenant } from './app.ts'
import { toOperation } from './trace-operations.ts'

const toSegment = (time: Date, id: string): string =>
  `${time.toISOString().replace(/[-:.]/g, '').replace('Z', '000Z')}${id}`

/** Makes a trace of a root and, below it, children of the given names. */
export function newTrace(children: string[] = [], start = new Date()) {
  const id = crypto.randomUUID()
  const root = {
    id,
    trace_id: id,
    dotted_order: toSegment(start, id),
    name: 'chat',
    run_type: 'llm' as const,
    start_time: start.toISOString(),
  }
  const below = children.map((name, i) => {
    const child = crypto.randomUUID()
    const time = new Date(start.getTime() + i + 1)
    const dotted_order = `${root.dotted_order}.${toSegment(time, child)}`
    return { ...root, id: child, parent_run_id: id, dotted_order, name, start_time: time.toISOString() }
  })
  return { root, children: below, runs: [root, ...below] }
}

type Workspace = Pick<Tenant, 'organization_id' | 'tenant_id'>

/** A context that needs no key. */
export function contextOf(
  { organization_id: organization, tenant_id: tenant }: Workspace,
  permission: Permission,
): Ctx {
  const actor = { kind: 'cron', id: null, organization, tenant } as const
  return { ...createKeylessCaller(getServices(), actor, 'traces', 'http://slipway.test'), permission }
}

export async function appendRuns(workspace: Workspace, runs: Parameters<typeof toOperation>[0][]): Promise<void> {
  const ctx = contextOf(workspace, 'runs:create')
  await ctx.traces.append(
    ctx,
    runs.map(run => toOperation({ session_name: 'traced', loc: ['body'], ...run })),
  )
}

export async function projectId(tenant: Tenant, name: string): Promise<string> {
  const { body } = await tenant.get(`/sessions?name=${name}`)
  return [body.resources ?? body].flat()[0].id
}
