// Secrets that a deployment names and the operator keeps in a folder, `<folder>/<secret>/<key>`, as a cluster would mount them.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { PermanentError } from '../engines/engine.ts'
import { listFolder } from '../system/files.ts'

const DOCKER_HUB = 'docker.io'
/** The members of a pull secret of Kubernetes. */
const DOCKER_CONFIG_KEYS = ['.dockerconfigjson', 'config.json']

export class SecretFolder {
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
    const keys =
      this.#folder === null ? [] : listFolder(join(this.#folder, safeName(name))).filter(key => !key.startsWith('.'))
    if (keys.length === 0) throw this.#missing(`the secret \`${name}\``, name)
    return Object.fromEntries(keys.map(key => [key, this.value(name, key)]))
  }

  /** What the engine shows the registry of that image; undefined where no secret names it. */
  registryAuth(image: string, secrets: { name: string }[]): string | undefined {
    const registry = registryOf(image)
    for (const { name } of secrets) {
      const text = DOCKER_CONFIG_KEYS.map(key => this.#read(name, key)).find(found => found !== undefined)
      if (text === undefined)
        throw this.#missing(`the image_pull_secret \`${name}\``, `${name}/${DOCKER_CONFIG_KEYS[0]}`)
      const login = parseDockerConfig(`The image_pull_secret \`${name}\``, text).find(
        ({ serveraddress }) => registryHost(serveraddress) === registry,
      )
      if (login) return encodeLogin(login)
    }
    return undefined
  }

  #read(name: string, key: string): string | undefined {
    if (this.#folder === null) return undefined
    try {
      return fs.readFileSync(join(this.#folder, safeName(name), safeName(key)), 'utf8')
    } catch {
      return undefined
    }
  }

  #missing(what: string, where: string): PermanentError {
    const how =
      this.#folder === null ? 'it was given no folder of secrets' : `there is no \`${where}\` in its folder of secrets`
    return new PermanentError(`This agent does not have ${what}: ${how}. Ask whoever runs it to add it.`)
  }
}

/** A name that stays in its folder. */
function safeName(name: string): string {
  if (/[/\0]/.test(name) || name === '' || name === '.' || name === '..')
    throw new PermanentError(`\`${name}\` cannot be the name of a secret.`)
  return name
}

/** `serveraddress` is a registry, and perhaps a path in it. */
export type RegistryLogin = { username: string; password: string; serveraddress: string }

/** As X-Registry-Auth has it: the alphabet of addresses, and yet padded, since engines read nothing else. */
export const encodeLogin = (login: RegistryLogin): string =>
  Buffer.from(JSON.stringify(login)).toString('base64').replaceAll('+', '-').replaceAll('/', '_')

type DockerConfigEntry = { auth?: string; username?: string; password?: string }

/** Those of a Docker configuration. */
export function parseDockerConfig(what: string, text: string): RegistryLogin[] {
  try {
    const { auths = {} } = JSON.parse(text) as { auths?: Record<string, DockerConfigEntry> }
    return Object.entries(auths).map(([serveraddress, entry]) => {
      const [username, password] = usernameAndPassword(entry)
      return { username, password, serveraddress }
    })
  } catch {
    throw new PermanentError(`${what} is not the JSON of a Docker configuration: repair it.`)
  }
}

function usernameAndPassword({ auth, username = '', password = '' }: DockerConfigEntry): [string, string] {
  if (!auth) return [username, password]
  const said = Buffer.from(auth, 'base64').toString()
  const colon = said.indexOf(':')
  return [said.slice(0, colon), said.slice(colon + 1)]
}

export const registryHost = (server: string) => {
  const host = server.replace(/^https?:\/\//, '').replace(/\/.*/s, '')
  return host === 'index.docker.io' || host === 'registry-1.docker.io' ? DOCKER_HUB : host
}

/** The first part is a registry when it looks like a host. */
export function registryOf(image: string): string {
  const [first = '', ...rest] = image.split('/')
  return rest.length > 0 && (/[.:]/.test(first) || first === 'localhost') ? first : DOCKER_HUB
}
