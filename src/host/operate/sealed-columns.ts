// Every column with values that a key of SEALING_KEYS sealed or signed.
import type pg from 'pg'
import type { Table } from './backup-tables.ts'

/** `slipway reseal` seals them again under the first key. */
export const SEALED = {
  channels: ['credentials'],
  deployment_secrets: ['sealed', 'fingerprint'],
  deployments: ['rollout_secret'],
  integrations: ['credentials', 'token'],
  model_configurations: ['secret'],
  oauth_flows: ['verifier'],
  oauth_providers: ['client_secret', 'registration_access_token'],
  oauth_tokens: ['access_token', 'refresh_token'],
  preview_policies: ['secrets', 'hook_secret'],
  run_rules: ['webhooks', 'webhook_secret', 'alerts'],
  drains: ['headers'],
  webhooks: ['secret', 'previous_secret', 'signing_key'],
} as const
/** Answers to repeated requests are deleted after a day. */
export const PASSING = { idempotency_keys: ['result'] } as const
/** The journal's signatures stay as they are, until the events that they sign have expired. */
export const SIGNED = { journal_heads: ['signature'], journal_checkpoints: ['signature'] } as const

export type KeyCount = { table: string; column: string; kid: string; values: number }

/**
 * Matches a sealed value, which may end with the fingerprint of an earlier sealing, and a keyed hash. The first group
 * is the name of the key.
 */
export const SEALED_VALUE =
  '^([a-z0-9]+)\\.(?:[A-Za-z0-9_-]{16}\\.[A-Za-z0-9_-]{22,}(?:\\.[0-9a-f]{16})?|[A-Za-z0-9_-]{43})$'

const elementsOf = (column: string): string =>
  `json_array_elements(case json_typeof("${column}") when 'array' then "${column}" else '[]' end) element`

/** Members of a stored answer that hold a sealed value. Its other members have texts of a workspace. */
const ANSWER_MEMBERS = ['sealed', 'sealed_key', ...Object.values(SEALED).flat()]

/**
 * Reads the sealed values of a column of JSON by their place. Texts of a workspace are in the same JSON, and one that
 * only looks sealed must not keep a key needed for ever.
 */
const VALUES_IN_JSON: Record<string, string> = {
  'preview_policies.secrets': `select element ->> 'sealed' as value from ${elementsOf('secrets')}`,
  'run_rules.alerts': `select element ->> 'routing_key' as value from ${elementsOf('alerts')}`,
  'run_rules.webhooks': `
    select header.value
    from ${elementsOf('webhooks')},
      json_each_text(case json_typeof(element -> 'headers') when 'object' then element -> 'headers' end) header`,
  'idempotency_keys.result': `
    select element ->> member as value
    from ${elementsOf('result')}, unnest('{${ANSWER_MEMBERS.join(',')}}'::text[]) member`,
}

/** SQL for the values of a column in one row. */
export const selectValues = (table: string, column: string): string =>
  VALUES_IN_JSON[`${table}.${column}`] ?? `select "${column}" as value`

/** An older database may not have all of the tables and columns. */
export async function countValuesByKey(client: pg.Client, tables: Table[]): Promise<KeyCount[]> {
  const counts: KeyCount[] = []
  for (const [table, columns] of Object.entries({ ...SEALED, ...PASSING, ...SIGNED })) {
    const existing = tables.find(({ name }) => name === table)?.columns ?? []
    for (const column of columns.filter(column => existing.includes(column))) {
      const { rows } = await client.query<Pick<KeyCount, 'kid' | 'values'>>(
        `select m[1] as kid, count(*)::integer as values
        from "${table}"
        cross join lateral (${selectValues(table, column)}) v
        cross join lateral regexp_match(v.value, $1) m
        where m is not null
        group by m[1]`,
        [SEALED_VALUE],
      )
      counts.push(...rows.map(row => ({ table, column, ...row })))
    }
  }
  return counts
}
