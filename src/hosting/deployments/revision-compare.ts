// Compares two revisions of a deployment: their configurations, commits, builds and errors.
import { and, inArray, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, run } from '../../kernel/db/db.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { isSshUrl } from '../../protocol/ssh-url.ts'
import { logLines } from '../logs/tables.ts'
import { compareRevisions, type RevisionContent } from './plan.ts'
import type { ComparedRevisions, RevisionComparison } from './revisions.schema.ts'
import { isInDeployment } from './revisions.ts'
import { type RevisionRow, revisionToWire } from './rows.ts'
import { revisions } from './tables.ts'

const ERROR_LINES = sql<string>`(
  select count(*)
  from ${logLines} l
  where l.revision_id = ${revisions.id}
    and l.severity >= ${levels.indexOf('ERROR')}
    and l.tenant_id = current_tenant())`

type ComparedRow = { revision: RevisionRow; errorLines: string }
type CompareInput = z.output<typeof ComparedRevisions>

const comparedStatement = prepareStatement(
  ({ deployment_id, revision_id, other_revision_id }: Placeholders<CompareInput>) =>
    db
      .select({ revision: revisions, errorLines: ERROR_LINES })
      .from(revisions)
      .where(and(inArray(revisions.id, [revision_id, other_revision_id]), isInDeployment(deployment_id))),
)

export const compareTwoRevisions = verb(
  'deployments:read',
  async (ctx, { deployment_id, revision_id, other_revision_id }: CompareInput): Promise<RevisionComparison> => {
    const ids = [revision_id, other_revision_id]
    const statement = comparedStatement({ deployment_id, revision_id, other_revision_id })
    const rows = (await run(ctx, statement)) as ComparedRow[]
    const [before, after] = ids.map(id => rows.find(({ revision }) => revision.id === id))
    if (!before || !after) {
      const unknown = ids.filter(id => rows.every(({ revision }) => revision.id !== id))
      throw fail('revision_not_found', { about: [...new Set(unknown)].join(', ') })
    }
    return {
      before: describeRevision(before),
      after: describeRevision(after),
      commits: commitRange(before.revision, after.revision),
      changes: compareRevisions(before.revision as RevisionContent, after.revision as RevisionContent),
    }
  },
)

function describeRevision({ revision, errorLines }: ComparedRow): RevisionComparison['before'] {
  const { id, number, status, created_at, states, source_revision_config } = revisionToWire(revision)
  return {
    id,
    number,
    status,
    created_at,
    commit: commitOf(revision),
    image_digest: /@(sha256:[0-9a-f]{64})$/.exec(source_revision_config.image_uri ?? '')?.[1] ?? null,
    build_seconds: states.find(state => state.status === 'BUILDING')?.seconds ?? null,
    error_lines: Number(errorLines),
  }
}

const commitOf = ({ commit, source_revision_config }: RevisionRow): string | null =>
  (commit as { sha: string } | null)?.sha ??
  (source_revision_config as { repo_commit_sha?: string }).repo_commit_sha ??
  null

/** Every git host that integrations connect has this page. */
function commitRange(before: RevisionRow, after: RevisionRow): RevisionComparison['commits'] {
  const [from, to] = [commitOf(before), commitOf(after)]
  const { repo_url, integration_id } = after.source_config as { repo_url?: string; integration_id?: string }
  if (from === null || to === null || repo_url == null) return null
  const page = `${repo_url.replace(/(\.git)?\/?$/, '')}/compare/${from}...${to}`
  const hasPage = integration_id != null && from !== to && !isSshUrl(repo_url)
  return { from, to, repo_url, compare_url: hasPage ? page : null }
}
