// Publishes the public key of a webhook, for receivers that verify `v1a`.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { PublicKeys } from './schema.ts'

export async function readPublicKeys({ database }: Services, webhook_id: string): Promise<PublicKeys> {
  const query = sql<Row>`select public_key from webhooks where id = ${webhook_id}::uuid`
  const [rows] = (await runAsSystem(database, query)) as [[string][]]
  const [whpk] = requireRow(rows, 'webhook_not_found')
  const x = Buffer.from(whpk.slice('whpk_'.length), 'base64').toString('base64url')
  return { keys: [{ kty: 'OKP', crv: 'Ed25519', use: 'sig', alg: 'EdDSA', kid: webhook_id, x, whpk }] }
}
