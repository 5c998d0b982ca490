// Grants: a person who may read a deployment sees it in one browser, at one host. The router verifies the signature by
// the keys that its agent gets with each poll, so it asks nobody.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { publicJwks, signJwt } from '../../kernel/crypto/signing-keys.ts'
import { refuseUnless } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import { GRANT_TYPE } from '../../protocol/access-rules.ts'
import type { GrantIssuer } from '../../protocol/protection.schema.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { accessPage } from './bypasses.ts'
import { sealRenewal } from './renewals.ts'
import type { Grant, GrantRequest } from './schema.ts'
import { OWN_LABELS, servesHost } from './served-hosts.ts'

/** Long enough for one redirect. The clocks of the control plane and of agents may differ. */
const GRANT_SECONDS = 120
const CLOCK_TOLERANCE_SECONDS = 120
/** The time after which a browser has to come back, unless its agent has asked again: see renewals.ts. */
const SESSION_SECONDS = 1800

const SIGN_IN_PATH = '/sign-in/deployment'

export const grantIssuer = async ({ config, origin }: Pick<Ctx, 'config' | 'origin'>): Promise<GrantIssuer> => ({
  issuer: configuredOrigin(config),
  url: `${origin}${SIGN_IN_PATH}`,
  keys: (await publicJwks(config)).keys.map(({ kid, x }) => ({ kid, x })),
})

type AddressRow = {
  id: string
  url: string | null
  local_url: string | null
  custom_url: string | null
  /** The first labels of further hosts beside that of `url`. */
  labels: string[]
}

/** A read that writes its event in the same statement: no grant leaves without an event. */
export const createGrant = verb(
  'deployments:read',
  async (ctx, { deployment_id, host, state }: z.output<typeof DeploymentRef> & GrantRequest): Promise<Grant> => {
    const query = sql<AddressRow>`
      select id, url, local_url, source_config ->> 'custom_url' as custom_url,
        (select coalesce(json_agg(h.label), '[]') from ${OWN_LABELS}) as labels
      from ${deployments}
      where ${isDeployment(deployment_id)}
        and ${deployments.deleting_at} is null
        and ${refuseUnless('host_not_served', servesHost(host))}`
    const row = requireRow(await commit(ctx, 'deployment.access_granted', query, { host }), 'deployment_not_found')
    const address = listAddresses(row).find(url => url.host === host.toLowerCase())
    // The database reads addresses as text, and a browser by this parser.
    if (!address) throw fail('host_not_served')
    const iat = Math.floor(ctx.platform.clock.now() / 1000)
    const claims = {
      iss: configuredOrigin(ctx.config),
      aud: address.hostname,
      deployment_id: row.id,
      state,
      iat,
      nbf: iat - CLOCK_TOLERANCE_SECONDS,
      exp: iat + GRANT_SECONDS + CLOCK_TOLERANCE_SECONDS,
      session_seconds: SESSION_SECONDS,
      renewal: await sealRenewal(ctx, row.id),
    }
    return { grant: await signJwt(ctx.config, claims, GRANT_TYPE), url: accessPage(address.href) }
  },
)

/** The request chooses one of these and adds nothing, so that it leads a browser nowhere else. */
function listAddresses({ url, local_url, custom_url, labels }: AddressRow): URL[] {
  const custom = custom_url && (/^https?:\/\//.test(custom_url) ? custom_url : `https://${custom_url}`)
  const own = [url, local_url, custom].flatMap(text => (text && URL.parse(text)) || [])
  const base = url && URL.parse(url)
  if (!base) return own
  // At an IP address there are none.
  const further = labels.flatMap(label => URL.parse(base.href.replace(/^(https?:\/\/)[^./]+/, `$1${label}`)) ?? [])
  return [...own, ...further]
}
