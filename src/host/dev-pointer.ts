// Where the command line finds the running `npm run dev` from any folder: a file in the user's configuration folder.
import * as fs from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import type { DevState } from './home-folder.ts'

/** The folder of `configFile()` in src/cli/settings.ts. */
function pointerFile(env = process.env): string {
  const [own, base] = [env.SLIPWAY_CONFIG_HOME, env.XDG_CONFIG_HOME || env.APPDATA].map(path =>
    path && isAbsolute(path) ? path : undefined,
  )
  return join(own ?? join(base ?? join(homedir() || userInfo().homedir, '.config'), 'slipway'), 'dev.json')
}

/** The last start wins. False if the folder cannot be written. */
export function writeDevPointer({ url, api_key, pid }: DevState): boolean {
  const file = pointerFile()
  const temporary = `${file}.${pid}`
  try {
    fs.mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
    fs.writeFileSync(temporary, `${JSON.stringify({ url, api_key, pid }, null, 2)}\n`, { mode: 0o600 })
    fs.renameSync(temporary, file)
    return true
  } catch {
    return false
  }
}

/** Leaves the file of another process. */
export function removeDevPointer(pid: number): void {
  try {
    if (JSON.parse(fs.readFileSync(pointerFile(), 'utf8')).pid === pid) fs.rmSync(pointerFile())
  } catch {
    // It is gone, or cannot be read: then it is not ours.
  }
}

/** A login that the user has stored is used instead. */
export const hasStoredLogin = (): boolean => fs.existsSync(join(dirname(pointerFile()), 'login.json'))
