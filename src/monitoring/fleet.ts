// Reads the fleet, each answer in one trip: of the organization of the caller, and for instance admins of all.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import journal from '../../drizzle/meta/_journal.json' with { type: 'json' }
import { LISTENER_SILENT_AFTER } from '../hosting/deployments/lifecycle.ts'
import { type Row, run, textArray } from '../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../kernel/db/rows.ts'
import { type Ctx, verb } from '../kernel/http/context.ts'
import { pageBounds, toListPage } from '../kernel/http/paging.ts'
import { VERSION } from '../kernel/version.ts'
import { deploymentStatuses } from '../protocol/parts.schema.ts'
import { judgeSkew } from '../protocol/versions.ts'
import type { Page } from '../protocol/wire.ts'
import type * as schema from './fleet.schema.ts'

type Scope = 'organization' | 'installation'
const DAY_MS = 86_400_000
const LATE_AFTER_MS = 600_000

/** Null stands for the caller's organization. Otherwise the database requires a person with an address of these. */
const adminsOf = ({ config }: Ctx, scope: Scope): SQL =>
  scope === 'installation' ? textArray(config.instanceAdmins) : sql`null::text[]`

const SILENT = sql`${LISTENER_SILENT_AFTER} * interval '1 millisecond'`
const sinceYesterday = ({ platform }: Ctx): SQL =>
  sql`${new Date(platform.clock.now() - DAY_MS).toISOString()}::timestamptz`
const hasTraces = ({ config }: Ctx): boolean => config.clickHouse === undefined

const skewOf = (version: string | null) => judgeSkew(version, VERSION)

type Counts = Record<(typeof deploymentStatuses)[number], number>
const toStatuses = (counts: Partial<Counts>): Counts =>
  Object.fromEntries(deploymentStatuses.map(status => [status, counts[status] ?? 0])) as Counts
const sumOf = (counts: Partial<Counts>): number => Object.values(counts).reduce((sum, count) => sum + count, 0)

type Fleet = z.output<typeof schema.Fleet>
type SweepRun = Omit<Fleet['sweeps'][number], 'is_late'>
type FleetRow = Omit<Fleet, 'version' | 'migration' | 'agents' | 'sweeps'> & {
  applied: string | null
  agents: { version: string | null; listeners: number }[]
  sweeps: SweepRun[]
}

const toSweep = (now: number) => (sweep: SweepRun) => {
  const done_at = toIsoTime(sweep.done_at)
  const is_late = done_at === null || now - Date.parse(done_at) > LATE_AFTER_MS
  return { ...sweep, is_late, done_at, failed_at: toIsoTime(sweep.failed_at) }
}

async function readFleet(ctx: Ctx, scope: Scope): Promise<Fleet> {
  const statement = sql<Row>`
    select read_fleet(${adminsOf(ctx, scope)}, ${SILENT}, ${sinceYesterday(ctx)}, ${hasTraces(ctx)})`
  const [text] = requireRow(await run(ctx, statement), 'organization_not_found')
  const { applied, agents, sweeps, deployments, usage, ...fleet } = JSON.parse(text as string) as FleetRow
  return {
    version: VERSION,
    migration: journal.entries.findLast(({ when }) => when <= Number(applied))?.tag ?? null,
    ...fleet,
    agents: agents.map(agent => ({ ...agent, skew: skewOf(agent.version) })),
    deployments: { ...deployments, by_status: toStatuses(deployments.by_status) },
    sweeps: sweeps.map(toSweep(ctx.platform.clock.now())),
    usage: hasTraces(ctx) ? usage : null,
  }
}

const MAX_OFFSET = 2 ** 31 - 1

/** The start and the size of the page, as the last arguments of a function, which takes integers. */
const pageArguments = (page: Page): SQL => {
  const { limit, offset } = pageBounds(page)
  const skipped = Math.min(offset, MAX_OFFSET)
  return sql`${page.cursor?.at ?? null}::timestamptz, ${page.cursor?.id ?? null}::uuid, ${limit}, ${skipped}`
}

async function readRows<Stored extends { created_at: string; id: string }, Wire>(
  ctx: Ctx,
  call: SQL,
  page: Page,
  toWire: (row: Stored) => Wire,
) {
  const rows = await run(ctx, sql<Row>`select to_json(r) from ${call} r`)
  return toListPage(
    rows.map(([text]) => JSON.parse(text as string) as Stored),
    page,
    toWire,
  )
}

type Organization = z.output<typeof schema.FleetOrganization>
const readOrganizations = (ctx: Ctx, page: Page) =>
  readRows(
    ctx,
    sql`read_fleet_organizations(${adminsOf(ctx, 'installation')}, ${pageArguments(page)})`,
    page,
    (row: Organization) => ({ ...row, created_at: toIsoTime(row.created_at) }),
  )

type Workspace = z.output<typeof schema.FleetWorkspace>
type WorkspaceRow = Omit<Workspace, 'deployments'> & { deployments: Partial<Counts> }
const readWorkspaces = (ctx: Ctx, page: Page, scope: Scope) =>
  readRows(
    ctx,
    sql`read_fleet_workspaces(
      ${adminsOf(ctx, scope)}, ${sinceYesterday(ctx)}, ${hasTraces(ctx)}, ${pageArguments(page)}
    )`,
    page,
    (row: WorkspaceRow) => ({
      ...row,
      deployments: { total: sumOf(row.deployments), by_status: toStatuses(row.deployments) },
      created_at: toIsoTime(row.created_at),
    }),
  )

type Listener = z.output<typeof schema.FleetListener>
const readListeners = (ctx: Ctx, page: Page, scope: Scope) =>
  readRows(
    ctx,
    sql`read_fleet_listeners(${adminsOf(ctx, scope)}, ${SILENT}, ${pageArguments(page)})`,
    page,
    (row: Omit<Listener, 'skew'>) => ({
      ...row,
      skew: skewOf(row.version),
      last_seen_at: toIsoTime(row.last_seen_at),
      created_at: toIsoTime(row.created_at),
    }),
  )

export const readOwnFleet = verb('fleet-admin:read', ctx => readFleet(ctx, 'organization'))
export const listOwnWorkspaces = verb('fleet-admin:read', (ctx, page: Page) =>
  readWorkspaces(ctx, page, 'organization'),
)
export const listOwnListeners = verb('fleet-admin:read', (ctx, page: Page) => readListeners(ctx, page, 'organization'))

/** No role makes an instance admin, so these need what every member may do, and the database requires the rest. */
export const readInstallation = verb('organization:read', ctx => readFleet(ctx, 'installation'))
export const listOrganizations = verb('organization:read', readOrganizations)
export const listAllWorkspaces = verb('organization:read', (ctx, page: Page) =>
  readWorkspaces(ctx, page, 'installation'),
)
export const listAllListeners = verb('organization:read', (ctx, page: Page) => readListeners(ctx, page, 'installation'))
