// Owns the project's data folder: what `npm run dev` keeps between starts, each file for its owner's eyes only.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export type DevState = { url: string; api_key: string; organization_id: string; tenant_id: string; pid: number }
/** The agent's: it serves every workspace of this database. */
export type DevListener = { listener_id: string; listener_key: string }
export type Home = ReturnType<typeof openHome>

type Secrets = { sealing_keys: string; gateway_token: string }

export const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))

export function openHome(folder = process.env.SLIPWAY_HOME || join(PROJECT_ROOT, '.slipway')) {
  const path = resolve(folder)
  const file = (name: string) => join(path, name)

  const read = (name: string) => {
    try {
      return fs.readFileSync(file(name), 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }
  // Renamed into its place, so that nobody ever reads half a file.
  const write = (name: string, text: string) => {
    // As root, Postgres and applications run as other users and have their folders below it: they get through, and
    // cannot list it.
    fs.mkdirSync(path, { recursive: true, mode: 0o711 })
    const work = file(`${name}.${process.pid}`)
    fs.writeFileSync(work, text, { mode: 0o600 })
    fs.renameSync(work, file(name))
    return file(name)
  }
  const writeJson = (name: string, value: object) => write(name, `${JSON.stringify(value, null, 2)}\n`)

  return {
    path,
    file,
    read,
    write,
    remove: (...names: string[]) => {
      for (const name of names) fs.rmSync(file(name), { force: true })
    },
    readState: () => parseJson<DevState>(read('dev.json')),
    writeState: (state: DevState) => writeJson('dev.json', state),
    readListener: () => parseJson<DevListener>(read('listener.json')),
    writeListener: (listener: DevListener) => writeJson('listener.json', listener),

    /** Made once: what is sealed with a lost key is lost. */
    secrets(): Secrets {
      const text = read('secrets.json')
      const kept = parseJson<Secrets>(text)
      if (kept) return kept
      if (text !== undefined)
        throw new Error(`${file('secrets.json')} is damaged: restore it, or delete it and lose what it sealed.`)
      const random = (bytes: number) => randomBytes(bytes).toString('base64url')
      const made = { sealing_keys: `dev:${random(32)}`, gateway_token: random(24) }
      writeJson('secrets.json', made)
      return made
    },
  }
}

function parseJson<T extends object>(text: string | undefined): T | undefined {
  try {
    return Object(JSON.parse(text ?? '')) as T
  } catch {
    return undefined
  }
}
