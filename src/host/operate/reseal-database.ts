// Seals rows again, in batches. A row that changed meanwhile is left to the next pass.
import type pg from 'pg'
import { createSealer, type Sealer } from '../../kernel/crypto/crypto.ts'
import { sealedFingerprint } from '../../kernel/crypto/digest.ts'
import { connectClient } from '../migrate.ts'
import { inSystemTransaction } from '../transaction.ts'
import { listTables } from './backup-tables.ts'
import type { SealingKeys } from './manifest.ts'
import {
  countValuesByKey,
  type KeyCount,
  PASSING,
  SEALED,
  SEALED_VALUE,
  SIGNED,
  selectValues,
} from './sealed-columns.ts'
import { type Reseal, SEALED_ROWS } from './sealed-rows.ts'
import { probeRow, requireSealingKeys } from './sealing-key-check.ts'
import { formatCount } from './sizes.ts'

type ResealOptions = { url: string; keys: SealingKeys; isCheck?: boolean; log: (line: string) => void }
type TableName = keyof typeof SEALED
type Row = Record<string, unknown>

const BATCH_ROWS = 200

/** False while a value needs another key than the first, or none of the keys opens it. */
export async function resealDatabase({ url, keys, isCheck = false, log }: ResealOptions): Promise<boolean> {
  const client = await connectClient(url)
  try {
    await requireSealingKeys(client, keys)
    const [kid] = keys[0]!
    const sealer = createSealer(keys)
    const tables = Object.keys(SEALED) as TableName[]
    if (!isCheck) for (const table of tables) await resealTable(client, table, kid, sealer, log)
    let unopened = 0
    for (const table of tables) unopened += await countUnopenedRows(client, table, sealer, log)
    const counts = await inSystemTransaction(client, async () => countValuesByKey(client, await listTables(client)))
    return report(counts, keys, unopened, log)
  } finally {
    await client.end()
  }
}

/** A value that already has the first key stays as it is, so that a repeated run writes nothing. */
function createTools(sealer: Sealer, kid: string): Reseal {
  /** A value that no key opens stays as it is, and the others of its row are sealed. */
  const open = async (sealed: string, owner: string, place: string) =>
    sealer.open(sealed, owner, place).catch(() => undefined)
  return {
    async seal(sealed, owner, place) {
      if (sealed === null || sealed.startsWith(`${kid}.`)) return sealed
      const plain = await open(sealed, owner, place)
      if (plain === undefined) return sealed
      return `${await sealer.seal(plain, owner, place)}.${sealedFingerprint(sealed)}`
    },
    async fingerprint(old, sealed, owner, place) {
      if (old === null || old.startsWith(`${kid}.`)) return old
      const plain = await open(sealed, owner, place)
      return plain === undefined ? old : (await (await sealer.fingerprinter(owner))(plain, place))[0]!
    },
  }
}

/** Goes through the rows in the order of the primary key. Each batch is a transaction. */
async function eachBatch(
  client: pg.Client,
  table: TableName,
  { condition, parameters }: { condition: string; parameters: unknown[] },
  work: (rows: Row[]) => Promise<void>,
): Promise<void> {
  const { primaryKey, reads = [], stays = [] } = SEALED_ROWS[table]
  const columns: readonly string[] = SEALED[table]
  const keyColumns = primaryKey.map(name => `"${name}"`).join(', ')
  const after = primaryKey.map((_, i) => `$${parameters.length + i + 1}`).join(', ')
  const selected = [
    ...[...primaryKey, ...columns, ...reads, ...stays].map(name => `"${name}"`),
    ...columns.map(name => `"${name}"::text as "${textOf(name)}"`),
  ]
  const select = (isFirst: boolean) => `
    select ${selected.join(', ')}
    from "${table}"
    where (${condition})
      ${isFirst ? '' : `and (${keyColumns}) > (${after})`}
    order by ${keyColumns}
    limit ${BATCH_ROWS}`
  let last: unknown[] | undefined
  const readBatch = async (): Promise<boolean> => {
    const { rows } = await client.query<Row>(select(last === undefined), [...parameters, ...(last ?? [])])
    await work(rows)
    last = rows.length > 0 ? primaryKey.map(name => rows.at(-1)![name]) : last
    return rows.length === BATCH_ROWS
  }
  while (await inSystemTransaction(client, readBatch));
}

