// Every column with values that a key of SEALING_KEYS sealed or signed.
import type pg from 'pg'
import type { Table } from './backup-tables.ts'

/** `slipway reseal` seals them again under the first key. */
export const SEALED = {
  deployment_secrets: ['sealed', 'fingerprint'],
  integrations: ['credentials', 'token'],
  model_configurations: ['secret'],
  oauth_flows: ['verifier'],
  oauth_providers: ['client_secret', 'registration_access_token'],
  oauth_tokens: ['access_token', 'refresh_token'],
  preview_policies: ['secrets', 'hook_secret'],
  run_rules: ['webhooks', 'webhook_secret', 'alerts'],
  webhooks: ['secret', 'previous_secret', 'signing_key'],
} as const
/** Answers to repeated requests are deleted after a day. */
export const PASSING = { idempotency_keys: ['result'] } as const
/** The journal's signatures stay as they are, until the events that they sign have expired. */
export const SIGNED = { journal_heads: ['signature'], journal_checkpoints: ['signature'] } as const

export type KeyCount = { table: string; column: string; kid: string; values: number }

/** A sealed value, a fingerprint or a signature. Within JSON it is a string of its own. */
export const SEALED_VALUE = '(?:^|")([a-z0-9]+)\\.(?:[A-Za-z0-9_-]{16}\\.[A-Za-z0-9_-]{22,}|[A-Za-z0-9_-]{43})(?=$|")'

/** An older database may not have all of the tables and columns. */
export async function countValuesByKey(client: pg.Client, tables: Table[]): Promise<KeyCount[]> {
  const counts: KeyCount[] = []
  for (const [table, columns] of Object.entries({ ...SEALED, ...PASSING, ...SIGNED })) {
    const existing = tables.find(({ name }) => name === table)?.columns ?? []
    for (const column of columns.filter(column => existing.includes(column))) {
      const { rows } = await client.query<Pick<KeyCount, 'kid' | 'values'>>(
        `select m[1] as kid, count(*)::integer as values
        from "${table}", regexp_matches("${column}"::text, $1, 'g') m
        group by m[1]`,
        [SEALED_VALUE],
      )
      counts.push(...rows.map(row => ({ table, column, ...row })))
    }
  }
  return counts
}
