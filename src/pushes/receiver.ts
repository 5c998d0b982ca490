// Where git hosts deliver: the signature of the raw body is the key. What is stored is answered; the work comes after.
import { sql } from 'drizzle-orm'
import { webhookSecretOf } from '../integrations/credentials.ts'
import type { Integration } from '../integrations/githost.ts'
import { afterwards } from '../kernel/afterwards.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { invalid } from '../kernel/input.ts'
import { originOf } from '../kernel/origin.ts'
import type { Operation, Services } from '../kernel/routes.ts'
import { store, workOn } from './deliveries.ts'
import { eventOf } from './events.ts'
import { withSignedBody } from './signed-body.ts'

type Context = Parameters<NonNullable<Operation['open']>>[0]

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const SIGNATURE = /^(?:sha256=)?([0-9a-f]{64})$/i
const DELIVERY = /^[\w.:-]{1,128}$/

/** As GitHub calls them, and as Gitea and Forgejo do. */
const HEADERS = {
  signature: ['X-Hub-Signature-256', 'X-Gitea-Signature', 'X-Forgejo-Signature'],
  event: ['X-GitHub-Event', 'X-Gitea-Event', 'X-Forgejo-Event'],
  delivery: ['X-GitHub-Delivery', 'X-Gitea-Delivery', 'X-Forgejo-Delivery'],
}
const header = (c: Context, name: keyof typeof HEADERS): string =>
  HEADERS[name].map(one => c.req.header(one)).find(one => one !== undefined) ?? ''

/**
 * An unknown integration is answered like a wrong signature. That of a revoked one ends with it: an App that has
 * other installations in the workspace is known by what was stored with one of those.
 */
async function secretOf({ config, database, sealer }: Services, integration_id: string | undefined): Promise<string> {
  if (integration_id === undefined) {
    if (!config.github) throw fail('delivery_unsigned')
    return config.github.webhookSecret
  }
  if (!UUID.test(integration_id)) throw fail('delivery_unsigned')
  const query = sql<Row>`
    select to_json(i)::text
    from integrations named
    join integrations i on i.tenant_id = named.tenant_id
      and (i.id = named.id or i.host = named.host and i.base_url = named.base_url and i.app_id = named.app_id)
    where named.id = ${integration_id}::uuid and i.state <> 'revoked'
    order by i.id = named.id desc, i.created_at desc
    limit 1`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  const secret = row && (await webhookSecretOf(sealer, JSON.parse(row[0] as string) as Integration))
  if (!secret) throw fail('delivery_unsigned')
  return secret
}

export async function receive(c: Context, services: Services): Promise<Response> {
  const [, signature] = SIGNATURE.exec(header(c, 'signature')) ?? []
  if (signature === undefined) throw fail('delivery_unsigned')
  const integration_id = c.req.param('integration_id')?.toLowerCase()
  const secret = await secretOf(services, integration_id)
  const length = c.req.header('Content-Length')
  const body = { stream: c.req.raw.body, length: length === undefined ? null : Number(length) }
  const event = await withSignedBody({ ...body, secret, signature }, text => understood(c, text))
  if (event) {
    const origin = originOf(services.config, c.req.url)
    const delivery = await store(services, {
      ...{ receiver: integration_id ?? 'app', delivery_id: header(c, 'delivery') },
      ...{ event, origin },
    })
    if (delivery) afterwards(c, workOn(services, delivery))
  }
  return c.body(null, 202, { 'Cache-Control': 'no-store' })
}

/** Signed, so its words are the host's: what is not as documented is told to whoever looks at the host's list of deliveries. */
function understood(c: Context, text: string) {
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('Content-Type') ?? '')) throw fail('not_json')
  if (!DELIVERY.test(header(c, 'delivery')))
    throw invalid([
      { type: 'header_missing', loc: ['header', 'X-GitHub-Delivery'], msg: 'needs the id of the delivery' },
    ])
  try {
    return eventOf(header(c, 'event'), JSON.parse(text))
  } catch {
    throw invalid([{ type: 'payload_invalid', loc: ['body'], msg: 'is not what the host documents of this event' }])
  }
}
