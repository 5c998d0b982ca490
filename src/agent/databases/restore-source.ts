// The files that a database is restored from: those of a snapshot, or a part of a history.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'
import { PermanentError, type RestorePoint } from '../engine.ts'
import { readJson, writeJson } from '../system/files.ts'
import type { DatabaseHost, RestoreSource } from './database-host.ts'
import { type DatabaseHistory, SEGMENT } from './history.ts'
import { writeCompressed } from './write-compressed.ts'

export type HistoryPoint = Extract<RestorePoint, { at: Date }>
/** Beside the tar of a snapshot. */
type SnapshotFacts = { engine: string; major: number }

export const BASE_FILE = 'base.tar.gz'
const FACTS_FILE = 'database.json'

export async function writeSnapshot(
  host: DatabaseHost,
  engine: string,
  id: string,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const major = await host.majorVersion(id)
  await writeCompressed(await host.openBackup(id), join(folder, BASE_FILE), signal)
  writeJson(join(folder, FACTS_FILE), { engine, major } satisfies SnapshotFacts)
}

export function readSnapshot(folder: string, engine: string, major: number): RestoreSource {
  const facts = readJson<SnapshotFacts>(join(folder, FACTS_FILE))
  const base = join(folder, BASE_FILE)
  if (!facts || !fs.existsSync(base)) throw new PermanentError('This snapshot is not one of a database.')
  if (facts.engine !== engine)
    throw new PermanentError(
      `This snapshot was taken by the ${facts.engine} engine. Restore it there, and bring the data with ` +
        '`slipway db dump`.',
    )
  refuseOtherMajor(facts.major, major)
  return { base }
}

/** Writes the base backup and the WAL up to a time into a folder. */
export async function fetchHistory(
  history: DatabaseHistory,
  { deployment_id, at }: HistoryPoint,
  folder: string,
  major: number,
  signal: AbortSignal,
): Promise<RestoreSource> {
  const base = await history.findBackup(deployment_id, at)
  refuseOtherMajor(base.major, major)
  const file = join(folder, BASE_FILE)
  await history.fetchBackup(deployment_id, base, file, signal)
  const wal = join(folder, 'wal')
  fs.mkdirSync(wal)
  await history.fetchWal(deployment_id, base, at, wal, signal)
  for (const name of fs.readdirSync(wal)) {
    const compressed = join(wal, name)
    const plain = compressed.replace(/\.gz$/, '')
    await pipeline(fs.createReadStream(compressed), createGunzip(), fs.createWriteStream(plain), { signal })
    fs.rmSync(compressed)
  }
  const missing = findMissingSegment(wal, base.first_wal)
  return { base: file, history: { wal, at, ...(missing && { gap: { missing, after: new Date(base.ended_at) } }) } }
}

/** Postgres reads WAL up to the first segment that is missing, and takes that for its end. */
function findMissingSegment(folder: string, first_wal: string): string | undefined {
  const names = fs.readdirSync(folder).filter(name => SEGMENT.test(name))
  if (names.length === 0) return undefined
  const { size } = fs.statSync(join(folder, names[0]!))
  return nextMissing(names, first_wal, size)
}

/** The names count segments in files of 4 GiB. Timelines do not matter: each follows from the one before. Pure. */
export function nextMissing(names: string[], first: string, segment_bytes: number): string | undefined {
  const perFile = BigInt(Math.max(1, Math.floor(2 ** 32 / Math.max(1, segment_bytes))))
  const numberOf = (name: string) => BigInt(`0x${name.slice(8, 16)}`) * perFile + BigInt(`0x${name.slice(16)}`)
  const hex = (value: bigint) => value.toString(16).toUpperCase().padStart(8, '0')
  const numbers = new Set(names.map(numberOf))
  const last = [...numbers].reduce((most, one) => (one > most ? one : most))
  for (let at = numberOf(first); at < last; at++)
    if (!numbers.has(at)) return `${first.slice(0, 8)}${hex(at / perFile)}${hex(at % perFile)}`
  return undefined
}

function refuseOtherMajor(major: number, present: number): void {
  if (major !== present)
    throw new PermanentError(`This backup is one of Postgres ${major}, and the database runs ${present}.`)
}
