// The data folder of `npm run dev`, with its secrets and state. Only its owner can read the files.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

export type DevState = { url: string; api_key: string; organization_id: string; tenant_id: string; pid: number }
/** The listener of the local agent. It serves every workspace of this database. */
export type DevListener = { listener_id: string; listener_key: string }
export type Home = ReturnType<typeof openHome>

type Secrets = { sealing_keys: string; gateway_token: string }

export const PROJECT_ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** The process may belong to another user, which fails with EPERM. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

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
  // Renamed into place, so readers never see half a file.
  const write = (name: string, text: string) => {
    // If dev runs as root, Postgres and applications are other users with folders below this one. They may not list it.
    fs.mkdirSync(path, { recursive: true, mode: 0o711 })
    const temporary = file(`${name}.${process.pid}`)
    fs.writeFileSync(temporary, text, { mode: 0o600 })
    fs.renameSync(temporary, file(name))
    return file(name)
  }
  /** Writes the file completely and to the disk, or not at all. A file that exists stays. */
  const createFile = (name: string, content: object) => {
    fs.mkdirSync(path, { recursive: true, mode: 0o711 })
    const temporary = file(`${name}.${process.pid}`)
    fs.writeFileSync(temporary, `${JSON.stringify(content, null, 2)}\n`, { mode: 0o600, flush: true })
    try {
      fs.linkSync(temporary, file(name))
    } catch (error) {
      // A file system without hard links.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') return fs.renameSync(temporary, file(name))
    }
    fs.rmSync(temporary)
  }
  const writeJson = (name: string, value: object) => write(name, `${JSON.stringify(value, null, 2)}\n`)

  return {
    path,
    file,
    read,
    write,
    /** Without it, Node would take applications below this folder for parts of this project, and so for ES modules. */
    markModuleBoundary: () => fs.writeFileSync(file('package.json'), '{}\n', { mode: 0o644 }),
    remove: (...names: string[]) => {
      for (const name of names) fs.rmSync(file(name), { force: true })
    },
    readState: () => parseJson<DevState>(read('dev.json')),
    writeState: (state: DevState) => writeJson('dev.json', state),
    readListener: () => parseJson<DevListener>(read('listener.json')),
    writeListener: (listener: DevListener) => writeJson('listener.json', listener),

    /** Created once: values sealed with a lost key cannot be opened. */
    secrets(): Secrets {
      const text = read('secrets.json')
      const saved = parseJson<Secrets>(text)
      if (saved) return saved
      if (text !== undefined)
        throw new Error(`${file('secrets.json')} is damaged. Restore it, or delete it and lose all sealed secrets.`)
      const random = (bytes: number) => randomBytes(bytes).toString('base64url')
      createFile('secrets.json', { sealing_keys: `dev:${random(32)}`, gateway_token: random(24) })
      // Another start may have created it first.
      return parseJson<Secrets>(read('secrets.json'))!
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
