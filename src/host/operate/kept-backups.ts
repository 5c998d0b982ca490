// The backups of `slipway backup --in`: named for their time, so that the oldest sort first.
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

const NAME = /^slipway-\d{4}-\d\d-\d\dT\d{6}Z$/
const UNFINISHED = /^slipway-(\d{4}-\d\d-\d\d)T\d{6}Z\.partial$/
const UNFINISHED_MS = 3 * 24 * 60 * 60_000

export const nameBackup = (folder: string, now = new Date()): string =>
  join(folder, `slipway-${now.toISOString().slice(0, 19).replaceAll(':', '')}Z`)

/**
 * Keeps the backup that was just written, also where an earlier one has a later name: a clock may have been ahead. Also
 * deletes what an interrupted backup left days ago. Other files of the folder are left alone.
 */
export async function deleteOldBackups(
  written: string,
  keep: number,
  log: (line: string) => void,
  now = Date.now(),
): Promise<void> {
  const folder = dirname(written)
  const names = (await readdir(folder)).sort()
  const isEarlier = (name: string) => NAME.test(name) && name !== basename(written)
  const earlier = names.filter(name => isEarlier(name) && existsSync(join(folder, name, 'manifest.json')))
  const unfinished = names.filter(name => now - Date.parse(UNFINISHED.exec(name)?.[1] ?? '') > UNFINISHED_MS)
  for (const name of [...earlier.slice(0, Math.max(0, earlier.length - keep + 1)), ...unfinished]) {
    await rm(join(folder, name), { recursive: true, force: true })
    log(`deleted ${join(folder, name)}`)
  }
}
