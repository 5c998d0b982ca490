// The backups of `slipway backup --in`: named for their time, so that the oldest sort first.
import { existsSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'

const NAME = /^slipway-\d{4}-\d\d-\d\dT\d{6}Z$/
const UNFINISHED = /^slipway-(\d{4}-\d\d-\d\d)T\d{6}Z\.partial$/
const UNFINISHED_MS = 3 * 24 * 60 * 60_000

export const nameBackup = (folder: string, now = new Date()): string =>
  join(folder, `slipway-${now.toISOString().slice(0, 19).replaceAll(':', '')}Z`)

/** Also what an interrupted backup left days ago. Other files of the folder are left alone. */
export async function deleteOldBackups(folder: string, keep: number, log: (line: string) => void, now = Date.now()) {
  const names = (await readdir(folder)).sort()
  const backups = names.filter(name => NAME.test(name) && existsSync(join(folder, name, 'manifest.json')))
  const unfinished = names.filter(name => now - Date.parse(UNFINISHED.exec(name)?.[1] ?? '') > UNFINISHED_MS)
  for (const name of [...backups.slice(0, -keep), ...unfinished]) {
    await rm(join(folder, name), { recursive: true, force: true })
    log(`deleted ${join(folder, name)}`)
  }
}
