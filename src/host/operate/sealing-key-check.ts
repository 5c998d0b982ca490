// Checks SEALING_KEYS against the database by opening some of its values, before anything new is sealed.
import type pg from 'pg'
import { SettingsError } from '../../env.ts'
import { createSealer, type Sealer } from '../../kernel/crypto/crypto.ts'
import { toIsoTime } from '../../kernel/db/rows.ts'
import { createJournalSigner } from '../../people/audit/hash-chain.ts'
import { inSystemTransaction } from '../transaction.ts'
import { listTables } from './backup-tables.ts'
import type { SealingKeys } from './manifest.ts'
import { SEALED } from './sealed-columns.ts'
import { type Reseal, SEALED_ROWS } from './sealed-rows.ts'

type TableName = keyof typeof SEALED
type Probe = { opened: string[]; failed: string[] }
export type KeyEvidence = {
  /** True once these keys have opened a value. */
  isProved: boolean
  /** Names of keys that values need and SEALING_KEYS does not have. */
  missing: string[]
}

const SAMPLED_ROWS = 20
const kidOf = (sealed: string): string => sealed.split('.', 1)[0]!

/** The names of the keys of the values of a row, by whether they could be opened. */
export async function probeRow(table: TableName, row: unknown, sealer: Sealer): Promise<Probe> {
  const probe: Probe = { opened: [], failed: [] }
  const tools: Reseal = {
    async seal(sealed, owner, place) {
      if (sealed === null) return null
      const isOpened = await sealer.open(sealed, owner, place).then(
        () => true,
        () => false,
      )
      probe[isOpened ? 'opened' : 'failed'].push(kidOf(sealed))
      return sealed
    },
    fingerprint: async old => old,
  }
  await SEALED_ROWS[table].reseal(row, tools)
  return probe
}

/**
 * Throws if a key is another one than that of the same name which sealed the database: what it seals from now on could
 * not be told from what the right one has sealed. A key that is missing is reported only, because it may be lost.
 */
export async function requireSealingKeys(client: pg.Client, keys: SealingKeys): Promise<KeyEvidence> {
  const { opened, failed } = await inSystemTransaction(client, () => sampleValues(client, keys))
  const hasKey = (kid: string) => keys.some(([name]) => name === kid)
  const wrong = [...new Set(failed)].filter(kid => hasKey(kid) && !opened.includes(kid))
  if (wrong.length > 0)
    throw new SettingsError(
      `SEALING_KEYS has another key ${wrong.join(', ')} than the one that sealed this database, and cannot open its ` +
        'secrets. Set the key that the database has had so far. If that key is lost, give the new one a name that ' +
        'was not in use, such as k2.',
    )
  return { isProved: opened.length > 0, missing: [...new Set(failed)].filter(kid => !hasKey(kid)) }
}

async function sampleValues(client: pg.Client, keys: SealingKeys): Promise<Probe> {
  const sample: Probe = { opened: [], failed: [] }
  const sealer = createSealer(keys)
  const tables = await listTables(client)
  for (const table of Object.keys(SEALED) as TableName[]) {
    const existing = tables.find(({ name }) => name === table)?.columns ?? []
    const { primaryKey, reads = [] } = SEALED_ROWS[table]
    const columns = [...primaryKey, ...reads, ...SEALED[table]]
    if (!columns.every(name => existing.includes(name))) continue
    const { rows } = await client.query(`
      select ${columns.map(name => `"${name}"`).join(', ')}
      from "${table}"
      limit ${SAMPLED_ROWS}`)
    for (const row of rows) {
      const { opened, failed } = await probeRow(table, row, sealer)
      sample.opened.push(...opened)
      sample.failed.push(...failed)
    }
  }
  if (tables.some(({ name }) => name === 'journal_heads')) await sampleJournalHeads(client, keys, sample)
  return sample
}

/** An installation without secrets has signatures. Those of a key that is gone are not missed. */
async function sampleJournalHeads(client: pg.Client, keys: SealingKeys, sample: Probe): Promise<void> {
  const signer = createJournalSigner(keys)
  const { rows } = await client.query(`
    select to_json(h) as head
    from journal_heads h
    limit ${SAMPLED_ROWS}`)
  for (const { head } of rows) {
    const { scope_id: scope, seq, hash, signature } = head
    if (!signer.hasKeyOf(signature)) continue
    const place = { kind: 'head' as const, scope, seq, hash, at: toIsoTime(head.signed_at) }
    sample[(await signer.verify(place, signature)) ? 'opened' : 'failed'].push(kidOf(signature))
  }
}
