// A database from before the migrations were squashed into a baseline: its schema, its roles and some rows.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { query } from './postgres.ts'

const DUMP = join(import.meta.dirname, '../host/fixtures/before-squash.sql.gz')

/** Loads it into an empty database, by a superuser. `key` is that of its first workspace. */
export async function loadBeforeSquash(url: string, key: string): Promise<void> {
  const dump = gunzipSync(readFileSync(DUMP)).toString()
  await query(url, dump.replace('"key_hash":"KEY_HASH"', `"key_hash":"${sha256Hex(key)}"`))
}
