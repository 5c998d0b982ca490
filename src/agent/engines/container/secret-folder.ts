// Reads the secrets that the operator keeps in a folder as `<folder>/<secret>/<key>`, the way a cluster mounts them.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { PermanentError } from '../../engine.ts'
import { encodeLogin, parseDockerConfig, registryHost, registryOf } from '../../images/registry-logins.ts'
import { listFolder } from '../../system/files.ts'

/** The keys under which Kubernetes keeps a pull secret. */
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

  /** The X-Registry-Auth value for the image's registry; undefined if none of the secrets has a login for it. */
  registryAuth(image: string, secrets: { name: string }[]): string | undefined {
    const registry = registryOf(image)
    for (const { name } of secrets) {
      const text = DOCKER_CONFIG_KEYS.map(key => this.#read(name, key)).find(content => content !== undefined)
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

  #missing(item: string, path: string): PermanentError {
    const cause =
      this.#folder === null ? 'it has no secrets folder' : `\`${path}\` does not exist in its secrets folder`
    return new PermanentError(`This agent does not have ${item}: ${cause}. Ask the operator to add it.`)
  }
}

function safeName(name: string): string {
  if (/[/\0]/.test(name) || name === '' || name === '.' || name === '..')
    throw new PermanentError(`\`${name}\` is not a valid secret name. Use a name without slashes.`)
  return name
}
