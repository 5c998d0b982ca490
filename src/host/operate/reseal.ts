// `slipway reseal`: seals everything in the database under the first of the SEALING_KEYS.
import { parseArgs } from 'node:util'
import { readSealingKeys, readSystemUrl } from '../../env.ts'

const USAGE = `slipway reseal [--check]

Opens every sealed value in the database of DATABASE_SYSTEM_URL that another key than the first of SEALING_KEYS sealed,
and seals it under the first. The installation may serve meanwhile, if all its processes have the same SEALING_KEYS. It
can be interrupted and repeated. --check changes nothing, and counts the values of each key. Ends with exit code 1 while
a value needs another key than the first.`

export async function main(): Promise<void> {
  try {
    const { values } = parseArgs({
      options: { check: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } },
    })
    if (values.help) return console.log(USAGE)
    const [url, keys] = [readSystemUrl(process.env), readSealingKeys(process.env)]
    // Loaded after the arguments and the settings are valid: it takes a second.
    const { resealDatabase } = await import('./reseal-database.ts')
    const isDone = await resealDatabase({ url, keys, isCheck: values.check, log: console.log })
    if (!isDone) process.exitCode = 1
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  }
}
