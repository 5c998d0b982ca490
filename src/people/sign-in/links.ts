// Links that sign a member in once. The token is in the fragment of the URL, which no server or log receives.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { looksLikeLinkToken, newLinkToken, newSessionToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Database, db, type Row, runAsSystem } from '../../kernel/db/db.ts'
import { commit, openOwnAnswer, ownerOfAnswer, setSystemSettings } from '../../kernel/db/journal.ts'
import { createdMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { MemberRef } from '../access/schema.ts'
import { type SessionRow, toWire } from './sessions.ts'
import { signInLinks } from './tables.ts'
import type { Visit } from './visit.ts'

const LINK_RECORD = recordColumns(signInLinks, ['member_id', 'expires_at'])

export const linkUrl = (origin: string, token: string): string => `${origin}/sign-in#${token}`

/** The token is sealed and stored with the answer, as that of a new key. */
export const createLink = verb(
  'organization:manage-members',
  async (ctx, { member_id }: z.output<typeof MemberRef>) => {
    const token = newLinkToken()
    const sealed = await ctx.sealer.seal(token, ownerOfAnswer(ctx), 'sign_in_link')
    const { id, expires_at } = signInLinks
    const change = db
      .insert(signInLinks)
      .values({
        organization_id: sql`current_organization()`,
        member_id: sql`require_signable_member(${member_id}::uuid)`,
        token_hash: sha256Hex(token),
      })
      .returning({
        id,
        expires_at,
        member_id: signInLinks.member_id,
        sealed: sql<string>`${sealed}::text`.as('sealed'),
      })
    const changes = { changes: createdMembers(LINK_RECORD) }
    const rows = await commit(ctx, 'sign_in_link.created', change, { member_id }, changes)
    const row = requireRow(rows, 'member_not_found')
    return {
      id: row.id,
      member_id: row.member_id,
      url: linkUrl(ctx.origin, await openOwnAnswer(ctx, row.sealed, 'sign_in_link')),
      expires_at: toIsoTime(row.expires_at),
    }
  },
)

/** Creates a link for commands of the operator. Null if the organization has no such member. */
export async function createOperatorLink(
  database: Database,
  { organization_id, email }: { organization_id: string; email: string },
): Promise<string | null> {
  const token = newLinkToken()
  const [[row]] = (await runAsSystem(
    database,
    sql<Row>`
      insert into sign_in_links (organization_id, member_id, token_hash)
      select organization_id, id, ${sha256Hex(token)}
      from members
      where organization_id = ${organization_id}::uuid and email = ${email}
      returning id`,
  )) as [Row[]]
  return row ? token : null
}

/** Returns the new session and its token. */
export async function useLink({ config, platform, database }: Services, { requestId, request }: Visit, token: string) {
  if (!looksLikeLinkToken(token)) throw fail('sign_in_link_invalid')
  const sessionToken = newSessionToken()
  const limit = config.eventsPerDay || null
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      select to_json(s)
      from use_sign_in_link(${sha256Hex(token)}, ${sha256Hex(sessionToken)}, ${limit}::bigint) s
      where s.id is not null`,
  )) as [unknown, Row[]]
  if (!row) throw fail('sign_in_link_invalid')
  const session = toWire({ ...(JSON.parse(row[0] as string) as SessionRow), is_current: true })
  return { session, token: sessionToken }
}
