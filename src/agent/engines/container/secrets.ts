// Secrets that a deployment names and the operator keeps in a folder, `<folder>/<secret>/<key>`, as a cluster would mount them.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { list } from '../../files.ts'
import { Unworkable } from '../engine.ts'

const DOCKER_HUB = 'docker.io'
/** The members of a pull secret of Kubernetes. */
const CONFIGS = ['.dockerconfigjson', 'config.json']

export class Secrets {
  readonly #folder: string | null

  constructor(folder: string | null) {
    this.#folder = folder
  }

  value = (name: string, key: string): string => {
    const value = this.#read(name, key)
    if (value === undefined) throw this.#missing(`the key \`${key}\` of the secret \`${name}\``, `${name}/${key}`)
    return value
  }

  all = (name: string): Record<string, string> => {
    const keys = this.#folder === null ? [] : list(join(this.#folder, safe(name))).filter(key => !key.startsWith('.'))
    if (keys.length === 0) throw this.#missing(`the secret \`${name}\``, name)
    return Object.fromEntries(keys.map(key => [key, this.value(name, key)]))
  }

  /** What the engine shows the registry of that image; undefined where no secret names it. */
  credentials(image: string, secrets: { name: string }[]): string | undefined {
    const registry = registryOf(image)
    for (const { name } of secrets) {
      const text = CONFIGS.map(key => this.#read(name, key)).find(found => found !== undefined)
      if (text === undefined) throw this.#missing(`the image_pull_secret \`${name}\``, `${name}/${CONFIGS[0]}`)
      const login = loginsIn(`The image_pull_secret \`${name}\``, text).find(
        ({ serveraddress }) => hostOf(serveraddress) === registry,
      )
      if (login) return loginOf(login)
    }
    return undefined
  }

  #read(name: string, key: string): string | undefined {
    if (this.#folder === null) return undefined
    try {
      return fs.readFileSync(join(this.#folder, safe(name), safe(key)), 'utf8')
    } catch {
      return undefined
    }
  }

  #missing(what: string, where: string): Unworkable {
    const how =
      this.#folder === null ? 'it was given no folder of secrets' : `there is no \`${where}\` in its folder of secrets`
    return new Unworkable(`This agent does not have ${what}: ${how}. Ask whoever runs it to add it.`)
  }
}

/** A name that stays in its folder. */
function safe(name: string): string {
  if (/[/\0]/.test(name) || name === '' || name === '.' || name === '..')
    throw new Unworkable(`\`${name}\` cannot be the name of a secret.`)
  return name
}

/** `serveraddress` is a registry, and perhaps a path in it. */
export type Login = { username: string; password: string; serveraddress: string }

/** As X-Registry-Auth has it: the alphabet of addresses, and yet padded, since engines read nothing else. */
export const loginOf = (login: Login): string =>
  Buffer.from(JSON.stringify(login)).toString('base64').replaceAll('+', '-').replaceAll('/', '_')

type Entry = { auth?: string; username?: string; password?: string }

/** Those of a Docker configuration. */
export function loginsIn(what: string, text: string): Login[] {
  try {
    const { auths = {} } = JSON.parse(text) as { auths?: Record<string, Entry> }
    return Object.entries(auths).map(([serveraddress, entry]) => {
      const [username, password] = pairOf(entry)
      return { username, password, serveraddress }
    })
  } catch {
    throw new Unworkable(`${what} is not the JSON of a Docker configuration: repair it.`)
  }
}

function pairOf({ auth, username = '', password = '' }: Entry): [string, string] {
  if (!auth) return [username, password]
  const said = Buffer.from(auth, 'base64').toString()
  const colon = said.indexOf(':')
  return [said.slice(0, colon), said.slice(colon + 1)]
}

export const hostOf = (server: string) => {
  const host = server.replace(/^https?:\/\//, '').replace(/\/.*/s, '')
  return host === 'index.docker.io' || host === 'registry-1.docker.io' ? DOCKER_HUB : host
}

/** The first part is a registry when it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/')
  return rest.length > 0 && (/[.:]/.test(first) || first === 'localhost') ? first : DOCKER_HUB
}
