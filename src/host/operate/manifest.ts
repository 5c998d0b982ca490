// The manifest of a backup: which moment it shows, how to check each of its files, and which keys open it.
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { createSigner } from '../../kernel/crypto/crypto.ts'

export type SealingKeys = [kid: string, key: string][]

export const FORMAT = 1
const MANIFEST = 'manifest.json'

const Count = z.int().min(0)
/** Names become part of SQL and of paths. */
const Name = z.string().regex(/^[a-z_][a-z0-9_]{0,62}$/)
const CheckedFile = z.object({ rows: Count, bytes: Count, sha256: z.string().regex(/^[0-9a-f]{64}$/) })
export type CheckedFile = z.output<typeof CheckedFile>

const Manifest = z.object({
  format: z.literal(FORMAT),
  id: z.uuid(),
  app_version: z.string(),
  /** The last migration of the database. */
  migration: z.object({ idx: Count, name: z.string() }),
  postgres: z.string(),
  /** The backup has everything that was committed before this moment, and nothing else. */
  moment: z.iso.datetime(),
  events: Count,
  last_event: z.object({ journal: z.uuid(), seq: Count, type: z.string(), at: z.string() }).nullable(),
  /** The last event of each journal, in `journals.tsv.gz`. */
  journals: CheckedFile,
  tables: z.array(z.object({ name: Name, columns: z.array(Name), ...CheckedFile.shape })),
  identities: z.array(z.object({ table: Name, column: Name, last_value: z.string().regex(/^\d+$/).nullable() })),
  /** The partitions of `runs`. */
  partitions: z.array(Name),
  /** Such as the quotas. */
  settings: z.record(z.string().regex(/^app\.\w+$/), z.string()),
  /** The objects that the database names, listed in `uploads.tsv.gz`. Null: they were left out. */
  uploads: z.object({ list: CheckedFile, count: Count, bytes: Count, missing: Count }).nullable(),
  /** `check` tells whether a key is the right one. Null: it was not in SEALING_KEYS. */
  keys: z.array(z.object({ kid: z.string(), values: Count, check: z.string().nullable() })),
})
export type Manifest = z.output<typeof Manifest>

export const tableFile = (folder: string, table: string): string => join(folder, 'tables', `${table}.copy.gz`)
export const journalsFile = (folder: string): string => join(folder, 'journals.tsv.gz')
export const uploadListFile = (folder: string): string => join(folder, 'uploads.tsv.gz')

const signer = (keys: SealingKeys) => createSigner(keys, 'backups')
const checkText = (id: string, kid: string): string => `key ${kid} of backup ${id}`

/** Identifies the key without revealing it. */
export const makeKeyCheck = (id: string, key: SealingKeys[number]): Promise<string> =>
  signer([key]).sign(checkText(id, key[0]))

export async function writeManifest(folder: string, manifest: Manifest, keys: SealingKeys): Promise<void> {
  const signature = await signer(keys).sign(JSON.stringify(manifest))
  const text = `${JSON.stringify({ ...manifest, signature }, null, 2)}\n`
  await writeFile(join(folder, MANIFEST), text, { mode: 0o600, flag: 'wx', flush: true })
}

/** Without keys the signature is not checked. */
export async function readManifest(folder: string, keys?: SealingKeys): Promise<Manifest> {
  const path = join(folder, MANIFEST)
  const text = await readFile(path, 'utf8').catch(() => {
    throw new Error(`${folder} is no backup: ${path} cannot be read.`)
  })
  const { signature, ...content } = parseObject(text, path)
  if (typeof content.format === 'number' && content.format > FORMAT)
    throw new Error(`${path} is of a newer Slipway, ${content.app_version}. Restore it with that version.`)
  const parsed = Manifest.safeParse(content)
  if (!parsed.success) {
    const { path: member, message } = parsed.error.issues[0]!
    throw new Error(`${path} is damaged at ${member.join('.') || 'its start'}: ${message}.`)
  }
  if (keys) {
    await requireKeys(parsed.data, keys)
    const isSigned = typeof signature === 'string' && (await signer(keys).verify(signature, JSON.stringify(content)))
    if (!isSigned) throw new Error(`${path} is not as the backup wrote it: its signature is wrong.`)
  }
  return parsed.data
}

function parseObject(text: string, path: string): Record<string, unknown> {
  try {
    return { ...JSON.parse(text) }
  } catch {
    throw new Error(`${path} is damaged: it is no JSON.`)
  }
}

async function requireKeys({ id, keys: used }: Manifest, keys: SealingKeys): Promise<void> {
  const faults: string[] = []
  for (const { kid, check } of used.filter(key => key.check !== null)) {
    const key = keys.find(([name]) => name === kid)
    if (!key) faults.push(`has no key ${kid} of the backup`)
    else if (!(await signer([key]).verify(check!, checkText(id, kid))))
      faults.push(`has another key ${kid} than the backup`)
  }
  if (faults.length === 0) return
  throw new Error(
    `SEALING_KEYS ${faults.join(' and ')}, and so cannot open its secrets. Set SEALING_KEYS to the keys of the ` +
      'installation that was backed up.',
  )
}
