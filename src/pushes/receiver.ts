// Where git hosts deliver: the signature of the raw body is the key. What is stored is answered; the work comes after.

import { sql } from 'drizzle-orm'
import { webhookSecretOf } from '../integrations/credentials.ts'
import type { Integration } from '../integrations/githost.ts'
import { afterwards } from '../kernel/afterwards.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { invalid, readBytes } from '../kernel/input.ts'
import type { Operation, Services } from '../kernel/routes.ts'
import { store, workOn } from './deliveries.ts'
import { eventOf } from './events.ts'

type Context = Parameters<NonNullable<Operation['open']>>[0]

/** The most that GitHub delivers; it drops whatever is larger. */
const MOST_BYTES = 25 * 1024 * 1024
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

/** Whoever has no integration of that id, or none that is signed for, is told what is told of a wrong signature. */
async function secretOf({ config, database, sealer }: Services, integration_id: string | undefined): Promise<string> {
  if (integration_id === undefined) {
    if (!config.github) throw fail('delivery_unsigned')
    return config.github.webhookSecret
  }
  if (!UUID.test(integration_id)) throw fail('delivery_unsigned')
  const query = sql<Row>`select to_json(i)::text from integrations i where i.id = ${integration_id}::uuid`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  const secret = row && (await webhookSecretOf(sealer, JSON.parse(row[0] as string) as Integration))
  if (!secret) throw fail('delivery_unsigned')
  return secret
}

const HMAC = { name: 'HMAC', hash: 'SHA-256' }
/** WebCrypto compares in constant time. */
async function isSigned(secret: string, signature: string, body: Uint8Array<ArrayBuffer>): Promise<boolean> {
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), HMAC, false, ['verify'])
  return crypto.subtle.verify(HMAC, key, Buffer.from(signature, 'hex'), body)
}

export async function receive(c: Context, services: Services): Promise<Response> {
  const [, signature] = SIGNATURE.exec(header(c, 'signature')) ?? []
  if (signature === undefined) throw fail('delivery_unsigned')
  const integration_id = c.req.param('integration_id')?.toLowerCase()
  const secret = await secretOf(services, integration_id)
  const body = await readBytes(c.req, MOST_BYTES)
  if (!(await isSigned(secret, signature, body))) throw fail('delivery_unsigned')

  const event = understood(c, body)
  if (event) {
    const origin = services.config.publicUrl ?? new URL(c.req.url).origin
    const delivery = await store(services, {
      ...{ receiver: integration_id ?? 'app', delivery_id: header(c, 'delivery') },
      ...{ event, origin },
    })
    if (delivery) afterwards(c, workOn(services, delivery))
  }
  return c.body(null, 202, { 'Cache-Control': 'no-store' })
}

/** Signed, so its words are the host's: what is not as documented is told to whoever looks at the host's list of deliveries. */
function understood(c: Context, body: Uint8Array) {
  if (!/^application\/json\s*(;|$)/i.test(c.req.header('Content-Type') ?? '')) throw fail('not_json')
  if (!DELIVERY.test(header(c, 'delivery')))
    throw invalid([
      { type: 'header_missing', loc: ['header', 'X-GitHub-Delivery'], msg: 'needs the id of the delivery' },
    ])
  try {
    return eventOf(header(c, 'event'), JSON.parse(new TextDecoder().decode(body)))
  } catch {
    throw invalid([{ type: 'payload_invalid', loc: ['body'], msg: 'is not what the host documents of this event' }])
  }
}
