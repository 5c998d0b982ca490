// `slipway restore`: fills an empty database, and the store of uploads, from a backup.
import { parseArgs } from 'node:util'
import {
  readClickHouseUrl,
  readOwnerUrl,
  readS3Settings,
  readSealingKeys,
  readSharesDatabase,
  readUploadsFolder,
} from '../../env.ts'

const USAGE = `slipway restore FOLDER [--without-uploads]
slipway restore --finish

Checks every file of the backup, migrates the empty database of DATABASE_OWNER_URL, and loads the rows in one
transaction. Puts the objects into UPLOADS_DIR, or the bucket of UPLOADS_S3_ENDPOINT. Needs the SEALING_KEYS of the
installation that was backed up.

Afterwards agents serve what the database has, and keep what it does not know: deployments that are newer than the
backup. --finish ends that: agents then remove them, with their databases.`

export async function main(): Promise<void> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        finish: { type: 'boolean', default: false },
        'without-uploads': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) return console.log(USAGE)
    if (positionals.length !== (values.finish ? 0 : 1)) throw new Error(`Name one backup.\n\n${USAGE}`)
    const url = readOwnerUrl(process.env)
    if (values.finish) {
      const { releaseRemovals } = await import('./held-removals.ts')
      return await releaseRemovals(url, console.log)
    }
    const settings = {
      url,
      keys: readSealingKeys(process.env),
      sharesDatabase: readSharesDatabase(process.env),
      usesClickHouse: readClickHouseUrl(process.env) !== undefined,
    }
    // Loaded after the arguments and the settings are valid: it takes a second.
    const { loadBackup } = await import('./load-backup.ts')
    const { openStorage } = await import('./uploads.ts')
    const storage = values['without-uploads'] ? undefined : openStorage(process.env)
    const uploadsFolder = readS3Settings(process.env) ? undefined : readUploadsFolder(process.env)
    await loadBackup({ ...settings, folder: positionals[0]!, storage, uploadsFolder, log: console.log })
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
