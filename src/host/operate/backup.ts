// `slipway backup`: one consistent copy of the database and of the objects that it names, in a folder.
import { parseArgs } from 'node:util'
import { readClickHouseUrl, readSealingKeys, readSystemUrl } from '../../env.ts'

const USAGE = `slipway backup FOLDER [--without-uploads]
slipway backup --in FOLDER [--keep NUMBER] [--without-uploads]
slipway backup --verify FOLDER

Writes the database of DATABASE_SYSTEM_URL, and the objects of UPLOADS_DIR or of the bucket that it names, into a new
folder. The installation may serve meanwhile: the backup shows one moment. With --in the folder gets a name from the
time, and with --keep the oldest ones beyond that number are deleted. --verify checks every file of a backup, and with
SEALING_KEYS also that these keys open it. The keys themselves are not in a backup: keep them elsewhere.`

export async function main(): Promise<void> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        in: { type: 'string' },
        keep: { type: 'string' },
        verify: { type: 'boolean', default: false },
        'without-uploads': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) return console.log(USAGE)
    const [folder, ...more] = positionals
    if (more.length > 0 || (folder === undefined) === (values.in === undefined))
      throw new Error(`Name one folder.\n\n${USAGE}`)
    if (values.verify) {
      const { verifyBackup } = await import('./verify-backup.ts')
      return await verifyBackup(
        folder ?? values.in!,
        process.env.SEALING_KEYS ? readSealingKeys(process.env) : undefined,
      )
    }
    const keep = parseKeep(values.keep, values.in)
    const settings = {
      url: readSystemUrl(process.env),
      keys: readSealingKeys(process.env),
      usesClickHouse: readClickHouseUrl(process.env) !== undefined,
    }
    // Loaded after the arguments and the settings are valid: it takes a second.
    const { writeBackup } = await import('./write-backup.ts')
    const { openStorage } = await import('./uploads.ts')
    const { nameBackup, deleteOldBackups } = await import('./kept-backups.ts')
    const storage = values['without-uploads'] ? undefined : openStorage(process.env)
    const target = folder ?? nameBackup(values.in!)
    await writeBackup({ ...settings, folder: target, storage, log: console.log })
    if (keep !== undefined) await deleteOldBackups(target, keep, console.log)
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}

function parseKeep(text: string | undefined, folder: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (folder === undefined) throw new Error('--keep needs --in, which names the folder of the backups.')
  if (/^[1-9]\d{0,4}$/.test(text)) return Number(text)
  throw new Error(`--keep ${JSON.stringify(text)} must be a whole number from 1.`)
}
