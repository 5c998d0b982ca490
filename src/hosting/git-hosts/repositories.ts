// Lists the repositories of an integration. The host's listing is cached for a minute, then revalidated by ETag.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { setTokenColumns } from './credentials.ts'
import type { HostToken, Integration, ListingPage, Repository } from './githost.ts'
import { createGithost } from './githost-factory.ts'
import type * as schema from './schema.ts'

type Input = z.output<typeof schema.IntegrationRef> & z.output<typeof schema.RepositoryQuery>
type StoredListing = { integration: Integration; pages: ListingPage[]; isFresh: boolean }

const CACHE_TIME = sql`interval '60 seconds'`

export const listRepositories = verb('deployments:read', async (ctx, input: Input) => {
  const stored = await readListing(ctx, input.integration_id)
  const { state } = stored.integration
  if (state !== 'active') throw fail(`integration_${state}`)
  return selectRepositories(stored.isFresh ? stored.pages : await refreshListing(ctx, stored), input)
})

async function readListing(ctx: Ctx, id: string): Promise<StoredListing> {
  const query = sql<Row>`
    select to_json(i)::text, l.pages::text, l.fetched_at > clock() - ${CACHE_TIME}
    from integrations i
    left join integration_listings l on l.integration_id = i.id and l.tenant_id = current_tenant()
    where i.id = ${id}::uuid and i.tenant_id = current_tenant()`
  const row = requireRow(await run(ctx, query), 'integration_not_found')
  const [integration, pages, isFresh] = row as [string, string | null, boolean | null]
  return {
    integration: JSON.parse(integration),
    pages: pages === null ? [] : JSON.parse(pages),
    isFresh: isFresh === true,
  }
}

/** Writes without an event: a refreshed cache is not a change of the workspace. */
async function refreshListing(ctx: Ctx, { integration, pages: stored }: StoredListing): Promise<ListingPage[]> {
  const { pages, minted } = await fetchPages(ctx, integration, stored)
  const isUnchanged = pages.length === stored.length && pages.every((page, i) => page === stored[i])
  const tokenColumns = await setTokenColumns(ctx.sealer, integration, minted)
  const statement = sql`
    with token as (
      update integrations i
      set ${tokenColumns}
      where ${isSameInstallation(integration)} and ${minted !== null})
    insert into integration_listings as l (integration_id, organization_id, tenant_id, pages, fetched_at)
    select i.id, i.organization_id, i.tenant_id, ${isUnchanged ? '[]' : JSON.stringify(pages)}::json, clock()
    from integrations i
    where ${isSameInstallation(integration)}
    on conflict (integration_id) do update
      set fetched_at = excluded.fetched_at, pages = ${isUnchanged ? sql`l.pages` : sql`excluded.pages`}`
  await run(ctx, statement)
  return pages
}

async function fetchPages(
  ctx: Ctx,
  integration: Integration,
  stored: ListingPage[],
): Promise<{ pages: ListingPage[]; minted: HostToken | null }> {
  const host = createGithost(ctx, ctx.origin, integration)
  try {
    return { pages: await host.repositories(stored), minted: host.mintedToken() }
  } catch (error) {
    // The host may have revoked the cached token early. Retry once with a new one.
    const usedCachedToken = integration.token !== null && host.mintedToken() === null
    if (!usedCachedToken || !(error instanceof Failure) || error.code !== 'githost_refused') throw error
    return fetchPages(ctx, { ...integration, token: null }, stored)
  }
}

/** False where the integration was reconnected to another installation meanwhile. */
const isSameInstallation = ({ id, installation_id }: Integration): SQL =>
  sql`i.id = ${id}::uuid and i.installation_id = ${installation_id} and i.tenant_id = current_tenant()`

function selectRepositories(
  pages: ListingPage[],
  { integration_id, name_contains, limit }: Input,
): schema.GithostRepository[] {
  // A repository that moves between pages while they are fetched is listed twice.
  const byId = new Map(pages.flatMap(page => page.repositories.map(repository => [repository.id, repository] as const)))
  const namePart = name_contains?.toLowerCase() ?? ''
  return [...byId.values()]
    .filter(({ name }) => name.toLowerCase().includes(namePart))
    .sort(compareByOwnerAndName)
    .slice(0, limit)
    .map(({ id, name, owner, url, default_branch, archived = false, empty = false }) => ({
      host_integration_id: integration_id,
      id,
      name,
      owner,
      url,
      default_branch,
      archived,
      empty,
    }))
}

const compareText = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0)
const compareByOwnerAndName = (a: Repository, b: Repository) =>
  compareText(a.owner.toLowerCase(), b.owner.toLowerCase()) || compareText(a.name.toLowerCase(), b.name.toLowerCase())
