// Receives webhook deliveries: the body's signature or a token authenticates them; they are stored, answered, then
// processed.
import { sql } from 'drizzle-orm'
import { isSameDigest, sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { fail } from '../../kernel/http/errors.ts'
import { createWaitUntil } from '../../kernel/http/execution.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { OpenOperation, Services } from '../../kernel/http/routes.ts'
import { openWebhookSecret } from '../git-hosts/credentials.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { processDelivery, storeDelivery } from './githost-deliveries.ts'
import { lookNow } from './look-now.ts'
import { type Proof, withSignedBody } from './signed-body.ts'
import { parseDelivery } from './webhook-payloads.ts'

type Context = Parameters<OpenOperation['open']>[0]

const UUID_PATTERN = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const SIGNATURE_PATTERN = /^(?:sha256=)?([0-9a-f]{64})$/i
const DELIVERY_ID_PATTERN = /^[\w.:-]{1,128}$/

const HEADER_NAMES = {
  signature: ['X-Hub-Signature-256', 'X-Gitea-Signature', 'X-Forgejo-Signature'],
  token: ['X-Gitlab-Token'],
  event: ['X-GitHub-Event', 'X-Gitea-Event', 'X-Forgejo-Event', 'X-Gitlab-Event'],
  // A repeated delivery of GitLab has the same key, and an event of its own.
  delivery: ['X-GitHub-Delivery', 'X-Gitea-Delivery', 'X-Forgejo-Delivery', 'Idempotency-Key', 'X-Gitlab-Event-UUID'],
}
const readHeader = (c: Context, name: keyof typeof HEADER_NAMES): string =>
  HEADER_NAMES[name].map(header => c.req.header(header)).find(value => value !== undefined) ?? ''

function readProof(c: Context): Proof {
  const [, signature] = SIGNATURE_PATTERN.exec(readHeader(c, 'signature')) ?? []
  if (signature !== undefined) return { signature }
  const token = readHeader(c, 'token')
  if (token === '') throw fail('delivery_unsigned')
  return { token }
}

type Receiver = { secret: string; isRevoked: boolean }

/**
 * An unknown integration fails like a wrong signature. A revoked one accepts nothing, and tells so whoever has its
 * secret; if its App has other installations in the workspace, the secret stored with one of those is used.
 */
async function findReceiver(
  { config, database, sealer }: Services,
  integration_id: string | undefined,
): Promise<Receiver> {
  if (integration_id === undefined) {
    if (!config.github) throw fail('delivery_unsigned')
    return { secret: config.github.webhookSecret, isRevoked: false }
  }
  if (!UUID_PATTERN.test(integration_id)) throw fail('delivery_unsigned')
  const query = sql<Row>`
    select to_json(i)::text
    from integrations named
    join integrations i on i.tenant_id = named.tenant_id
      and (i.id = named.id or i.host = named.host and i.base_url = named.base_url and i.app_id = named.app_id)
    where named.id = ${integration_id}::uuid and (i.id = named.id or i.state <> 'revoked')
    order by i.state <> 'revoked' desc, i.id = named.id desc, i.created_at desc
    limit 1`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  const integration = row && (JSON.parse(row[0] as string) as Integration)
  const secret = integration && (await openWebhookSecret(sealer, integration))
  if (!secret) throw fail('delivery_unsigned')
  return { secret, isRevoked: integration.state === 'revoked' }
}

/** From a hook of any git server, such as `post-receive`. Its body is not read. */
async function receiveLook(c: Context, services: Services, token: string): Promise<Response> {
  const integration_id = c.req.param('integration_id')?.toLowerCase()
  const { secret, isRevoked } = await findReceiver(services, integration_id)
  if (!isSameDigest(sha256Hex(token), sha256Hex(secret))) throw fail('delivery_unsigned')
  if (isRevoked) throw fail('integration_revoked')
  const compare = await lookNow(services, integration_id!)
  createWaitUntil(services.platform, c)(compare())
  return c.body(null, 202, { 'Cache-Control': 'no-store' })
}

export async function receiveDelivery(c: Context, services: Services, operation: OpenOperation): Promise<Response> {
  const look = c.req.header('X-Slipway-Token')
  if (look !== undefined && c.req.param('integration_id') !== undefined) return receiveLook(c, services, look)
  // Gitea signs the JSON within a form, not the body, so the signature of a form never matches.
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('Content-Type') ?? '')) throw fail('not_json')
  const proof = readProof(c)
  const integration_id = c.req.param('integration_id')?.toLowerCase()
  const { secret, isRevoked } = await findReceiver(services, integration_id)
  const length = c.req.header('Content-Length')
  const body = { stream: c.req.raw.body, length: length === undefined ? null : Number(length) }
  const event = await withSignedBody({ ...body, secret, proof }, text => {
    if (isRevoked) throw fail('integration_revoked')
    return parseBody(c, text)
  })
  if (event) {
    const { origin, request } = readOpenRequest(c, operation, services)
    const delivery = await storeDelivery(services, {
      receiver: integration_id ?? 'app',
      delivery_id: readHeader(c, 'delivery'),
      event,
      origin,
      request,
    })
    const waitUntil = createWaitUntil(services.platform, c)
    if (delivery) waitUntil(processDelivery({ ...services, waitUntil }, delivery))
  }
  return c.body(null, 202, { 'Cache-Control': 'no-store' })
}

/** The errors name what is wrong, because the git host shows them in its list of deliveries. */
function parseBody(c: Context, text: string) {
  if (!DELIVERY_ID_PATTERN.test(readHeader(c, 'delivery')))
    throw invalidRequest([
      { type: 'header_missing', loc: ['header', 'X-GitHub-Delivery'], msg: 'is required: the id of the delivery' },
    ])
  try {
    return parseDelivery(readHeader(c, 'event'), JSON.parse(text))
  } catch {
    throw invalidRequest([
      { type: 'payload_invalid', loc: ['body'], msg: 'does not match what the host documents for this event' },
    ])
  }
}
