// The repositories that an integration reaches: as its host lists them, kept for a minute with the integration's own row.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, uncounted, verb } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { found } from '../kernel/rows.ts'
import { tokenColumns } from './credentials.ts'
import { githostOf, type Integration, type Page, type Repository, type Token } from './githost.ts'
import type * as schema from './schema.ts'

type Input = z.output<typeof schema.IntegrationRef> & z.output<typeof schema.RepositoryQuery>
type Kept = { integration: Integration; pages: Page[]; fresh: boolean }

const FRESH = sql`interval '60 seconds'`

export const listRepositories = verb('deployments:read', async (ctx, input: Input) => {
  const kept = await look(ctx, input.integration_id)
  const { state } = kept.integration
  if (state !== 'active') throw fail(`integration_${state}`)
  return chosen(kept.fresh ? kept.pages : await listedAnew(ctx, kept), input)
})

async function look(ctx: Ctx, id: string): Promise<Kept> {
  const query = sql<Row>`select to_json(i)::text, l.pages::text, l.fetched_at > clock() - ${FRESH}
    from integrations i left join integration_listings l on l.integration_id = i.id and l.tenant_id = current_tenant()
    where i.id = ${id}::uuid and i.tenant_id = current_tenant()`
  const [integration, pages, fresh] = found(await run(ctx, query), 'integration_not_found') as [
    string,
    string | null,
    boolean | null,
  ]
  return { integration: JSON.parse(integration), pages: pages === null ? [] : JSON.parse(pages), fresh: fresh === true }
}

/** Not journaled: that somebody looked is no change that anyone made. */
async function listedAnew(ctx: Ctx, { integration, pages: known }: Kept): Promise<Page[]> {
  const { pages, minted } = await asked(ctx, integration, known)
  const unchanged = pages.length === known.length && pages.every((page, i) => page === known[i])
  const tokens = await tokenColumns(ctx.sealer, integration, minted)
  await run(
    uncounted(ctx),
    sql`with token as (update integrations i set ${tokens} where ${theSame(integration)} and ${minted !== null})
    insert into integration_listings as l (integration_id, organization_id, tenant_id, pages, fetched_at)
    select i.id, i.organization_id, i.tenant_id, ${unchanged ? '[]' : JSON.stringify(pages)}::json, clock() from integrations i
    where ${theSame(integration)}
    on conflict (integration_id) do update set fetched_at = excluded.fetched_at,
      pages = ${unchanged ? sql`l.pages` : sql`excluded.pages`}`,
  )
  return pages
}

async function asked(
  ctx: Ctx,
  integration: Integration,
  known: Page[],
): Promise<{ pages: Page[]; minted: Token | null }> {
  const host = githostOf(ctx, ctx.origin, integration)
  try {
    return { pages: await host.repositories(known), minted: host.minted() }
  } catch (error) {
    // A token that was kept may have been ended at the host before its time.
    const kept = integration.token !== null && host.minted() === null
    if (!kept || !(error instanceof Failure) || error.code !== 'githost_refused') throw error
    return asked(ctx, { ...integration, token: null }, known)
  }
}

/** Unless it was meanwhile connected anew. */
const theSame = ({ id, installation_id }: Integration): SQL =>
  sql`i.id = ${id}::uuid and i.installation_id = ${installation_id} and i.tenant_id = current_tenant()`

/** A repository that moved from page to page while they were read stands on two. */
function chosen(pages: Page[], { integration_id, name_contains, limit }: Input): schema.GithostRepository[] {
  const all = new Map(pages.flatMap(({ repositories }) => repositories.map(one => [one.id, one] as const)))
  const part = name_contains?.toLowerCase() ?? ''
  return [...all.values()]
    .filter(({ name }) => name.toLowerCase().includes(part))
    .sort(byName)
    .slice(0, limit)
    .map(({ id, name, owner, url, default_branch }) => ({
      host_integration_id: integration_id,
      ...{ id, name, owner, url, default_branch },
    }))
}

const order = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)
const byName = (one: Repository, other: Repository) =>
  order(one.owner.toLowerCase(), other.owner.toLowerCase()) || order(one.name.toLowerCase(), other.name.toLowerCase())
