// The repositories that an integration reaches: as its host lists them, kept for a minute with the integration's own row.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, verb, withoutRateLimit } from '../kernel/context.ts'
import { type Row, run } from '../kernel/db.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { requireRow } from '../kernel/rows.ts'
import { setTokenColumns } from './credentials.ts'
import type { HostToken, Integration, ListingPage, Repository } from './githost.ts'
import { createGithost } from './githost-factory.ts'
import type * as schema from './schema.ts'

type Input = z.output<typeof schema.IntegrationRef> & z.output<typeof schema.RepositoryQuery>
type StoredListing = { integration: Integration; pages: ListingPage[]; fresh: boolean }

const FRESH_TIME = sql`interval '60 seconds'`

export const listRepositories = verb('deployments:read', async (ctx, input: Input) => {
  const kept = await readListing(ctx, input.integration_id)
  const { state } = kept.integration
  if (state !== 'active') throw fail(`integration_${state}`)
  return selectRepositories(kept.fresh ? kept.pages : await refreshListing(ctx, kept), input)
})

async function readListing(ctx: Ctx, id: string): Promise<StoredListing> {
  const query = sql<Row>`select to_json(i)::text, l.pages::text, l.fetched_at > clock() - ${FRESH_TIME}
    from integrations i left join integration_listings l on l.integration_id = i.id and l.tenant_id = current_tenant()
    where i.id = ${id}::uuid and i.tenant_id = current_tenant()`
  const [integration, pages, fresh] = requireRow(await run(ctx, query), 'integration_not_found') as [
    string,
    string | null,
    boolean | null,
  ]
  return { integration: JSON.parse(integration), pages: pages === null ? [] : JSON.parse(pages), fresh: fresh === true }
}

/** Not journaled: that somebody looked is no change that anyone made. */
async function refreshListing(ctx: Ctx, { integration, pages: known }: StoredListing): Promise<ListingPage[]> {
  const { pages, minted } = await fetchPages(ctx, integration, known)
  const unchanged = pages.length === known.length && pages.every((page, i) => page === known[i])
  const tokens = await setTokenColumns(ctx.sealer, integration, minted)
  await run(
    withoutRateLimit(ctx),
    sql`with token as (update integrations i set ${tokens} where ${isSameInstallation(integration)} and ${minted !== null})
    insert into integration_listings as l (integration_id, organization_id, tenant_id, pages, fetched_at)
    select i.id, i.organization_id, i.tenant_id, ${unchanged ? '[]' : JSON.stringify(pages)}::json, clock() from integrations i
    where ${isSameInstallation(integration)}
    on conflict (integration_id) do update set fetched_at = excluded.fetched_at,
      pages = ${unchanged ? sql`l.pages` : sql`excluded.pages`}`,
  )
  return pages
}

async function fetchPages(
  ctx: Ctx,
  integration: Integration,
  known: ListingPage[],
): Promise<{ pages: ListingPage[]; minted: HostToken | null }> {
  const host = createGithost(ctx, ctx.origin, integration)
  try {
    return { pages: await host.repositories(known), minted: host.mintedToken() }
  } catch (error) {
    // A token that was kept may have been ended at the host before its time.
    const kept = integration.token !== null && host.mintedToken() === null
    if (!kept || !(error instanceof Failure) || error.code !== 'githost_refused') throw error
    return fetchPages(ctx, { ...integration, token: null }, known)
  }
}

/** Unless it was meanwhile connected anew. */
const isSameInstallation = ({ id, installation_id }: Integration): SQL =>
  sql`i.id = ${id}::uuid and i.installation_id = ${installation_id} and i.tenant_id = current_tenant()`

/** A repository that moved from page to page while they were read stands on two. */
function selectRepositories(
  pages: ListingPage[],
  { integration_id, name_contains, limit }: Input,
): schema.GithostRepository[] {
  const all = new Map(pages.flatMap(({ repositories }) => repositories.map(one => [one.id, one] as const)))
  const part = name_contains?.toLowerCase() ?? ''
  return [...all.values()]
    .filter(({ name }) => name.toLowerCase().includes(part))
    .sort(compareByName)
    .slice(0, limit)
    .map(({ id, name, owner, url, default_branch }) => ({
      host_integration_id: integration_id,
      ...{ id, name, owner, url, default_branch },
    }))
}

const compareText = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0)
const compareByName = (one: Repository, other: Repository) =>
  compareText(one.owner.toLowerCase(), other.owner.toLowerCase()) ||
  compareText(one.name.toLowerCase(), other.name.toLowerCase())
