// The decision of a person about a client: the data of the page, and the code that the client redeems.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { newAuthorizationCode } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, textArray } from '../../kernel/db/db.ts'
import { commit, openOwnAnswer } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, credentialOf, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { ADMIN, VIEWER } from '../access/built-in-roles.ts'
import { parseScope } from '../sign-in/device.ts'
import type * as schema from './authorization.schema.ts'
import { type Client, findClient } from './clients.ts'
import { resourcesOf } from './metadata.ts'
import { describeTarget, isLoopback, isPage, matchesRedirectUri } from './redirect-uris.ts'

type Query = z.output<typeof schema.AuthorizationQuery>
/** The request as the page has shown it to the person. The client cannot change it meanwhile. */
type Shown = Pick<Query, 'redirect_uri' | 'code_challenge' | 'state'> & {
  client: Pick<Client, 'id' | 'name'>
  scope: string[] | null
  resource: string
  until: number
}

const DECISION_MS = 10 * 60_000
const PLACE = 'authorization request'

/** Clients ask for `offline_access` to get a refresh token. They get one anyway. */
const readScope = (scope: string | undefined): string[] | null => {
  const names = (scope ?? '').split(' ').filter(name => name && name !== 'offline_access')
  return parseScope(names.join(' '))
}

export function requireResource(origin: string, resource: string | undefined): string | null {
  if (resource === undefined) return null
  const found = resourcesOf(origin).find(one => one === resource.replace(/\/$/, ''))
  if (found === undefined) throw fail('invalid_target')
  return found
}

function answerUrl(origin: string, { redirect_uri, state }: Shown, answer: Record<string, string>): string {
  const url = new URL(redirect_uri)
  const parameters = { ...answer, ...(state !== undefined && { state }), iss: origin }
  for (const [name, value] of Object.entries(parameters)) url.searchParams.append(name, value)
  return url.href
}

export const readAuthorizationRequest = verb(null, async (ctx, query: Query) => {
  const scope = readScope(query.scope)
  const resource = requireResource(ctx.origin, query.resource) ?? resourcesOf(ctx.origin)[0]!
  // The person first: strangers cannot make this installation fetch a document.
  const names = scope ? textArray(scope) : sql`null::text[]`
  const [text] = requireRow(await run(ctx, sql<Row>`select read_grantable_workspaces(${names})`), 'member_required')
  const client = await findClient(ctx, ctx.origin, query.client_id)
  if (!matchesRedirectUri(client.redirect_uris, query.redirect_uri)) throw fail('invalid_redirect_uri')
  const { redirect_uri, code_challenge, state } = query
  const shown: Shown = {
    redirect_uri,
    code_challenge,
    state,
    scope,
    resource,
    client: { id: client.id, name: client.name },
    until: now(ctx) + DECISION_MS,
  }
  return {
    request: await ctx.sealer.seal(JSON.stringify(shown), credentialOf(ctx).hash, PLACE),
    client: { id: client.id, name: client.name, host: client.host },
    redirect_target: describeTarget(redirect_uri),
    is_loopback: isLoopback(redirect_uri),
    denial_url: isPage(redirect_uri) ? answerUrl(ctx.origin, shown, { error: 'access_denied' }) : null,
    workspaces: JSON.parse(text as string) as z.output<typeof schema.AuthorizationRequest>['workspaces'],
  }
})

const now = ({ platform }: Pick<Ctx, 'platform'>): number => platform.clock.now()

async function openRequest(ctx: Ctx, sealed: string): Promise<Shown> {
  const text = await ctx.sealer.open(sealed, credentialOf(ctx).hash, PLACE).catch(() => null)
  const shown = text === null ? null : (JSON.parse(text) as Shown)
  if (shown && shown.until > now(ctx)) return shown
  // Faults of the request are told to callers that exist only.
  await run(ctx, sql`select 1`)
  throw fail('authorization_request_not_found')
}

/** The code is sealed and stored with the answer, as a new key is. */
export const approveClient = verb(
  null,
  async (ctx, { request, workspace_id, access }: z.output<typeof schema.Approval>) => {
    const shown = await openRequest(ctx, request)
    const { client, scope, redirect_uri, resource, code_challenge } = shown
    const code = newAuthorizationCode()
    const caller = credentialOf(ctx).hash
    const sealed = await ctx.sealer.seal(code, caller, 'authorization_code')
    const change = sql<Row>`
      select id, client_id, client_name, redirect_uri, tenant_id, permissions, ${sealed}::text as sealed
      from approve_client(
        ${workspace_id}::uuid,
        ${access === 'all' ? ADMIN : VIEWER}::uuid,
        ${scope ? textArray(scope) : sql`null::text[]`},
        ${client.id},
        ${client.name},
        ${redirect_uri},
        ${resource},
        ${code_challenge},
        ${sha256Hex(code)}
      )`
    const data = sql`json_build_object(
      'client_id', changed.client_id,
      'client_name', changed.client_name,
      'redirect_uri', changed.redirect_uri,
      'workspace_id', changed.tenant_id,
      'permissions', changed.permissions
    )`
    const rows = (await commit(ctx, 'client.approved', change, data)) as unknown as { sealed: string }[]
    const row = requireRow(rows, 'member_required')
    const opened = await openOwnAnswer(ctx, row.sealed, 'authorization_code')
    return { redirect_url: answerUrl(ctx.origin, shown, { code: opened }) }
  },
)
