// Points the command line to a running `npm run dev`, from any folder: a file in the user's configuration folder.
import * as fs from 'node:fs'
import { homedir, userInfo } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { type DevState, isAlive } from './home-folder.ts'

/** The folder of `configFile()` in src/cli/settings.ts. */
function configFolder(env = process.env): string {
  const [own, base] = [env.SLIPWAY_CONFIG_HOME, env.XDG_CONFIG_HOME || env.APPDATA].map(path =>
    path && isAbsolute(path) ? path : undefined,
  )
  return own ?? join(base ?? join(homedir() || userInfo().homedir, '.config'), 'slipway')
}

const pointerFolder = () => join(configFolder(), 'dev')
const pointerFile = (pid: number) => join(pointerFolder(), `${pid}.json`)

/** One file for each process, because several may run. False if the folder cannot be written. */
export function writeDevPointer({ url, api_key, pid }: DevState): boolean {
  const temporary = `${pointerFile(pid)}.new`
  try {
    fs.mkdirSync(pointerFolder(), { recursive: true, mode: 0o700 })
    removeStalePointers()
    fs.writeFileSync(temporary, `${JSON.stringify({ url, api_key, pid }, null, 2)}\n`, { mode: 0o600 })
    fs.renameSync(temporary, pointerFile(pid))
    return true
  } catch {
    return false
  }
}

/** A killed process leaves its pointer. */
function removeStalePointers(): void {
  for (const name of fs.readdirSync(pointerFolder()))
    if (!isAlive(Number.parseInt(name, 10))) fs.rmSync(join(pointerFolder(), name), { force: true })
}

export const removeDevPointer = (pid: number): void => fs.rmSync(pointerFile(pid), { force: true })

/** A login that the user has stored is used instead. */
export const hasStoredLogin = (): boolean => fs.existsSync(join(configFolder(), 'login.json'))
