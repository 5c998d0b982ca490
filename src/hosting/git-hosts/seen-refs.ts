// The refs of a repository by SSH, as an agent saw them last.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'
import { type Failure, fail } from '../../kernel/http/errors.ts'
import type { Integration } from './githost.ts'
import type { ListedRef } from './smart-http.ts'
import type { SeenRefs } from './tables.ts'

const HEADS = 'refs/heads/'
const RETRY = { 'Retry-After': '30' }
/** Refs that were seen within this time count as those of now. */
const FRESH = sql`interval '30 seconds'`
/** A look that has begun is not asked for again at once. */
const PAUSE = sql`interval '5 seconds'`

/** SQL assignments over `followed_repositories`: the agent looks at the next poll. */
export const LOOK_SOON = sql`look_at = least(look_at, greatest(clock(), look_started_at + ${PAUSE}))`

/** For the one repository of an integration. Without effect where the control plane reads it itself. */
export const lookSoon = (integration_id: string) =>
  sql`update followed_repositories set ${LOOK_SOON} where integration_id = ${integration_id}::uuid`

/** `isCut`: a ref that is not among them may exist. */
type Seen = { refs: ListedRef[] | null; isFresh: boolean; isCut: boolean }

/** `refs` is null before the first look. Throws where the last look failed. */
export async function readSeenRefs({ database, platform }: DatabaseServices, { id }: Integration): Promise<Seen> {
  const query = sql<Row>`
    select f.seen::text, coalesce(f.seen_at > clock() - ${FRESH}, false)
    from followed_repositories f
    where f.integration_id = ${id}::uuid and f.seen is not null`
  const [, [row]] = (await runAsSystem(database, setClock(platform), query)) as [unknown, Row[]]
  if (!row) return { refs: null, isFresh: false, isCut: false }
  const seen = JSON.parse(row[0] as string) as SeenRefs
  if (seen.problem) throw fail('upstream_error', { about: seen.problem.message, headers: RETRY })
  return { refs: toListed(seen), isFresh: row[1] === true, isCut: seen.is_cut === true }
}

/** Asks for a look. The failure says to try again. */
export async function awaitLook({ database, platform }: DatabaseServices, integration: Integration): Promise<Failure> {
  await runAsSystem(database, setClock(platform), lookSoon(integration.id))
  return fail('upstream_timeout', { about: 'an agent looks at the repository first', headers: RETRY })
}

function toListed({ refs, default_branch }: SeenRefs): ListedRef[] {
  const listed = refs.map(line => {
    const [sha = '', name = ''] = line.split(' ')
    return { name, sha, peeled: null, symref: null }
  })
  const head = default_branch === null ? undefined : listed.find(({ name }) => name === HEADS + default_branch)
  const symref = default_branch === null ? null : HEADS + default_branch
  return [{ name: 'HEAD', sha: head?.sha ?? null, peeled: null, symref }, ...listed]
}