async function resealTable(
  client: pg.Client,
  table: TableName,
  kid: string,
  sealer: Sealer,
  log: (line: string) => void,
): Promise<void> {
  const columns: readonly string[] = SEALED[table]
  const usesOther = columns.map(
    column => `exists (
      select from (${selectValues(table, column)}) v
      where (regexp_match(v.value, $1))[1] <> $2)`,
  )
  const tools = createTools(sealer, kid)
  let resealed = 0
  let batches = 0
  const line = (suffix: string) => log(`  ${table.padEnd(24)}${formatCount(resealed).padStart(12)} rows ${suffix}`)
  await eachBatch(client, table, { condition: usesOther.join(' or '), parameters: [SEALED_VALUE, kid] }, async rows => {
    if (batches++ > 0) line('so far')
    for (const row of rows)
      if (await updateRow(client, table, row, await SEALED_ROWS[table].reseal(row, tools))) resealed++
  })
  if (resealed > 0) line('sealed again')
}

/** Opens every value: the name of a key says nothing of whether it is the right one. */
async function countUnopenedRows(
  client: pg.Client,
  table: TableName,
  sealer: Sealer,
  log: (line: string) => void,
): Promise<number> {
  let failed = 0
  await eachBatch(client, table, { condition: 'true', parameters: [] }, async rows => {
    const probes = await Promise.all(rows.map(row => probeRow(table, row, sealer)))
    failed += probes.filter(probe => probe.failed.length > 0).length
  })
  if (failed > 0) log(`  ${table}: ${formatCount(failed)} rows have values that SEALING_KEYS cannot open.`)
  return failed
}

/** The stored text of JSON, which differs from what it parses to. */
const textOf = (column: string): string => `${column} as text`

/** Only where the sealed values are still those that were read: a request may have written newer ones. */
async function updateRow(client: pg.Client, table: TableName, row: Row, values: Row): Promise<boolean> {
  const { primaryKey, stays = [] } = SEALED_ROWS[table]
  const update = async (changes: Row, isSame: Row) => {
    const parameters: unknown[] = []
    const toParameter = (value: unknown) => `$${parameters.push(value)}`
    const set = Object.entries(changes).map(([name, value]) => `"${name}" = ${toParameter(value)}`)
    const where = [
      ...primaryKey.map(name => `"${name}" = ${toParameter(row[name])}`),
      ...Object.entries(isSame).map(([name, text]) => `"${name}"::text is not distinct from ${toParameter(text)}`),
    ]
    const statement = `update "${table}" set ${set.join(', ')} where ${where.join(' and ')}`
    return (await client.query(statement, parameters)).rowCount === 1
  }
  const columns = Object.keys(values)
  const stored = Object.fromEntries(columns.map(name => [name, row[textOf(name)]]))
  const asText = (value: unknown) => (typeof value === 'object' && value !== null ? JSON.stringify(value) : value)
  const isUpdated = await update(Object.fromEntries(columns.map(name => [name, asText(values[name])])), stored)
  if (isUpdated && stays.length > 0) await update(Object.fromEntries(stays.map(name => [name, row[name]])), {})
  return isUpdated
}

function report(counts: KeyCount[], keys: SealingKeys, unopened: number, log: (line: string) => void): boolean {
  const [first] = keys[0]!
  const isIn = (columns: object) => (count: KeyCount) => count.table in columns
  const others = counts.filter(({ kid }) => kid !== first)
  for (const { table, column, kid, values } of counts)
    log(`  ${`${table}.${column}`.padEnd(44)}${kid.padEnd(12)}${formatCount(values).padStart(12)} values`)
  const describe = (list: KeyCount[]) => [...new Set(list.map(({ kid }) => kid))].join(', ')
  const [sealed, passing, signed] = [SEALED, PASSING, SIGNED].map(columns => others.filter(isIn(columns)))
  const hasKey = ({ kid }: KeyCount) => keys.some(([name]) => name === kid)
  const left = sealed!.filter(hasKey)
  const lost = sealed!.filter(count => !hasKey(count))
  if (left.length > 0) log(`Values still need ${describe(left)}. Run \`slipway reseal\`.`)
  if (lost.length > 0)
    log(
      `Values need ${describe(lost)}, which SEALING_KEYS does not have. Add the key and repeat the command, or enter ` +
        'these values again.',
    )
  if (passing!.length > 0)
    log(`Answers to repeated requests need ${describe(passing!)}. They are deleted within a day: check again then.`)
  if (signed!.length > 0)
    log(`Signatures of the journal are of ${describe(signed!)}: \`slipway audit-verify\` needs it to check them.`)
  const isDone = sealed!.length + passing!.length + unopened === 0
  if (isDone) log(`Nothing in the database needs another key than ${first} to be opened.`)
  return isDone
}
