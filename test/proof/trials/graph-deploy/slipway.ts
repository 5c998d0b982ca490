// Our own command line against an installation of this machine.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Installation } from './dev.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const run = promisify(execFile)

/** Returns what the command printed, also if it failed. */
export const makeSlipway =
  ({ url, api_key }: Installation, cwd: string) =>
  (...args: string[]): Promise<string> => {
    const env = { ...process.env, SLIPWAY_URL: url, SLIPWAY_API_KEY: api_key }
    return run(process.execPath, [join(ROOT, 'src/cli/main.ts'), ...args], { cwd, env }).then(
      ({ stdout }) => stdout,
      ({ stdout, stderr }) => `${stdout}${stderr}`,
    )
  }
