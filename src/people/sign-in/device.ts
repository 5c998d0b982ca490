// The device authorization grant (RFC 8628): a program without a browser gets a key that a person approves in one.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import {
  looksLikeDeviceCode,
  makeKeyHint,
  newApiKey,
  newDeviceCode,
  newUserCode,
  USER_CODE_LETTERS,
} from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, run, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { commit, setClock, setSystemSettings } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { toNetworkPrefix } from '../../kernel/limits/network-prefix.ts'
import { permissionNames } from '../../kernel/permissions.ts'
import { ADMIN, VIEWER } from '../access/built-in-roles.ts'
import type * as schema from './device.schema.ts'
import type { Visit } from './visit.ts'

export const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:device_code'
const CLIENT_ID = 'slipway-cli'
/** Limits of all organizations, and of one network. */
const MAX_REQUESTS = 10_000
const MAX_REQUESTS_OF_NETWORK = 100
/** A site with IPv6 usually has a /48. */
const networkOf = (address: string | undefined): string | null =>
  address === undefined ? null : toNetworkPrefix(address, 3)

const formatUserCode = (code: string): string => `${code.slice(0, 4)}-${code.slice(4)}`
/** People type it in lower case, with other separators or none. */
const parseUserCode = (typed: string): string =>
  [...typed.toUpperCase()].filter(letter => USER_CODE_LETTERS.includes(letter)).join('')

function requireClient(client_id: string): void {
  if (client_id !== CLIENT_ID) throw fail('invalid_client')
}

/** The permissions that a program asks for. Without a scope, any. */
export function parseScope(scope: string | undefined): string[] | null {
  if (!scope) return null
  const names = scope.split(' ').filter(Boolean)
  if (names.some(name => !(permissionNames as string[]).includes(name))) throw fail('invalid_scope')
  return [...new Set(names)]
}

export async function requestDevice(
  { platform, database }: Services,
  { request, address }: { request: string; address: string | undefined },
  origin: string,
  { client_id, scope, device_name }: z.output<typeof schema.DeviceCodeRequest>,
): Promise<z.output<typeof schema.DeviceCode>> {
  requireClient(client_id)
  const permissions = parseScope(scope)
  const [deviceCode, userCode] = [newDeviceCode(), newUserCode()]
  const network = networkOf(address)
  const [, [row]] = (await runAsSystem(
    database,
    setClock(platform),
    sql<Row>`
      insert into device_requests (
        device_code_hash, user_code, device_name, permissions, client_network, client_address, user_agent
      )
      select
        ${sha256Hex(deviceCode)},
        ${userCode},
        ${device_name ?? null},
        ${permissions ? textArray(permissions) : sql`null::text[]`},
        ${network},
        from_request ->> 'client_address',
        from_request ->> 'user_agent'
      from (select ${request}::json as from_request) given
      where (select count(*) from device_requests where expires_at > clock()) < ${MAX_REQUESTS}
        and (
          select count(*)
          from device_requests
          where client_network = ${network} and expires_at > clock()
        ) < ${MAX_REQUESTS_OF_NETWORK}
      on conflict (user_code) do nothing
      returning extract(epoch from expires_at - created_at)::integer, interval_seconds`,
  )) as [unknown, Row[]]
  if (!row) throw fail('too_many_device_requests', { headers: { 'Retry-After': '10' } })
  const [expires_in, interval] = row.map(Number) as [number, number]
  const user_code = formatUserCode(userCode)
  return {
    device_code: deviceCode,
    user_code,
    verification_uri: `${origin}/device`,
    verification_uri_complete: `${origin}/device?user_code=${user_code}`,
    expires_in,
    interval,
  }
}

type Redeemed =
  | { error: Code }
  | (Omit<z.output<typeof schema.DeviceToken>, 'access_token' | 'token_type' | 'scope'> & {
      error?: never
      permissions: string[]
    })

export async function redeemDeviceCode(
  { config, platform, database }: Services,
  { requestId, request }: Visit,
  { grant_type, client_id, device_code }: z.output<typeof schema.DeviceTokenRequest>,
): Promise<z.output<typeof schema.DeviceToken>> {
  if (grant_type !== GRANT_TYPE) throw fail('unsupported_grant_type')
  requireClient(client_id)
  if (!looksLikeDeviceCode(device_code)) throw fail('invalid_grant')
  const key = newApiKey()
  const limit = config.eventsPerDay || null
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      select redeem_device_code(
        ${sha256Hex(device_code)}, ${sha256Hex(key)}, ${makeKeyHint(key)}, ${limit}::bigint
      )`,
  )) as [unknown, Row[]]
  const redeemed = JSON.parse(row![0] as string) as Redeemed
  if (redeemed.error) throw fail(redeemed.error)
  const { permissions, ...ids } = redeemed
  return { access_token: key, token_type: 'Bearer', scope: permissions.join(' '), ...ids }
}

type Ref = z.output<typeof schema.DeviceRequestRef>

export const readDeviceRequest = verb(null, async (ctx, { user_code }: Ref) => {
  const [text] = requireRow(
    await run(ctx, sql<Row>`select read_device_request(${parseUserCode(user_code)})`),
    'device_request_not_found',
  )
  if (text === null) throw fail('device_request_not_found')
  const request = JSON.parse(text as string) as z.output<typeof schema.DeviceRequest>
  return {
    ...request,
    user_code: formatUserCode(request.user_code),
    created_at: toIsoTime(request.created_at),
    expires_at: toIsoTime(request.expires_at),
  }
})

async function decide(ctx: Ctx, event: string, { user_code }: Ref, tenant: string | null, role: string | null) {
  const change = sql<Row>`
    select id, device_name, client_address, tenant_id, permissions
    from decide_device_request(${parseUserCode(user_code)}, ${tenant}::uuid, ${role}::uuid)`
  const data = sql`json_strip_nulls(json_build_object(
    'device_name', changed.device_name,
    'client_address', changed.client_address,
    'workspace_id', changed.tenant_id,
    'permissions', changed.permissions
  ))`
  requireRow(await commit(ctx, event, change, data), 'device_request_not_found')
}

export const approveDevice = verb(
  null,
  (ctx, { workspace_id, access, ...ref }: Ref & z.output<typeof schema.DeviceApproval>) =>
    decide(ctx, 'device.approved', ref, workspace_id, access === 'all' ? ADMIN : VIEWER),
)
export const denyDevice = verb(null, (ctx, ref: Ref) => decide(ctx, 'device.denied', ref, null, null))

/** A key of a person, or of a job. Others belong to the workspace, and take the permission to delete keys. */
export const revokeOwnKey = verb(null, async ctx => {
  const revocation = sql<Row>`
    select revoke_key_tree(own.id)
    from (
      select id
      from api_keys
      where id = current_actor() and setting('actor_kind') = 'key'
        and coalesce(member_id, trusted_issuer_id) is not null
    ) own`
  requireRow(await run(ctx, revocation), 'key_not_found')
})
